"""When another engine decides, how waits and use are measured, and who counts as placed."""

from collections.abc import Sequence

import pytest

from scheduler.config.load import default_configuration
from scheduler.config.write import to_object
from scheduler.daemon.recording.comparison import (
    SPARE_DECISIONS,
    Elsewhere,
    ReplayComparison,
    ReplayPlacements,
    compare,
    place_anew,
)
from scheduler.daemon.recording.records import Record, encode_answer
from scheduler.daemon.recording.summary import Meter, PodSummary, Use, WaitTimes, summary_of
from scheduler.kernel.engine.events import (
    BindFailed,
    Configure,
    Decide,
    Event,
    EvictFailed,
    ObjectGone,
    ObjectSet,
    Tick,
)
from scheduler.kernel.engine.instructions import Bind, Configured, Evict, Instruction
from scheduler.tools.cli.comparing import compared_with, configured, configured_by
from scheduler.tools.cli.comparison_page import comparison_page
from scheduler.tools.offline.cluster import Profiles
from tests.support.builders import make_node, make_pod_info
from tests.support.recordings import make_header

Moment = tuple[float, Event] | tuple[float, Event, Sequence[Instruction]]
NODE = ObjectSet("nodes", make_node("n", allocatable={"cpu": "4", "pods": "1000"}))


def records_of(*moments: Moment) -> list[Record]:
    return [
        Record(time, event, encode_answer(rest[0] if rest else ()))
        for time, event, *rest in moments
    ]


def compared(*moments: Moment) -> ReplayComparison:
    profiles = Profiles(default_configuration("stowage"))
    return compare(records_of(*moments), profiles.engine(1), profiles.again().engine(1))


def pod(name: str, node: str = "", cpu: str = "") -> ObjectSet:
    requests = {"cpu": cpu} if cpu else None
    return ObjectSet("pods", make_pod_info(name, uid=name, node_name=node, requests=requests))


def test_what_another_instance_binds_is_placed_when_it_is_seen() -> None:
    """The recording of a standby has no decisions; the other engine decides at ticks."""
    found = compared(
        (1.0, NODE), (1.0, pod("p")), (2.0, Tick()), (4.0, pod("p", "n")), (5.0, Tick())
    )

    assert found.elsewhere == ()
    assert found.recorded.waited == WaitTimes(3.0, 3.0, 3.0, 3.0)
    assert found.now.waited == WaitTimes(1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("later", "node"),
    [
        pytest.param([BindFailed(1, "denied")], None, id="refused"),
        pytest.param([pod("p", "m"), BindFailed(1, "lost", is_certain=False)], "m", id="seen"),
        pytest.param([BindFailed(1, "lost", is_certain=False), pod("p", "m")], "m", id="late"),
        pytest.param([pod("p", "o"), BindFailed(1, "taken")], "o", id="another was faster"),
    ],
)
def test_a_binding_that_failed_is_no_placement(later: Sequence[Event], node: str | None) -> None:
    """Unless the watch shows the pod on a node, before or after the answer."""
    bind = Bind(1, "default", "p", "p", "m")
    found = compared(
        (1.0, NODE),
        (1.0, pod("p")),
        (2.0, Decide(), [bind]),
        *((3.0, event) for event in later),
        (4.0, Tick()),
    )

    assert found.elsewhere == (Elsewhere("default/p", node, "n"),)
    assert (found.recorded.placed, found.recorded.pending) == ((1, 0) if node else (0, 1))


def test_a_victim_that_could_not_be_evicted_is_none() -> None:
    """Its end, if it comes later, is its own, and frees its room."""
    found = compared(
        (1.0, NODE),
        (1.0, pod("v", "n", cpu="4")),
        (1.0, pod("p", cpu="4")),
        (2.0, Decide(), [Evict("p", "default", "v", "v")]),
        (2.5, EvictFailed("v", "denied")),
        (3.0, ObjectGone("pods", "default", "v", "v")),
        (9.0, Tick()),
    )

    assert found.recorded.victims == ()
    assert found.now.placed == 1


def test_the_recorded_node_is_the_one_that_the_watch_shows() -> None:
    """Whichever replica bound the pod; a binding that was refused counts for nothing."""
    records = records_of(
        (1.0, NODE),
        (1.0, pod("p")),
        (1.0, pod("q")),
        (2.0, Decide(), [Bind(1, "default", "q", "q", "m")]),
        (3.0, BindFailed(1, "denied")),
        (3.0, pod("p", "m")),
        (4.0, Tick()),
    )

    found = place_anew(records, Profiles(default_configuration("stowage")).engine(1))

    assert found.recorded == {"p": "m"}
    assert {uid: each.node for uid, each in found.pods.items()} == {"p": "n", "q": "n"}


@pytest.mark.parametrize(
    ("name", "placed"),
    [("stowage", "ours"), ("default-scheduler", "theirs")],
)
def test_a_profile_without_a_name_takes_no_pods_of_others(name: str, placed: str) -> None:
    """It serves the pods that the recorded profiles served."""
    header = make_header(configuration=to_object(default_configuration(name)))
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    ours = make_pod_info("ours", uid="ours", scheduler_name="stowage")
    theirs = make_pod_info("theirs", uid="theirs", scheduler_name="default-scheduler")
    pods = [(1.0, ObjectSet("pods", each)) for each in (ours, theirs)]

    found = compared_with(
        header, records_of((1.0, NODE), *pods, (2.0, Tick())), configured_by(header, text)
    )

    assert found.elsewhere == (Elsewhere(f"default/{placed}", None, "n"),)


def test_pods_without_a_profile_are_told() -> None:
    """They count on neither side."""
    recorded = to_object(default_configuration("stowage"))
    header = make_header(configuration=recorded)
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: batch}]\n"
    )

    asked = configured_by(header, text)
    found = compared_with(header, records_of((1.0, NODE), (1.0, pod("p")), (2.0, Tick())), asked)

    assert (found.pods, found.recorded.pending, found.now.pending) == (0, 0, 0)
    assert asked.notices == (
        "Pods of stowage are left out of both sides: no profile has this name.",
    )


def test_decisions_are_made_when_they_were_made() -> None:
    """One for one; what is left over has to wait for a tick, and for no more than so many."""
    many = SPARE_DECISIONS + 2
    bind = Bind(1, "default", "p0", "p0", "m")
    found = compared(
        (1.0, NODE),
        *((1.0, pod(f"p{number}")) for number in range(many)),
        (2.0, Decide(), [bind]),
        (3.0, Tick()),
    )

    assert (found.recorded.placed, found.recorded.pending) == (1, many - 1)
    assert (found.now.placed, found.now.pending) == (many - 1, 1)
    assert found.now.waited is not None
    assert found.now.waited.median == 2.0
    assert found.elsewhere[0] == Elsewhere("default/p0", "m", "n")
    assert found.elsewhere[1] == Elsewhere("default/p1", None, "n")


def test_curves_show_the_pods_that_wait() -> None:
    """Neither those that are gone, nor those of other schedulers."""
    header = make_header(configuration=to_object(default_configuration("stowage")), clock=1.0)
    theirs = make_pod_info("theirs", uid="theirs", scheduler_name="default-scheduler")
    records = records_of(
        (1.0, NODE),
        (1.0, ObjectSet("pods", theirs)),
        (1.0, pod("large", cpu="9")),
        (2.0, Tick()),
        (3.0, ObjectGone("pods", "default", "large", "large")),
        (4.0, Tick()),
    )

    curves = comparison_page(header, records, configured(header, None, ()))["curves"]

    assert curves.times == [1.0, 3.0]
    for side in (curves.recorded, curves.now):
        assert (side.waiting, side.oldest) == ([1, 0], [1.0, 0.0])


def test_use_is_measured_over_time() -> None:
    """A pod of half the node, there for half of the time."""
    found = compared(
        (1.0, NODE),
        (1.0, Tick()),
        (2.0, pod("p", "n", cpu="2")),
        (3.0, Tick()),
        (4.0, ObjectGone("pods", "default", "p", "p")),
        (5.0, Tick()),
    )

    for side in (found.recorded, found.now):
        assert side.use["cpu"] == Use(0.25, 0.5)
        assert side.nodes == Use(0.5, 1.0)
    assert found.pods == 0


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, WaitTimes(1, 1, 1, 1)),
        (100, WaitTimes(50.5, 50, 99, 100)),
        (200, WaitTimes(100.5, 100, 198, 200)),
    ],
)
def test_waits_are_ranked(count: int, expected: WaitTimes) -> None:
    """The nearest of those that are there."""
    pods = [PodSummary(f"p{number}", 0.0, "n", number) for number in range(count, 0, -1)]

    assert summary_of(pods, {}, Meter()).waited == expected
    assert summary_of([PodSummary("p", 0.0)], {}, Meter()).waited is None


@pytest.mark.parametrize("as_configured", [True, False])
def test_a_configuration_that_was_taken_over_counts_if_it_is_meant(as_configured: bool) -> None:
    """One that was refused does not; nor are extenders asked."""
    other, refused = to_object(default_configuration("other")), {"profiles": "none"}
    other["extenders"] = [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]
    records = records_of(
        (1.0, NODE),
        (1.0, Decide()),
        (2.0, Configure(other), [Configured()]),
        (3.0, Configure(refused), [Configured("refused")]),
        (4.0, ObjectSet("pods", make_pod_info("p", uid="p", scheduler_name="other"))),
        (5.0, Tick()),
    )
    engine = Profiles(default_configuration("stowage")).engine(1, with_extenders=False)

    found = place_anew(records, engine, as_configured=as_configured)

    assert found.reconfigured == 1
    assert {uid: pod.node for uid, pod in found.pods.items()} == (
        {"p": "n"} if as_configured else {}
    )


def test_a_comparison_says_that_the_configuration_changed() -> None:
    """The other side keeps the one that is asked about."""
    header = make_header(configuration=to_object(default_configuration("stowage")))
    new = Configure(to_object(default_configuration("other")))
    records = records_of((101.0, NODE), (102.0, new, [Configured()]), (103.0, Tick()))

    page = comparison_page(header, records, configured(header, None, ()))
    unchanged = comparison_page(header, records[:1], configured(header, None, ()))

    [notice] = page["notices"]
    assert notice.startswith("The configuration changed during the recording (1)")
    assert tuple(unchanged["notices"]) == ()


def test_placing_anew_begins_with_the_first_decision() -> None:
    """Before that another replica decides: its recording has those pods, and that use of nodes."""
    before = records_of(
        (0.0, NODE),
        (1.0, pod("theirs")),
        (2.0, Tick()),
        (3.0, pod("theirs", "n", cpu="2")),
        (4.0, pod("left")),
        (5.0, Tick()),
    )
    after = records_of((6.0, Decide()), (7.0, pod("ours")), (8.0, Tick()))

    def found(records: list[Record]) -> ReplayPlacements:
        return place_anew(records, Profiles(default_configuration("stowage")).engine(1))

    standby, leader = found(before), found(before + after)

    assert (standby.pods, standby.has_decisions) == ({}, False)
    assert leader.has_decisions
    assert {uid: (summary.came, summary.node) for uid, summary in leader.pods.items()} == {
        "left": (6.0, "n"), "ours": (7.0, "n")
    }  # fmt: skip
    assert leader.meter.nodes == Use(1.0, 1.0)

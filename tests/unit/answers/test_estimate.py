"""When a waiting pod or gang fits: the pods that are named are those that have to end."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.limits import MAX_TOLERATIONS
from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    PodAffinitySpec,
    PodAffinityTerm,
    Toleration,
)
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.config.types import Extender, ExtenderManagedResource
from scheduler.kernel.answers import estimate as module
from scheduler.kernel.answers.estimate import estimate
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.waiting_model import Estimate
from scheduler.kernel.ends.times import text_of
from scheduler.kernel.engine.algorithm import SchedulingAlgorithm
from scheduler.kernel.framework.events import POD_GROUP_KIND
from scheduler.kernel.framework.steps import finished
from scheduler.testing.validation import validate_engine
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, ClusterState, Profiles
from scheduler.tools.offline.reading import ClusterObjects
from scheduler.tools.offline.simulate import simulate
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod_info
from tests.unit.engine.extenders import FILTERS, SCORES, extender

NOW = 1767225600.0
UNFIT = (
    "It does not fit once the running pod with a known end has ended either; "
    "1 other pod has no known end."
)
APART = Affinity(
    pod_anti_affinity=PodAffinitySpec(
        required_during_scheduling_ignored_during_execution=(
            PodAffinityTerm(HOSTNAME, LabelSelector(match_labels={"app": "a"})),
        )
    )
)


def loaded(
    nodes: int,
    pods: Iterable[PodInfo],
    least: int | None = None,
    gpus: int = 4,
    extenders: tuple[Extender, ...] = (),
) -> ClusterState:
    """Nodes of some GPUs and 4 cores, and a gang called `gang` if it has a least number."""
    gates = () if least is None else ("GenericWorkload", "GangScheduling")
    config = replace(default_configuration(DEFAULT_PROFILE, gates), extenders=extenders)
    objects = ClusterObjects()
    objects.time = NOW
    objects.nodes = [make_node(f"n{i}", allocatable={"x.io/gpu": gpus}) for i in range(nodes)]
    objects.pods = list(pods)
    if least is not None:
        meta = ObjectMeta("gang", "default", uid="gang")
        objects.watched = [(POD_GROUP_KIND, PodGroup(meta, least))]
    return Profiles(config, is_named=False).load(objects)


def running(name: str, node: int, gpus: int = 1, ends: float | None = None, **more: Any) -> PodInfo:
    """A pod that is expected to end so many seconds from now."""
    if ends is not None:
        more["expected_end"] = text_of(NOW + ends)
    return pod(name, gpus, node_name=f"n{node}", **more)


def pod(name: str, gpus: int = 1, **more: Any) -> PodInfo:
    return make_pod_info(name, requests={"x.io/gpu": gpus, "cpu": "100m"}, **more)


def asked(cluster: ClusterState, waiting: PodInfo, now: float = NOW) -> Estimate | None:
    core = cluster.engine.core
    framework = core.frameworks["stowage"]
    return finished(estimate(cluster.engine, framework, waiting, now))


def fits(nodes: int, pods: Sequence[PodInfo], gone: Iterable[str], least: int | None) -> bool:
    """Whether all that waits, or enough of it, finds its place in a simulation without some."""
    left = set(gone)
    cluster = loaded(nodes, [each for each in pods if each.key not in left], least)
    placed = sum(each.node is not None for each in simulate(cluster).placements)
    return placed >= (1 if least is None else least)


def test_the_first_moment_is_found_and_the_pods_that_matter_are_named() -> None:
    """Those that end before without being of any use are not."""
    pods = [
        *(running(f"a{i}", 0, ends=600 * (i + 1)) for i in range(4)),
        *(running(f"b{i}", 1, ends=60 * (i + 1)) for i in range(3)),
        running("b3", 1),
    ]
    waiting = pod("big", 4)
    found = asked(loaded(2, [*pods, waiting]), waiting)

    assert found is not None
    assert found.time == text_of(NOW + 2400)
    assert [each.pod for each in found.ends] == [f"default/a{i}" for i in range(4)]
    assert (found.count, found.known, found.unknown) == (4, 7, 1)
    assert found.text.startswith(
        "Fits about 00:40 UTC, if these 4 pods end as expected and nothing else takes the room: "
        "pod default/a3 (as annotated), pod default/a2"
    )


def test_a_nominated_pod_has_an_estimate_of_its_own() -> None:
    """Room is kept for it, which another pod of its kind does not get."""
    nominated, other = pod("a", 4, nominated_node_name="n0"), pod("b", 4)
    cluster = loaded(1, [running("run", 0, 4, ends=60.0), nominated, other], gpus=4)
    engine = cluster.engine
    explainer = Explainer(engine, lambda _: engine.core.frameworks["stowage"], wall=lambda: NOW)

    found = [explainer.explain(each).estimate for each in (nominated, other)]

    times = [each.time if isinstance(each, Estimate) else None for each in found]
    assert times == [text_of(NOW + 60.0), ""]


def test_pods_of_one_controller_are_one() -> None:
    """With what the ends are known by; a day is told if it is another one."""
    job = OwnerReference(kind="Job", name="x", uid="x", controller=True)
    start = text_of(NOW)
    fields: dict[str, Any] = {
        "owner_references": (job,),
        "start_time": start,
        "active_deadline_seconds": 100_000,
    }
    pods = [running(f"x{i}", 0, **fields) for i in range(4)]
    waiting = pod("w", 2)
    found = asked(loaded(1, [*pods, waiting]), waiting)

    assert found is not None
    assert found.text == (
        "Fits about 2026-01-02 03:46 UTC, if these 2 pods end as expected and nothing else takes "
        "the room: Job default/x (2 pods, at its deadline)."
    )
    assert {(each.controller, each.source) for each in found.ends} == {
        ("Job default/x", "deadline")
    }


def test_each_end_is_told_by_its_own_source() -> None:
    """Pods of one controller may end for different reasons."""
    job = (OwnerReference(kind="Job", name="x", uid="x", controller=True),)
    annotated = running("a", 0, 2, ends=60.0, owner_references=job)
    deadline: dict[str, Any] = {"start_time": text_of(NOW), "active_deadline_seconds": 600}
    limited = running("b", 0, 2, owner_references=job, **deadline)
    waiting = pod("w", 4)
    found = asked(loaded(1, [annotated, limited, waiting]), waiting)

    assert found is not None
    assert found.text.endswith(": Job default/x (at its deadline), Job default/x (as annotated).")


@pytest.mark.parametrize(
    ("ends", "gpus", "expected"),
    [
        (None, 1, "When it fits is not known: no running pod has a known end."),
        (
            60.0,
            4,
            UNFIT,
        ),
        (-10.0, 1, "When it fits is not known: no running pod has a known end."),
    ],
)
def test_it_may_not_be_known(ends: float | None, gpus: int, expected: str) -> None:
    """Nothing is made up for pods without a known end."""
    waiting = pod("w", gpus)
    pods = [running("a", 0, 2, ends=ends), running("b", 0, 2), waiting]
    found = asked(loaded(1, pods), waiting)

    assert found is not None
    assert (found.time, found.text) == ("", expected)


def test_nothing_is_told_of_what_fits_or_is_held_back() -> None:
    waiting, gated = pod("w"), pod("g", gates=("later",))
    cluster = loaded(1, [running("a", 0, 4, ends=60.0), waiting, gated], gpus=8)

    assert asked(cluster, waiting) is None
    assert asked(cluster, gated) is None


def test_all_plugins_count() -> None:
    """Room alone is of no use beside a pod that must not be near."""
    pods = [
        running("in-the-way", 0, ends=900.0, labels={"app": "a"}),
        running("full", 1, 4, ends=1800.0),
    ]
    waiting = pod("w", labels={"app": "a"}, affinity=APART)
    found = asked(loaded(2, [*pods, waiting]), waiting)

    assert found is not None
    assert [each.pod for each in found.ends] == ["default/in-the-way"]
    assert found.text.startswith("Fits about 00:15 UTC, if this pod ends as expected and nothing")


def test_a_gang_fits_when_there_is_room_for_enough_of_it() -> None:
    """Members that run count, and their ends are of no use."""
    members = [pod(f"m{i}", 2, group="gang") for i in range(4)]
    pods = [
        running("mine", 0, 2, ends=10.0, group="gang"),
        running("a", 0, 2, ends=300.0),
        running("b", 1, 2, ends=600.0),
        running("c", 1, 2, ends=900.0),
    ]
    found = asked(loaded(2, [*pods, *members], least=3), members[0])

    assert found is not None
    assert [each.pod for each in found.ends] == ["default/a", "default/b"]
    assert found.text.startswith("The group fits about 00:10 UTC, if these 2 pods end")
    assert asked(loaded(2, [*pods, *members], least=2, gpus=6), members[0]) is None


@pytest.mark.parametrize(("one", "is_told"), [(FILTERS, True), (SCORES, False), (None, False)])
def test_an_estimate_says_that_extenders_are_not_asked(
    one: Extender | None, *, is_told: bool
) -> None:
    """Those that filter: a score refuses no node."""
    pods = [running("a", 0, 4, ends=300.0), pod("w")]
    found = asked(loaded(1, pods, extenders=() if one is None else (one,)), pods[1])

    assert found is not None
    assert found.time == text_of(NOW + 300)
    assert found.text.endswith("Extenders are not asked.") is is_told


def test_an_estimate_of_a_gang_says_so_if_any_member_is_asked_about() -> None:
    """By scores as well: they decide which nodes are left for the next member."""
    scores = extender(
        prioritize_verb="p", managed_resources=(ExtenderManagedResource("x.io/other"),)
    )
    other = make_pod_info("other", requests={"x.io/gpu": 2, "x.io/other": 0}, group="gang")
    pods = [running("a", 0, 4, ends=300.0), pod("m", 2, group="gang"), other]
    found = asked(loaded(1, pods, least=2, extenders=(scores,)), pods[1])

    assert found is not None
    assert found.text.endswith("Extenders are not asked.")


@pytest.mark.parametrize(
    ("zones", "told"),
    [
        ("ab", "The group fits about 00:03 UTC, if these 2 pods end"),
        ("aa", "The group fits about 00:01 UTC, if these 2 pods end"),
        (("", ""), "When the group fits is not known: no feasible placements found."),
    ],
)
def test_a_gang_for_one_rack_fits_once_there_is_room_in_one(
    zones: Sequence[str], told: str
) -> None:
    """Room in several racks is of no use to it."""
    gates = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling")
    objects = ClusterObjects()
    objects.nodes = [
        make_node(f"n{number}", zone=zone, allocatable={"x.io/gpu": number + 1})
        for number, zone in enumerate(zones)
    ]
    members = [pod(f"m{i}", group="gang") for i in range(2)]
    ending = [running("a", 0, ends=60.0), running("b", 1, ends=80.0), running("c", 1, ends=180.0)]
    objects.pods = [*ending, *members]
    group = PodGroup(ObjectMeta("gang", "default", uid="gang"), 2, topology_key=ZONE)
    objects.watched = [(POD_GROUP_KIND, group)]
    config = default_configuration(DEFAULT_PROFILE, gates)
    found = asked(Profiles(config, is_named=False).load(objects), members[0])

    assert found is not None
    assert found.text.startswith(told)


def test_a_member_over_a_limit_never_fits() -> None:
    """The engine rejects it, so the gang waits for the others."""
    many = [Toleration(f"k{i}", "Exists") for i in range(MAX_TOLERATIONS + 1)]
    members = [pod("m0", group="gang"), pod("m1", group="gang", tolerations=many)]
    cluster = loaded(1, [running("a", 0, 4, ends=60.0), *members], least=2)
    found = asked(cluster, members[0])

    assert found is not None
    assert not found.time
    assert found.text.startswith("The group does not fit")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for each search for a node."""
    made: list[int] = []
    schedule_pod = SchedulingAlgorithm.schedule_pod

    def counted(self: SchedulingAlgorithm, *about: Any, **more: Any) -> Any:
        made.append(1)
        return schedule_pod(self, *about, **more)

    monkeypatch.setattr(SchedulingAlgorithm, "schedule_pod", counted)
    return made


def test_a_question_is_bounded(monkeypatch: pytest.MonkeyPatch, looks: list[int]) -> None:
    """As many looks as the number of ends has binary digits, and some; then a bound is told."""
    pods = [running(f"p{i}", i // 4, ends=60.0 * (i + 1)) for i in range(256)]
    waiting = pod("w", 4)
    cluster = loaded(64, [*pods, waiting])
    found = asked(cluster, waiting)
    exact = len(looks)
    monkeypatch.setattr(module, "MOST_LOOKS", 4)
    bounded = asked(cluster, waiting)

    assert exact <= 2 + 8 + 1 + module.MOST_TRIALS
    assert len(looks) - exact == 4
    assert found is not None
    assert found.time == text_of(NOW + 240)
    assert bounded is not None
    assert bounded.at_latest
    assert bounded.time >= found.time
    assert "at the latest about" in bounded.text


def test_a_question_about_a_gang_is_bounded(
    monkeypatch: pytest.MonkeyPatch, looks: list[int]
) -> None:
    """Different members are tried in many domains; given up in the first check, nothing is told."""
    objects = ClusterObjects()
    objects.nodes = [
        make_node(f"n{i}", zone=f"z{i}", allocatable={"x.io/gpu": 4}) for i in range(6)
    ]
    members = [pod(f"m{i}", 5 + i, group="gang") for i in range(6)]
    objects.pods = [running("a", 0, ends=60.0), *members]
    group = PodGroup(ObjectMeta("gang", "default", uid="gang"), 1, topology_key=ZONE)
    objects.watched = [(POD_GROUP_KIND, group)]
    gates = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling")
    config = default_configuration(DEFAULT_PROFILE, gates)
    cluster = Profiles(config, is_named=False).load(objects)
    unfit = asked(cluster, members[0])
    exact = len(looks)
    monkeypatch.setattr(module, "MOST_LOOKS", 50)
    given_up = asked(cluster, members[0])

    assert unfit is not None
    assert unfit.text.startswith("The group does not fit")
    assert exact == 2 * 6 * 6
    assert len(looks) - exact == 50
    assert given_up is not None
    assert not given_up.time
    assert given_up.text.startswith("When it fits is not known")


def test_nominations_between_two_steps_change_no_estimate() -> None:
    """The question is about the cluster as it was."""
    waiting = pod("w", 4)
    cluster = loaded(1, [running("a", 0, ends=60.0), waiting])
    engine = cluster.engine
    steps = estimate(engine, engine.core.frameworks["stowage"], waiting, NOW)
    next(steps)
    engine.core.queue.nominator.nominate(pod("first", 4, priority=9), "n0")
    found = finished(steps)

    assert found is not None
    assert found.time == text_of(NOW + 60)


def test_the_engine_may_go_on_between_two_steps() -> None:
    """The question is about the cluster as it was; the engine is not changed by it."""
    pods = [running(f"p{i}", i // 4, ends=60.0 * (i + 1)) for i in range(16)]
    waiting = pod("w", 4)
    cluster = loaded(4, [*pods, waiting])
    engine = cluster.engine
    steps = estimate(engine, engine.core.frameworks["stowage"], waiting, NOW)
    found: Estimate | None = None
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
            break
        count += 1
        if count == 3:
            simulate(cluster)
    validate_engine(engine)

    assert found is not None
    assert found.time == text_of(NOW + 240)
    assert count > 4


@pytest.mark.parametrize("least", [None, 3])
@pytest.mark.parametrize("seed", range(12))
def test_these_pods_and_no_fewer_have_to_end(seed: int, least: int | None) -> None:
    """A simulation without them places what waits; with any one of them it does not."""
    draw = random.Random(seed)
    nodes = draw.randint(2, 4)
    pods: list[PodInfo] = []
    for node in range(nodes):
        left = 4
        while left:
            gpus = draw.randint(1, min(2, left))
            left -= gpus
            ends = draw.choice([None, *range(60, 4000, 60)])
            labels = {"app": draw.choice("ab")}
            pods.append(running(f"p{len(pods)}", node, gpus, ends, labels=labels))
    fields: dict[str, Any] = {"affinity": APART} if draw.random() < 0.4 else {}
    if least is None:
        members = [pod("w", draw.randint(2, 4), **fields)]
    else:
        # Of unlike members it depends on their nodes how many fit, and ties are broken by chance.
        gpus = draw.randint(1, 3)
        members = [pod(f"m{i}", gpus, group="gang", **fields) for i in range(4)]
    everything = [*pods, *members]
    found = asked(loaded(nodes, everything, least), members[0])
    if found is None:
        assert fits(nodes, everything, (), least)
        return
    known = [each.key for each in pods if each.pod.metadata.annotations.expected_end]
    if not found.time:
        assert not fits(nodes, everything, known, least)
        return
    named = [each.pod for each in found.ends]
    assert len(named) == found.count
    assert fits(nodes, everything, named, least)
    for name in named:
        assert not fits(nodes, everything, [each for each in named if each != name], least)
    earlier = [
        each.key for each in pods if "" < each.pod.metadata.annotations.expected_end < found.time
    ]
    assert not fits(nodes, everything, earlier, least)

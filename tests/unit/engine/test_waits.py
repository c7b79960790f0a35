"""Directed histories: what is waited for never comes, comes too late, or is another of its name."""

from typing import Any

import pytest

from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.engine_state import EngineProfiles
from scheduler.kernel.engine.events import (
    Allowed,
    Answered,
    BindFailed,
    Bound,
    Configure,
    Decide,
    Evicted,
    ObjectGone,
    ObjectSet,
    PodRead,
    PreBound,
    Rejected,
    Tick,
)
from scheduler.kernel.engine.instructions import Ask, Bind, Evict
from scheduler.kernel.engine.pending_extender_calls import MAX_ASKING
from scheduler.kernel.extender import Filtered
from scheduler.kernel.framework.runtime import Framework
from tests.support.builders import make_node, make_pod_info
from tests.support.fake_plugins import make_plugin_set
from tests.unit.engine.answered import AnsweredCluster
from tests.unit.engine.driven import DrivenEngine, Holds, Room, engine_at
from tests.unit.engine.extenders import FILTERS
from tests.unit.engine.gangs import Gangs, HoldsOne
from tests.unit.engine.test_asking import Asking
from tests.unit.engine.test_directed_waiting import TEAM, away, namespace, nodes, term
from tests.unit.engine.test_events_that_never_come import Cluster
from tests.unit.engine.test_pod_group_placements import Racks
from tests.unit.plugins.test_dynamic_resources import device_class, make_claim, pod_of

S = AttemptState

# --- what never comes -----------------------------------------------------------------------------


def test_a_held_pod_of_a_removed_profile_gives_its_place_back() -> None:
    """No plugin is left that could allow it, and its timeout is a quarter of an hour."""
    other = Framework(make_plugin_set([Room(1)], profile="other"))
    profiles = EngineProfiles({"other": other})
    driven = DrivenEngine(Room(1), Holds(seconds=900.0), rules_of=lambda _: profiles)
    pod = driven.add("p")
    driven.run()
    before = driven.stage(pod)

    driven.handle(Configure({}))
    driven.settle()

    assert (before, driven.stage(pod), driven.used) == ("held", "nowhere", 0)


def test_a_preemptor_whose_victim_never_ends_is_tried_every_five_minutes() -> None:
    """A finalizer keeps the victim. It is evicted once, and room elsewhere is used at once."""
    gangs = Gangs(1)
    low = gangs.add("low")
    gangs.run()
    gangs.confirm(low)
    high = gangs.add("high", priority=9)
    gangs.run()
    gangs.handle(Evicted(low.uid, was_there=True))
    ends = {"node_name": "n", "deletion_timestamp": "2026-01-01T00:00:00Z"}
    gangs.set(make_pod_info("low", scheduler_name="test", **ends))
    tried = len(gangs.outcomes)

    for _ in range(3):
        gangs.tick(301.0)
        gangs.run()
    retries = len(gangs.outcomes) - tried
    gangs.handle(ObjectSet("nodes", make_node("m")))
    gangs.tick(11.0)
    gangs.run()

    assert retries == 3
    assert [evict.uid for evict in gangs.all(Evict)] == [low.uid]
    assert gangs.node_of(high) == "m"


@pytest.mark.parametrize(
    ("victims", "needs"),
    [
        pytest.param(
            {
                "port": {"priority": 2, "host_ports": (80,), "requests": {"cpu": "1"}},
                "cpu": {"priority": 1, "requests": {"cpu": "3"}},
            },
            {"host_ports": (80,), "requests": {"cpu": "4"}},
            id="the victim with the port ends while the preemptor is gated",
        ),
        pytest.param(
            {"x": {"labels": {"app": "x"}}},
            away(term("x", namespace_selector=TEAM)),
            id="the hint cannot read the labels of the victim's namespace",
        ),
    ],
)
def test_a_preemptor_is_tried_when_its_victims_are_gone(
    victims: dict[str, Any], needs: dict[str, Any]
) -> None:
    """No hint says so about the last of them, and nothing else happens."""
    cluster = AnsweredCluster()
    cluster.tell((*nodes(make_node("n")), *namespace("default", team="a")))
    for name, fields in victims.items():
        cluster.add(name, node_name="n", **fields)

    cluster.add("high", priority=9, **needs)
    cluster.run()
    cluster.pass_time(5)

    assert {name: pod.node_name for name, pod in cluster.pods.items()} == {"high": "n"}


def test_a_pod_that_joins_a_gang_counts_with_its_place() -> None:
    """Permit holds it for long; the gang does not wait for its binding."""
    gangs = Gangs(3, HoldsOne("joins"))
    joins = gangs.add("joins")
    gangs.run()
    gangs.group(least=3)
    gangs.members(2)
    gangs.run()
    before = gangs.bound()

    gangs.set(make_pod_info("joins", scheduler_name="test", group="g"))
    gangs.run()

    assert (before, gangs.bound(), gangs.stage(joins)) == ([], ["g0", "g1"], "held")
    gangs.handle(Rejected(joins.uid, "HoldsOne", "no"))
    assert gangs.known().scheduled == 2


def test_equal_pods_do_not_wait_for_the_answer_about_one_of_them() -> None:
    """All fit on the new node, as far as plugins can tell; an extender is slow."""
    racks = Racks(extenders=(FILTERS,))
    racks.node("n", cpu="1")
    racks.pod("x", node_name="n")
    for number in range(3):
        racks.pod(f"p{number}")
    racks.run()
    before = [each for each in racks.told if isinstance(each, Ask)]

    racks.node("m")
    racks.run()

    assert before == []
    assert len([each for each in racks.told if isinstance(each, Ask)]) == 3


def test_pods_that_are_deleted_in_line_for_an_extender_are_not_kept() -> None:
    """The extender never answers, and the line is never empty."""
    engine = Asking(FILTERS, room=1000)
    for number in range(MAX_ASKING):
        engine.add(f"a{number}")
    stays = engine.add("stays")
    for number in range(100):
        engine.gone(engine.add(f"z{number}"))

    calls = engine.engine.extender_calls
    assert calls.counts() == (MAX_ASKING, 1)
    assert len(calls._line) <= 3
    assert engine.stage(stays) == "asking"


@pytest.mark.parametrize("part", ["flush_backoff_completed", "flush_unschedulable_leftover"])
def test_an_error_at_a_tick_ends_no_other_wait(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tick ends the time of Permit plugins, reads pods in doubt, and repeats evictions."""
    driven, pod = engine_at(S.HELD)
    monkeypatch.setattr(driven.engine.core.queue, part, broken)

    driven.tick(60.0)

    assert driven.stage(pod) == "unschedulable"
    assert [each.message for each in driven.reports] == ["Error handling Tick"]


def test_an_error_in_waking_members_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """`handle` never raises; the next event wakes them."""
    gangs = Gangs(1)
    pod = gangs.add("p")
    with monkeypatch.context() as context:
        context.setattr(gangs.engine.scheduler.waking, "some", broken)
        gangs.tick()
    gangs.run()

    assert [each.message for each in gangs.reports] == ["Error handling Tick"]
    assert gangs.stage(pod) == "binding"


def broken() -> None:
    raise ValueError("no")


# --- what comes too late, or is another of its name -----------------------------------------------


@pytest.mark.parametrize(
    "state", [S.HELD, S.PREBINDING, S.BINDING, S.UNSURE, S.BOUND], ids=lambda state: state.value
)
def test_a_pod_that_comes_again_under_its_name_hears_nothing_of_the_first(
    state: AttemptState,
) -> None:
    """All that was waited for comes after the first is gone."""
    driven, first = engine_at(state)
    attempt = driven.attempt(first).id
    driven.gone(first)
    second = make_pod_info("p", uid="second", scheduler_name="test")
    driven.set(second)

    for late in (
        Allowed(first.uid, "Holds"),
        Rejected(first.uid, "Holds", "no"),
        PreBound(attempt),
        Bound(attempt),
        BindFailed(attempt, "no"),
        PodRead(attempt, first),
        ObjectGone("pods", first.namespace, first.name, first.uid),
    ):
        assert driven.handle(late) == []

    assert (driven.stage(second), driven.used) == ("active", 0)
    driven.handle(Decide())
    assert driven.node_of(second) == "n"


def test_a_node_that_comes_again_smaller_is_not_the_one_that_an_extender_let_pass() -> None:
    """The machine was replaced before the answer came."""
    racks = Racks("r", extenders=(FILTERS,))
    racks.pod("p", cpu="3")
    racks.run()

    racks.handle(ObjectGone("nodes", "", "n0", "uid-of-n0"))
    racks.node("n0", "r", cpu="2")
    racks.answer({"p": "n0"})
    racks.run()

    assert not [each for each in racks.told if isinstance(each, Bind)]
    assert any("Insufficient cpu" in message for message in racks.messages())


def test_a_claim_that_comes_again_has_none_of_the_devices_of_the_first() -> None:
    """The pod is held; its claim is deleted and made again under its name."""
    cluster = Cluster()
    cluster.show("deviceclasses", device_class())
    for name in ("c", "d"):
        cluster.show("resourceclaims", make_claim(name))
    first = cluster.comes(pod_of("c", name="first", schedulerName="test"))
    second = cluster.comes(pod_of("d", name="second", schedulerName="test"))
    before = cluster.stage(first), cluster.stage(second)

    cluster.show("resourceclaims", make_claim("c", uid="again"))
    cluster.gone(first)
    cluster.later()

    assert before == ("held", "unschedulable")
    assert cluster.stage(second) == "held"
    assert list(cluster.states.shared(ClaimCatalog, "").in_flight) == ["d"]


def test_a_group_that_comes_again_is_not_the_one_for_which_victims_leave() -> None:
    """Its members get the room when the victim is gone, which is evicted once."""
    gangs = Gangs(1)
    low = gangs.add("low")
    gangs.run()
    gangs.confirm(low)
    group = gangs.group(least=1)
    [member] = gangs.members(1, priority=9)
    gangs.run()
    gangs.handle(ObjectGone("podgroups", "default", "g", group.uid))
    gangs.handle(Evicted(low.uid, was_there=True))
    gangs.group(least=1, uid="again")
    gangs.handle(Tick())
    gangs.run()
    gangs.gone(low)
    gangs.tick(11.0)
    gangs.run()

    assert [evict.uid for evict in gangs.all(Evict)] == [low.uid]
    assert gangs.node_of(member) == "n"


def test_a_configuration_that_changes_while_an_extender_is_asked_decides_nothing_twice() -> None:
    """The attempt ends as it began, in a profile that is gone by then."""
    profiles = EngineProfiles({"other": Framework(make_plugin_set([Room(1)], profile="other"))})
    driven = DrivenEngine(Room(1), extenders=(FILTERS,), rules_of=lambda _: profiles)
    pod = driven.add("p")
    driven.run()

    driven.handle(Configure({}))
    question = driven.all(Ask)[-1].question
    driven.handle(Answered(question, Filtered(())))
    late = driven.handle(Answered(question, Filtered(("n",))))

    assert (driven.stage(pod), driven.used, late) == ("nowhere", 0, [])

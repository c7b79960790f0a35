"""Preemption carried out: who is evicted when, who waits for it, and what people are told."""

from typing import Any

import pytest

from scheduler.api.objects import PodCondition
from scheduler.api.pods import PodInfo
from scheduler.api.written import NORMAL, Condition, ObjectReference
from scheduler.config.args import DefaultPreemptionArgs, NodeResourcesFitArgs
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Decide,
    Evicted,
    EvictFailed,
    PreBound,
    Tick,
)
from scheduler.kernel.engine.instructions import Cancel, Evict, LogError, PatchStatus, RecordEvent
from scheduler.kernel.engine.preemption_executor import UNSEEN_SECONDS
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.plugins.default_preemption import BUDGETS, DefaultPreemption
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.preemption import Evictions
from scheduler.testing.validation import EngineInvariantError, validate_engine
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.driven import ENDED, DrivenEngine, Holds, Prepares

TARGET = "test: preempting to accommodate a higher priority pod"
DENIED = 'pods "low-0" is forbidden'


class Preempting(DrivenEngine):
    """Nodes of three cores, and real plugins that know about cores and preemption.

    Attributes:
        low: pods of one core that fill the first node, the least important first.
    """

    def __init__(self, *plugins: Plugin, nodes: tuple[str, ...] = ("n",), low: int = 3) -> None:
        super().__init__(
            lambda handle: NodeResourcesFit(NodeResourcesFitArgs(), handle),
            lambda handle: DefaultPreemption(DefaultPreemptionArgs(100, 100), handle),
            *plugins,
            nodes=tuple(make_node(name, allocatable={"cpu": "3"}) for name in nodes),
            kinds=(BUDGETS,),
        )
        self.low = [self.running(f"low-{i}", priority=i) for i in range(low)]

    def running(self, name: str, **fields: Any) -> PodInfo:
        """The watch has a pod that runs, of one core on the first node unless told otherwise."""
        fields = {"node_name": "n", "requests": {"cpu": "1"}, **fields}
        pod = make_pod_info(name, scheduler_name="test", **fields)
        self.set(pod)
        return pod

    def preemptor(self, name: str = "high", cpu: str = "3", **fields: Any) -> PodInfo:
        """A pod that others have to go for, tried once."""
        pod = self.add(name, **{"priority": 100, "requests": {"cpu": cpu}, **fields})
        self.run()
        return pod

    def leaving(self, pod: PodInfo) -> None:
        """The watch says that a running pod is being deleted."""
        self.running(
            pod.name, priority=pod.priority, deletion_timestamp=ENDED, resource_version="2"
        )

    @property
    def evicts(self) -> list[str]:
        """Whose eviction was asked for, in order."""
        return [evict.name for evict in self.all(Evict)]

    @property
    def preempted(self) -> list[str]:
        """What victims were told, in order."""
        return [tell.note for tell in self.all(RecordEvent) if tell.reason == "Preempted"]

    def is_held(self, pod: PodInfo) -> bool:
        """Whether a pod is held back while its victims are evicted."""
        return pod.uid in self.states.shared(Evictions, "").under_way

    def place(self, pod: PodInfo) -> str:
        """The node that a pod is nominated to, as the engine sees it."""
        return self.engine.core.queue.nominator.nodes.get(pod.uid) or ""


def test_the_least_important_victim_goes_last() -> None:
    """All others at once; then, when they are leaving, the last."""
    driven = Preempting()
    low, middle, top = driven.low

    driven.preemptor()
    assert driven.evicts == ["low-2", "low-1"]
    driven.handle(Evicted(top.uid))
    driven.leaving(top)
    driven.handle(Evicted(middle.uid))
    assert driven.evicts == ["low-2", "low-1"]
    driven.leaving(middle)

    assert driven.evicts == ["low-2", "low-1", "low-0"]
    assert driven.all(Evict)[-1] == Evict(
        "default/high",
        "default",
        "low-0",
        low.uid,
        Condition("DisruptionTarget", "True", "PreemptionByScheduler", TARGET, has_moved=True),
    )
    assert driven.metrics.preemption_victims.sum == 3


def test_a_preemptor_gets_the_room() -> None:
    """It is nominated, held back, and bound when the last victim is gone; nobody is in between."""
    driven = Preempting()
    waits = driven.rejected("waits", priority=1, requests={"cpu": "3"})
    driven.instructions.clear()
    high = driven.preemptor()

    [patch] = driven.all(PatchStatus)
    assert (patch.name, patch.nominated_node_name) == ("high", "n")
    for victim in reversed(driven.low):
        assert driven.is_held(high)
        driven.handle(Evicted(victim.uid))
        driven.clock.advance(1)
        driven.gone(victim)
        driven.run()

    assert not driven.is_held(high)
    assert driven.stage(high) == "binding"
    assert driven.node_of(high) == "n"
    assert driven.stage(waits) != "binding"
    assert driven.evicts == ["low-2", "low-1", "low-0"]
    assert driven.metrics.preemption_goroutines_execution["success"].value == 1
    assert driven.metrics.preemption_goroutines_duration["success"].sum == 3.0


def test_an_answer_alone_lets_nobody_go() -> None:
    """A preemptor that is tried before the watch shows its victim leaving would choose again."""
    driven = Preempting(nodes=("n", "m"))
    for i in range(3):
        driven.running(f"other-{i}", node_name="m", priority=5)
    high = driven.preemptor(cpu="1")
    assert driven.evicts == ["low-0"]

    driven.handle(Evicted(driven.low[0].uid))
    driven.engine.core.queue.activate([high.uid])
    driven.run()

    assert driven.is_held(high)
    assert driven.places()[high.key] == "gated"
    assert driven.evicts == ["low-0"]
    driven.leaving(driven.low[0])
    assert not driven.is_held(high)
    driven.gone(driven.low[0])
    driven.run()
    assert driven.stage(high) == "binding"


@pytest.mark.parametrize("is_gone", [False, True], ids=["being deleted", "gone"])
def test_the_watch_may_be_faster_than_the_answer(is_gone: bool) -> None:
    """The victim is told all the same, once."""
    driven = Preempting()
    high = driven.preemptor(cpu="1")
    victim = driven.low[0]

    (driven.gone if is_gone else driven.leaving)(victim)
    assert not driven.is_held(high)
    driven.handle(Evicted(victim.uid))
    driven.handle(Evicted(victim.uid))

    assert driven.preempted == [f"Preempted by pod {high.uid} on node n"]


def test_the_last_victim_may_leave_by_itself() -> None:
    """It is not asked to, and the preemptor still waits for the others."""
    driven = Preempting()
    high = driven.preemptor()

    driven.gone(driven.low[0])
    assert driven.is_held(high)
    driven.gone(driven.low[1])
    driven.gone(driven.low[2])
    driven.run()

    assert driven.evicts == ["low-2", "low-1"]
    assert driven.stage(high) == "binding"


def test_victims_are_told_by_whom() -> None:
    """The event names the preemptor, also as the related object."""
    driven = Preempting()
    high = driven.preemptor(cpu="1")

    [tell] = driven.handle(Evicted(driven.low[0].uid))

    assert tell == RecordEvent(
        ObjectReference("Pod", "low-0", "default", "default/low-0", resource_version="1"),
        "Preempted",
        "Preempting",
        f"Preempted by pod {high.uid} on node n",
        "test",
        event_type=NORMAL,
        related=ObjectReference("Pod", "high", "default", high.uid, resource_version="1"),
        is_repeatable=False,
    )


def test_a_victim_that_was_not_found_is_told_nothing() -> None:
    """Its successor of the same name is another pod."""
    driven = Preempting()
    high = driven.preemptor(cpu="1")

    assert driven.handle(Evicted(driven.low[0].uid, was_there=False)) == []

    assert driven.is_held(high)
    driven.gone(driven.low[0])
    driven.run()
    assert driven.stage(high) == "binding"


def test_a_victim_that_neither_the_server_nor_the_cache_has_is_not_awaited() -> None:
    """No event may follow: the preemptor is tried."""
    driven = Preempting()
    high = driven.preemptor(cpu="1")
    core = driven.engine.core
    core.cache.remove_pod(core.cache.pods[driven.low[0].uid])

    driven.handle(Evicted(driven.low[0].uid, was_there=False))
    driven.run()

    assert driven.stage(high) == "binding"


@pytest.mark.parametrize(
    ("message", "is_patched"),
    [pytest.param(TARGET, False, id="the same"), pytest.param("eviction", True, id="another")],
)
def test_a_status_that_says_why_already_is_left_alone(message: str, is_patched: bool) -> None:
    """One that says something else is changed; since when it is so stays."""
    driven = Preempting(low=2)
    known = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler", message)
    driven.running("victim", priority=-1, conditions=(known,))

    driven.preemptor(cpu="1")

    [evict] = driven.all(Evict)
    assert (evict.condition is not None) is is_patched
    assert evict.condition is None or not evict.condition.has_moved


# --- failures -------------------------------------------------------------------------------------


def test_after_a_failure_the_last_victim_stays() -> None:
    """The preemptor is tried again, but not before its back-off is over, though it is alone."""
    driven = Preempting()
    high = driven.preemptor()
    driven.clock.advance(0.2)

    driven.handle(EvictFailed(driven.low[2].uid, DENIED))
    assert driven.is_held(high)
    driven.leaving(driven.low[1])

    assert driven.evicts == ["low-2", "low-1"]
    assert not driven.is_held(high)
    assert driven.reports[-1] == LogError("Eviction failed", "default/low-2", DENIED)
    assert driven.places()[high.key] == "backoff"
    assert not driven.engine.has_ready
    assert driven.metrics.preemption_goroutines_execution["error"].value == 1
    assert driven.metrics.preemption_goroutines_duration["error"].sum == pytest.approx(0.2)
    driven.tick(2)
    assert driven.engine.has_ready


def test_a_right_that_is_missing_is_no_loop() -> None:
    """In a minute the only victim is asked for a handful of times, further and further apart."""
    driven = Preempting(low=3)
    driven.preemptor(cpu="1")

    for _ in range(600):
        asked = len(driven.evicts)
        driven.tick(0.1)
        if driven.engine.has_ready:
            driven.handle(Decide())
        if asked < len(driven.evicts) or asked == 1:
            driven.handle(EvictFailed(driven.low[0].uid, DENIED))

    assert 4 <= len(driven.evicts) <= 10
    assert set(driven.evicts) == {"low-0"}


def test_the_last_one_may_fail_too() -> None:
    """What has gone has gone; the rest is tried again."""
    driven = Preempting()
    high = driven.preemptor()
    driven.gone(driven.low[2])
    driven.gone(driven.low[1])

    driven.handle(EvictFailed(driven.low[0].uid, "the server is down"))
    driven.tick(2)
    driven.run()

    assert driven.evicts == ["low-2", "low-1", "low-0", "low-0"]
    assert driven.is_held(high)


def test_answers_for_nobody_are_nothing() -> None:
    """Of pods whose eviction nobody asked for."""
    driven = Preempting()

    assert driven.handle(Evicted("default/low-0")) == []
    assert driven.handle(EvictFailed("default/low-0", "no")) == []


# --- several preemptors ---------------------------------------------------------------------------


def test_two_preemptors_have_victims_of_their_own() -> None:
    """The second counts the first as if it ran already."""
    driven = Preempting()
    first, second = driven.preemptor("a", "1"), driven.preemptor("b", "1")
    assert driven.evicts == ["low-0", "low-1"]

    for victim in driven.low[:2]:
        driven.handle(Evicted(victim.uid))
        driven.gone(victim)
        driven.run()

    assert {driven.stage(first), driven.stage(second)} == {"binding"}
    assert driven.evicts == ["low-0", "low-1"]


def test_a_more_important_preemptor_takes_the_place() -> None:
    """Of the first one's victims none is asked twice; the first one loses its nomination."""
    driven = Preempting()
    first = driven.preemptor("first", "1", priority=50)
    driven.instructions.clear()

    second = driven.preemptor("second", "3")

    assert driven.evicts == ["low-2", "low-1"]
    assert (driven.place(first), driven.place(second)) == ("", "n")
    assert PatchStatus("default", "first", first.uid, nominated_node_name="") in driven.all(
        PatchStatus
    )
    assert not driven.is_held(first)
    for victim in driven.low:
        driven.handle(Evicted(victim.uid))
        driven.gone(victim)
        driven.run()
    assert driven.evicts == ["low-2", "low-1"]
    assert driven.stage(second) == "binding"
    assert driven.stage(first) != "binding"
    assert driven.preempted[0] == f"Preempted by pod {first.uid} on node n"


def test_a_preemptor_that_lost_its_place_looks_for_another() -> None:
    """Its victims are leaving for a more important one, and take their time."""
    driven = Preempting(nodes=("n", "m"))
    driven.running("other", node_name="m", requests={"cpu": "3"}, priority=5)
    fields = {"priority": 50, "requests": {"cpu": "1"}}
    first = driven.preemptor("first", "1", priority=50)
    driven.add("first", **fields, nominated_node_name="n", resource_version="2")
    driven.handle(Evicted(driven.low[0].uid))
    driven.leaving(driven.low[0])
    second = driven.preemptor("second", "3")
    assert (driven.place(first), driven.place(second)) == ("", "n")
    assert driven.evicts == ["low-0", "low-2"]

    driven.add("first", **fields, resource_version="3")
    driven.run()

    assert driven.evicts == ["low-0", "low-2", "other"]
    assert driven.place(first) == "m"


def test_a_preemptor_that_lost_its_place_is_tried_again_though_no_watch_shows_it() -> None:
    """The patch of its status is lost, and the victims never leave: time alone wakes it."""
    driven = Preempting(nodes=("n", "m"))
    driven.running("other", node_name="m", requests={"cpu": "3"}, priority=5)
    first = driven.preemptor("first", "1", priority=50)
    driven.add(
        "first", priority=50, requests={"cpu": "1"}, nominated_node_name="n", resource_version="2"
    )
    driven.handle(Evicted(driven.low[0].uid))
    driven.leaving(driven.low[0])
    driven.preemptor("second", "3")
    told = len(driven.engine.story(first.uid))
    assert driven.is_asleep(first)

    for _ in range(12):
        driven.tick(30)
        driven.run()

    assert [entry.what for entry in driven.engine.story(first.uid)[told:]] == ["failed"]


def test_a_nominated_pod_that_is_being_deleted_keeps_no_room() -> None:
    """Its turn has come and it was skipped: its finalizer may keep it forever."""
    driven = Preempting(low=0)
    fields = {"priority": 100, "requests": {"cpu": "3"}, "nominated_node_name": "n"}
    high = driven.add("high", **fields, deletion_timestamp=ENDED)
    assert driven.place(high) == "n"

    waits = driven.add("waits", priority=1, requests={"cpu": "1"})
    driven.run()

    assert (driven.stage(high), driven.place(high)) == ("nowhere", "")
    assert driven.stage(waits) == "binding"


def test_what_a_deleted_preemptor_still_wanted_stays() -> None:
    """Nobody needs the last victim's room any more."""
    driven = Preempting()
    high = driven.preemptor()

    driven.gone(high)
    for victim in driven.low[1:]:
        driven.handle(Evicted(victim.uid))
        driven.gone(victim)

    assert driven.evicts == ["low-2", "low-1"]
    assert not driven.is_held(high)


def test_the_victims_of_a_deleted_preemptor_are_evicted_once() -> None:
    """The next preemptor waits for those that are asked already."""
    driven = Preempting()
    driven.gone(driven.preemptor("first"))

    second = driven.preemptor("second")
    assert driven.evicts == ["low-2", "low-1"]
    driven.handle(Evicted(driven.low[1].uid))
    third = driven.preemptor("third", priority=200)
    assert driven.evicts == ["low-2", "low-1"]
    for victim in reversed(driven.low):
        assert driven.is_held(third)
        driven.handle(Evicted(victim.uid))
        driven.gone(victim)
    driven.run()

    assert driven.evicts == ["low-2", "low-1", "low-0"]
    assert driven.stage(third) == "binding"
    assert driven.stage(second) != "binding"
    assert len(driven.preempted) == 3


@pytest.mark.parametrize("how", ["is being deleted", "is bound by somebody else"])
def test_a_preemptor_that_needs_no_room_any_more_evicts_nobody(how: str) -> None:
    """The last victim is left alone."""
    driven = Preempting(nodes=("n", "m"), low=3)
    driven.running("big", node_name="m", priority=300, requests={"cpu": "3"})
    high = driven.preemptor()

    fields = {"deletion_timestamp": ENDED} if "deleted" in how else {"node_name": "m"}
    driven.set(make_pod_info("high", scheduler_name="test", priority=100, **fields))
    for victim in driven.low[1:]:
        driven.gone(victim)

    assert driven.evicts == ["low-2", "low-1"]
    assert not driven.is_held(high)


def test_pods_that_leave_already_are_waited_for() -> None:
    """Nobody is evicted, nobody is held back, nothing is measured."""
    driven = Preempting()
    for victim in driven.low:
        driven.leaving(victim)

    high = driven.preemptor()

    assert driven.evicts == []
    assert driven.place(high) == "n"
    assert not driven.is_held(high)
    assert not any(driven.metrics.preemption_victims.counts)


# --- victims on their way to the node -------------------------------------------------------------


def placed_low(*plugins: Plugin) -> tuple[Preempting, PodInfo]:
    """A pod of low priority that has a node, as far as the plugins let it come."""
    driven = Preempting(*plugins, low=0)
    pod = driven.add("low", priority=1, requests={"cpu": "3"})
    driven.handle(Decide())
    return driven, pod


@pytest.mark.parametrize("plugin", [Holds(), Prepares()], ids=["held", "prebinding"])
def test_a_pod_whose_binding_has_not_left_is_taken_back(plugin: Plugin) -> None:
    """The API server hears nothing; the victim backs off, the preemptor goes on at once."""
    driven, low = placed_low(plugin)
    attempt = driven.attempt(low)
    stage = driven.stage(low)

    high = driven.add("high", priority=100, requests={"cpu": "3"})
    driven.and_end_pre_bind(Decide())

    assert driven.evicts == []
    assert driven.places()[low.key] == "backoff"
    assert driven.preempted == [
        f"Preempted by pod {high.uid} on node n (in kube-scheduler memory)."
    ]
    assert LogError("Error scheduling pod; retrying", low.key, "preempted") in driven.reports
    assert (Cancel(attempt.id) in driven.all(Cancel)) is (stage == "prebinding")
    assert not driven.is_held(high)
    assert driven.place(high) == "n"
    assert driven.handle(PreBound(attempt.id)) == []
    driven.run()
    assert driven.stage(high) == stage
    driven.tick(5)
    driven.run()
    assert driven.node_of(low) == ""
    assert driven.metrics.preemption_victims.sum == 1


@pytest.mark.parametrize("is_bound", [False, True], ids=["binding", "bound"])
def test_a_pod_whose_binding_has_left_is_evicted(is_bound: bool) -> None:
    """By the API server, which knows whether it runs."""
    driven, low = placed_low()
    if is_bound:
        driven.handle(Bound(driven.attempt(low).id))

    high = driven.preemptor()

    assert driven.evicts == ["low"]
    driven.handle(Evicted(low.uid))
    driven.gone(low)
    driven.run()
    assert driven.stage(high) == "binding"
    assert driven.stage(low) == "nowhere"


def test_a_victim_whose_binding_fails_is_awaited_all_the_same() -> None:
    """It waits again when it is deleted; the preemptor has its room by then."""
    driven, low = placed_low()
    attempt = driven.attempt(low)
    high = driven.preemptor()

    driven.handle(BindFailed(attempt.id, "conflict"))
    driven.tick(3)
    driven.run()
    assert driven.is_held(high)
    assert driven.node_of(low) == ""
    driven.gone(low)
    driven.run()

    assert driven.stage(high) == "binding"


@pytest.mark.parametrize("is_ours", [True, False], ids=["by us", "by another client"])
def test_a_victim_that_was_seen_leaving_is_not_awaited_again(is_ours: bool) -> None:
    """A finalizer keeps it: no watch shows more of it, and its binding fails."""
    driven, low = placed_low()
    attempt = driven.attempt(low)
    if is_ours:
        driven.gone(driven.preemptor("first"))
        driven.handle(Evicted(low.uid))
    driven.running("low", node_name="", priority=1, requests={"cpu": "3"}, deletion_timestamp=ENDED)
    high = driven.preemptor()

    driven.handle(BindFailed(attempt.id, "it is being deleted"))
    driven.tick(12)
    driven.run()

    assert driven.evicts == ["low"] * is_ours
    assert driven.stage(high) == "binding"


def test_a_victim_that_is_confirmed_meanwhile_is_not_leaving() -> None:
    """The watch shows it running, and then being deleted."""
    driven, low = placed_low()
    high = driven.preemptor()

    driven.running("low", priority=1, requests={"cpu": "3"})
    assert driven.is_held(high)
    driven.leaving(low)

    assert not driven.is_held(high)


@pytest.mark.parametrize("is_seen", [False, True], ids=["unseen", "seen leaving"])
def test_a_victim_that_a_backup_brings_back_is_evicted_again(is_seen: bool) -> None:
    """The API server has answered, and has forgotten; the preemptor gets the room all the same."""
    driven = Preempting(low=1)
    [low] = driven.low
    high = driven.preemptor()
    driven.handle(Evicted(low.uid))

    if is_seen:
        driven.leaving(low)
        driven.run()
        assert driven.places()[high.key] == "unschedulable"
        driven.set(low)
    else:
        driven.tick(UNSEEN_SECONDS - 1)
        assert driven.evicts == ["low-0"]
        driven.tick(1)
    driven.run()

    assert driven.evicts == ["low-0", "low-0"]
    assert driven.is_held(high)
    driven.handle(Evicted(low.uid))
    driven.gone(low)
    driven.run()
    assert driven.stage(high) == "binding"


def test_what_nobody_waits_for_is_not_asked_again() -> None:
    """A victim that stays is evicted again when the next one needs its place, not before."""
    driven = Preempting(low=1)
    [low] = driven.low
    high = driven.preemptor()
    driven.handle(Evicted(low.uid))
    driven.gone(high)

    driven.tick(UNSEEN_SECONDS)
    assert driven.evicts == ["low-0"]

    driven.preemptor("next")
    assert driven.evicts == ["low-0", "low-0"]


def test_a_victim_that_is_deleted_for_a_preemptor_that_is_gone_is_not_evicted_again() -> None:
    """The answer comes when no pod waits for it; the watch is still to show the victim leaving."""
    driven = Preempting(low=1)
    [low] = driven.low
    driven.gone(driven.preemptor())
    driven.handle(Evicted(low.uid))

    following = driven.preemptor("next")

    assert driven.evicts == ["low-0"]
    driven.gone(low)
    driven.run()
    assert driven.stage(following) == "binding"


def test_the_invariants_know_evictions() -> None:
    """A preemptor that is let go while its victims stay is a contradiction."""
    driven = Preempting()
    high = driven.preemptor()
    validate_engine(driven.engine)

    driven.states.shared(Evictions, "").under_way.discard(high.uid)

    with pytest.raises(EngineInvariantError, match="held back"):
        validate_engine(driven.engine)


# --- what comes in between ------------------------------------------------------------------------


def test_the_room_is_for_the_preemptor() -> None:
    """Neither a lower nor an equal pod gets it; a higher one does, and nobody is evicted again."""
    driven = Preempting()
    high = driven.preemptor()
    equal = driven.preemptor("equal")
    lower = driven.preemptor("lower", "1", priority=50)
    assert driven.evicts == ["low-2", "low-1"]
    higher = driven.preemptor("higher", priority=200)

    for victim in reversed(driven.low):
        driven.handle(Evicted(victim.uid))
        driven.gone(victim)
        driven.run()
    for _ in range(20):
        driven.handle(Tick())
        driven.tick(1)
        driven.run()

    assert driven.stage(higher) == "binding"
    assert all(driven.node_of(pod) == "" for pod in (high, equal, lower))
    assert driven.evicts == ["low-2", "low-1", "low-0"]

"""Pods that Permit plugins hold, and what plugins can ask of the engine."""

from collections.abc import Callable

import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.api.written import NORMAL
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.engine import SETTLED_AT_ONCE
from scheduler.kernel.engine.events import (
    Activate,
    Allowed,
    BindFailed,
    Decide,
    Event,
    PluginEvent,
    PreBound,
    ReadFailed,
    Rejected,
)
from scheduler.kernel.engine.instructions import (
    Bind,
    PatchStatus,
    RecordEvent,
    RunPreBind,
    SetTimer,
)
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ClusterEventWithHint
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import EnqueueExtensions, PreFilterPlugin, ReservePlugin
from scheduler.kernel.framework.results import PreFilterResult
from scheduler.kernel.framework.services import HeldPods
from scheduler.kernel.framework.status import Status, unschedulable
from scheduler.kernel.snapshot import Snapshot
from tests.support.builders import make_pod_info
from tests.unit.engine.driven import (
    DrivenEngine,
    Holds,
    Prepares,
    Room,
    Waits,
    Writes,
    engine_at,
)
from tests.unit.engine.engine import Everything

S = AttemptState

IMPATIENT = 20.0


def test_a_held_pod_waits_for_its_plugin() -> None:
    """Its place is kept, and the engine wants to be woken when patience ends."""
    driven = DrivenEngine(Room(1), Holds(seconds=IMPATIENT))
    pod = driven.add("p")

    instructions = driven.handle(Decide())

    nomination = PatchStatus("default", "p", pod.uid, nominated_node_name="n")
    assert instructions == [nomination, SetTimer(driven.clock.now + IMPATIENT)]
    assert driven.stage(pod) == "held"
    assert driven.used == 1
    [waiting] = driven.engine.core.waiting
    assert (waiting.pod.name, waiting.pod.node_name) == ("p", "n")
    assert waiting.pending_plugins == ["Holds"]


def test_a_change_of_a_held_pod_concerns_no_pod_in_flight() -> None:
    """It has its node: kube-scheduler keeps the new version, and no event."""
    driven = DrivenEngine(Room(1), Holds(seconds=IMPATIENT))
    pod = driven.add("p")
    driven.handle(Decide())

    changed = make_pod_info(
        "p", labels={"app": "new"}, resource_version="2", scheduler_name=pod.spec.scheduler_name
    )

    driven.set(changed)

    queue = driven.engine.core.queue
    assert queue.in_flight.event_counts() == {"PodPopped": 1}
    assert queue.get(pod.uid) is changed


@pytest.mark.parametrize("prepares", [False, True], ids=["to its binding", "to PreBind first"])
def test_an_allowed_pod_goes_on(prepares: bool) -> None:
    """Once: what comes later from the plugin is nothing."""
    driven = DrivenEngine(Holds(), *([Prepares()] if prepares else []))
    pod = driven.add("p")
    driven.handle(Decide())

    [instruction] = driven.handle(Allowed(pod.uid, "Holds"))

    assert isinstance(instruction, RunPreBind if prepares else Bind)
    assert driven.stage(pod) == ("prebinding" if prepares else "binding")
    assert len(driven.engine.core.waiting) == 0
    assert driven.handle(Allowed(pod.uid, "Holds")) == []
    assert driven.handle(Rejected(pod.uid, "Holds", "too late")) == []


def test_every_plugin_must_allow() -> None:
    """The pod goes with the last one; somebody who does not hold it has no say."""
    driven = DrivenEngine(Holds("A", 60), Holds("B", 30))
    pod = driven.add("p")

    assert driven.handle(Decide())[1:] == [SetTimer(driven.clock.now + 30)]
    assert driven.handle(Allowed(pod.uid, "C")) == []
    assert driven.handle(Allowed(pod.uid, "B")) == []
    [waiting] = driven.engine.core.waiting
    assert waiting.pending_plugins == ["A"]
    assert driven.tick(59.9) == []
    assert driven.stage(pod) == "held"
    [bind] = driven.handle(Allowed(pod.uid, "A"))

    assert isinstance(bind, Bind)


def test_a_rejected_pod_gives_its_place_back() -> None:
    """It waits for what could change the plugin's mind; its own room does not wake it."""
    driven, pod = engine_at(S.HELD)
    other = driven.rejected("q")

    driven.handle(Rejected(pod.uid, "Holds", "not today"))

    assert driven.is_asleep(pod)
    assert not driven.is_asleep(other)
    assert driven.used == 0
    [entry] = [e for e in driven.engine.core.queue.dump() if e["pod"] == pod.key]
    assert entry["unschedulablePlugins"] == ["Holds"]
    assert driven.notes[-1] == "0/1 nodes are available: 1 not today."
    assert len(driven.engine.core.waiting) == 0


@pytest.mark.parametrize(
    ("reasons", "told"), [(("b", "a", "b"), " 1 a, 2 b."), ((), "")], ids=["several", "none"]
)
def test_the_reasons_of_a_rejection_are_counted(reasons: tuple[str, ...], told: str) -> None:
    """In order, as those of nodes. Source: framework/types.go FitError.Error v1.36.3."""
    driven = DrivenEngine(Everything(reserve=unschedulable(*reasons)))

    driven.rejected("p")

    assert driven.notes == [f"0/1 nodes are available:{told}"]


def test_patience_ends() -> None:
    """With the first plugin that runs out of it, exactly at its time."""
    driven = DrivenEngine(Holds("A", 60), Holds("B", IMPATIENT))
    pod = driven.add("p")
    driven.handle(Decide())

    assert driven.tick(IMPATIENT - 0.1) == []
    driven.tick(0.1)

    assert driven.is_asleep(pod)
    assert driven.notes == [
        "0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin B."
    ]


def test_patience_is_limited() -> None:
    """A quarter of an hour, whatever a plugin says."""
    driven = DrivenEngine(Holds(seconds=1e9))
    driven.add("p")

    assert driven.handle(Decide())[1:] == [SetTimer(driven.clock.now + 900)]


def test_held_pods_among_many() -> None:
    """Each is found by its UID, and only those whose time has come are let go."""
    driven = DrivenEngine(Room(5000), Holds())
    pods = [driven.add(f"p{i}") for i in range(200)]
    for _ in pods:
        driven.handle(Decide())
        driven.clock.advance(0.1)
    driven.handle(Allowed(pods[50].uid, "Holds"))
    driven.handle(Rejected(pods[60].uid, "Holds", "no"))

    driven.tick(60 - 200 * 0.1 + 100 * 0.1 - 0.05)
    driven.settle()

    stages = [driven.stage(pod) for pod in pods]
    assert stages[50] == "binding"
    assert "held" not in stages[:100]
    assert stages[100:] == ["held"] * 100
    assert len(driven.engine.core.waiting) == 100


# --- where a pod is expected ----------------------------------------------------------------------


@pytest.mark.parametrize("state", [S.HELD, S.PREBINDING], ids=["held", "prebinding"])
def test_where_a_pod_is_about_to_go_is_told(state: AttemptState) -> None:
    """Once, when it is not bound at once; and taken back when it does not go there."""
    driven, pod = engine_at(state)

    if state is S.HELD:
        driven.handle(Rejected(pod.uid, "Holds", "no"))
    else:
        driven.handle(PreBound(driven.attempt(pod).id, "no disk"))

    patches = driven.all(PatchStatus)
    # Although no watch has shown the nomination yet.
    assert [patch.nominated_node_name for patch in patches] == ["n", ""]
    assert [patch.condition is None for patch in patches] == [True, False]
    assert len(driven.engine.core.queue.nominator) == 0


def test_a_pod_for_which_prebind_only_writes_is_not_told_of() -> None:
    """It is about to be bound; when it is not after all, there is nothing to take back."""
    driven = DrivenEngine(Writes())
    pod = driven.add("p")

    [pre_bind] = driven.handle(Decide())
    assert pre_bind == RunPreBind(driven.attempt(pod).id)
    driven.handle(PreBound(driven.attempt(pod).id, "conflict"))

    [patch] = driven.all(PatchStatus)
    assert (patch.nominated_node_name, patch.condition is None) == (None, False)


def test_a_pod_is_told_of_where_one_of_several_plugins_may_wait() -> None:
    """Whatever the others say."""
    driven = DrivenEngine(Writes(), Prepares())
    driven.add("p")

    driven.handle(Decide())

    [patch] = driven.all(PatchStatus)
    assert patch.nominated_node_name == "n"


def test_a_pod_that_is_held_and_prepared_is_told_of_once() -> None:
    """Its status says so by then, as it may from the beginning."""
    driven = DrivenEngine(Holds(), Prepares())
    pod, known = driven.add("p"), driven.add("q", nominated_node_name="n")
    for _ in range(2):
        driven.handle(Decide())
    for each in (pod, known):
        driven.handle(Allowed(each.uid, "Holds"))

    assert [driven.stage(each) for each in (pod, known)] == ["prebinding"] * 2
    assert [patch.name for patch in driven.all(PatchStatus)] == ["p"]


def test_a_pod_that_is_bound_at_once_is_not_told_of() -> None:
    """The binding says it."""
    driven, pod = engine_at(S.BINDING)

    driven.handle(BindFailed(driven.attempt(pod).id, "conflict"))

    [patch] = driven.all(PatchStatus)
    assert patch.nominated_node_name is None


# --- the end of many ------------------------------------------------------------------------------


class Tied(Holds, ReservePlugin, EnqueueExtensions):
    """Holds all pods; one that is given back turns away all others that are held."""

    NAME = "Tied"

    def __init__(self, handle: Handle) -> None:
        super().__init__("Tied")
        self.handle = handle
        self.turned_away = 0

    @override
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return ()

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return Status()

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        for held in self.handle.waiting:
            self.turned_away += self.handle.waiting.reject(held.pod.uid, self.NAME, "one is gone")


def tied(count: int) -> tuple[DrivenEngine, Tied, list[PodInfo]]:
    """As many pods that are held, each of which turns the others away."""
    plugins: list[Tied] = []

    def make(handle: Handle) -> Tied:
        plugins.append(Tied(handle))
        return plugins[0]

    driven = DrivenEngine(Room(5000), make)
    pods = [driven.add(f"p{i}") for i in range(count)]
    for _ in pods:
        driven.handle(Decide())
    return driven, plugins[0], pods


@pytest.mark.parametrize("ending", ["allowed", "turned away", "patience"])
def test_the_end_of_a_large_group_is_no_long_step(ending: str) -> None:
    """So many go on with each event; no other pod is decided about before the last of them has."""
    driven, plugin, pods = tied(100)
    plugin.seconds = 60.0
    driven.add("other")
    if ending == "allowed":
        for pod in pods:
            plugin.handle.waiting.allow(pod.uid, "Tied")
        driven.handle(ReadFailed(0))
    elif ending == "turned away":
        driven.handle(Rejected(pods[0].uid, "Tied", "no"))
    else:
        driven.tick(60.0)
    left = []
    while driven.engine.scheduler.has_turn:
        left.append(sum(driven.stage(pod) == "held" for pod in pods))
        driven.handle(Decide())

    assert left == [100 - SETTLED_AT_ONCE * turn for turn in range(1, len(left) + 1)]
    assert len(left) == 100 // SETTLED_AT_ONCE
    stages = {driven.stage(pod) for pod in pods}
    assert stages == ({"binding"} if ending == "allowed" else {"unschedulable"})
    assert driven.places()["default/other"] == "active"


def test_a_pod_is_turned_away_once() -> None:
    """However many others of its group are given back before its turn comes."""
    driven, plugin, pods = tied(100)

    driven.handle(Rejected(pods[0].uid, "Tied", "no"))
    driven.settle()

    assert plugin.turned_away == len(pods) - 1
    assert driven.notes == ["0/1 nodes are available: 1 no."] + [
        "0/1 nodes are available: 1 one is gone."
    ] * (len(pods) - 1)


def test_what_is_said_about_pods_that_are_not_held_is_nothing() -> None:
    """It makes no event, outside of the pod's own cycle."""
    driven, plugin, pods = tied(1)
    outside: list[Event] = []
    driven.engine.from_outside = outside.append
    waiting = plugin.handle.waiting
    driven.handle(Rejected(pods[0].uid, "Tied", "no"))

    told = [waiting.allow(pods[0].uid, "Tied"), waiting.reject("unknown", "Tied", "no")]

    assert (told, outside) == ([False, False], [])


def test_what_is_said_first_about_a_pod_counts() -> None:
    """Before its turn comes, too; and a pod that is deleted by then is gone."""
    driven, plugin, pods = tied(100)
    driven.handle(Rejected(pods[0].uid, "Tied", "no"))
    *_, deleted, last = pods

    assert not plugin.handle.waiting.allow(last.uid, "Tied")
    driven.handle(Allowed(last.uid, "Tied"))
    driven.gone(deleted)
    driven.settle()

    assert driven.stage(last) == "unschedulable"
    assert driven.stage(deleted) == "nowhere"
    assert driven.used == 0


# --- what plugins ask for -------------------------------------------------------------------------


class Asks(PreFilterPlugin):
    """Does something while it is asked about a pod."""

    NAME = "Asks"

    def __init__(self) -> None:
        self.act: Callable[[PodInfo], object] = lambda _: None

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        self.act(pod)
        return None, Status()


@pytest.mark.parametrize(
    ("act", "stage"),
    [
        pytest.param(lambda held: held.allow("default/p", "Holds"), "binding", id="allow"),
        pytest.param(
            lambda held: held.reject("default/p", "Holds", "no"), "unschedulable", id="reject"
        ),
    ],
)
def test_held_pods_are_released_after_the_event_at_hand(
    act: Callable[[HeldPods], bool], stage: str
) -> None:
    """A plugin that lets another pod go in its own cycle changes nothing under its feet."""
    asks = Asks()
    driven = DrivenEngine(asks, Holds())
    pod = driven.add("p")
    driven.handle(Decide())
    seen: list[str] = []

    def release(_: PodInfo) -> None:
        assert act(Handle(driven.services).waiting)
        seen.append(driven.stage(pod))

    asks.act = release
    driven.add("q")
    driven.handle(Decide())

    assert seen == ["held"]
    assert driven.stage(pod) == stage


def test_a_pod_may_be_released_before_it_is_held() -> None:
    """What a plugin says during the pod's own cycle counts once it is held."""
    asks = Asks()
    driven = DrivenEngine(asks, Holds())
    asks.act = lambda pod: Handle(driven.services).waiting.allow(pod.uid, "Holds")
    pod = driven.add("p")

    driven.handle(Decide())

    assert driven.stage(pod) == "binding"


def test_releasing_nobody() -> None:
    """The answer says so, and nothing happens."""
    driven = DrivenEngine()
    held = Handle(driven.services).waiting

    assert not held.allow("default/nobody", "Holds")
    assert not held.reject("default/nobody", "Holds", "no")
    assert driven.tick() == []


def test_before_the_first_event_the_driver_is_told_too() -> None:
    """A plugin that is built may begin to work at once."""
    driven = DrivenEngine(nodes=())
    events: list[Event] = []
    driven.engine.from_outside = events.append
    pod = make_pod_info("p")

    Handle(driven.services).activate([pod])

    assert events == [Activate((pod.uid,))]


def test_on_a_fork_no_pod_is_acted_on() -> None:
    """A plugin that is asked "what if", or about a trial, changes nothing in the cluster."""
    driven, pod = engine_at(S.HELD)
    events: list[Event] = []
    driven.engine.from_outside = events.append
    core, handle = driven.engine.core, Handle(driven.services)

    with driven.services.on_fork(core.snapshot.fork(), core.states.fork()):
        assert handle.waiting.allow(pod.uid, "Holds"), "the answer is that of the cluster"
        assert handle.waiting.reject(pod.uid, "Holds", "no")
        handle.activate([pod])

    assert events == []
    handle.waiting.allow(pod.uid, "Holds")
    assert events == [Allowed(pod.uid, "Holds")]


def test_outside_of_an_event_the_driver_is_told() -> None:
    """What plugins want from PreBind or Bind comes back as an event, so that it is recorded."""
    driven, pod = engine_at(S.HELD)
    events: list[Event] = []
    driven.engine.from_outside = events.append
    handle = Handle(driven.services)

    handle.waiting.allow(pod.uid, "Holds")
    handle.activate([pod])
    handle.record_event(pod, NORMAL, "Reason", "a note")

    assert driven.stage(pod) == "held"
    allowed, activate, say = events
    assert allowed == Allowed(pod.uid, "Holds")
    assert activate == Activate((pod.uid,))
    assert isinstance(say, PluginEvent)
    assert driven.handle(say) == [say.instruction]
    driven.handle(allowed)
    assert driven.stage(pod) == "binding"


def test_without_a_driver_it_waits_for_the_next_event() -> None:
    """Nothing that a plugin wants is lost."""
    driven, pod = engine_at(S.HELD)

    Handle(driven.services).waiting.allow(pod.uid, "Holds")
    assert driven.stage(pod) == "held"
    driven.tick()

    assert driven.stage(pod) == "binding"


def test_activation_wakes_without_back_off() -> None:
    """Also from within a cycle; pods that do not wait are left alone."""
    asks = Asks()
    driven = DrivenEngine(Waits("w"), asks)
    sleeper = driven.rejected("w")
    asks.act = lambda pod: Handle(driven.services).activate([sleeper, pod])
    pod = driven.add("p")

    driven.handle(Decide())

    assert driven.stage(sleeper) == "active"
    assert driven.stage(pod) == "binding"
    driven.handle(Activate(("nobody",)))


def test_a_pod_activated_during_its_attempt_is_tried_again() -> None:
    """Its failure does not put it to sleep."""
    driven, pod = engine_at(S.HELD)

    driven.handle(Activate((pod.uid,)))
    driven.handle(Rejected(pod.uid, "Holds", "no"))

    assert driven.stage(pod) == "backoff"


def test_a_plugin_speaks_for_the_profile_of_the_pod() -> None:
    """The event names pod, reason and profile."""
    asks = Asks()
    driven = DrivenEngine(asks)
    asks.act = lambda pod: Handle(driven.services).record_event(
        pod, NORMAL, "Cheap", "the cheapest node"
    )
    driven.add("p")

    *_, told = driven.handle(Decide())

    assert isinstance(told, RecordEvent)
    assert told.regarding.name == "p"
    assert (told.reason, told.note) == ("Cheap", "the cheapest node")
    assert (told.controller, told.event_type) == ("test", NORMAL)
    assert (told.action, told.is_repeatable) == ("Scheduling", True)

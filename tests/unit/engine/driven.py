"""An engine driven event by event: nothing is answered but what a test says."""

from typing import Any, TypeVar

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.attempt import Attempt
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Decide,
    Event,
    ObjectGone,
    ObjectSet,
    PreBound,
    Tick,
)
from scheduler.kernel.engine.instructions import Cancel, Instruction
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
)
from scheduler.kernel.framework.interface import (
    EnqueueExtensions,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    PreFilterPlugin,
)
from scheduler.kernel.framework.results import PreFilterResult
from scheduler.kernel.framework.status import Code, Status, unschedulable
from scheduler.kernel.snapshot import Snapshot
from tests.support.fake_plugins import PodLimit
from tests.unit.engine.engine import EngineUnderTest

InstructionT = TypeVar("InstructionT", bound=Instruction)

ENDED = "2026-01-01T00:00:00Z"


class Room(PodLimit, EnqueueExtensions):
    """So many pods per node; a pod that ends is worth another try for those that wait."""

    NAME = "Room"

    @override
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        gone = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
        return (ClusterEventWithHint(gone),)


class Waits(PreFilterPlugin, EnqueueExtensions):
    """Rejects the pod that is called as it is; that one waits for some events."""

    def __init__(self, name: str, *events: ClusterEvent) -> None:
        self.NAME = name
        self._events = events

    @override
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return tuple(map(ClusterEventWithHint, self._events))

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        return None, unschedulable("not yet") if pod.name == self.NAME else Status()


class Holds(PermitPlugin):
    """Holds every pod for so long."""

    def __init__(self, name: str = "Holds", seconds: float = 60.0) -> None:
        self.NAME = name
        self.seconds = seconds

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return Status(Code.WAIT), self.seconds


class Prepares(PreBindPlugin):
    """Has work to do before every binding."""

    NAME = "Prepares"

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return Status()


class Writes(Prepares):
    """Has nothing to wait for but its writes."""

    NAME = "Writes"

    @override
    def only_writes(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        return True


class DrivenEngine(EngineUnderTest):
    """Answers nothing by itself."""

    @override
    def handle(self, event: Event) -> list[Instruction]:
        instructions = list(self.engine.handle(event, self.clock.monotonic()))
        self.instructions.extend(instructions)
        return instructions

    def rejected(self, name: str, **fields: Any) -> PodInfo:
        """A pod that was tried and waits for an event."""
        pod = self.add(name, **fields)
        self.run()
        assert self.stage(pod) == "unschedulable"
        return pod

    def node_of(self, pod: PodInfo) -> str:
        """Where the cache has a pod."""
        known = self.engine.core.cache.pods.get(pod.uid)
        return "" if known is None else known.node_name

    def is_asleep(self, pod: PodInfo) -> bool:
        """Whether the pod still waits for an event."""
        return self.stage(pod) == "unschedulable"

    def attempt(self, pod: PodInfo) -> Attempt:
        """The attempt that is under way for a pod."""
        attempt = self.engine.attempts.of(pod.uid)
        assert attempt is not None
        return attempt

    def stage(self, pod: PodInfo) -> str:
        """Where a pod stands: the state of its attempt, the part of the queue, or `cache`."""
        attempt = self.engine.attempts.of(pod.uid)
        if attempt is not None:
            return attempt.state.value
        core = self.engine.core
        return self.places().get(pod.key) or (
            "cache" if core.cache.pods.get(pod.uid) else "nowhere"
        )

    def tick(self, seconds: float = 0.0) -> list[Instruction]:
        """Time passes."""
        self.clock.advance(seconds)
        return self.handle(Tick())

    def settle(self) -> None:
        """All pods go on that Permit no longer holds."""
        while self.engine.scheduler.has_turn:
            self.handle(Decide())

    def set(self, pod: PodInfo) -> list[Instruction]:
        """The watch has a version of a pod."""
        return self.and_end_pre_bind(ObjectSet("pods", pod))

    def gone(self, pod: PodInfo) -> list[Instruction]:
        """The watch says that a pod is gone."""
        return self.and_end_pre_bind(ObjectGone("pods", pod.namespace, pod.name, pod.uid))

    def and_end_pre_bind(self, event: Event) -> list[Instruction]:
        """An event comes, and each PreBind that it cancels ends."""
        told = self.handle(event)
        cancelled = [each for each in told if isinstance(each, Cancel)]
        return told + [told for each in cancelled for told in self.handle(PreBound(each.attempt))]

    def all(self, kind: type[InstructionT]) -> list[InstructionT]:
        """All instructions of a kind, in order."""
        return [i for i in self.instructions if isinstance(i, kind)]

    @property
    def notes(self) -> list[str]:
        """What events said, in order."""
        return [told[-1] for told in self.told if told[0] != "failed"]

    @property
    def used(self) -> int:
        """Pods that have a place, as the next decision will see it."""
        core = self.engine.core
        core.cache.update_snapshot(core.snapshot)
        used = int(core.snapshot.table.pod_count.sum())
        assert used == len(core.cache.pods)
        return used


def engine_at(state: AttemptState, *plugins: Plugin) -> tuple[DrivenEngine, PodInfo]:
    """An engine of one node with room for one pod, and a pod that has come to a state there.

    Plugins that hold and prepare are there only when the state needs them.
    """
    holds = [Holds()] if state is AttemptState.HELD else []
    prepares = [Prepares()] if state is AttemptState.PREBINDING else []
    driven = DrivenEngine(*plugins, Room(1), *holds, *prepares)
    pod = driven.add("p")
    driven.handle(Decide())
    attempt = driven.attempt(pod)
    if state is AttemptState.UNSURE:
        driven.handle(BindFailed(attempt.id, "time-out", is_certain=False))
    elif state is AttemptState.BOUND:
        driven.handle(Bound(attempt.id))
    assert attempt.state is state
    return driven, pod

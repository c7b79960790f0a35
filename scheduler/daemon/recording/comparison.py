"""Runs a recorded cluster under another configuration, and compares placements and victims.

Pods are created and deleted as recorded. The other engine decides when the recorded one decided,
and up to `SPARE_DECISIONS` times more at each tick. A pod runs on the node of the other engine, and
ends at the recorded time, however long it has run by then. Bindings and evictions take effect at
once. A victim of the recorded engine stays unless the other engine evicts it; its recorded
replacement by a controller is created in any case. A victim of the other engine has none.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.daemon.recording.records import Record
from scheduler.daemon.recording.summary import (
    Meter,
    PodSummary,
    Summary,
    Victim,
    summary_of,
    workload_of,
)
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Configure,
    Decide,
    Event,
    Evicted,
    EvictFailed,
    ObjectGone,
    ObjectSet,
    PreBound,
    Tick,
)
from scheduler.kernel.engine.instructions import Bind, Evict, RunPreBind

SPARE_DECISIONS: Final = 100
"""More decisions per tick, for attempts of the other engine that the recorded one did not make."""


class Elsewhere(msgspec.Struct, frozen=True):
    """A pod that the engines place on different nodes, or only one places; None is no node."""

    pod: str
    recorded: str | None
    now: str | None


class ReplayComparison(msgspec.Struct, frozen=True):
    """The output of `stowage replay --config FILE -o json`.

    Attributes:
        pods: number of pods to place.
        elsewhere: the pods that are placed on another node, in order of arrival.
        recorded: the recorded outcome.
        now: the outcome under the new configuration.
        reconfigured: how often the recorded engine took over another configuration.
    """

    pods: int
    elsewhere: tuple[Elsewhere, ...]
    recorded: Summary
    now: Summary
    reconfigured: int


def compare(
    records: Iterable[Record],
    engine: Engine,
    reference: Engine,
    looked: "Callable[[float, Side, Side], None]" = lambda _time, _recorded, _now: None,
) -> ReplayComparison:
    """Place the recorded pods with another engine, and compare both outcomes.

    Args:
        records: all records from the beginning.
        engine: a fresh engine with the other configuration.
        reference: a fresh engine that gets the recorded placements, and decides nothing.
        looked: called after each tick with the time of the events' clock, and both sides.

    Raises:
        RecordingError: a file is damaged.
    """
    recorded, now = _Recorded(reference), _Other(engine)
    reconfigured = 0
    for record in records:
        reconfigured += record.new_configuration is not None
        recorded.take(record)
        now.take(record)
        if isinstance(record.event, Tick):
            looked(record.time, recorded, now)
    recorded.end()
    now.end()
    pairs = ((summary, now.pods[uid]) for uid, summary in recorded.pods.items() if uid in now.pods)
    return ReplayComparison(
        len(now.pods),
        tuple(
            Elsewhere(before.pod, before.node or None, after.node or None)
            for before, after in pairs
            if before.node != after.node
        ),
        summary_of((recorded.pods[uid] for uid in now.pods), recorded.victims, recorded.meter),
        summary_of(now.pods.values(), now.victims, now.meter),
        reconfigured,
    )


class ReplayPlacements(msgspec.Struct, frozen=True):
    """The placements of the recorded pods by one engine.

    Attributes:
        pods: by UID, the pods that were seen pending.
        victims: the victims by UID.
        meter: the use of nodes.
        recorded: by UID, the node of the pod in the recorded watch events.
        reconfigured: how often the recorded engine took over another configuration.
        has_decisions: whether the recorded engine decided; that of a standby does not.
    """

    pods: dict[str, PodSummary]
    victims: dict[str, Victim]
    meter: Meter
    recorded: dict[str, str]
    reconfigured: int
    has_decisions: bool


def place_anew(
    records: Iterable[Record], engine: Engine, *, as_configured: bool = False
) -> ReplayPlacements:
    """Place the recorded pods with another engine, as `compare` does, from the first decision.

    Before that another replica decided, whose recording has its pods.

    Args:
        records: all records from the beginning.
        engine: a fresh engine.
        as_configured: whether the engine takes over the configurations that the recorded one did.

    Raises:
        RecordingError: a file is damaged.
    """
    now = _Other(engine, leads=False)
    recorded: dict[str, str] = {}
    reconfigured = 0
    for record in records:
        if isinstance(record.event, Decide) and not now.leads:
            now.lead(record.time)
        configuration = record.new_configuration
        if configuration is not None:
            reconfigured += 1
            if as_configured:
                now.configure(configuration, record.time)
        if isinstance(record.event, ObjectSet):
            pod = record.event.object
            if isinstance(pod, PodInfo) and pod.node_name:
                recorded[pod.uid] = pod.node_name
        now.take(record)
    now.end()
    return ReplayPlacements(
        now.pods, now.victims, now.meter, recorded, reconfigured, has_decisions=now.leads
    )


class Side(ABC):
    """The outcome of one engine: the recorded one or the other.

    Attributes:
        pods: by UID, the pods that were seen pending.
        victims: the victims by UID.
        meter: the use of nodes.
    """

    def __init__(self, engine: Engine) -> None:
        self.pods: dict[str, PodSummary] = {}
        self.victims: dict[str, Victim] = {}
        self.meter = Meter()
        self._engine = engine
        self._now = 0.0
        self._looked: float | None = None

    def _placed(self, uid: str, node: str) -> None:
        summary = self.pods.get(uid)
        if summary is not None:
            summary.node, summary.placed = node, self._now

    def _gone(self, uid: str) -> None:
        summary = self.pods.get(uid)
        if summary is not None:
            summary.is_gone = True

    def _evicted(self, evict: Evict) -> None:
        preemptor = self.pods.get(evict.preemptor)
        for_whom = evict.preemptor if preemptor is None else preemptor.pod
        self.victims[evict.uid] = Victim(f"{evict.namespace}/{evict.name}", for_whom)

    def take(self, record: Record) -> None:
        """Apply one more record."""
        self._now = record.time
        if self._looked is None:
            self._looked = record.time
        self._take(record)

    def end(self) -> None:
        """Measure the use of nodes at the end of the records."""
        core = self._engine.core
        core.cache.update_snapshot(core.snapshot)
        self._look()

    @abstractmethod
    def _take(self, record: Record) -> None: ...

    def _look(self) -> None:
        """Measure the use of nodes by the snapshot, which a tick has updated."""
        since = self._now if self._looked is None else self._looked
        self._looked = self._now
        self.meter.look(self._engine.core.snapshot, self._now - since)


class _Recorded(Side):
    """The recorded outcome, in an engine that only gets objects."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._unseen: dict[str, int] = {}
        """By UID: the attempt of a binding that was sent and has no watch event yet."""

    @override
    def _take(self, record: Record) -> None:
        event = record.event
        if isinstance(event, ObjectSet) and isinstance(event.object, PodInfo):
            self._see(event.object)
        elif isinstance(event, ObjectSet):
            self._engine.handle(event, self._now)
        elif isinstance(event, ObjectGone):
            self._engine.handle(event, self._now)
            self._gone(event.uid)
        elif isinstance(event, Tick):
            self._engine.handle(event, self._now)
            self._look()
        elif isinstance(event, BindFailed | EvictFailed):
            self._take_back(event)
        self._follow(record)

    def _follow(self, record: Record) -> None:
        """Note the binds and evictions among the recorded instructions."""
        if b'"Bind"' in record.answer or b'"Evict"' in record.answer:
            for instruction in record.instructions:
                if isinstance(instruction, Bind):
                    self._unseen[instruction.uid] = instruction.attempt
                    self._placed(instruction.uid, instruction.node)
                elif isinstance(instruction, Evict):
                    self._evicted(instruction)

    def _take_back(self, failed: BindFailed | EvictFailed) -> None:
        """Forget a failed eviction, or a failed bind that no watch event has shown."""
        if isinstance(failed, EvictFailed):
            self.victims.pop(failed.uid, None)
            return
        for uid, attempt in self._unseen.items():
            if attempt == failed.attempt and uid in self.pods:
                self.pods[uid].node = ""

    def _see(self, pod: PodInfo) -> None:
        if pod.node_name:
            self._engine.handle(ObjectSet("pods", pod), self._now)
            self._unseen.pop(pod.uid, None)
            summary = self.pods.get(pod.uid)
            if summary is not None and summary.node != pod.node_name:
                # Another instance has bound the pod.
                self._placed(pod.uid, pod.node_name)
        elif pod.uid not in self.pods:
            self.pods[pod.uid] = PodSummary(pod.key, self._now, workload=workload_of(pod))


class _Other(Side):
    """The outcome of the other engine, with a cluster that carries out its instructions.

    Attributes:
        leads: whether the engine decides; before that it only gets objects.
    """

    def __init__(self, engine: Engine, *, leads: bool = True) -> None:
        super().__init__(engine)
        self.leads = leads
        engine.from_outside = self._handle
        self._recorded_victims: set[str] = set()
        self._takers: dict[type, Callable[[Any], None]] = {
            ObjectSet: self._object_set,
            ObjectGone: self._object_gone,
            Tick: self._tick,
            Decide: self._handle,
            EvictFailed: lambda event: self._recorded_victims.discard(event.uid),
        }

    def lead(self, time: float) -> None:
        """Decide from now on; pods that are pending count as new."""
        self.leads, self._now = True, time
        for pod in self._engine.core.queue.pending_pods():
            self._count(pod)

    def _count(self, pod: PodInfo) -> None:
        self.pods[pod.uid] = PodSummary(pod.key, self._now, workload=workload_of(pod))

    def configure(self, configuration: dict[str, Any], time: float) -> None:
        """Take over a configuration without its extenders, which cannot be asked."""
        self._now = time
        self._handle(Configure({**configuration, "extenders": []}))

    @override
    def _take(self, record: Record) -> None:
        take = self._takers.get(type(record.event))
        if take is not None:
            take(record.event)
        if b'"Evict"' in record.answer:
            for instruction in record.instructions:
                if isinstance(instruction, Evict):
                    self._recorded_victims.add(instruction.uid)

    def _object_set(self, event: ObjectSet) -> None:
        pod = event.object
        if not isinstance(pod, PodInfo):
            self._handle(event)
            return
        uid = pod.uid
        if uid in self.victims or (pod.is_terminating and uid in self._recorded_victims):
            return
        is_ours = pod.spec.scheduler_name in self._engine.core.frameworks
        if self.leads and is_ours and not pod.node_name and uid not in self.pods:
            self._count(pod)
        summary = self.pods.get(uid)
        if summary is not None:
            pod = _on(pod, summary.node)
        self._handle(ObjectSet("pods", pod))

    def _object_gone(self, event: ObjectGone) -> None:
        if event.uid not in self.victims and event.uid not in self._recorded_victims:
            self._handle(event)
            self._gone(event.uid)

    def _tick(self, event: Tick) -> None:
        self._handle(event)
        if self.leads:
            self._decide(SPARE_DECISIONS)
            self._look()
        else:
            self._looked = self._now

    def _decide(self, count: int) -> None:
        for _ in range(count):
            if not self._engine.has_ready:
                return
            self._handle(Decide())

    def _handle(self, event: Event) -> None:
        for instruction in self._engine.handle(event, self._now):
            if isinstance(instruction, RunPreBind):
                self._handle(PreBound(instruction.attempt))
            elif isinstance(instruction, Bind):
                self._bind(instruction)
            elif isinstance(instruction, Evict):
                self._evict(instruction)

    def _bind(self, bind: Bind) -> None:
        attempt = self._engine.attempts.get(bind.attempt)
        if attempt is None:
            return
        pod = attempt.pod
        self._placed(bind.uid, bind.node)
        self._handle(Bound(bind.attempt))
        self._handle(ObjectSet("pods", pod))

    def _evict(self, evict: Evict) -> None:
        self._evicted(evict)
        self._handle(Evicted(evict.uid))
        self._handle(ObjectGone("pods", evict.namespace, evict.name, evict.uid))


def _on(pod: PodInfo, node: str) -> PodInfo:
    """Return the pod on the node that the other engine chose, without a nominated node."""
    status = pod.pod.status
    if status.nominated_node_name:
        status = replace(status, nominated_node_name="")
    return replace(pod, pod=replace(pod.pod, node_name=node, status=status))

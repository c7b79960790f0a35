"""The engine's state, which its parts share."""

import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError, encodable, in_words
from scheduler.kernel.cache import Cache, Rebuilt, compare_rows
from scheduler.kernel.ends import RunDurations
from scheduler.kernel.engine.algorithm import SchedulingAlgorithm
from scheduler.kernel.engine.attempt import Attempts
from scheduler.kernel.engine.events import Event
from scheduler.kernel.engine.held import WaitingPods
from scheduler.kernel.engine.instructions import Instruction, LogError
from scheduler.kernel.engine.outcome import TakeOutcome
from scheduler.kernel.extender import ExtenderError, Extenders
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.answers import shape_of
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.services import PluginServices
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.groups import GroupMembers, PodGroups
from scheduler.kernel.queue import BackoffSettings, SchedulingQueue
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.engine_metrics import EngineMetrics
from scheduler.observability.tracing import CycleTracer

TRACE_LINES: Final = 8
"""Number of stack frames of an unexpected exception that are logged."""


AUDITED_ROWS: Final = 10
"""Rows that are compared with the cache at each tick: 5,000 nodes take eight minutes."""

AUDITED_COUNTS: Final = 10_000
"""Counts of selectors and terms compared with the pods at each tick; at least those of one row."""


class SnapshotError(SchedulerError):
    """The snapshot and the cache differ: a programming error; the engine rebuilds the snapshot."""


class EventTime:
    """The time of the current event, the only time that decisions depend on.

    Attributes:
        now: the time in seconds.
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0.0


class EngineProfiles(msgspec.Struct, frozen=True):
    """The profiles and settings that an engine can exchange between two events.

    Attributes:
        frameworks: the profiles by scheduler name.
        percentage_of_nodes_to_score: the default for profiles without one of their own.
        backoff: the backoff of pods that failed.
    """

    frameworks: Mapping[str, Framework]
    percentage_of_nodes_to_score: int = 0
    backoff: BackoffSettings = BackoffSettings()


ProfilesOf: TypeAlias = Callable[[dict[str, Any]], EngineProfiles]
"""Builds the profiles of a configuration in plain values; raises `SchedulerError`."""


class EngineState(msgspec.Struct):
    """All state that changes over time, and the configuration.

    Attributes:
        frameworks: the profiles by name.
        cache: the nodes and the pods on them.
        snapshot: the cache in columns, as of the last decision or tick.
        queue: the pods that wait.
        states: the shared states and listers of plugins.
        services: the services that plugins see.
        waiting: pods that Permit plugins hold.
        algorithm: chooses nodes.
        extenders: webhooks that filter and score nodes, choose victims, and bind.
        metrics: the engine's counters and timers.
        tracer: receives each cycle; None when cycles are not traced.
        take_outcome: receives a row for each attempt that ends; None without a consumer.
        stopwatch: seconds of a running clock; for measuring only, nothing depends on it.
        time: the time of the current event.
        attempts: the attempts under way.
        durations: the run times of the ended pods of each controller.
        out: the instructions of the current event.
        inbox: events that plugins posted, to be handled after the current event.
        groups: the pod groups; None where no profile schedules any.
        next_audited: the row at which the next audit begins.
        audited_at: the second of the last audit.
    """

    frameworks: Mapping[str, Framework]
    queue: SchedulingQueue
    states: SharedStates
    services: PluginServices
    waiting: WaitingPods
    algorithm: SchedulingAlgorithm
    extenders: Extenders
    metrics: EngineMetrics
    tracer: CycleTracer | None
    take_outcome: TakeOutcome | None
    stopwatch: Callable[[], float]
    time: EventTime
    attempts: Attempts
    inbox: deque[Event]
    cache: Cache = msgspec.field(default_factory=Cache)
    snapshot: Snapshot = msgspec.field(default_factory=Snapshot)
    durations: RunDurations = msgspec.field(default_factory=RunDurations)
    out: list[Instruction] = []
    groups: PodGroups | None = None
    next_audited: int = 0
    audited_at: int = -1

    @property
    def now(self) -> float:
        """The time of the current event, in seconds."""
        return self.time.now

    def wall(self) -> float:
        """The time of the current event, in seconds since 1970."""
        return self.services.epoch + self.time.now

    def is_member(self, pod: PodInfo) -> bool:
        """Whether a pod is to be placed together with the others of its group."""
        return bool(pod.group_name) and self.frameworks[pod.spec.scheduler_name].is_member(pod)

    def group_of(self, pod: PodInfo) -> GroupMembers | None:
        """The group of a pod as it is now; None for a pod without one."""
        return None if self.groups is None else self.groups.of_pod(pod)

    def is_held(self, pod: PodInfo) -> bool:
        """Whether a pod is of a group that lacks members, or its object."""
        if self.groups is None or not pod.group_name:
            return False
        return bool(self.groups.why_held(pod.namespace, pod.group_name))

    def order_of(self, queued: QueuedPodInfo) -> tuple[str, Any]:
        """The place of a pod in the queue's order; smaller goes first.

        It can be compared with that under an earlier configuration, whose QueueSort plugin may give
        keys of another shape.
        """
        key = next(iter(self.frameworks.values())).sort_key(queued)
        return str(shape_of(key)), key

    @property
    def cluster_version(self) -> tuple[int, ...]:
        """The version of all that plugins may read when they reject a pod.

        The version is coarse: any change of the cluster counts for every pod.
        """
        return self.cache.version, self.states.changes, self.queue.nominator.withdrawals

    def catch_up(self) -> None:
        """Bring the snapshot up to date."""
        rebuilt = self.cache.update_snapshot(self.snapshot)
        if rebuilt is not None:
            self._notify_rebuilt(rebuilt)

    def audit(self) -> None:
        """Compare a few rows of the snapshot with the cache; rebuild it if they differ.

        This happens once a second: timers may bring more ticks.
        """
        if self.audited_at == (second := int(self.now)):
            return
        self.audited_at = second
        rows = min(AUDITED_ROWS, max(1, AUDITED_COUNTS // (1 + self.snapshot.counted_classes)))
        found = compare_rows(self.cache, self.snapshot, self.next_audited, rows)
        self.next_audited = found.next_row
        if found.wrong:
            self._notify_rebuilt(
                self.cache.rebuild(self.snapshot, SnapshotError("; ".join(found.wrong)))
            )

    def _notify_rebuilt(self, rebuilt: Rebuilt) -> None:
        self.report("Snapshot rebuilt", "", rebuilt.problem)
        for change, problem in rebuilt.left_out:
            self.report(f"Left out of the snapshot: {type(change).__name__}", "", problem)

    def failure(self, about: str, problem: Exception) -> Failure:
        """The failure for an exception; log it unless it is a `PluginError` or `ExtenderError`."""
        if isinstance(problem, PluginError | ExtenderError):
            return Failure(str(problem))
        return self.unexpected(about, problem)

    def unexpected(self, about: str, problem: Exception) -> Failure:
        """Log an unexpected exception with its stack frames, and return the failure for it."""
        trace = traceback.format_exc(-TRACE_LINES)
        self.report("Unexpected error", about, problem, trace=trace)
        return Failure(f"{type(problem).__name__}: {in_words(problem)}")

    def report(self, message: str, pod: str, problem: Exception, *, trace: str = "") -> None:
        """Add an instruction to log an error."""
        error = f"{type(problem).__name__}: {in_words(problem)}"
        self.out.append(LogError(message, pod, error, encodable(trace)))

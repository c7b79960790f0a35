"""The engine's state, which its parts share."""

import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError, encodable, in_words
from scheduler.kernel.cache import Cache, Rebuilt, compare_rows
from scheduler.kernel.ends import RunDurations
from scheduler.kernel.engine.algorithm import SchedulingAlgorithm
from scheduler.kernel.engine.events import Event
from scheduler.kernel.engine.held import WaitingPods
from scheduler.kernel.engine.instructions import Instruction, LogError
from scheduler.kernel.engine.outcome import TakeOutcome
from scheduler.kernel.engine.story import Story
from scheduler.kernel.extender import ExtenderError, Extenders
from scheduler.kernel.framework.handle import PluginServices
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.groups import PodGroups
from scheduler.kernel.queue import SchedulingQueue
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.engine_metrics import EngineMetrics
from scheduler.observability.extender_metrics import ExtenderMetrics
from scheduler.observability.tracing import CycleTracer

TRACE_LINES: Final = 8
"""How many frames of an unexpected exception are told."""


AUDITED_ROWS: Final = 10
"""Rows that are held against the cache at each tick: 5,000 nodes take eight minutes."""

AUDITED_COUNTS: Final = 10_000
"""Counts of selectors and terms that are held against pods at each tick, but at least one row's."""


class SnapshotError(SchedulerError):
    """The snapshot and the cache differ: a programming error, put right by building it anew."""


class EventTime:
    """The time of the event at hand: all the time there is for what decides.

    Attributes:
        now: in seconds.
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.now


class EngineState(msgspec.Struct):
    """All that changes over time, and what is configured.

    Attributes:
        frameworks: by profile name.
        cache: what runs where.
        snapshot: the same in columns, as far as the last decision or tick took it over.
        queue: the pods that wait.
        states: what plugins share and list.
        services: what plugins see.
        waiting: pods that Permit plugins hold.
        algorithm: chooses nodes.
        extenders: webhooks that filter and score nodes, choose victims, and bind.
        metrics: what is counted and timed.
        extender_metrics: the same of extenders.
        tracer: receives each cycle; None when cycles are not traced.
        take_outcome: receives a row for each attempt that ends; None without a consumer.
        stopwatch: seconds of a running clock; for measuring only, nothing depends on it.
        time: the time of the event at hand.
        wall: the same as the time of day, in seconds since 1970.
        story: what happened to each pod.
        durations: how long the pods of each controller ran before they ended.
        out: the instructions of the event at hand.
        inbox: what plugins want, to be taken up after the event at hand.
        groups: what is known of pod groups; None where no profile schedules any.
        next_audited: the row at which the next audit begins.
    """

    frameworks: Mapping[str, Framework]
    cache: Cache
    snapshot: Snapshot
    queue: SchedulingQueue
    states: SharedStates
    services: PluginServices
    waiting: WaitingPods
    algorithm: SchedulingAlgorithm
    extenders: Extenders
    metrics: EngineMetrics
    extender_metrics: ExtenderMetrics
    tracer: CycleTracer | None
    take_outcome: TakeOutcome | None
    stopwatch: Callable[[], float]
    time: EventTime
    wall: Callable[[], float]
    story: Story
    durations: RunDurations
    out: list[Instruction]
    inbox: deque[Event]
    groups: PodGroups | None = None
    next_audited: int = 0

    @property
    def now(self) -> float:
        """The time of the event at hand, in seconds."""
        return self.time.now

    def is_member(self, pod: PodInfo) -> bool:
        """Whether a pod is to be placed together with the others of its group."""
        return bool(pod.group_name) and self.frameworks[pod.spec.scheduler_name].is_member(pod)

    @property
    def cluster_version(self) -> tuple[int, ...]:
        """The version of all that plugins may read when they reject a pod.

        It is coarse: a change of anything is a change for every pod.
        """
        return self.cache.version, self.states.changes, self.queue.nominator.withdrawals

    def catch_up(self) -> None:
        """Bring the snapshot up to date."""
        rebuilt = self.cache.update_snapshot(self.snapshot)
        if rebuilt is not None:
            self._tell_rebuilt(rebuilt)

    def audit(self) -> None:
        """Hold a few rows of the snapshot against the cache; what is wrong is put right."""
        rows = min(AUDITED_ROWS, max(1, AUDITED_COUNTS // (1 + self.snapshot.counted_classes)))
        found = compare_rows(self.cache, self.snapshot, self.next_audited, rows)
        self.next_audited = found.next_row
        if found.wrong:
            self._tell_rebuilt(
                self.cache.rebuild(self.snapshot, SnapshotError("; ".join(found.wrong)))
            )

    def _tell_rebuilt(self, rebuilt: Rebuilt) -> None:
        self.report("Snapshot rebuilt", "", rebuilt.problem)
        for change, problem in rebuilt.left_out:
            self.report(f"Left out of the snapshot: {type(change).__name__}", "", problem)

    def failure(self, about: str, problem: Exception) -> Failure:
        """The failure of a step that raised; says so if that is what no contract has."""
        if isinstance(problem, PluginError | ExtenderError):
            return Failure(str(problem))
        return self.unexpected(about, problem)

    def unexpected(self, about: str, problem: Exception) -> Failure:
        """Say that a step met an exception that no contract has; gives the failure for it."""
        trace = traceback.format_exc(-TRACE_LINES)
        self.report("Unexpected error", about, problem, trace=trace)
        return Failure(f"{type(problem).__name__}: {in_words(problem)}")

    def report(self, message: str, pod: str, problem: Exception, *, trace: str = "") -> None:
        """Say that something went wrong."""
        told = f"{type(problem).__name__}: {in_words(problem)}"
        self.out.append(LogError(message, pod, told, encodable(trace)))

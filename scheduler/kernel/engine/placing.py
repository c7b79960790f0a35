"""The steps of the scheduling cycle that single pods and members of groups share, and batches.

A batch is equal pods from the head of the queue that are scheduled within one step. Between two of
them only the last placement changes the cluster, so a whole cycle would mostly repeat known
results. If their class (`PodClass`) alone decides, the next pod goes to the best row of the class.
The snapshot adds all pods at the end of the batch. Then PreFilter, Filter, PreScore and Score run,
and count, for the first pod only. Otherwise the next cycle uses the result that the batch computed
ahead for the row of the last pod. Ties are broken at random, with the same choice as if each pod
had its own step.

Among 5,000 nodes a plain pod takes 32 us in a batch of 64, and 64 us alone (`python -m
bench.decisions --workload plain --nodes 5000`, with `--batch`; commit 0712feb, quiet machine).

Source: kubernetes pkg/scheduler/schedule_one.go (assume, skipPodSchedule, schedulingCycle),
framework/runtime/batch.go (OpportunisticBatch) v1.36, KEP-5598.
Differs: upstream keeps the sorted nodes of the last pod for 500 ms. Here no result outlives a step.
"""

from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo
from scheduler.kernel.cache import PodState
from scheduler.kernel.engine.algorithm import Found, ScheduleResult
from scheduler.kernel.engine.attempt import Attempt, AttemptEvent
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.failure import failed_scheduling
from scheduler.kernel.engine.outcome import choice_of
from scheduler.kernel.engine.pending_extender_calls import PendingExtenderCalls
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.results import PostFilterResult
from scheduler.kernel.framework.runtime import AttemptDiagnosis, Framework
from scheduler.kernel.framework.runtime.pod_class import PodClass, RowAnswer
from scheduler.kernel.framework.status import Status, unschedulable
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.resource_sums import Load

MAX_BATCH: Final = 64
"""The most pods that are scheduled within one step: about a millisecond."""
_ROWS: Final = (16, 64, 256)
"""Number of the best rows that the first passes judge. Each later pass judges one row, since the
best rows did not include the chosen one."""
_STEPS: Final = 16
"""The most pods judged ahead on one row: pods with affinity to each other may all go there."""
_MAX_JUDGED: Final = 256
"""The most results (rows times steps) of one pass."""


class Placing:
    """Runs steps of the scheduling cycle for one pod.

    Attributes:
        extender_calls: the calls to extenders about pods without a node.
    """

    def __init__(self, core: EngineState, calls: PendingExtenderCalls) -> None:
        self._core = core
        self.extender_calls = calls
        self._attempts = core.attempts

    def skips(self, pod: PodInfo) -> bool:
        """Skip a popped pod that is terminating or assumed; return whether it was skipped.

        A terminating pod loses its nomination: a finalizer may keep the pod, but not the room.
        Differs: upstream keeps an empty pod nominated, and wakes no other pods.
        """
        core, queue = self._core, self._core.queue
        if not (pod.is_terminating or core.cache.state_of(pod.uid) is PodState.ASSUMED):
            return False
        nominated = queue.nominator.nominated(pod.uid) if pod.is_terminating else None
        if pod.is_terminating:
            note = f"skip schedule deleting pod: {pod.key}"
            core.out.append(failed_scheduling(pod, note))
        queue.done(pod.uid)
        queue.withdraw_nomination(nominated)
        return True

    def note(self, attempt: Attempt, found: Found, start: float) -> None:
        """Record the result of a decision, and its duration."""
        core = self._core
        is_asking = attempt.extender_calls is not None
        thought = core.now - attempt.start if is_asking else core.stopwatch() - start
        attempt.deciding_seconds = thought
        core.metrics.scheduling_algorithm_duration.observe(thought)
        if core.take_outcome is not None:
            attempt.choice = choice_of(found, core.snapshot)

    def post_filter(
        self, attempt: Attempt, diagnosis: AttemptDiagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Run PostFilter, as no node fits; see `Framework.run_post_filter_plugins`."""
        core, framework, calls = self._core, attempt.framework, attempt.extender_calls
        if not framework.plugins.post_filter:
            return None, unschedulable()
        diagnosis.reviewed = None if calls is None else calls.reviewed
        result, status = framework.run_post_filter_plugins(
            diagnosis.state, attempt.pod, core.snapshot, diagnosis
        )
        if result is not None:
            core.out.extend(replace(each, uid=attempt.pod.uid) for each in result.writes)
        diagnosis.post_filter_message = status.message
        return result, status

    def fit_error(
        self, attempt: Attempt, diagnosis: AttemptDiagnosis, nominated_node_name: str | None
    ) -> Failure:
        """The failure of a pod that fits on no node; see `Failure` for the nomination."""
        # Extenders may answer differently about an equal pod.
        was_asked_about = attempt.extender_calls is not None
        return Failure(
            diagnosis.message(),
            is_rejection=True,
            unschedulable_plugins=diagnosis.unschedulable_plugins,
            pending_plugins=diagnosis.pending_plugins,
            nominated_node_name=nominated_node_name,
            fits_nowhere=not nominated_node_name and not was_asked_about,
            excess=diagnosis.excess(self._core.snapshot),
            reasons=diagnosis.reason_counts(),
        )

    def assume(self, attempt: Attempt, node_name: str, state: CycleState) -> None:
        """Assume the pod on the node, and end its nomination."""
        core = self._core
        pod = attempt.pod.on_node(node_name)
        attempt.placed, attempt.cycle_state = pod, state
        self._attempts.advance(attempt, AttemptEvent.FIT)
        if core.extenders.all:
            self.extender_calls.forget(attempt)
        core.cache.assume_pod(pod)
        core.states.reserved(pod)
        core.queue.found_place(pod.uid, node_name)

    def reserve(self, attempt: Attempt) -> tuple[Status, dict[str, float]]:
        """Run Reserve, then Permit; return the failed status of Reserve, or Permit's result."""
        framework, pod = attempt.framework, attempt.pod
        self._attempts.advance(attempt, AttemptEvent.RESERVE)
        status = framework.run_reserve_plugins(attempt.cycle_state, pod)
        if not status.is_success:
            return status, {}
        return framework.run_permit_plugins(attempt.cycle_state, pod)


class Batch:
    """The pods of one step.

    Attributes:
        left: number of pods that may still follow.
        within: the rows to which the choice is limited; None for all.
    """

    def __init__(
        self, core: EngineState, limit: int = 0, within: NDArray[np.intp] | None = None
    ) -> None:
        self.left = limit
        self.within = within
        self._core = core
        self._profile = ""
        self._last: ScheduleResult | None = None
        self._lookahead: Lookahead | None = None
        self._decides_alone = False
        """Whether the class of the pods alone decides about them."""
        self._is_snapshot_behind = False

    def next_result(self, framework: Framework, pod: PodInfo) -> ScheduleResult | None:
        """Choose the node of the next pod; None if the pod must be evaluated like the first one."""
        core, last = self._core, self._last
        if last is None or not self._decides_alone or not framework.decides_alike(pod):
            return None
        result = None
        if self._place(last):
            result = core.algorithm.schedule_equal(
                framework, last.found, core.snapshot, self.within
            )
        if result is None:
            core.metrics.batch_attempts[self._profile, "hint_not_used"].inc()
            self._forget("empty_list")
            return None
        core.metrics.batch_attempts[self._profile, "hint_used"].inc()
        self._last = result
        self._is_snapshot_behind = True
        return result

    def catch_up(self) -> None:
        """Bring the snapshot up to date, and the class of the pods with it."""
        core, last = self._core, self._last
        is_foreseen = last is not None and self._place(last)
        core.catch_up()
        self._is_snapshot_behind = False
        if is_foreseen and self._lookahead is not None:
            self._lookahead.counted(core.snapshot)

    def looked_at(self, framework: Framework, pod: PodInfo, result: Found) -> None:
        """Record the result of a whole cycle, if it is a node, for the pods that follow."""
        if not isinstance(result, ScheduleResult):
            return
        core, found = self._core, result.found
        self._profile = framework.profile_name
        core.metrics.batch_attempts[self._profile, "no_hint"].inc()
        if not self.left or found.looks_at_few:
            # The columns of the class are not filled for a pod that names its nodes.
            return
        self._last = result
        if self._lookahead is None or self._lookahead.pod_class is not found.pod_class:
            self._lookahead = Lookahead(found.pod_class, pod.shape, self.left)
        self._decides_alone = (
            found.is_row_local
            and result.best.is_of_class
            and framework.decides_alike(pod)
            and not core.extenders
            and not core.queue.nominator.nodes
        )

    def end(self, reason: str, *, is_placed: bool) -> None:
        """Add to the snapshot the pods of the batch that it lacks, and forget all results.

        `reason` is a label of the metric. `is_placed`: whether the last pod has a node, too.
        """
        if is_placed and self._is_snapshot_behind:
            self.catch_up()
        self._forget(reason)

    def _forget(self, reason: str) -> None:
        if self._lookahead is not None:
            self._core.metrics.batch_cache_flushed[self._profile, reason].inc()
        self._last = self._lookahead = None

    def _place(self, last: ScheduleResult) -> bool:
        """Count the last pod into the class; False if the class must judge the row again."""
        lookahead = self._lookahead
        if lookahead is None or not lookahead.place(last.row, self._core.snapshot):
            self._lookahead = None
            return False
        return True


class Lookahead:
    """The columns of a class with more of its pods on some rows, before the snapshot has them.

    The class remembers its answers for rows with the same load (`RowAnswers`). Where it has none,
    one pass judges the rows that may be chosen next, with one more pod on each and with
    several: few rows first, and more each time. The answers come from the same plugins and the
    same numbers; they are only computed earlier.

    Attributes:
        pod_class: the class.
    """

    def __init__(self, pod_class: PodClass, shape: PodShape, limit: int) -> None:
        """Begin without answers: the columns of the class are up to date."""
        self.pod_class = pod_class
        self._shape = shape
        self._limit = limit
        self._loads: dict[int, Load] = {}
        """The load that a number of these pods adds to a row: no node changes within a batch."""
        self._passes = iter(_ROWS)
        """The number of rows of each remaining pass."""
        self._uncounted: dict[int, int] = {}
        """Number of pods of the batch on each row that the snapshot does not have yet."""

    def place(self, row: int, snapshot: Snapshot) -> bool:
        """Count one more pod on a row into the columns, before the snapshot has it.

        Returns:
            False if the result cannot be computed ahead: then the snapshot must be updated.
        """
        more = self._uncounted.get(row, 0) + 1
        answer = self._answer(row, more, snapshot)
        if answer is None:
            self._judge(self._rows_with(row, more, snapshot), snapshot)
            answer = self._answer(row, more, snapshot)
            if answer is None:
                return False
        self._uncounted[row] = more
        self.pod_class.become(row, *answer)
        return True

    def counted(self, snapshot: Snapshot) -> None:
        """Record that the snapshot now has all pods of the batch."""
        self.pod_class.counted(snapshot, sum(self._uncounted.values()))
        self._uncounted.clear()

    def _answer(self, row: int, more: int, snapshot: Snapshot) -> RowAnswer | None:
        sums, load = snapshot.table.sums, self._loads.get(more)
        if load is None:
            load = self._loads[more] = sums.load_of(self._shape, more)
        return self.pod_class.answer(sums, row, load)

    def _rows_with(self, row: int, more: int, snapshot: Snapshot) -> NDArray[np.intp]:
        """The row, and others that may be chosen next."""
        one = np.array([row])
        wanted = None if more > 1 else next(self._passes, None)
        if wanted is None:
            return one
        wanted = min(wanted, self._limit)
        size = snapshot.table.size
        rows, _ = self.pod_class.ranking.best_rows(self.pod_class.total[:size])
        if len(rows) < wanted < size:
            rows = np.argpartition(self.pod_class.total[:size], -wanted)[-wanted:]
        return np.union1d(rows[:wanted], one)

    def _judge(self, rows: NDArray[np.intp], snapshot: Snapshot) -> None:
        """Judge each of some rows with one pod more than now, with two, and so on."""
        steps = max(1, min(_STEPS, self._limit, _MAX_JUDGED // len(rows)))
        times = np.tile(np.arange(1.0, steps + 1), len(rows))
        if self._uncounted:
            there = [self._uncounted.get(row, 0) for row in rows.tolist()]
            times += np.repeat(there, steps)
        self.pod_class.judge_with_more(snapshot, self._shape, rows.repeat(steps), times)

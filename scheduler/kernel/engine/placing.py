"""The steps of the scheduling cycle that single pods and members of groups share.

Source: kubernetes pkg/scheduler/schedule_one.go (assume, skipPodSchedule, schedulingCycle) v1.36.
"""

from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.kernel.cache import PodState
from scheduler.kernel.engine.algorithm import ScheduleResult
from scheduler.kernel.engine.attempt import Attempt, AttemptEvent
from scheduler.kernel.engine.attempts import Attempts
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.failure import failed_scheduling
from scheduler.kernel.engine.outcome import choice_of
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import PostFilterResult
from scheduler.kernel.framework.runtime import AttemptDiagnosis
from scheduler.kernel.framework.status import Status, unschedulable
from scheduler.kernel.framework.types import Failure


class Placing:
    """Runs steps of the scheduling cycle for one pod."""

    def __init__(self, core: EngineState, attempts: Attempts) -> None:
        self._core = core
        self._attempts = attempts

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

    def note(
        self,
        attempt: Attempt,
        found: ScheduleResult | AttemptDiagnosis | Failure,
        start: float,
    ) -> None:
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
            self._attempts.extender_calls.forget(attempt)
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

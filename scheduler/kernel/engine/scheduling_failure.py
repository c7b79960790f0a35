"""Ends attempts that fail, or whose pods no longer need a node.

Source: kubernetes pkg/scheduler/schedule_one.go (handleSchedulingFailure, handleBindingCycleError,
unreserveAndForget) v1.36.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from scheduler.api.devices import (
    AllocationResult,
    FinalizedMeta,
    ResourceClaim,
    ResourceClaimStatus,
)
from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_shape import DEVICES, VOLUMES
from scheduler.api.pods import PodInfo
from scheduler.api.storage import PersistentVolume
from scheduler.kernel.devices.claim_catalog import CLAIM
from scheduler.kernel.engine.attempt import (
    ACQUIRED,
    UNDECIDED,
    Acquired,
    Attempt,
    AttemptEvent,
    AttemptState,
    Entry,
)
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.failure import failed_scheduling, status_patch
from scheduler.kernel.engine.instructions import Cancel, LogError
from scheduler.kernel.engine.outcome import outcome_of
from scheduler.kernel.engine.pending_extender_calls import PendingExtenderCalls
from scheduler.kernel.framework.cycle_state import NEEDS_NO_NODE
from scheduler.kernel.framework.events import (
    ASSIGNED_POD_DELETE,
    ActionType,
    ClusterEvent,
    EventResource,
)
from scheduler.kernel.framework.status import Code
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.queue import PUT_LAST_SECONDS

OUTCOMES_END: Final = "Error recording a decision; recording no more"

SCHEDULING_FAILED: Final = "Error scheduling pod; retrying"

DEVICES_FREED: Final = (
    ClusterEvent(CLAIM, ActionType.UPDATE),
    ResourceClaim(FinalizedMeta(), status=ResourceClaimStatus(allocation=AllocationResult())),
    ResourceClaim(FinalizedMeta()),
)
"""The event, and the old and new object, of a claim whose devices are deallocated."""
VOLUMES_FREED: Final = (
    ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.UPDATE),
    PersistentVolume(ObjectMeta()),
    PersistentVolume(ObjectMeta()),
)
"""The event, and the old and new object, of a volume that loses its claim."""


class FailureHandler:
    """Unreserves and forgets the pods of failed attempts, and requeues them.

    Attributes:
        rejections: number of attempts that were rejected.
    """

    def __init__(self, core: EngineState, calls: PendingExtenderCalls) -> None:
        self.rejections = 0
        self._extender_calls = calls
        self._core = core
        self._attempts = core.attempts

    def handle_scheduling_failure(
        self, attempt: Attempt, failure: Failure, *, was_seen: bool = False
    ) -> None:
        """Unreserve and forget the pod, requeue it, and report the failure.

        The event for its freed room must not move a rejected pod itself: it is sent after the
        requeue, for all other pods. No plugin code that may raise runs before the requeue, since
        the pod would be lost.

        `was_seen`: whether other pods may have been rejected because of this pod on its node.
        """
        core = self._core
        self.rejections += failure.is_rejection
        decided = was_seen or attempt.state not in UNDECIDED
        code = Code.UNSCHEDULABLE if failure.is_rejection else Code.ERROR
        freed = self._roll_back(attempt, AttemptEvent.FAIL, failure.message, code) and decided
        if freed and not failure.is_rejection:
            self._free(attempt)
        if not failure.is_rejection:
            core.out.append(LogError(SCHEDULING_FAILED, attempt.pod.key, failure.message))
        # Equal pods share the failure, but not the counts of nodes by reason.
        version = core.cluster_version if failure.fits_nowhere else ()
        shared = replace(failure, version=version, since=core.now, reasons={})
        self.requeue(attempt.queued, shared, is_nominated=attempt.is_nominated)
        if freed and failure.is_rejection:
            self._free(attempt)
        self.ended(attempt, "unschedulable" if failure.is_rejection else "error", failure)

    def stop(self, attempt: Attempt, failure: Failure, *, was_seen: bool = False) -> None:
        """Fail an attempt; if it is in PreBind, cancel PreBind, and fail it when PreBind ends.

        A cancelled PreBind keeps its first failure. For `was_seen` see `handle_scheduling_failure`.
        """
        if attempt.state is AttemptState.PREBINDING:
            self.cancel_pre_bind(attempt, failure)
        elif attempt.state is not AttemptState.CANCELLED:
            self.handle_scheduling_failure(attempt, failure, was_seen=was_seen)

    def cancel_pre_bind(self, attempt: Attempt, failure: Failure) -> None:
        """Cancel PreBind; the attempt keeps its reservations until PreBind has ended.

        PreBind may have a write under way. Devices freed before its answer could go to another pod,
        although the API server may still carry out the write.
        """
        attempt.failure = failure
        self._attempts.advance(attempt, AttemptEvent.CANCEL, failure.message)
        self._core.out.append(Cancel(attempt.id))

    def abandon(self, attempt: Attempt, why: str, *, is_retried: bool = False) -> None:
        """End an attempt whose pod needs no node, and move pods that its freed room may help.

        `is_retried`: whether the pod has no node, and another attempt will follow.
        """
        if not is_retried:
            attempt.cycle_state.write(NEEDS_NO_NODE, value=True)
        if attempt.state is not AttemptState.BOUND:
            self.record_outcome(attempt.queued, "gone", attempt, Failure(why))
        freed = self._roll_back(attempt, AttemptEvent.ABANDON, why, Code.UNSCHEDULABLE)
        self._core.queue.done(attempt.queued.pod_info.uid)
        if freed:
            self._free(attempt)

    def guarded(self, attempt: Attempt, step: Callable[[], None]) -> None:
        """Run a step; an exception in it fails this attempt, and nothing else."""
        try:
            step()
        except Exception as problem:  # noqa: BLE001 - one pod must never stop the others
            self.raised(attempt, problem)

    def raised(self, attempt: Attempt, problem: Exception) -> None:
        """Fail an attempt, and nothing else, for an exception."""
        failure = self._core.failure(attempt.pod.key, problem)
        self.handle_scheduling_failure(attempt, failure)

    def retry_unbound(self, attempt: Attempt, failure: Failure) -> None:
        """Requeue the pod of an abandoned attempt, if a profile still schedules it."""
        if attempt.pod.spec.scheduler_name in self._core.frameworks:
            self._core.out.append(LogError(SCHEDULING_FAILED, attempt.pod.key, failure.message))
            self.requeue(attempt.queued, failure, is_nominated=attempt.is_nominated)

    def _roll_back(self, attempt: Attempt, event: AttemptEvent, why: str, code: Code) -> bool:
        """Release all that the attempt has acquired; return whether the pod had been assumed.

        That is so even if another client has bound the pod to the same node, and its room is taken.
        Its reservations are free, and preemptors wait for the end of its attempt: they are tried
        again, and evict the pod.
        Differs: upstream moves no pod then. The event that the pod was added to the node wakes few
        preemptors, and others wait for the flush of unschedulable pods.
        `code` is the result of a wait in Permit, for its metric.
        """
        core, pod = self._core, attempt.pod
        acquired = ACQUIRED[attempt.state]
        self._attempts.advance(attempt, event, why)
        self._attempts.forget(attempt)
        if core.extenders.all:
            self._extender_calls.forget(attempt)
        for what in acquired:
            if what is Acquired.WORK:
                core.out.append(Cancel(attempt.id))
            elif what is Acquired.HOLD:
                self.end_waiting(pod.uid, code)
            elif what is Acquired.RESERVATIONS:
                self._unreserve(attempt, pod)
            else:
                core.cache.forget_pod(pod)
        return Acquired.ROOM in acquired

    def _unreserve(self, attempt: Attempt, pod: PodInfo) -> None:
        failures, writes = attempt.framework.run_unreserve_plugins(attempt.cycle_state, pod)
        for problem in failures:
            self._core.report("Unreserve failed", pod.key, problem)
        self._core.out.extend(writes)
        self._core.states.unreserved(pod)

    def _free(self, attempt: Attempt) -> None:
        """Move pods that the freed room, devices or volumes may help.

        Differs: upstream moves no pod for devices and volumes that were reserved in memory only.
        """
        pod, wake = attempt.pod, self._core.queue.move_all_to_active_or_backoff_queue
        wake(ASSIGNED_POD_DELETE, pod, None, but=pod.uid)
        # No watch event shows the release of reservations that were only in memory.
        if pod.needs & DEVICES:
            wake(*DEVICES_FREED, but=pod.uid)
        if pod.needs & VOLUMES:
            wake(*VOLUMES_FREED, but=pod.uid)

    def requeue(
        self, queued: QueuedPodInfo, failure: Failure, *, is_nominated: bool = False
    ) -> None:
        """Requeue a pod, and report the failure: event, condition and nomination."""
        core = self._core
        if not core.queue.add_unschedulable_if_not_present(queued, failure):
            return
        pod = queued.pod_info
        if failure.nominated_node_name is not None:
            core.queue.add_nominated_pod(pod, failure.nominated_node_name, failure.needed_at)
        core.out.append(failed_scheduling(pod, failure.message))
        self._patch(pod, failure, is_nominated=is_nominated)

    def _patch(self, pod: PodInfo, failure: Failure, *, is_nominated: bool = False) -> None:
        patch = status_patch(pod, failure, is_nominated=is_nominated)
        if patch is not None:
            self._core.out.append(patch)

    def write_failed(self, uid: str, message: str) -> None:
        """Retry a pod as after an error: no watch event of the unwritten object will move it."""
        core = self._core
        core.attempts.story.append(Entry(core.now, uid, 0, "not written", message))
        core.queue.try_again(uid)

    def put_last(self, uid: str, seconds: float) -> None:
        """Put a pod last after its second slow decision in a row, and report that in its status."""
        queued = self._core.queue.took_long(uid)
        if queued is None:
            return
        message = (
            f"{queued.last_failure} Tried last for {PUT_LAST_SECONDS // 60:.0f} minutes: "
            f"deciding took {seconds:.1f} s of processor time, for the second time in a row."
        )
        rejected = bool(queued.unschedulable_plugins or queued.pending_plugins)
        failure = Failure(message, is_rejection=rejected, nominated_node_name=None)
        self._patch(queued.pod_info, failure)

    def ended(self, attempt: Attempt, result: str, failure: Failure | None = None) -> None:
        """Count an attempt that ended, and pass on its outcome."""
        core, profile = self._core, attempt.framework.profile_name
        core.metrics.attempt_ended(result, profile, core.now - attempt.start)
        self.record_outcome(attempt.queued, result, attempt, failure)

    def record_outcome(
        self,
        queued: QueuedPodInfo,
        result: str,
        attempt: Attempt | None,
        failure: Failure | None,
    ) -> None:
        """Pass on the outcome to be recorded; an error there must not affect the pod."""
        core = self._core
        if core.take_outcome is None:
            return
        try:
            core.take_outcome(outcome_of(queued, result, core.now, attempt, failure))
        except Exception as problem:  # noqa: BLE001 - see above
            core.take_outcome = None
            core.report(OUTCOMES_END, queued.pod_info.key, problem)

    def end_waiting(self, uid: str, code: Code) -> None:
        """Remove a pod from the waiting pods, and observe the duration of its wait."""
        core = self._core
        waiting = core.waiting.remove(uid)
        if waiting is not None:
            core.metrics.permit_wait_duration[code.upstream_name].observe(core.now - waiting.since)

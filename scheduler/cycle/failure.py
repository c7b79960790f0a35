"""What happens to a pod whose attempt failed, wherever it failed.

Source: kubernetes pkg/scheduler/schedule_one.go (handleSchedulingFailure, updatePod) v1.36.
"""

from typing import Final

import msgspec

from scheduler.cycle.algorithm import NoNodesAvailable
from scheduler.cycle.engine import Engine
from scheduler.framework.runtime import Diagnosis, Framework
from scheduler.framework.status import Code, Status
from scheduler.framework.types import QueuedPodInfo
from scheduler.observability.logs import get_logger, verbose

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

log = get_logger(__name__)


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed.

    Attributes:
        message: for people; what the event and the condition say.
        is_rejection: whether plugins said no, as opposed to something unexpected.
        unschedulable_plugins: who said no, and so whose hints may wake the pod.
        pending_plugins: who said Pending.
    """

    message: str
    is_rejection: bool = False
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()


def failure_of(diagnosis: Diagnosis) -> Failure:
    """No node fits."""
    return Failure(
        diagnosis.message(),
        is_rejection=True,
        unschedulable_plugins=diagnosis.unschedulable_plugins,
        pending_plugins=diagnosis.pending_plugins,
    )


def no_nodes(result: NoNodesAvailable) -> Failure:
    """There are no nodes: a rejection by nobody, so the pod is tried again after back-off."""
    return Failure(result.message, is_rejection=True)


def rejected_by(status: Status) -> Failure:
    """A plugin refused a pod that had a node already.

    Source: schedule_one.go: a FitError over that one node.
    """
    if not status.is_rejection:
        return Failure(status.message)
    pending = status.code is Code.PENDING
    plugins = frozenset({status.plugin} if status.plugin else ())
    return Failure(
        f"0/1 nodes are available: {', '.join(f'1 {reason}' for reason in status.reasons)}.",
        is_rejection=True,
        unschedulable_plugins=frozenset() if pending else plugins,
        pending_plugins=plugins if pending else frozenset(),
    )


class FailureHandler:
    """Records, requeues and reports failed attempts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def handle(
        self,
        framework: Framework,
        queued: QueuedPodInfo,
        failure: Failure,
        start: float,
        *,
        nominated_node_name: str | None = "",
    ) -> None:
        """Put the pod back into the queue and say why.

        Args:
            framework: the pod's profile.
            queued: the pod as it was popped.
            failure: why.
            start: when the attempt began.
            nominated_node_name: a nomination; "" withdraws one, None keeps what there is.
        """
        result = "unschedulable" if failure.is_rejection else "error"
        self._engine.recorder.attempt_failed(
            framework.profile_name, result, self._engine.now() - start
        )
        queued.unschedulable_plugins = failure.unschedulable_plugins
        queued.pending_plugins = failure.pending_plugins
        queued.last_failure = failure.message
        pod = queued.pod_info
        if failure.is_rejection:
            if verbose(2):
                log.info(
                    "Unable to schedule pod; no fit; waiting",
                    v=2,
                    pod=pod.key,
                    err=failure.message,
                )
        else:
            log.error("Error scheduling pod; retrying", pod=pod.key, err=failure.message)
        if not self._engine.queue.add_unschedulable_if_not_present(queued):
            return
        pod = queued.pod_info
        if nominated_node_name is not None:
            self._engine.queue.add_nominated_pod(pod, nominated_node_name)
        reason = UNSCHEDULABLE if failure.is_rejection else SCHEDULER_ERROR
        self._engine.writer.failed_scheduling(pod, failure.message)
        self._engine.writer.pod_failed(pod, reason, failure.message, nominated_node_name)

"""The failure of an attempt, and the events and status patches of pods.

Source: kubernetes pkg/scheduler/schedule_one.go (handleSchedulingFailure, updatePod) v1.36.
"""

from collections import Counter
from typing import Final

from scheduler.api.pod_groups import POD_GROUP_SCHEDULED, PodGroup
from scheduler.api.pods import PodInfo
from scheduler.api.written import WARNING, Condition, ObjectReference
from scheduler.kernel.engine.instructions import (
    POD_SCHEDULED,
    PatchGroupStatus,
    PatchStatus,
    RecordEvent,
)
from scheduler.kernel.framework.runtime.diagnosis import no_fit_message
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.groups import WrittenCondition

GROUP: Final = "PodGroup"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
SCHEDULED: Final = "Scheduled"


def rejected_by(status: Status) -> Failure:
    """The failure of a pod that a plugin rejected after a node was chosen.

    Source: schedule_one.go: a FitError over that one node.
    """
    if not status.is_rejection:
        return Failure(status.message)
    pending = status.code is Code.PENDING
    plugins = frozenset({status.plugin} if status.plugin else ())
    reasons = dict(Counter(status.reasons))
    return Failure(
        no_fit_message(1, reasons),
        is_rejection=True,
        unschedulable_plugins=frozenset() if pending else plugins,
        pending_plugins=plugins if pending else frozenset(),
        reasons=reasons,
    )


# --- events and conditions ------------------------------------------------------------------------


def reason_of(failure: Failure) -> str:
    """The reason of the condition."""
    return UNSCHEDULABLE if failure.is_rejection else SCHEDULER_ERROR


def reference(pod: PodInfo) -> ObjectReference:
    """The pod as the object of an event."""
    meta = pod.pod.metadata
    return ObjectReference(
        "Pod", meta.name, meta.namespace, meta.uid, resource_version=meta.resource_version
    )


def group_reference(group: PodGroup) -> ObjectReference:
    """The pod group as the object of an event."""
    return ObjectReference(GROUP, group.name, group.namespace, group.uid, group.api_version)


def failed_scheduling(pod: PodInfo, note: str) -> RecordEvent:
    """The event of a pod that could not be placed."""
    controller = pod.spec.scheduler_name
    return RecordEvent(
        reference(pod), "FailedScheduling", "Scheduling", note, controller, event_type=WARNING
    )


def scheduled(pod: PodInfo) -> RecordEvent:
    """The event of a pod that is bound."""
    return RecordEvent(
        reference(pod),
        "Scheduled",
        "Binding",
        f"Successfully assigned {pod.key} to {pod.node_name}",
        pod.spec.scheduler_name,
        is_repeatable=False,
    )


def nomination(pod: PodInfo) -> PatchStatus | None:
    """The status patch that nominates a pod to its node; None when the status has it."""
    if pod.pod.status.nominated_node_name == pod.node_name:
        return None
    return PatchStatus(pod.namespace, pod.name, pod.uid, nominated_node_name=pod.node_name)


def status_patch(pod: PodInfo, failure: Failure, *, is_nominated: bool) -> PatchStatus | None:
    """The status patch for a failed attempt; None when the status has all of it already.

    With `is_nominated`, a nomination may have been sent that the status does not show yet.
    """
    nominated = failure.nominated_node_name
    if nominated == pod.pod.status.nominated_node_name and not is_nominated:
        nominated = None
    condition = changed_condition(
        pod,
        POD_SCHEDULED,
        "False",
        reason_of(failure),
        failure.message,
        is_written=nominated is not None,
    )
    if condition is None and nominated is None:
        return None
    return PatchStatus(pod.namespace, pod.name, pod.uid, condition, nominated)


def changed_condition(
    pod: PodInfo, kind: str, status: str, reason: str, message: str, *, is_written: bool = False
) -> Condition | None:
    """A condition to write to a pod's status; None when the status has it.

    A new generation of the pod alone is no reason to write; `is_written`: there is another one.
    """
    known = next((c for c in pod.pod.status.conditions if c.type == kind), None)
    wanted = (status, reason, message)
    generation = pod.pod.metadata.generation
    if known is not None and (known.status, known.reason, known.message) == wanted:
        is_seen = known.observed_generation == generation
        if is_seen or not is_written:
            return None
    return Condition(
        kind,
        *wanted,
        has_moved=known is None or known.status != status,
        observed_generation=generation,
    )


def group_condition(
    group: PodGroup, written: WrittenCondition | None, wanted: tuple[str, str, str]
) -> PatchGroupStatus | None:
    """The patch of a group's condition; None when nothing changes, or when it was scheduled once.

    `written` is the last write, which the watch may not show.

    Source: schedule_one_podgroup.go updatePodGroupCondition.
    """
    known, shown = None, group.condition
    if written is not None and written[0] == group.uid:
        known = written[1:]
    elif shown is not None:
        known = shown.status, shown.reason, shown.message, shown.observed_generation
    is_same = known == (*wanted, group.generation)
    if known is not None and (is_same or (known[0] == "True" and wanted[0] != "True")):
        return None
    condition = Condition(
        POD_GROUP_SCHEDULED,
        *wanted,
        has_moved=known is None or known[0] != wanted[0],
        observed_generation=group.generation,
    )
    return PatchGroupStatus(group.api_version, group.namespace, group.name, group.uid, condition)

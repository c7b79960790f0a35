"""GangScheduling: a gang runs with `minCount` of its pods, or waits with all of them.

PreEnqueue gates the members until their PodGroup and enough pods exist. The engine then tries all
pending members in one step. Permit holds each member until the gang, running pods included, has
`minCount` pods with a node. Only then is any of them bound.

Extension points: PreEnqueue, Permit.
Events: none but the flush. The engine itself requeues the members when their obstacle changes.
Source: pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go (v1.36).
Differs: upstream registers UnscheduledPod/Add and PodGroup/Add.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import (
    UNSCHEDULABLE_TIMEOUT,
    ClusterEventWithHint,
    ObjectKind,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import EnqueueExtensions, PermitPlugin, PreEnqueuePlugin
from scheduler.kernel.framework.status import SUCCESS, Code, Status, error, unresolvable
from scheduler.kernel.groups import PodGroups

PERMIT_SECONDS: Final = 300.0
"""Source: permitTimeoutDuration."""
TOO_FEW_PLACED: Final = "waiting for minCount pods from a gang to be scheduled"


class GangScheduling(PreEnqueuePlugin, PermitPlugin, EnqueueExtensions):
    """Holds gangs until they are whole."""

    NAME: ClassVar[str] = "GangScheduling"
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = PodGroups.WATCHES
    SCHEDULES_GROUPS: ClassVar[bool] = True

    def __init__(self, args: Any, handle: Handle) -> None:
        del args
        self._handle = handle
        handle.shared(PodGroups)

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(UNSCHEDULABLE_TIMEOUT),)

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        if not pod.group_name:
            return SUCCESS
        why = self._handle.shared(PodGroups).why_held(pod.namespace, pod.group_name)
        return unresolvable(why) if why else SUCCESS

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        if not pod.group_name:
            return SUCCESS, 0.0
        known = self._handle.shared(PodGroups).of_pod(pod)
        if known is None or known.group is None:
            return error(f"failed to get pod group {pod.namespace}/{pod.group_name}"), 0.0
        if known.has_quorum():
            return SUCCESS, 0.0
        return Status(Code.WAIT, (TOO_FEW_PLACED,)), PERMIT_SECONDS

"""SchedulingGates: a pod with gates stays out of the queue until the last gate is removed.

Extension points: PreEnqueue.
Events: the pod's own gates are gone.
Source: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go (v1.36).
"""

from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.interface import EnqueueExtensions, PreEnqueuePlugin
from scheduler.kernel.framework.status import SUCCESS, Status, unresolvable


class SchedulingGates(PreEnqueuePlugin, EnqueueExtensions):
    """Holds pods whose `spec.schedulingGates` is not empty."""

    NAME: ClassVar[str] = "SchedulingGates"

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        gates_gone = ClusterEvent(
            EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        )
        return (ClusterEventWithHint(gates_gone, is_schedulable_after_gates_eliminated),)

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Reject a pod that has gates, and name them."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        names = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")


def is_schedulable_after_gates_eliminated(
    pod: PodInfo,
    old: PodInfo,  # noqa: ARG001 - hints share a signature
    new: PodInfo,
) -> QueueingHint:
    """Queue if the pod itself has lost its gates."""
    return QueueingHint.QUEUE if new.uid == pod.uid else QueueingHint.SKIP

"""NodeUnschedulable: a cordoned node takes only pods that tolerate the cordon's taint.

Extension points: Filter.
Events: a node is added, its taints or its `spec.unschedulable` change; the pod's own tolerations
change.
Source: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go (v1.36).
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.api.taints import UNSCHEDULABLE_TAINT, is_tolerated
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.interface import (
    Bits,
    EnqueueExtensions,
    FilterPlugin,
    Reads,
    SignPlugin,
)
from scheduler.kernel.framework.results import Reason
from scheduler.kernel.framework.status import Code
from scheduler.kernel.snapshot import Rows, Snapshot

REASONS: Final = (Reason("node(s) were unschedulable", Code.UNSCHEDULABLE_AND_UNRESOLVABLE),)


class NodeUnschedulable(FilterPlugin, EnqueueExtensions, SignPlugin):
    """Rejects cordoned nodes."""

    NAME: ClassVar[str] = "NodeUnschedulable"
    READS: ClassVar[Reads] = Reads.NODE

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_changes), is_schedulable_after_node_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION),
                is_schedulable_after_pod_toleration_change,
            ),
        )

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """Whether the pod tolerates cordoned nodes."""
        return tolerates_cordon(pod)

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        cordoned = snapshot.table.unschedulable[rows]
        if not cordoned.any() or tolerates_cordon(pod):
            return None
        return cordoned.astype(np.uint64)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return REASONS


def tolerates_cordon(pod: PodInfo) -> bool:
    """Whether the pod tolerates the taint `node.kubernetes.io/unschedulable`."""
    return is_tolerated(UNSCHEDULABLE_TAINT, pod.spec.tolerations)


def is_schedulable_after_node_change(
    pod: PodInfo,  # noqa: ARG001 - hints share a signature
    old: Node | None,
    new: Node,
) -> QueueingHint:
    """Queue if the node is schedulable, and is new or was cordoned before."""
    was_closed = old is None or old.spec.unschedulable
    return QueueingHint.QUEUE if was_closed and not new.spec.unschedulable else QueueingHint.SKIP


def is_schedulable_after_pod_toleration_change(
    pod: PodInfo,
    old: PodInfo,  # noqa: ARG001 - hints share a signature
    new: PodInfo,
) -> QueueingHint:
    """Queue if the pod itself tolerates the cordon now; the plugin rejected it, so it did not."""
    accepts = new.uid == pod.uid and tolerates_cordon(new)
    return QueueingHint.QUEUE if accepts else QueueingHint.SKIP

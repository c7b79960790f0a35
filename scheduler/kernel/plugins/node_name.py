"""NodeName: a pod that names its node fits that node only.

A pod that names its node needs no scheduler; the filter matters when `explain` judges such a pod.

Extension points: Filter.
Events: a node is added.
Source: pkg/scheduler/framework/plugins/nodename/node_name.go (v1.36).
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import NODE_ADD, ClusterEventWithHint
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

REASONS: Final = (
    Reason("node(s) didn't match the requested node name", Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
)


class NodeName(FilterPlugin, EnqueueExtensions, SignPlugin):
    """Rejects every node except the one that the pod names."""

    NAME: ClassVar[str] = "NodeName"
    READS: ClassVar[Reads] = Reads.NODE

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(NODE_ADD),)

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """The node the pod names, if any."""
        return pod.node_name

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        if not pod.node_name:
            return None
        table = snapshot.table
        row = table.row_of.get(pod.node_name, -1)
        others: Bits = np.ones(table.size, np.uint64)
        if row >= 0:
            others[row] = 0
        return others[rows]

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return REASONS

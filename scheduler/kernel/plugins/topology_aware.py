"""TopologyPlacementGenerator: all members of a group run on nodes with the same value of a label.

Each value of the label that the group names is a placement. Running or assumed members restrict
the group to their value.

Extension points: PlacementGenerate.
Events: a node with the label is added, or its value changes. A member of the group is deleted, as
it may have tied the group to a domain.
Source: pkg/scheduler/framework/plugins/topologyaware/topology_placement.go (v1.36).
Differs: upstream registers no events.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    ObjectKind,
    QueueingHint,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import EnqueueExtensions
from scheduler.kernel.framework.placements import (
    ALL_NODES,
    PlacementGeneratePlugin,
    Placements,
)
from scheduler.kernel.framework.status import SUCCESS, Status, error
from scheduler.kernel.groups import PodGroups
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.label_columns import ABSENT


class TopologyPlacementGenerator(PlacementGeneratePlugin, EnqueueExtensions):
    """Makes a placement of each domain."""

    NAME: ClassVar[str] = "TopologyPlacementGenerator"
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = PodGroups.WATCHES

    def __init__(self, args: Any, handle: Handle) -> None:
        del args
        self._handle = handle
        handle.shared(PodGroups)

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_changes), self._after_node_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE), _after_pod_deletion
            ),
        )

    @override
    def generate_placements(
        self, pods: Sequence[PodInfo], snapshot: Snapshot
    ) -> tuple[Placements, Status]:
        known = self._handle.shared(PodGroups).of_pod(pods[0])
        if known is None or known.group is None:
            why = f'podgroup.scheduling.k8s.io "{pods[0].group_name}" not found'
            return ALL_NODES, error(why)
        key = known.group.topology_key
        if not key:
            return ALL_NODES, SUCCESS
        topology, values = snapshot.topology(key), snapshot.label_column(key).values
        if known.scheduled:
            found = _domain_of((*known.assigned.values(), *known.assumed.values()), key, snapshot)
            if isinstance(found, Status):
                return ALL_NODES, found
            numbers = np.array([values.get(found)], np.intp)
        else:
            counts = np.bincount(topology.ids, minlength=topology.count)
            counts[ABSENT] = 0
            numbers = np.flatnonzero(counts)
        return Placements(numbers, topology.ids, values.values), SUCCESS

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
        """Queue if the node is in another domain than before: it may complete that domain."""
        known = self._handle.shared(PodGroups).of_pod(pod)
        key = None if known is None or known.group is None else known.group.topology_key
        if not key or key not in new.metadata.labels:
            return QueueingHint.SKIP
        is_same = old is not None and old.metadata.labels.get(key) == new.metadata.labels[key]
        return QueueingHint.SKIP if is_same else QueueingHint.QUEUE


def _after_pod_deletion(pod: PodInfo, old: PodInfo, new: None) -> QueueingHint:
    """Queue if the deleted pod was a member of the group: only members tie it to a domain."""
    del new
    is_member = (old.namespace, old.group_name) == (pod.namespace, pod.group_name)
    return QueueingHint.QUEUE if is_member else QueueingHint.SKIP


def _domain_of(pods: Iterable[PodInfo], key: str, snapshot: Snapshot) -> str | Status:
    """The domain of the members, or a status if it is unknown."""
    domain: str | None = None
    for pod in pods:
        row = snapshot.table.row_of.get(pod.node_name)
        if row is None:
            return _unclear(
                f"getting node for pod {pod.key}: nodeinfo not found for node name "
                f'"{pod.node_name}"'
            )
        value = snapshot.node(row).metadata.labels.get(key)
        if value is None:
            return _unclear(f"no topology domain found for pod {pod.key}")
        if domain is not None and domain != value:
            return _unclear(f"more than 1 domain found for pod group: {domain}, {value}")
        domain = value
    return domain or ""


def _unclear(why: str) -> Status:
    return error(f"cannot determine domain for already scheduled pods: {why}")

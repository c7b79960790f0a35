"""NodePorts: a host port is taken by one pod of a node at a time.

Extension points: PreFilter, Filter.
Events: a pod with a conflicting host port is deleted; a node is added.
Source: pkg/scheduler/framework/plugins/nodeports/node_ports.go (v1.36).
"""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.host_ports import HostPort
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.counting import Counting, CountingFilterPlugin
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    NODE_ADD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.interface import (
    Bits,
    EnqueueExtensions,
    PreFilterPlugin,
    Reads,
    SignPlugin,
)
from scheduler.kernel.framework.obstacles import Obstacle, PortObstacle
from scheduler.kernel.framework.results import PreFilterResult, Reason
from scheduler.kernel.framework.status import SKIP, SUCCESS, Status
from scheduler.kernel.plugins.examples import pods_on
from scheduler.kernel.snapshot import Rows, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods
from scheduler.kernel.snapshot.row_counts import WILDCARD_IP

REASONS: Final = (Reason("node(s) didn't have free ports for the requested pod ports"),)

_WANTED: Final[StateKey[tuple[HostPort, ...]]] = StateKey("NodePorts/wanted")


class _Held(Counting):
    """Counts the pods that hold a wanted port."""

    def __init__(
        self,
        wanted: tuple[HostPort, ...],
        snapshot: Snapshot,
        rows: NDArray[np.intp],
        others: OtherPods,
    ) -> None:
        holders = _holders(wanted, snapshot)
        self._free_after = np.zeros(len(rows)) if holders is None else -holders[rows]
        """The minimum change of the number of holders."""
        held = [sum(conflict(w, h) for w in wanted for h in o.shape.host_ports) for o in others]
        self.weights = np.array([held], np.float64)

    @override
    def judge(self, at: Rows, changes: NDArray[np.float64]) -> Bits | None:
        taken = self.rejects(at, changes)
        return taken.astype(np.uint64) if taken.any() else None

    @override
    def rejects(self, at: Rows, changes: NDArray[np.float64]) -> NDArray[np.bool_]:
        taken: NDArray[np.bool_] = changes[0] > self._free_after[at]
        return taken


class NodePorts(PreFilterPlugin, CountingFilterPlugin, EnqueueExtensions, SignPlugin):
    """Rejects nodes on which a wanted host port is taken."""

    NAME: ClassVar[str] = "NodePorts"
    READS: ClassVar[Reads] = Reads.PODS

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.DELETE), is_schedulable_after_pod_deleted
            ),
            ClusterEventWithHint(NODE_ADD),
        )

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        """The host ports of the pod."""
        return pod.shape.host_ports

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        """Skip pods without host ports."""
        if not pod.shape.host_ports:
            return None, SKIP
        state.write(_WANTED, pod.shape.host_ports)
        return None, SUCCESS

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        holders = _holders(state.read(_WANTED), snapshot)
        return None if holders is None else (holders[rows] > 0).astype(np.uint64)

    @override
    def counting(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: NDArray[np.intp],
        others: OtherPods,
    ) -> Counting:
        """See `CountingFilterPlugin.counting`.

        Differs: upstream keeps a set of ports per node, so the removal of either of two pods with
        the same port frees it. Here that of the last one does. Filters admit no two such pods.
        """
        return _Held(state.read(_WANTED), snapshot, rows, others)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return REASONS

    @override
    def obstacles(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Sequence[Obstacle]:
        """The pods that hold the ports; see `FilterPlugin.obstacles`."""
        found = []
        for port in dict.fromkeys(pod.shape.host_ports):
            holders = _holders((port,), snapshot)
            held = np.zeros(0, np.intp) if holders is None else rows[holders[rows] > 0]
            if holders is not None and len(held):
                examples = pods_on(snapshot, held, partial(_holds, port))
                number = int(holders[held].sum())
                about = port.port, port.protocol, port.host_ip
                found.append(PortObstacle(*about, len(held), number, examples))
        return found


def _holds(port: HostPort, pod: PodInfo) -> bool:
    return any(conflict(port, held) for held in pod.shape.host_ports)


def _holders(wanted: tuple[HostPort, ...], snapshot: Snapshot) -> NDArray[np.float64] | None:
    """Number of pods that hold a wanted port, by row; None when all are free everywhere."""
    holders: NDArray[np.float64] | None = None
    for port in wanted:
        column = snapshot.ports.conflicts(port, snapshot.table.size)
        if column is not None:
            holders = column if holders is None else holders + column
    return holders


def is_schedulable_after_pod_deleted(
    pod: PodInfo,
    old: PodInfo,
    new: None,  # noqa: ARG001 - hints share a signature
) -> QueueingHint:
    """Queue if the deleted pod held, or was nominated with, a port that the pod wants."""
    if not (old.node_name or old.pod.status.nominated_node_name):
        return QueueingHint.SKIP
    frees = any(
        conflict(wanted, held) for wanted in pod.shape.host_ports for held in old.shape.host_ports
    )
    return QueueingHint.QUEUE if frees else QueueingHint.SKIP


def conflict(one: HostPort, other: HostPort) -> bool:
    """Whether two host ports cannot be on one node: the wildcard address clashes with every other.

    Source: k8s.io/kube-scheduler framework/types.go HostPortInfo.CheckConflict.
    """
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return one.host_ip == other.host_ip or WILDCARD_IP in (one.host_ip, other.host_ip)

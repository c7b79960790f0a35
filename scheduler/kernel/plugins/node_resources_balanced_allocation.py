"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod makes more evenly used.

Extension points: PreScore, Score.
Source: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go (v1.36).
"""

from collections.abc import Hashable
from typing import ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.api.resources import is_scalar_resource
from scheduler.config.args import NodeResourcesBalancedAllocationArgs
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    MAX_NODE_SCORE,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.framework.status import SKIP, SUCCESS, Status
from scheduler.kernel.plugins.columns import count_of
from scheduler.kernel.plugins.resource_columns import ResourceColumns, amounts_of, is_counted
from scheduler.kernel.plugins.resources_of_devices import ResourcesOfDevices, ScoredDevices
from scheduler.kernel.snapshot import Mask, Rows, Snapshot

DEFAULT_ARGS: Final = NodeResourcesBalancedAllocationArgs()

_HALF: Final = MAX_NODE_SCORE / 2
_PAIR: Final = 2
"""For two resources the standard deviation is half their distance."""


class BalanceState(msgspec.Struct, frozen=True, eq=False):
    """The input of the balance score for one pod.

    Attributes:
        names: the resources that count: some node offers them, or devices serve them.
        columns: of the resources that nodes offer.
        devices: of the resources that devices serve.
        steps: the additions to the use of a node, without and with the pod: shape
            (2, resources, 1).
    """

    names: tuple[str, ...]
    columns: ResourceColumns
    devices: ScoredDevices
    steps: NDArray[np.float64]


_STATE: Final[StateKey[BalanceState]] = StateKey("NodeResourcesBalancedAllocation/state")


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin, SignPlugin):
    """Scores the change that the pod makes to the balance of a node."""

    NAME: ClassVar[str] = "NodeResourcesBalancedAllocation"
    ARGS: ClassVar[type] = NodeResourcesBalancedAllocationArgs
    READS: ClassVar[Reads] = Reads.SUMS
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = ClaimCatalog.WATCHES

    def __init__(
        self, args: NodeResourcesBalancedAllocationArgs = DEFAULT_ARGS, handle: Handle | None = None
    ) -> None:
        super().__init__(args, handle)
        self._of_devices = ResourcesOfDevices(handle)
        self._names = [r.name for r in args.resources if is_counted(r.name)]

    @override
    def sign(self, pod: PodInfo) -> Hashable | None:
        """Return the pod's requests; None if devices count, as their use is not in the row."""
        if not self._of_devices.of(pod).isdisjoint(self._names):
            return None
        return frozenset(pod.shape.occupied.items())

    @override
    def signs_under(self) -> Hashable:
        """The version of the mapping from device classes to extended resources."""
        return self._of_devices.version

    @override
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods that request none of the resources: all of them would prefer the same node."""
        if not self._concerns(pod):
            return SKIP
        self._prepare(state, pod, snapshot)
        return SUCCESS

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score each row from 50 to 100; 75 where the pod does not change the balance."""
        prepared = state.get(_STATE)
        if prepared is None or prepared.columns.layout is not snapshot.table.sums.layout:
            if not self._concerns(pod):
                return np.zeros(count_of(rows, snapshot.table.size))
            prepared = self._prepare(state, pod, snapshot)
        columns, devices = prepared.columns, prepared.devices
        allocatable = columns.allocatable(snapshot.table, rows)
        requested = columns.requested(snapshot.table, rows)
        if devices:
            names = prepared.names
            allocatable = columns.spread(names, allocatable)
            requested = columns.spread(names, requested)
            allocatable, requested = devices.added(names, allocatable, requested, rows)
        used = requested + prepared.steps
        if len(prepared.names) == _PAIR and np.count_nonzero(allocatable) == allocatable.size:
            deviation = _deviation_of_pair(used, allocatable)
        else:
            deviation = _deviation(used, allocatable)
        balance = np.floor((1 - deviation) * MAX_NODE_SCORE)
        scores: Scores = _HALF + np.trunc((_HALF + balance[1] - balance[0]) / 2)
        return scores

    def _concerns(self, pod: PodInfo) -> bool:
        return any(pod.shape.occupied.get(name) for name in self._names)

    def _prepare(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> BalanceState:
        asked = pod.shape.occupied
        names = [name for name in self._names if asked.get(name) or not is_scalar_resource(name)]
        columns = ResourceColumns(snapshot.table, names, asked)
        devices = self._of_devices.scored(pod, names, snapshot)
        counted = tuple(name for name in names if name in columns.names or name in devices)
        amounts = amounts_of(counted, asked)
        steps = np.stack((np.zeros_like(amounts), amounts))
        prepared = BalanceState(counted, columns, devices, steps)
        state.write(_STATE, prepared)
        return prepared


def _deviation_of_pair(
    used: NDArray[np.float64], allocatable: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The standard deviation of two used shares: shape (2, rows).

    Args:
        used: shape (2, 2, rows): without and with the pod, by resource.
        allocatable: shape (2, rows), nowhere 0.
    """
    used /= allocatable
    np.minimum(used, 1, out=used)
    distance: NDArray[np.float64] = used[:, 0] - used[:, 1]
    distance /= _PAIR
    return np.abs(distance, out=distance)


def _deviation(used: NDArray[np.float64], allocatable: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard deviation of a node's utilization over resources: shape (2, rows).

    It adds up resources one by one, in order, so that floats round exactly as upstream's.
    """
    counted = allocatable > 0
    shares = np.minimum(used / np.maximum(allocatable, 1), 1)
    count = counted.sum(axis=0)
    divisor = np.maximum(count, 1)
    mean = _sum(shares, counted) / divisor
    deviation = np.sqrt(_sum((shares - mean[:, None]) ** 2, counted) / divisor)
    return np.where(count == _PAIR, _half_distance(shares, counted), deviation)


def _sum(shares: NDArray[np.float64], counted: Mask) -> NDArray[np.float64]:
    total = np.zeros((shares.shape[0], shares.shape[2]))
    for resource, counts in enumerate(counted):
        total += shares[:, resource] * counts
    return total


def _half_distance(shares: NDArray[np.float64], counted: Mask) -> NDArray[np.float64]:
    """Half the distance of the first and the second resource that counts."""
    is_second = counted & (counted.cumsum(axis=0) == _PAIR)
    distance = _sum(shares, counted & ~is_second) - _sum(shares, is_second)
    half: NDArray[np.float64] = np.abs(distance / _PAIR)
    return half

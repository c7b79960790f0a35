"""One row per node, one array per fact.

Units: cpu in thousandths of a core, memory and ephemeral storage in bytes, others in units; all as
float64, which holds every whole number below 2**53 exactly.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node, Taint
from scheduler.api.pods import PodInfo, PodShape
from scheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, whole_units
from scheduler.snapshot.interning import Interner

Rows: TypeAlias = slice | NDArray[np.intp]
"""Which rows a column operation is about: a slice over all of them, or indices."""

Floats: TypeAlias = NDArray[np.float64]

CPU_COLUMN: Final = 0
MEMORY_COLUMN: Final = 1

_MIN_CAPACITY: Final = 64


class NodeTable:
    """The columns of the snapshot. Read-only for everybody but the snapshot.

    Rows of deleted nodes are reused; `alive` says which rows are nodes. All arrays have the same
    capacity; only the first `size` rows have ever been used, and views end there.

    Attributes:
        size: rows in use, dead ones included.
        count: nodes.
        names: by row, the node's name ("" when dead).
        infos: by row, the node with its pods.
        row_of: row by node name.
        resources: column index by resource name, in the order of `allocatable`.
    """

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self.capacity = _MIN_CAPACITY
        self.names: list[str] = []
        self.infos: list[NodeInfo | None] = []
        self.row_of: dict[str, int] = {}
        self.resources = Interner[str]((CPU, MEMORY, EPHEMERAL_STORAGE))
        self.taint_sets = Interner[tuple[Taint, ...]](((),))
        self.feature_sets = Interner[frozenset[str]]((frozenset(),))
        self._free: list[int] = []
        self._alive = np.zeros(self.capacity, np.bool_)
        self._unschedulable = np.zeros(self.capacity, np.bool_)
        self._taint_set = np.zeros(self.capacity, np.int32)
        self._feature_set = np.zeros(self.capacity, np.int32)
        self._max_pods = np.zeros(self.capacity)
        self._pod_count = np.zeros(self.capacity)
        self._allocatable = np.zeros((len(self.resources), self.capacity))
        self._requested = np.zeros((len(self.resources), self.capacity))
        self._non_zero_requested = np.zeros((2, self.capacity))

    # --- columns --------------------------------------------------------------------------------

    @property
    def all_rows(self) -> slice:
        """Every row that has been used, dead ones included."""
        return slice(0, self.size)

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which rows are nodes."""
        return self._alive[: self.size]

    @property
    def unschedulable(self) -> NDArray[np.bool_]:
        """spec.unschedulable."""
        return self._unschedulable[: self.size]

    @property
    def taint_set(self) -> NDArray[np.int32]:
        """Which of `taint_sets` the node has."""
        return self._taint_set[: self.size]

    @property
    def feature_set(self) -> NDArray[np.int32]:
        """Which of `feature_sets` the node declares."""
        return self._feature_set[: self.size]

    @property
    def max_pods(self) -> Floats:
        """Allocatable pods."""
        return self._max_pods[: self.size]

    @property
    def pod_count(self) -> Floats:
        """Pods on the node."""
        return self._pod_count[: self.size]

    @property
    def allocatable(self) -> Floats:
        """Shape (resources, rows)."""
        return self._allocatable[:, : self.size]

    @property
    def requested(self) -> Floats:
        """What the pods on the node take. Shape (resources, rows)."""
        return self._requested[:, : self.size]

    @property
    def non_zero_requested(self) -> Floats:
        """Cpu and memory with defaults for containers without requests. Shape (2, rows)."""
        return self._non_zero_requested[:, : self.size]

    def live_rows(self) -> NDArray[np.intp]:
        """The rows that are nodes."""
        return np.flatnonzero(self.alive)

    # --- changes --------------------------------------------------------------------------------

    def set_node(self, info: NodeInfo, node: Node) -> int:
        """Take over a node object; returns its row.

        Raises:
            QuantityError: an allocatable quantity does not parse.
        """
        allocatable = whole_units(node.status.allocatable)
        row = self.row_of.get(info.name)
        if row is None:
            row = self._new_row(info)
        for name in allocatable:
            if name != PODS:
                self.resource_column(name)
        self._allocatable[:, row] = [allocatable.get(name, 0) for name in self.resources.values]
        self._max_pods[row] = allocatable.get(PODS, 0)
        self._unschedulable[row] = node.spec.unschedulable
        self._taint_set[row] = self.taint_sets.intern(node.spec.taints)
        self._feature_set[row] = self.feature_sets.intern(frozenset(node.status.declared_features))
        return row

    def remove_node(self, row: int) -> None:
        """Free a row; its pods have been removed before."""
        del self.row_of[self.names[row]]
        self.names[row] = ""
        self.infos[row] = None
        self._alive[row] = False
        self._allocatable[:, row] = 0
        self._max_pods[row] = 0
        self._requested[:, row] = 0
        self._non_zero_requested[:, row] = 0
        self._pod_count[row] = 0
        self.count -= 1
        self._free.append(row)

    def add_pod(self, row: int, shape: PodShape, sign: int) -> None:
        """Count a pod in (`sign` 1) or out (-1)."""
        requested = self._requested
        for name, amount in shape.occupied.items():
            column = self.resources.get(name)
            if column is None:
                column = self.resource_column(name)
                requested = self._requested
            requested[column, row] += sign * amount
        cpu, memory = shape.non_zero_occupied
        non_zero = self._non_zero_requested
        non_zero[0, row] += sign * cpu
        non_zero[1, row] += sign * memory
        self._pod_count[row] += sign

    def resource_column(self, name: str) -> int:
        """The column of a resource, made when it is new."""
        column = self.resources.intern(name)
        if column >= len(self._allocatable):
            blank = np.zeros((column + 1 - len(self._allocatable), self.capacity))
            self._allocatable = np.vstack((self._allocatable, blank))
            self._requested = np.vstack((self._requested, blank))
        return column

    def fork(self) -> "NodeTable":
        """A copy whose usage columns can be changed without touching this table."""
        copy = object.__new__(NodeTable)
        copy.__dict__.update(self.__dict__)
        # A resource that only a pod on the copy asks for must not become known to the original.
        copy.resources = Interner(self.resources.values)
        copy.infos = self.infos.copy()
        copy._requested = self._requested.copy()
        copy._non_zero_requested = self._non_zero_requested.copy()
        copy._pod_count = self._pod_count.copy()
        return copy

    def show_pod(self, row: int, pod: PodInfo, sign: int) -> None:
        """Let the node of the row have a pod more, or less, in this (forked) table only."""
        old = self.infos[row]
        if old is None:
            raise KeyError(row)
        info = self.infos[row] = NodeInfo(old.name)
        info.node = old.node
        info.pods = {**old.pods, pod.uid: pod}
        if sign < 0:
            del info.pods[pod.uid]
        info.generation = old.generation

    def _new_row(self, info: NodeInfo) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = info.name
            self.infos[row] = info
        else:
            row = self.size
            if row == self.capacity:
                self._grow()
            self.size += 1
            self.names.append(info.name)
            self.infos.append(info)
        self.row_of[info.name] = row
        self._alive[row] = True
        self.count += 1
        return row

    def _grow(self) -> None:
        self.capacity *= 2
        for name in (
            "_alive",
            "_unschedulable",
            "_taint_set",
            "_feature_set",
            "_max_pods",
            "_pod_count",
            "_allocatable",
            "_requested",
            "_non_zero_requested",
        ):
            old = getattr(self, name)
            new = np.zeros((*old.shape[:-1], self.capacity), old.dtype)
            new[..., : old.shape[-1]] = old
            setattr(self, name, new)

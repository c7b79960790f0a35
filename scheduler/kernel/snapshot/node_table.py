"""One row per node, one array per fact.

Units: cpu in thousandths of a core, memory and ephemeral storage in bytes, others in units; all as
float64, which holds every whole number below 2**53 exactly. Larger ones are in `Amounts.oversized`.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node, Taint
from scheduler.api.pods import PodInfo, PodShape
from scheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, whole_units
from scheduler.kernel.snapshot.amounts import Amounts
from scheduler.kernel.snapshot.changes import Change, PodAdded, PodRelabelled, PodRemoved
from scheduler.kernel.snapshot.interning import InternedColumn, Interner

Rows: TypeAlias = slice | NDArray[np.intp]
"""Which rows a column operation is about: a slice over all of them or over one, or indices."""

Floats: TypeAlias = NDArray[np.float64]

CPU_COLUMN: Final = 0
MEMORY_COLUMN: Final = 1

_CORE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_MIN_CAPACITY: Final = 64
_SPARE_LINES: Final = 8
"""Columns of resources that no node offers any more and that are not worth compacting."""

_ARRAYS: Final = ("_alive", "_unschedulable", "_max_pods", "_pod_count")


class NodeTable:
    """The columns of the snapshot. Only the snapshot writes to them.

    Rows of deleted nodes are reused; `alive` tells which rows are nodes. All arrays have the same
    capacity. Only the first `size` rows have ever been used, and views end there.

    A resource has a column when a node offers some of it. Of any other resource every node has 0.
    What pods on nodes hold of it is kept aside until a node offers it.

    Attributes:
        size: rows in use, dead ones included.
        count: nodes.
        names: by row, the node's name ("" when dead).
        infos: by row, the node with its pods as they are now; the cache's own, except in a fork
            that is detached.
        nodes: by row, the node object that the columns speak of.
        row_of: row by node name.
        resources: column index by resource name, in the order of `allocatable`.
        layout: another object whenever a resource got a column or columns were numbered anew.
    """

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self.capacity = _MIN_CAPACITY
        self.names: list[str] = []
        self.infos: list[NodeInfo | None] = []
        self.nodes: list[Node | None] = []
        self.row_of: dict[str, int] = {}
        self.resources = Interner[str](_CORE)
        self.layout = object()
        self._free: list[int] = []
        self._taint_sets = InternedColumn[tuple[Taint, ...]]((), self.capacity)
        self._feature_sets = InternedColumn[frozenset[str]](frozenset(), self.capacity)
        self._alive = np.zeros(self.capacity, np.bool_)
        self._unschedulable = np.zeros(self.capacity, np.bool_)
        self._max_pods = np.zeros(self.capacity)
        self._pod_count = np.zeros(self.capacity)
        self._allocatable = Amounts(len(_CORE), self.capacity)
        self._requested = Amounts(len(_CORE), self.capacity)
        self._non_zero = Amounts(2, self.capacity)
        self._offering = [0] * len(_CORE)
        self._unoffered: dict[str, dict[int, int]] = {}
        self._shown: set[int] = set()
        self._owns_infos = False
        self._name_ranks: NDArray[np.intp] | None = None

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
    def taint_sets(self) -> Interner[tuple[Taint, ...]]:
        """The distinct lists of taints; another object once they are numbered anew."""
        return self._taint_sets.values

    @property
    def taint_set(self) -> NDArray[np.intp]:
        """Which of `taint_sets` the node has."""
        return self._taint_sets.ids(self.size)

    @property
    def feature_sets(self) -> Interner[frozenset[str]]:
        """The distinct sets of features; another object once they are numbered anew."""
        return self._feature_sets.values

    @property
    def feature_set(self) -> NDArray[np.intp]:
        """Which of `feature_sets` the node declares."""
        return self._feature_sets.ids(self.size)

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
        return self._allocatable.floats[: len(self.resources.values), : self.size]

    @property
    def requested(self) -> Floats:
        """What the pods on the node take. Shape (resources, rows)."""
        return self._requested.floats[: len(self.resources.values), : self.size]

    @property
    def non_zero_requested(self) -> Floats:
        """Cpu and memory with defaults for containers without requests. Shape (2, rows)."""
        return self._non_zero.floats[:, : self.size]

    def live_rows(self) -> NDArray[np.intp]:
        """The rows that are nodes."""
        return np.flatnonzero(self.alive)

    def name_ranks(self) -> NDArray[np.intp]:
        """By row, how many nodes come before it by name; of rows that are no nodes, anything.

        Not to be written to; another object once a node came or went.

        Cost: O(n log n), once until a node comes or goes.
        """
        if self._name_ranks is None:
            self._name_ranks = np.zeros(self.size, np.intp)
            rows = [self.row_of[name] for name in sorted(self.row_of)]
            self._name_ranks[rows] = np.arange(len(rows))
        return self._name_ranks

    def first_by_name(self, rows: NDArray[np.intp]) -> str:
        """The name that comes first among those of some nodes."""
        return self.names[int(rows[self.name_ranks()[rows].argmin()])]

    # --- exact numbers --------------------------------------------------------------------------

    @property
    def has_oversized(self) -> bool:
        """Whether there are any `oversized_cells`."""
        return bool(self._allocatable.oversized or self._requested.oversized)

    def oversized_cells(self) -> set[tuple[int, int]]:
        """Resource columns and rows where what is there or taken is more than float64 holds."""
        return {*self._allocatable.oversized, *self._requested.oversized}

    def exact_allocatable(self, column: int, row: int) -> int:
        """What the node has of a resource."""
        return self._allocatable.at(column, row)

    def exact_requested(self, column: int, row: int) -> int:
        """What the pods on the node take of a resource."""
        return self._requested.at(column, row)

    def sums_of(self, row: int) -> tuple[dict[str, int], tuple[int, int], int]:
        """All sums over the pods of a row.

        Returns:
            What they take by resource (what they take nothing of is left out), cpu and memory with
            defaults, and their number.
        """
        taken = {name: self._requested.at(i, row) for i, name in enumerate(self.resources.values)}
        taken.update((name, rows.get(row, 0)) for name, rows in self._unoffered.items())
        non_zero = (self._non_zero.at(0, row), self._non_zero.at(1, row))
        return {n: a for n, a in taken.items() if a}, non_zero, int(self._pod_count[row])

    # --- changes --------------------------------------------------------------------------------

    def set_node(self, info: NodeInfo, node: Node) -> int:
        """Take over a node object; returns its row.

        Raises:
            QuantityError: an allocatable quantity does not parse.
        """
        allocatable = whole_units(node.status.allocatable)
        row = self.row_of.get(info.name)
        if row is None:
            row = self._new_row(info.name)
        self.infos[row] = self._own_info(row, node) if self._owns_infos else info
        self.nodes[row] = node
        self._max_pods[row] = allocatable.pop(PODS, 0)
        self._set_allocatable(row, {name: a for name, a in allocatable.items() if a})
        self._unschedulable[row] = node.spec.unschedulable
        self._taint_sets.set(row, node.spec.taints, self.capacity)
        self._feature_sets.set(row, frozenset(node.status.declared_features), self.capacity)
        return row

    def remove_node(self, row: int) -> None:
        """Free a row; its pods have been removed before."""
        del self.row_of[self.names[row]]
        self.names[row] = ""
        self._name_ranks = None
        self.infos[row] = None
        self.nodes[row] = None
        self._alive[row] = False
        self._max_pods[row] = 0
        self._unschedulable[row] = False
        self._set_allocatable(row, {})
        self._taint_sets.set(row, (), self.capacity)
        self._feature_sets.set(row, frozenset(), self.capacity)
        self._requested.clear_row(row)
        self._non_zero.clear_row(row)
        self._pod_count[row] = 0
        self.count -= 1
        self._free.append(row)

    def add_pod(self, row: int, shape: PodShape, sign: int) -> None:
        """Count a pod in (`sign` 1) or out (-1)."""
        for name, amount in shape.occupied.items():
            column = self.resources.get(name)
            if column is None:
                self._take_unoffered(name, row, sign * amount)
            else:
                self._requested.add(column, row, sign * amount)
        for line, amount in enumerate(shape.non_zero_occupied):
            self._non_zero.add(line, row, sign * amount)
        self._pod_count[row] += sign

    def add_pods(self, rows: Sequence[int], shapes: Sequence[PodShape]) -> None:
        """Count many pods in, each on its row.

        Cost: a sum per resource over all of them, where `add_pod` takes one per pod.
        """
        numbers: dict[PodShape, int] = {}
        kinds = np.array([numbers.setdefault(shape, len(numbers)) for shape in shapes], np.intp)
        at = np.array(rows, np.intp)
        for column, name in enumerate(self.resources.values):
            amounts = [shape.occupied.get(name, 0) for shape in numbers]
            if any(amounts):
                self._requested.add_all(column, at, kinds, amounts)
        # How many names there are of resources that no node offers is for tenants to say.
        unoffered = [shape.occupied.keys() - self.resources.values for shape in numbers]
        if any(unoffered):
            for row, shape, kind in zip(rows, shapes, kinds.tolist(), strict=True):
                for name in unoffered[kind]:
                    self._take_unoffered(name, row, shape.occupied[name])
        for line in range(len(self._non_zero.floats)):
            amounts = [shape.non_zero_occupied[line] for shape in numbers]
            self._non_zero.add_all(line, at, kinds, amounts)
        np.add.at(self._pod_count, at, 1)

    def picked(self, rows: NDArray[np.intp], shape: PodShape, times: Floats) -> "NodeTable | None":
        """The sums of some rows as they would be with more pods of a shape, as a table.

        It is for looking at sums and at what nodes offer of resources, and only until this table
        changes.

        Args:
            rows: which, in order; one may come again.
            shape: of the pods.
            times: by place in `rows`, how many pods more.

        Returns:
            None where sums would not be exact.
        """
        offered = [0] * len(self.resources.values)
        occupied = [shape.occupied.get(name, 0) for name in self.resources.values]
        allocatable = self._allocatable.picked(rows, offered, times)
        requested = self._requested.picked(rows, occupied, times)
        non_zero = self._non_zero.picked(rows, shape.non_zero_occupied, times)
        if allocatable is None or requested is None or non_zero is None:
            return None
        copy = object.__new__(NodeTable)
        copy.__dict__.update(self.__dict__)
        copy.size = len(rows)
        copy._allocatable, copy._requested, copy._non_zero = allocatable, requested, non_zero
        copy._alive, copy._max_pods = self._alive.take(rows), self._max_pods.take(rows)
        copy._pod_count = self._pod_count.take(rows) + times
        return copy

    def fork(self) -> "NodeTable":
        """A copy on which pods may come and go; for anything else it must be `detach`ed first."""
        copy = object.__new__(NodeTable)
        copy.__dict__.update(self.__dict__)
        copy.infos = self.infos.copy()
        copy._shown = self._shown.copy()
        copy._requested = self._requested.copy()
        copy._non_zero = self._non_zero.copy()
        copy._pod_count = self._pod_count.copy()
        copy._unoffered = {name: rows.copy() for name, rows in self._unoffered.items()}
        return copy

    def detach(self, changes: Sequence[Change]) -> None:
        """Make a fork's own what it has shared with its original so far: what nodes are.

        Args:
            changes: what the cache has done meanwhile to the nodes it shares.
        """
        own = self._shown
        self.infos = [self._frozen(row) for row in range(self.size)]
        for change in reversed(changes):
            if isinstance(change, PodAdded | PodRemoved):
                row = self.row_of.get(change.pod.node_name)
                if row is not None and row not in own:
                    self._show(row, change.pod, 1 if isinstance(change, PodRemoved) else -1)
            elif isinstance(change, PodRelabelled):
                row = self.row_of.get(change.old.node_name)
                if row is not None and row not in own:
                    self._show(row, change.old, 1)
        self._shown = set()
        self._owns_infos = True
        self.nodes = self.nodes.copy()
        self.names = self.names.copy()
        self.row_of = self.row_of.copy()
        self.resources = Interner(self.resources.values)
        self._free = self._free.copy()
        self._offering = self._offering.copy()
        self._taint_sets = self._taint_sets.copy()
        self._feature_sets = self._feature_sets.copy()
        self._allocatable = self._allocatable.copy()
        self._alive = self._alive.copy()
        self._unschedulable = self._unschedulable.copy()
        self._max_pods = self._max_pods.copy()

    def show_pod(self, row: int, pod: PodInfo, sign: int) -> None:
        """Let the node of a row have a pod more, or less; the cache does that for the original."""
        if not (self._owns_infos or row in self._shown):
            self.infos[row] = self._frozen(row)
            self._shown.add(row)
        self._show(row, pod, sign)

    @property
    def owns_infos(self) -> bool:
        """Whether `infos` follow the changes, instead of the cache."""
        return self._owns_infos

    def _show(self, row: int, pod: PodInfo, sign: int) -> None:
        info = self.infos[row]
        if info is None:
            raise KeyError(row)
        if sign > 0:
            info.pods[pod.uid] = pod
        else:
            info.pods.pop(pod.uid, None)

    def _own_info(self, row: int, node: Node) -> NodeInfo:
        known = self.infos[row]
        info = NodeInfo(node.metadata.name)
        info.node = node
        info.pods = {} if known is None else known.pods
        return info

    def _frozen(self, row: int) -> NodeInfo | None:
        old = self.infos[row]
        if old is None or row in self._shown:
            return old
        info = NodeInfo(old.name)
        info.node = self.nodes[row]
        info.pods = old.pods.copy()
        return info

    def _set_allocatable(self, row: int, offered: dict[str, int]) -> None:
        for name in offered:
            if self.resources.get(name) is None:
                self._new_column(name)
        for column, name in enumerate(self.resources.values):
            amount = offered.get(name, 0)
            if not amount and not self._offering[column]:
                continue
            before = self._allocatable.at(column, row)
            if amount != before:
                self._allocatable.set(column, row, amount)
                self._offering[column] += bool(amount) - bool(before)
        unused = self._offering[len(_CORE) :].count(0)
        if unused > _SPARE_LINES and 2 * unused > len(self.resources):
            self._drop_unused_columns()

    def _new_column(self, name: str) -> None:
        column = self.resources.intern(name)
        if column >= len(self._allocatable.floats):
            self._allocatable.fit(2 * column, self.capacity)
            self._requested.fit(2 * column, self.capacity)
        self._offering.append(0)
        for row, amount in self._unoffered.pop(name, {}).items():
            self._requested.set(column, row, amount)
        self.layout = object()

    def _drop_unused_columns(self) -> None:
        """Give up the columns of resources that no node offers any more."""
        kept = [i for i in range(len(self.resources)) if self._offering[i] or i < len(_CORE)]
        for column in sorted(set(range(len(self.resources))).difference(kept)):
            name = self.resources.values[column]
            for row in np.flatnonzero(self._requested.floats[column]).tolist():
                self._take_unoffered(name, row, self._requested.at(column, row))
        self._allocatable.keep_lines(kept, len(kept) + _SPARE_LINES)
        self._requested.keep_lines(kept, len(kept) + _SPARE_LINES)
        self._offering = [self._offering[column] for column in kept]
        self.resources = Interner(self.resources.values[column] for column in kept)
        self.layout = object()

    def _take_unoffered(self, name: str, row: int, amount: int) -> None:
        rows = self._unoffered.setdefault(name, {})
        taken = rows.get(row, 0) + amount
        if taken:
            rows[row] = taken
        else:
            rows.pop(row, None)
        if not rows:
            del self._unoffered[name]

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self.size
            if row == self.capacity:
                self._grow()
            self.size += 1
            self.names.append(name)
            self.infos.append(None)
            self.nodes.append(None)
        self.row_of[name] = row
        self._name_ranks = None
        self._alive[row] = True
        self.count += 1
        return row

    def _grow(self) -> None:
        self.capacity *= 2
        for name in _ARRAYS:
            old = getattr(self, name)
            new = np.zeros(self.capacity, old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
        for amounts in (self._allocatable, self._requested, self._non_zero):
            amounts.fit(len(amounts.floats), self.capacity)

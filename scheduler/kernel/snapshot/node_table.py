"""One row per node, one array per fact.

Source of the order: kubernetes pkg/scheduler/backend/cache/node_tree.go; component-helpers
node/topology/helpers.go GetZoneKey (v1.36).
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node, Taint
from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo
from scheduler.api.resources import whole_units
from scheduler.kernel.snapshot.interning import InternedColumn, Interner
from scheduler.kernel.snapshot.resource_sums import Floats, ResourceSums

Indices: TypeAlias = NDArray[np.intp]
"""Some rows, as their numbers."""
Mask: TypeAlias = NDArray[np.bool_]
"""Some rows, as yes or no for each."""
Rows: TypeAlias = slice | Indices
"""The rows of a column operation: a slice over all of them or over one, or indices."""

_MIN_CAPACITY: Final = 64
_REGION_KEYS: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONE_KEYS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


class NodeTable:
    """The columns of the snapshot. Only the snapshot writes to them.

    Rows of deleted nodes are reused; `alive` marks the rows that are nodes. All arrays have one
    capacity. Only the first `size` rows have ever been used, and views end there.

    Attributes:
        size: rows in use, dead ones included.
        count: nodes.
        names: by row, the node's name ("" when dead).
        infos: by row, the node with its present pods; the cache's object, except in a copy.
        nodes: by row, the node object that the columns describe.
        row_of: row by node name.
        sums: allocatable and requested resources.
        owns_infos: whether the table updates `infos` itself, instead of the cache.
    """

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self.capacity = _MIN_CAPACITY
        self.names: list[str] = []
        self.infos: list[NodeInfo | None] = []
        self.nodes: list[Node | None] = []
        self.row_of: dict[str, int] = {}
        self.sums = ResourceSums(self.capacity)
        self.owns_infos = False
        self._free: list[int] = []
        self._taint_sets = InternedColumn[tuple[Taint, ...]]((), self.capacity)
        self._feature_sets = InternedColumn[frozenset[str]](frozenset(), self.capacity)
        self._alive = np.zeros(self.capacity, np.bool_)
        self._unschedulable = np.zeros(self.capacity, np.bool_)
        self._name_ranks: NDArray[np.intp] | None = None
        self._order: NDArray[np.intp] | None = None

    # --- columns --------------------------------------------------------------------------------

    @property
    def all_rows(self) -> slice:
        """Every row that has been used, dead ones included."""
        return slice(0, self.size)

    @property
    def alive(self) -> NDArray[np.bool_]:
        """The rows that are nodes, as a mask."""
        return self._alive[: self.size]

    @property
    def unschedulable(self) -> NDArray[np.bool_]:
        """spec.unschedulable."""
        return self._unschedulable[: self.size]

    @property
    def taint_sets(self) -> Interner[tuple[Taint, ...]]:
        """The distinct lists of taints; another object once they are renumbered."""
        return self._taint_sets.values

    @property
    def taint_set(self) -> NDArray[np.intp]:
        """The id of each node's list of taints in `taint_sets`."""
        return self._taint_sets.ids(self.size)

    @property
    def feature_sets(self) -> Interner[frozenset[str]]:
        """The distinct sets of features; another object once they are renumbered."""
        return self._feature_sets.values

    @property
    def feature_set(self) -> NDArray[np.intp]:
        """The id of each node's set of declared features in `feature_sets`."""
        return self._feature_sets.ids(self.size)

    @property
    def max_pods(self) -> Floats:
        """Allocatable pods."""
        return self.sums.max_pods[: self.size]

    @property
    def pod_count(self) -> Floats:
        """Pods on the node."""
        return self.sums.pod_count[: self.size]

    @property
    def resources(self) -> Interner[str]:
        """Line by resource name, in the order of `allocatable`."""
        return self.sums.resources

    @property
    def allocatable(self) -> Floats:
        """Shape (resources, rows)."""
        return self.sums.allocatable[:, : self.size]

    @property
    def requested(self) -> Floats:
        """Resources requested by the pods on each node. Shape (resources, rows)."""
        return self.sums.requested[:, : self.size]

    def live_rows(self) -> NDArray[np.intp]:
        """The rows that are nodes."""
        return np.flatnonzero(self.alive)

    def name_ranks(self) -> NDArray[np.intp]:
        """The rank of each row by node name; undefined for rows that are no nodes.

        Read-only; another object once a node is added or deleted.

        Cost: O(n log n) for the first call after that.
        """
        if self._name_ranks is None:
            self._name_ranks = np.zeros(self.size, np.intp)
            rows = [self.row_of[name] for name in sorted(self.row_of)]
            self._name_ranks[rows] = np.arange(len(rows))
        return self._name_ranks

    def first_by_name(self, rows: NDArray[np.intp]) -> str:
        """The name that comes first among those of some nodes."""
        return self.names[int(rows[self.name_ranks()[rows].argmin()])]

    def first_names(self, rows: NDArray[np.intp], most: int) -> tuple[str, ...]:
        """Return the first names among those of some nodes, at most `most`, in order."""
        ranks = self.name_ranks()[rows]
        if len(rows) > most:
            foremost = np.argpartition(ranks, most)[:most]
            rows, ranks = rows[foremost], ranks[foremost]
        return tuple(self.names[row] for row in rows[np.argsort(ranks)].tolist())

    def node_order(self) -> NDArray[np.intp]:
        """The rows of all nodes in the order of upstream's node tree: one of each zone in turn."""
        if self._order is None:
            zones: dict[str, list[int]] = {}
            # `row_of` keeps the order in which nodes arrived.
            for row in self.row_of.values():
                node = self.nodes[row]
                zones.setdefault(_zone_key(node.metadata.labels) if node else "", []).append(row)
            turns = zip_longest(*zones.values())
            self._order = np.array(
                [row for turn in turns for row in turn if row is not None], np.intp
            )
        return self._order

    # --- changes --------------------------------------------------------------------------------

    def set_node(self, info: NodeInfo, node: Node) -> int:
        """Set the columns of a node from its object; return its row.

        Raises:
            QuantityError: an allocatable quantity does not parse.
        """
        allocatable = whole_units(node.status.allocatable)
        row = self.row_of.get(info.name)
        if row is None:
            row = self._new_row(info.name)
        self.infos[row] = self._own_info(row, node) if self.owns_infos else info
        self.nodes[row] = node
        self._order = None
        self.sums.set_allocatable(row, allocatable)
        self._unschedulable[row] = node.spec.unschedulable
        self._taint_sets.set(row, node.spec.taints, self.capacity)
        self._feature_sets.set(row, frozenset(node.status.declared_features), self.capacity)
        return row

    def remove_node(self, row: int) -> None:
        """Free the row of a node; the caller has removed its pods."""
        del self.row_of[self.names[row]]
        self.names[row] = ""
        self._name_ranks = self._order = None
        self.infos[row] = None
        self.nodes[row] = None
        self._alive[row] = False
        self._unschedulable[row] = False
        self._taint_sets.set(row, (), self.capacity)
        self._feature_sets.set(row, frozenset(), self.capacity)
        self.sums.set_allocatable(row, {})
        self.count -= 1
        self._free.append(row)

    def picked(self, rows: NDArray[np.intp], shape: PodShape, times: Floats) -> "NodeTable | None":
        """The sums of some rows as they would be with more pods of a shape, as a table.

        Only sums and allocatable resources are valid in it, and only until this table changes. Rows
        may be repeated. `times` has the number of additional pods for each of them.

        Returns:
            None where sums would not be exact.
        """
        sums = self.sums.picked(rows, shape, times)
        if sums is None:
            return None
        copy = object.__new__(NodeTable)
        copy.__dict__.update(self.__dict__)
        copy.size, copy.sums, copy._alive = len(rows), sums, self._alive.take(rows)
        return copy

    def fork(self, changes: Sequence[tuple[int, PodInfo, int]]) -> "NodeTable":
        """The same nodes, until this table changes, with pods added (1) or removed (-1) by row."""
        copy = object.__new__(NodeTable)
        copy.__dict__.update(self.__dict__)
        copy.sums, copy.infos = self.sums.fork(), self.infos.copy()
        for row in {row for row, _, _ in changes}:
            copy.infos[row] = self._own_info(row, self.nodes[row])
        for row, pod, sign in changes:
            copy.sums.add_pod(row, pod.shape, sign)
            copy.show_pod(row, pod, sign)
        return copy

    def copy(self) -> "NodeTable":
        """An independent copy; it updates `infos` itself, as the cache does not."""
        copy = object.__new__(NodeTable)
        copy.__dict__.update(self.__dict__)
        copy.owns_infos = True
        copy.infos = [self._own_info(row, node) for row, node in enumerate(self.nodes)]
        copy.nodes, copy.names = self.nodes.copy(), self.names.copy()
        copy.row_of, copy._free = self.row_of.copy(), self._free.copy()
        copy.sums = self.sums.copy()
        copy._taint_sets = self._taint_sets.copy()
        copy._feature_sets = self._feature_sets.copy()
        copy._alive, copy._unschedulable = self._alive.copy(), self._unschedulable.copy()
        return copy

    def show_pod(self, row: int, pod: PodInfo, sign: int) -> None:
        """Add a pod to the node of a row, or remove it, where `infos` are not the cache's."""
        info = self.infos[row]
        if info is None:
            raise KeyError(row)
        if sign > 0:
            info.pods[pod.uid] = pod
        else:
            info.pods.pop(pod.uid, None)

    def _own_info(self, row: int, node: Node | None) -> NodeInfo | None:
        """The node of a row with a dictionary of pods of its own; None where no node is."""
        if node is None:
            return None
        info, known = NodeInfo(node.metadata.name), self.infos[row]
        info.node = node
        info.pods = {} if known is None else known.pods.copy()
        return info

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
        more = np.zeros(self.capacity - len(self._alive), np.bool_)
        self._alive = np.concatenate((self._alive, more))
        self._unschedulable = np.concatenate((self._unschedulable, more))
        self.sums.fit(self.capacity)


def _zone_key(labels: Mapping[str, str]) -> str:
    """Region and zone of a node as one text, empty when it has neither.

    Source: k8s.io/component-helpers node/topology/helpers.go (GetZoneKey) v0.36.3. The deprecated
    label counts if it is present, even if it is empty.
    """
    region = next((labels[key] for key in _REGION_KEYS if key in labels), "")
    zone = next((labels[key] for key in _ZONE_KEYS if key in labels), "")
    return f"{region}:\x00:{zone}" if region or zone else ""

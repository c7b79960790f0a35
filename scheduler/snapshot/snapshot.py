"""The snapshot: everything a decision looks at, updated by what changed and by nothing else."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.snapshot.changes import (
    Change,
    NamespaceChanged,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRemoved,
)
from scheduler.snapshot.images import ImageIndex
from scheduler.snapshot.label_columns import LabelColumn, LabelColumns
from scheduler.snapshot.node_order import interleaved, zone_key
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.pod_kinds import PodKinds
from scheduler.snapshot.pod_selectors import PodSelector
from scheduler.snapshot.port_counts import PortCounts
from scheduler.snapshot.row_counts import RowCounts
from scheduler.snapshot.row_log import RowLog
from scheduler.snapshot.selector_counts import SelectorCounts
from scheduler.snapshot.term_counts import TermClass, TermCounts, TermKind


class Snapshot:
    """Columns over all nodes and counts over all pods on them.

    Attributes:
        table: one row per node.
        ports: host ports in use.
        images: images by node.
        kinds: numbers for kinds of pods; forks share them.
        namespaces: labels by namespace.
        namespace_epoch: grows whenever a namespace, or the labels of one, came or went.
        node_log: rows whose node object changed (also: appeared, disappeared).
        pod_log: rows on which pods came or went.
    """

    def __init__(self) -> None:
        self.table = NodeTable()
        self.ports = PortCounts()
        self.images = ImageIndex()
        self.kinds = PodKinds()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.namespace_epoch = 0
        self.node_log = RowLog()
        self.pod_log = RowLog()
        self._labels = LabelColumns()
        self._selectors = SelectorCounts(self.namespaces)
        self._terms = TermCounts(self.namespaces)
        self._node_order: NDArray[np.intp] | None = None
        self._apply: dict[type, Callable[[Any], None]] = {
            NodeSet: self._set_node,
            NodeRemoved: self._remove_node,
            PodAdded: lambda change: self._change_pod(change.pod, 1),
            PodRemoved: lambda change: self._change_pod(change.pod, -1),
            NamespaceChanged: self._change_namespace,
        }

    def update(self, changes: Iterable[Change]) -> None:
        """Take over what changed, in order.

        Cost: O(changes); a node change looks once at each label column in use.
        """
        for change in changes:
            self._apply[type(change)](change)

    # --- questions ------------------------------------------------------------------------------

    def label_column(self, key: str) -> LabelColumn:
        """The values of a label key over all nodes."""
        column = self._labels.existing(key)
        if column is None:
            column = self._labels.column(key, self._node_labels(), self.table.capacity)
        return column

    def topology(self, key: str) -> tuple[NDArray[np.intp], int]:
        """Domain ids of a topology key by row, and their number; 0 means the label is absent."""
        column = self.label_column(key)
        return column.ids(self.table.size), column.domain_count()

    def pod_counts(self, pods: PodSelector) -> RowCounts:
        """How many of the selected pods run on each row."""
        return self._selectors.counts(pods, self.table.capacity)

    def terms_about(self, kind: TermKind, pod: PodInfo) -> list[TermClass]:
        """The terms of running pods that speak of the pod."""
        return self._terms.matching(kind, pod)

    def node_order(self) -> NDArray[np.intp]:
        """The rows of all nodes in the order sampling visits them: zones take turns."""
        if self._node_order is None:
            # `row_of` keeps the order in which nodes arrived.
            rows = self.table.row_of.values()
            pairs = ((row, zone_key(self.node(row).metadata.labels)) for row in rows)
            self._node_order = np.array(interleaved(pairs), np.intp)
        return self._node_order

    def info(self, row: int) -> NodeInfo:
        """The node of a row with its pods."""
        found = self.table.infos[row]
        if found is None:
            raise KeyError(row)
        return found

    def node(self, row: int) -> Node:
        """The node object of a row."""
        node = self.info(row).node
        if node is None:
            raise KeyError(row)
        return node

    def fork(self, add: Iterable[PodInfo] = (), remove: Iterable[PodInfo] = ()) -> "Snapshot":
        """A copy on which pods came or went, for asking row-local plugins "what if".

        Counts over the cluster (selectors, terms) are shared and do not see the difference;
        PreFilter's `add_pod` and `remove_pod` account for it.
        """
        copy = object.__new__(Snapshot)
        copy.__dict__.update(self.__dict__)
        copy.table = self.table.fork()
        copy.ports = self.ports.fork()
        for pod, sign in (*((pod, 1) for pod in add), *((pod, -1) for pod in remove)):
            row = copy.table.row_of[pod.node_name]
            copy.table.add_pod(row, pod.shape, sign)
            copy.table.show_pod(row, pod, sign)
            copy.ports.change(row, pod.shape.host_ports, sign, copy.table.capacity)
        return copy

    # --- changes --------------------------------------------------------------------------------

    def _set_node(self, change: NodeSet) -> None:
        info, node = change.info, change.node
        known = info.name in self.table.row_of
        row = self.table.set_node(info, node)
        self._labels.set_row(row, node.metadata.labels, self.table.capacity)
        self.images.set_row(row, node.status.images)
        if not known:
            self.images.nodes_changed()
        self._node_order = None
        self._log_node(row)

    def _remove_node(self, change: NodeRemoved) -> None:
        row = self.table.row_of[change.name]
        self.table.remove_node(row)
        self._labels.set_row(row, {}, self.table.capacity)
        self.images.remove_row(row)
        self.images.nodes_changed()
        self._node_order = None
        self._log_node(row)

    def _change_pod(self, pod: PodInfo, sign: int) -> None:
        table = self.table
        row = table.row_of[pod.node_name]
        shape = pod.shape
        table.add_pod(row, shape, sign)
        self._selectors.change(row, pod, sign, table.capacity)
        if shape.affinity is not None:
            self._terms.change(row, pod, sign, table.capacity)
        if shape.host_ports:
            self.ports.change(row, shape.host_ports, sign, table.capacity)
        self.pod_log.append(row, table.capacity)

    def _change_namespace(self, change: NamespaceChanged) -> None:
        if change.labels is None:
            self.namespaces.pop(change.name, None)
        else:
            self.namespaces[change.name] = change.labels
        self.namespace_epoch += 1
        self._selectors.namespace_changed(change.name, self.table.capacity)
        self._terms.namespace_changed()

    def _log_node(self, row: int) -> None:
        self.node_log.append(row, self.table.capacity)
        self.pod_log.append(row, self.table.capacity)

    def _node_labels(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        for row in self.table.row_of.values():
            yield row, self.node(row).metadata.labels

"""The snapshot: all data that a decision reads, updated by changes and by nothing else."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, assert_never
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node
from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo
from scheduler.kernel.snapshot.changes import (
    Change,
    NamespaceChanged,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRelabelled,
    PodRemoved,
    PodUpdated,
    RowLog,
)
from scheduler.kernel.snapshot.forks import ChangedPods
from scheduler.kernel.snapshot.images import ImageIndex
from scheduler.kernel.snapshot.label_columns import LabelColumn, LabelColumns, Topology
from scheduler.kernel.snapshot.node_table import NodeTable
from scheduler.kernel.snapshot.pod_kinds import PodKinds
from scheduler.kernel.snapshot.pod_selectors import PodSelector
from scheduler.kernel.snapshot.row_counts import PortCounts, RowCounts
from scheduler.kernel.snapshot.selector_counts import SelectorCounts
from scheduler.kernel.snapshot.term_counts import TermClass, TermCounts, TermKind

_NEWER_VERSIONS: Final = frozenset({PodUpdated})
"""The changes that affect no count."""
_TAKES_NOTHING_AWAY: Final = frozenset({PodAdded, PodUpdated, PodRelabelled})
"""Types of changes among which those that add pods may be applied first."""
_WORTH_SUMMING: Final = 16
"""From this many pods at once, they are summed up before they are added to the columns."""


class Snapshot:
    """Columns over all nodes and counts over all pods on them.

    Reading changes no result: data that a read derives is bounded, and dropped by `update` only.

    Attributes:
        epoch: grows with every update, except for one of `PodUpdated` changes only.
        table: one row per node.
        ports: host ports in use.
        images: images by node.
        kinds: numbers for kinds of pods; forks share them.
        namespaces: labels by namespace.
        namespace_epoch: grows whenever a namespace is set or deleted.
        node_log: rows whose node was added, updated or deleted.
        pod_log: rows on which pods were added, removed or relabelled, and those of `node_log`.
        sum_log: rows on which the requested sums changed.
        version_log: rows with newer versions of pods that affect no count.
        selector_counts: pods by row for each selector in use; a fork has those of its original.
        term_counts: the terms of running pods by row; a fork has those of its original.
        is_fork: whether it is a fork or a copy, for a simulation.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.table = NodeTable()
        self.ports = PortCounts()
        self.images = ImageIndex()
        self.kinds = PodKinds()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.namespace_epoch = 0
        self.node_log = RowLog()
        self.pod_log = RowLog()
        self.version_log = RowLog()
        self.sum_log = RowLog()
        self.is_fork = False
        self._labels = LabelColumns()
        self.selector_counts = SelectorCounts(self.namespaces)
        self.term_counts = TermCounts(self.namespaces, self._labels)
        self._topologies: dict[str, Topology] = {}
        self._forks: WeakSet[Snapshot] = WeakSet()
        self._original: Snapshot | None = None
        """The snapshot that this one is a fork of, if by way of other forks."""
        self._changed: ChangedPods | None = None
        """The pods by which it differs from its original."""

    def update(self, changes: Iterable[Change]) -> None:
        """Apply changes in order. All forks end.

        When a change raises, the only valid call is `rebuild`.

        Cost: O(changes); a node change looks once at each label column in use.

        Raises:
            TypeError: the snapshot is a fork, which shares the columns of its original.
        """
        if self._original is not None:
            raise TypeError("a fork cannot be updated; a copy of it can")
        changes = list(changes)
        if not _NEWER_VERSIONS.issuperset(map(type, changes)):
            self._begin()
        if len(changes) < _WORTH_SUMMING:
            for change in changes:
                self._apply(change)
        else:
            self._apply_many(changes)
        self.selector_counts.trim()

    def _apply_many(self, changes: Sequence[Change]) -> None:
        for adds_only, alike in groupby(changes, lambda each: type(each) in _TAKES_NOTHING_AWAY):
            run = list(alike)
            added = [each.pod for each in run if isinstance(each, PodAdded)] if adds_only else ()
            if len(added) >= _WORTH_SUMMING:
                self._add_pods(added)
                run = [each for each in run if not isinstance(each, PodAdded)]
            for change in run:
                self._apply(change)

    def rebuild(self, changes: Iterable[Change]) -> list[tuple[Change, Exception]]:
        """Replace all data by these changes, which build the cluster; return those that raise.

        Results that callers kept by log position or epoch become invalid.
        """
        self._begin()
        fresh = Snapshot()
        fresh.epoch = self.epoch
        fresh.namespace_epoch = self.namespace_epoch + 1
        _begin_logs(fresh, self)
        self.__dict__.update(fresh.__dict__)
        left_out: list[tuple[Change, Exception]] = []
        for change in changes:
            try:
                self._apply(change)
            except Exception as problem:  # noqa: BLE001 - apply the other changes in any case
                left_out.append((change, problem))
        return left_out

    def fork(self, add: Iterable[PodInfo] = (), remove: Iterable[PodInfo] = ()) -> "Snapshot":
        """Return the cluster with pods added to the nodes they name, or removed from these.

        The fork is for reading, until the next update. Counts of selectors and terms include the
        changes. With changes, the fork has a pod log and a sum log of its own: a position in one
        log is invalid in another (`RowLog`s differ by identity).

        Cost: a few array copies.

        Raises:
            KeyError: a pod names no node.
        """
        changes = [(self.table.row_of[pod.node_name], pod, 1) for pod in add]
        changes += [(self.table.row_of[pod.node_name], pod, -1) for pod in remove]
        fork = object.__new__(Snapshot)
        fork.__dict__.update(self.__dict__)
        fork.table = self.table.fork(changes)
        earlier = () if self._changed is None else self._changed.changes
        fork._original = self._original or self
        fork._changed = ChangedPods([*earlier, *changes], self.namespaces)
        fork._forks, fork.is_fork = WeakSet(), True
        self._forks.add(fork)
        if changes:
            fork.epoch += 1
            fork.pod_log = RowLog(self.pod_log.position + 1)
            fork.sum_log = RowLog(self.sum_log.position + 1)
        ports = [(row, pod.shape.host_ports, sign) for row, pod, sign in changes]
        if any(held for _, held, _ in ports):
            keys = {(port.protocol, port.port) for _, held, _ in ports for port in held}
            fork.ports = self.ports.fork(keys)
            for row, held, sign in ports:
                fork.ports.change(row, held, sign, fork.table.capacity)
        return fork

    def copy(self) -> "Snapshot":
        """Make an independent copy of the snapshot, which may be updated.

        Cost: all nodes and groups of pods; selectors are counted again on their first read.
        """
        if self._original is not None and self._changed is not None:
            copy = self._original.copy()
            changes = self._changed.changes
            copy.update([PodAdded(p) if sign > 0 else PodRemoved(p) for _, p, sign in changes])
            return copy
        copy = object.__new__(Snapshot)
        copy.__dict__.update(self.__dict__)
        copy.is_fork = True
        copy.table, copy.ports = self.table.copy(), self.ports.copy()
        copy.images, copy._labels = self.images.copy(), self._labels.copy()
        copy.namespaces = self.namespaces.copy()
        copy.selector_counts = self.selector_counts.copy(copy.namespaces)
        copy.term_counts = self.term_counts.copy(copy.namespaces, copy._labels)
        copy._topologies = {}
        copy._forks = WeakSet()
        _begin_logs(copy, self)
        return copy

    def picked(
        self, rows: NDArray[np.intp], shape: PodShape, times: NDArray[np.float64]
    ) -> "Snapshot | None":
        """The sums of some rows with more pods of a shape; see `NodeTable.picked`."""
        table = self.table.picked(rows, shape, times)
        if table is None:
            return None
        copy = object.__new__(Snapshot)
        copy.__dict__.update(self.__dict__)
        copy.table, copy.is_fork = table, True
        return copy

    def end(self) -> None:
        """End a fork: drop all its data, so that a later read raises."""
        for fork in list(self._forks):
            fork.end()
        self.__dict__.clear()

    # --- questions ------------------------------------------------------------------------------

    def label_column(self, key: str) -> LabelColumn:
        """The values of a label key over all nodes."""
        return self._labels.column(key, self.table.capacity)

    def topology(self, key: str) -> Topology:
        """The domains of a topology key; the same object until a node changes."""
        found = self._topologies.get(key)
        if found is None:
            column, table = self.label_column(key), self.table
            nodes = self._labels.nodes_with.get(key, 0)
            # Its own ids: those of the column change with the nodes.
            ids = column.ids(table.size).copy()
            found = Topology(ids, len(column.values), is_complete=nodes == table.count)
            if nodes:
                self._topologies[key] = found
        return found

    def pod_counts(self, pods: PodSelector) -> RowCounts:
        """Number of selected pods on each row."""
        capacity = self.table.capacity
        if self._changed is not None:
            return self._changed.counts(pods, self.selector_counts, capacity)
        return self.selector_counts.counts(pods, capacity)

    def terms_about(self, kind: TermKind, pod: PodInfo) -> list[TermClass]:
        """The terms of running pods that match the pod and that any node can meet.

        If more than a few match, terms of equal topology key and weight are summed up.
        """
        if self._changed is not None and self._changed.has_terms:
            return self.each_term_about(kind, pod)
        return self.term_counts.matching(kind, pod, self.table.capacity)

    @property
    def has_terms(self) -> bool:
        """Whether running pods have any terms; may be True for a fork without the last such pod."""
        changed = self._changed
        return len(self.term_counts) > 0 or (changed is not None and changed.has_terms)

    def each_term_about(self, kind: TermKind, pod: PodInfo) -> list[TermClass]:
        """`terms_about` without sums of terms; for explanations."""
        if self._changed is not None:
            return self._changed.terms_about(kind, pod, self.term_counts, self._labels)
        return self.term_counts.about(kind, pod)

    def label_keys(self) -> Mapping[str, int]:
        """Number of nodes that have a label of each key. Read-only."""
        return self._labels.nodes_with

    @property
    def counted_classes(self) -> int:
        """Number of selectors and terms that are counted per row."""
        return len(self.selector_counts) + len(self.term_counts)

    def info(self, row: int) -> NodeInfo:
        """The node of a row with its pods, as the cache has them now."""
        found = self.table.infos[row]
        if found is None:
            raise KeyError(row)
        return found

    def node(self, row: int) -> Node:
        """The node object of a row."""
        node = self.table.nodes[row]
        if node is None:
            raise KeyError(row)
        return node

    # --- changes --------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin the next epoch: end all forks."""
        if len(self._forks):
            for fork in list(self._forks):
                fork.end()
            self._forks.clear()
        self.epoch += 1

    def _apply(self, change: Change) -> None:
        match change:
            case PodAdded(pod):
                self._change_pod(pod, 1)
            case PodRemoved(pod):
                self._change_pod(pod, -1)
            case PodUpdated(pod):
                self.version_log.append(self.table.row_of[pod.node_name], self.table.capacity)
            case PodRelabelled(old, pod):
                self._relabel(old, pod)
            case NodeSet(info, node):
                self._set_node(info, node)
            case NodeRemoved(name):
                self._remove_node(name)
            case NamespaceChanged(name, labels):
                self._change_namespace(name, labels)
            case _ as unreachable:
                assert_never(unreachable)

    def _set_node(self, info: NodeInfo, node: Node) -> None:
        known = info.name in self.table.row_of
        row = self.table.set_node(info, node)
        self._set_labels(row, node.metadata.labels)
        self.images.set_row(row, node.status.images)
        if not known:
            self.images.nodes_changed()
        self._log_node(row)

    def _remove_node(self, name: str) -> None:
        row = self.table.row_of[name]
        self.table.remove_node(row)
        self._set_labels(row, {})
        self.images.set_row(row, ())
        self.images.nodes_changed()
        self._log_node(row)

    def _set_labels(self, row: int, labels: Mapping[str, str]) -> None:
        if self._labels.set_row(row, labels, self.table.capacity):
            self.term_counts.forget_matches()

    def _change_pod(self, pod: PodInfo, sign: int) -> None:
        table = self.table
        row = table.row_of[pod.node_name]
        table.sums.add_pod(row, pod.shape, sign)
        self._count_pod(row, pod, sign)
        self.pod_log.append(row, table.capacity)
        self.sum_log.append(row, table.capacity)

    def _add_pods(self, pods: Sequence[PodInfo]) -> None:
        """Add many pods at once, as at the start of the scheduler."""
        table = self.table
        rows = [table.row_of[pod.node_name] for pod in pods]
        table.sums.add_pods(rows, [pod.shape for pod in pods])
        for row, pod in zip(rows, pods, strict=True):
            self._count_pod(row, pod, 1)
        self.pod_log.extend(rows, table.capacity)
        self.sum_log.extend(rows, table.capacity)

    def _count_pod(self, row: int, pod: PodInfo, sign: int) -> None:
        """Count a pod in all counts except resources."""
        table, shape = self.table, pod.shape
        if table.owns_infos:
            table.show_pod(row, pod, sign)
        self.selector_counts.change(row, pod, sign, table.capacity)
        if shape.affinity is not None:
            self.term_counts.change(row, pod, sign, table.capacity)
        if shape.host_ports:
            self.ports.change(row, shape.host_ports, sign, table.capacity)

    def _relabel(self, old: PodInfo, pod: PodInfo) -> None:
        """Count new labels, which only selectors read; all other counts read the pod's shape."""
        table = self.table
        row = table.row_of[pod.node_name]
        if table.owns_infos:
            table.show_pod(row, pod, 1)
        self.selector_counts.change(row, old, -1, table.capacity)
        self.selector_counts.change(row, pod, 1, table.capacity)
        self.pod_log.append(row, table.capacity)

    def _change_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        self.namespace_epoch += 1
        self.selector_counts.namespace_changed(name)
        self.term_counts.forget_matches()

    def _log_node(self, row: int) -> None:
        self._topologies = {}
        self.node_log.append(row, self.table.capacity)
        self.pod_log.append(row, self.table.capacity)
        self.sum_log.append(row, self.table.capacity)


def _begin_logs(snapshot: Snapshot, after: Snapshot) -> None:
    """Begin the logs of a snapshot after those of another, so that earlier positions are void."""
    for log in ("node_log", "pod_log", "version_log", "sum_log"):
        setattr(snapshot, log, RowLog(getattr(after, log).position + 1))

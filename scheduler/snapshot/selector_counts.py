"""How many pods of each kind run on each node.

Pods that agree in namespace, labels and being deleted are one *group*. Each distinct `PodSelector`
that a constraint or term asks about is one *class*: the sum of the groups it matches, as a count
per node, kept up to date while pods come and go. A question about pods is then a question about
one column, whatever the number of pods in the cluster.

Invariant: for every class and row, the count equals the number of pods on the row that the
selector matches (the property test builds it from scratch and compares).
"""

from collections import OrderedDict
from typing import Final

from scheduler.api.pods import LabelSet, PodInfo
from scheduler.snapshot.pod_selectors import (
    NamespaceLabels,
    PodSelector,
    SelectorIndex,
    label_pairs,
)
from scheduler.snapshot.row_counts import RowCounts

_MAX_CLASSES: Final = 20_000
"""Classes kept; the one asked for longest ago goes first."""

_GroupKey = tuple[str, LabelSet, bool]


class _Class:
    """The pods of one selector, counted by row."""

    __slots__ = ("counts", "pods")

    def __init__(self, pods: PodSelector) -> None:
        self.pods = pods
        self.counts = RowCounts()


class _Group:
    """Pods that no selector can tell apart."""

    __slots__ = ("classes", "key", "rows")

    def __init__(self, key: _GroupKey) -> None:
        self.key = key
        self.rows: dict[int, int] = {}
        self.classes: list[_Class] = []


class SelectorCounts:
    """Counts per node of the pods each selector in use matches."""

    def __init__(self, namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self._groups: dict[_GroupKey, _Group] = {}
        self._groups_by_namespace: dict[str, dict[_GroupKey, _Group]] = {}
        self._classes: OrderedDict[PodSelector, _Class] = OrderedDict()
        self._index: SelectorIndex[_Class] = SelectorIndex()

    def counts(self, pods: PodSelector, capacity: int) -> RowCounts:
        """The count per row of the pods a selector matches."""
        found = self._classes.get(pods)
        if found is None:
            found = self._new_class(pods, capacity)
        else:
            self._classes.move_to_end(pods)
        return found.counts

    def change(self, row: int, pod: PodInfo, sign: int, capacity: int) -> None:
        """Count a pod in (`sign` 1) or out (-1)."""
        key = (pod.namespace, pod.label_set, pod.is_terminating)
        group = self._groups.get(key)
        if group is None:
            group = self._new_group(key)
        count = group.rows.get(row, 0) + sign
        if count:
            group.rows[row] = count
        else:
            del group.rows[row]
            if not group.rows:
                self._drop_group(key)
        for cls in group.classes:
            cls.counts.add(row, sign, capacity)

    def namespace_changed(self, namespace: str, capacity: int) -> None:
        """Re-decide which classes mean the pods of a namespace whose labels changed."""
        for group in self._groups_by_namespace.get(namespace, {}).values():
            now = self._classes_of(group.key)
            self._recount(group, [c for c in now if c not in group.classes], 1, capacity)
            self._recount(group, [c for c in group.classes if c not in now], -1, capacity)
            group.classes = now

    def _new_class(self, pods: PodSelector, capacity: int) -> _Class:
        if len(self._classes) >= _MAX_CLASSES:
            self._drop_oldest()
        cls = self._classes[pods] = _Class(pods)
        self._index.add(cls)
        for group in self._candidate_groups(pods):
            if self._matches(cls, group.key):
                group.classes.append(cls)
                self._recount(group, [cls], 1, capacity)
        return cls

    def _drop_oldest(self) -> None:
        pods, oldest = self._classes.popitem(last=False)
        self._index.discard(oldest)
        for group in self._candidate_groups(pods):
            if oldest in group.classes:
                group.classes.remove(oldest)

    def _candidate_groups(self, pods: PodSelector) -> list[_Group]:
        """The groups a selector may match, told apart by one cheap look at each."""
        if pods.namespace_selector.nothing:
            by_namespace = self._groups_by_namespace
            groups = [g for ns in pods.namespaces for g in by_namespace.get(ns, {}).values()]
        else:
            groups = list(self._groups.values())
        pairs = label_pairs(pods.selector)
        if pairs is None:
            return groups
        key = next((key for key, _ in pairs), "")
        values = frozenset(value for _, value in pairs)
        return [group for group in groups if group.key[1].labels.get(key) in values]

    def _new_group(self, key: _GroupKey) -> _Group:
        group = self._groups[key] = _Group(key)
        self._groups_by_namespace.setdefault(key[0], {})[key] = group
        group.classes = self._classes_of(key)
        return group

    def _drop_group(self, key: _GroupKey) -> None:
        del self._groups[key]
        neighbours = self._groups_by_namespace[key[0]]
        del neighbours[key]
        if not neighbours:
            del self._groups_by_namespace[key[0]]

    def _classes_of(self, key: _GroupKey) -> list[_Class]:
        namespace, label_set, terminating = key
        return [
            cls
            for cls in self._index.matching(label_set.labels, namespace, self._namespaces)
            if not (terminating and cls.pods.skip_terminating)
        ]

    def _matches(self, cls: _Class, key: _GroupKey) -> bool:
        namespace, label_set, terminating = key
        return (
            not (terminating and cls.pods.skip_terminating)
            and cls.pods.matches_namespace(namespace, self._namespaces)
            and cls.pods.selector.matches(label_set.labels)
        )

    @staticmethod
    def _recount(group: _Group, classes: list[_Class], sign: int, capacity: int) -> None:
        for cls in classes:
            for row, count in group.rows.items():
                cls.counts.add(row, sign * count, capacity)

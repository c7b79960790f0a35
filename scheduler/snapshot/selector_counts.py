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

from scheduler.api.pods import PodInfo
from scheduler.snapshot.pod_groups import GroupKey, PodGroup, PodGroups
from scheduler.snapshot.pod_selectors import NamespaceLabels, PodSelector, SelectorIndex
from scheduler.snapshot.row_counts import RowCounts

_MAX_CLASSES: Final = 20_000
"""Classes kept; the one asked for longest ago goes first."""


class _Class:
    """The pods of one selector, counted by row."""

    __slots__ = ("counts", "pods")

    def __init__(self, pods: PodSelector) -> None:
        self.pods = pods
        self.counts = RowCounts()


class SelectorCounts:
    """Counts per node of the pods each selector in use matches."""

    def __init__(self, namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self._groups: PodGroups[_Class] = PodGroups()
        self._classes: OrderedDict[PodSelector, _Class] = OrderedDict()
        self._index: SelectorIndex[_Class] = SelectorIndex()
        self._reading_labels = 0

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
        group = self._groups.get(pod)
        if group is None:
            group = self._groups.new(pod)
            group.classes = self._classes_of(group.key)
        count = group.rows.get(row, 0) + sign
        if count:
            group.rows[row] = count
        else:
            del group.rows[row]
            if not group.rows:
                self._groups.drop(group)
        for cls in group.classes:
            cls.counts.add(row, sign, capacity)

    def namespace_changed(self, namespace: str, capacity: int) -> None:
        """Re-decide which classes mean the pods of a namespace whose labels changed."""
        if not self._reading_labels:
            return
        for group in self._groups.of_namespace(namespace):
            now = self._classes_of(group.key)
            self._recount(group, [c for c in now if c not in group.classes], 1, capacity)
            self._recount(group, [c for c in group.classes if c not in now], -1, capacity)
            group.classes = now

    def _new_class(self, pods: PodSelector, capacity: int) -> _Class:
        if len(self._classes) >= _MAX_CLASSES:
            self._drop_oldest()
        cls = self._classes[pods] = _Class(pods)
        self._index.add(cls)
        self._reading_labels += pods.reads_namespace_labels
        for group in self._groups.candidates(pods):
            if self._matches(cls, group.key):
                group.classes.append(cls)
                self._recount(group, [cls], 1, capacity)
        return cls

    def _drop_oldest(self) -> None:
        pods, oldest = self._classes.popitem(last=False)
        self._index.discard(oldest)
        self._reading_labels -= pods.reads_namespace_labels
        for group in self._groups.candidates(pods):
            if oldest in group.classes:
                group.classes.remove(oldest)

    def _classes_of(self, key: GroupKey) -> list[_Class]:
        namespace, label_set, terminating = key
        return [
            cls
            for cls in self._index.matching(label_set.labels, namespace, self._namespaces)
            if not (terminating and cls.pods.skip_terminating)
        ]

    def _matches(self, cls: _Class, key: GroupKey) -> bool:
        namespace, label_set, terminating = key
        return (
            not (terminating and cls.pods.skip_terminating)
            and cls.pods.matches_namespace(namespace, self._namespaces)
            and cls.pods.selector.matches(label_set.labels)
        )

    @staticmethod
    def _recount(group: PodGroup[_Class], classes: list[_Class], sign: int, capacity: int) -> None:
        for cls in classes:
            for row, count in group.rows.items():
                cls.counts.add(row, sign * count, capacity)

"""Number of pods of each kind on each node.

Pods that agree in kind and in being deleted are one *group*. Each distinct `PodSelector` that a
constraint or term uses is one *class*: a count per node of the pods in all groups it matches. The
counts follow each added and removed pod. So plugins read one column for a selector, whatever the
number of pods in the cluster.

Where each pod of a workload has labels of its own (Jobs, StatefulSets), there are as many groups as
pods. A new selector must not be tried on all of them. So for each label key that selectors demand,
the groups are filed by value.

Invariant: for every class and row, the count equals the number of pods on the row that the
selector matches. A property test builds it from scratch and compares.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from heapq import nsmallest
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.snapshot.pod_selectors import (
    Buckets,
    NamespaceLabels,
    PodSelector,
    SelectorIndex,
    label_choices,
)
from scheduler.kernel.snapshot.row_counts import RowCounts

_MAX_CLASSES: Final = 20_000
_MAX_BYTES: Final = 64 * 2**20
"""The most memory of all classes; the least recently used are dropped first."""
_MAX_CLASSES_PER_GROUP: Final = 64
"""An added or removed pod is counted in each class of its group. This bounds the cost of selectors
that no caller uses any more."""
_DROPPED_AT_ONCE: Final = 16
_BYTES_PER_CLASS: Final = 1024
_BYTES_PER_MEMBERSHIP: Final = 100
_MAX_INDEXED_KEYS: Final = 64
"""Label keys filed per namespace; all are forgotten when there would be more."""

_NOTHING: Final[dict[Any, None]] = {}
"""The `classes` of every group without classes: shared, and never added to."""


class _Class(msgspec.Struct, eq=False):
    """The pods of one selector, counted by row."""

    pods: PodSelector
    counts: RowCounts = msgspec.field(default_factory=RowCounts)
    groups: int = 0
    asked_at: int = 0
    counted_bytes: int = 0
    """Its memory when it was last measured."""

    @property
    def size_bytes(self) -> int:
        """The approximate memory that the class takes."""
        of_groups = _BYTES_PER_MEMBERSHIP * self.groups
        return _BYTES_PER_CLASS + self.counts.size_bytes + of_groups


class LabelGroup:
    """Pods of one kind that are being deleted, or that are not.

    Attributes:
        kind: their kind.
        is_terminating: whether they are being deleted.
        counts: number of these pods by row.
        classes: the classes that count them; mostly none.
    """

    __slots__ = ("classes", "counts", "is_terminating", "kind")

    def __init__(self, kind: PodKind, *, is_terminating: bool) -> None:
        self.kind = kind
        self.is_terminating = is_terminating
        self.counts = RowCounts()
        self.classes: dict[_Class, None] = _NOTHING

    def add_class(self, cls: _Class) -> None:
        """Add a class that counts the pods."""
        cls.groups += 1
        if self.classes:
            self.classes[cls] = None
        else:
            self.classes = {cls: None}


_Groups: TypeAlias = dict[PodKind, LabelGroup]


class _Namespace:
    """The groups of one namespace, and an index of them by label key and value."""

    __slots__ = ("groups", "indexes")

    def __init__(self) -> None:
        self.groups: tuple[_Groups, _Groups] = ({}, {})
        """The groups of pods that are not being deleted, and those of pods that are."""
        self.indexes: dict[str, Buckets[str, LabelGroup]] = {}

    def add(self, group: LabelGroup) -> None:
        """File a new group."""
        self.groups[group.is_terminating][group.kind] = group
        for label_key, index in self.indexes.items():
            _file(index, label_key, group)

    def remove(self, group: LabelGroup) -> None:
        """Remove a group."""
        del self.groups[group.is_terminating][group.kind]
        labels = group.kind.labels
        for label_key, index in self.indexes.items():
            value = labels.get(label_key)
            if value is not None:
                index.discard(value, group)

    def __iter__(self) -> Iterator[LabelGroup]:
        return chain(self.groups[0].values(), self.groups[1].values())

    def candidates(self, choices: list[list[tuple[str, str]]]) -> Iterable[LabelGroup]:
        """The groups that have one of the label pairs, for the choice with the fewest groups."""
        if not choices:
            return self
        best = min(
            ([self._bucket(pair) for pair in pairs] for pairs in choices),
            key=lambda buckets: sum(map(len, buckets)),
        )
        return chain.from_iterable(best)

    def _bucket(self, pair: tuple[str, str]) -> Collection[LabelGroup]:
        label_key, value = pair
        index = self.indexes.get(label_key)
        if index is None:
            if len(self.indexes) >= _MAX_INDEXED_KEYS:
                self.indexes.clear()
            index = self.indexes[label_key] = Buckets()
            for group in self:
                _file(index, label_key, group)
        return index.of(value)


class LabelGroups:
    """The groups of all running pods."""

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}

    def get(self, pod: PodInfo) -> LabelGroup | None:
        """The group of a pod, if it exists."""
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            return None
        return namespace.groups[pod.is_terminating].get(pod.kind)

    def new(self, pod: PodInfo) -> LabelGroup:
        """Make the group of a pod."""
        group = LabelGroup(pod.kind, is_terminating=pod.is_terminating)
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            namespace = self._namespaces[pod.namespace] = _Namespace()
        namespace.add(group)
        return group

    def drop(self, group: LabelGroup) -> None:
        """Remove a group without pods."""
        name = group.kind.namespace
        namespace = self._namespaces[name]
        namespace.remove(group)
        if not any(namespace.groups):
            del self._namespaces[name]

    def copy(self) -> "LabelGroups":
        """The same groups, without classes."""
        copy = LabelGroups()
        for name, namespace in self._namespaces.items():
            of_copy = copy._namespaces[name] = _Namespace()
            for group in namespace:
                same = LabelGroup(group.kind, is_terminating=group.is_terminating)
                same.counts = group.counts.copy()
                of_copy.add(same)
        return copy

    def has_pods_in(self, namespace: str) -> bool:
        """Whether any of the pods is in a namespace."""
        return namespace in self._namespaces

    def candidates(self, pods: PodSelector) -> list[LabelGroup]:
        """Groups a selector may match; each must still be tried."""
        namespaces = self._namespaces
        if pods.namespace_selector.nothing:
            chosen = [namespaces[name] for name in pods.namespaces if name in namespaces]
        else:
            chosen = list(namespaces.values())
        choices = label_choices(pods.selector)
        return [group for namespace in chosen for group in namespace.candidates(choices)]


def _file(index: Buckets[str, LabelGroup], label_key: str, group: LabelGroup) -> None:
    value = group.kind.labels.get(label_key)
    if value is not None:
        index.add(value, group)


class SelectorCounts:
    """Counts per node of the pods each selector in use matches.

    A class is derived from the groups on its first read, so reading changes no result. `change`,
    `trim` and `namespace_changed` drop classes; reads never do.
    """

    def __init__(self, namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self._groups = LabelGroups()
        self._classes: OrderedDict[PodSelector, _Class] = OrderedDict()
        self._index: SelectorIndex[_Class] = SelectorIndex()
        self._asked = 0
        self._size_bytes = 0

    def counts(self, pods: PodSelector, capacity: int) -> RowCounts:
        """The count per row of the pods a selector matches."""
        found = self._classes.get(pods)
        if found is None:
            found = self._new_class(pods, capacity)
        else:
            self._classes.move_to_end(pods)
        self._measure(found)
        self._asked += 1
        found.asked_at = self._asked
        return found.counts

    def change(self, row: int, pod: PodInfo, sign: int, capacity: int) -> None:
        """Add a pod to the counts (`sign` 1) or remove it (-1)."""
        group = self._groups.get(pod)
        if group is None:
            group = self._groups.new(pod)
            for cls in self._classes_of(pod.kind, is_terminating=pod.is_terminating):
                group.add_class(cls)
        group.counts.add(row, sign, capacity)
        for cls in group.classes:
            cls.counts.add(row, sign, capacity)
        if not group.counts.total:
            for cls in group.classes:
                cls.groups -= 1
            self._groups.drop(group)
        elif len(group.classes) > _MAX_CLASSES_PER_GROUP:
            self._thin(group)
        for cls in group.classes:
            self._measure(cls)

    def trim(self) -> None:
        """Drop the least recently used classes above the limits.

        Callers call it before each decision, so that each call drops few classes. To drop those of
        100,000 different pods at once takes a second.
        """
        while self._classes and (
            self._size_bytes > _MAX_BYTES or len(self._classes) > _MAX_CLASSES
        ):
            self._drop(next(iter(self._classes.values())))

    def namespace_changed(self, namespace: str) -> None:
        """Drop the classes that read the labels of a namespace whose labels changed."""
        if self._groups.has_pods_in(namespace):
            for cls in [cls for cls in self._classes.values() if cls.pods.reads_namespace_labels]:
                self._drop(cls)

    def __len__(self) -> int:
        """Number of selectors that are counted."""
        return len(self._classes)

    def at(self, row: int) -> dict[PodSelector, int]:
        """Number of pods on a row that each class counts, without zeros."""
        classes = self._classes.items()
        return {pods: int(count) for pods, cls in classes if (count := cls.counts.at(row))}

    def recounted(self, pods: Iterable[PodInfo]) -> dict[PodSelector, int]:
        """Number of these pods that each class counts, found pod by pod, without zeros."""
        found: dict[PodSelector, int] = {}
        for pod in pods:
            for cls in self._classes_of(pod.kind, is_terminating=pod.is_terminating):
                found[cls.pods] = found.get(cls.pods, 0) + 1
        return found

    def copy(self, namespaces: NamespaceLabels) -> "SelectorCounts":
        """An independent copy; it derives its classes again on their first read."""
        copy = SelectorCounts(namespaces)
        copy._groups = self._groups.copy()
        return copy

    def _new_class(self, pods: PodSelector, capacity: int) -> _Class:
        cls = self._classes[pods] = _Class(pods)
        self._index.add(cls)
        matching = [g for g in self._groups.candidates(pods) if self._matches(pods, g)]
        for group in matching:
            group.add_class(cls)
        cls.counts = RowCounts.sum_of((group.counts for group in matching), capacity)
        return cls

    def _measure(self, cls: _Class) -> None:
        """Count the memory of a class, which changes with its pods and with what is read of it."""
        size = cls.size_bytes
        self._size_bytes += size - cls.counted_bytes
        cls.counted_bytes = size

    def _drop(self, cls: _Class) -> None:
        del self._classes[cls.pods]
        self._size_bytes -= cls.counted_bytes
        self._index.discard(cls)
        for group in self._groups.candidates(cls.pods):
            group.classes.pop(cls, None)

    def _thin(self, group: LabelGroup) -> None:
        """Drop the least recently read classes of a group that has too many, a few at a time."""
        excess = min(len(group.classes) - _MAX_CLASSES_PER_GROUP, _DROPPED_AT_ONCE)
        for cls in nsmallest(excess, group.classes, key=lambda cls: cls.asked_at):
            self._drop(cls)

    def _classes_of(self, kind: PodKind, *, is_terminating: bool) -> list[_Class]:
        return [
            cls
            for cls in self._index.matching(kind.labels, kind.namespace, self._namespaces)
            if not (is_terminating and cls.pods.skip_terminating)
        ]

    def _matches(self, pods: PodSelector, group: LabelGroup) -> bool:
        if group.is_terminating and pods.skip_terminating:
            return False
        # Not `Selector.matches`: thousands of groups are tried for one new selector.
        labels = group.kind.labels
        for requirement in pods.selector.requirements:
            if not requirement.matches_value(labels.get(requirement.key)):
                return False
        return not pods.selector.nothing and pods.matches_namespace(
            group.kind.namespace, self._namespaces
        )

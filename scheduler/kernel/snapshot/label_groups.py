"""Running pods of one kind, found by namespace and label.

Where each pod of a workload has labels of its own (Jobs, StatefulSets), there are as many groups as
pods. A new selector must not be tried on all of them. So for each label key that selectors demand,
the groups are filed by value.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.snapshot.pod_selectors import Buckets, PodSelector, label_choices

_MAX_INDEXED_KEYS: Final = 64
"""Label keys filed per namespace; all are forgotten when there would be more."""

_MIN_ARRAY: Final = 8
"""Rows of a group that are worth keeping as arrays."""

C = TypeVar("C")

_NOTHING: Final[dict[Any, None]] = {}
"""The `classes` of every group without classes: shared, and never added to."""


class LabelGroup(Generic[C]):
    """Pods of one kind that are being deleted, or that are not.

    Attributes:
        kind: their kind.
        is_terminating: whether they are being deleted.
        rows: number of these pods by row.
        classes: the classes that count them; mostly none.
    """

    __slots__ = ("_arrays", "classes", "is_terminating", "kind", "rows")

    def __init__(self, kind: PodKind, *, is_terminating: bool) -> None:
        self._arrays: tuple[NDArray[np.intp], NDArray[np.float64]] | None = None
        self.kind = kind
        self.is_terminating = is_terminating
        self.rows: dict[int, int] = {}
        self.classes: dict[C, None] = _NOTHING

    def set_classes(self, classes: Iterable[C]) -> None:
        """Set the classes that count the pods."""
        self.classes = dict.fromkeys(classes) or _NOTHING

    def add_class(self, cls: C) -> None:
        """Add a class that counts the pods."""
        if self.classes:
            self.classes[cls] = None
        else:
            self.classes = {cls: None}

    def add(self, row: int, sign: int) -> None:
        """Add a pod to the counts (`sign` 1) or remove it (-1)."""
        self._arrays = None
        count = self.rows.get(row, 0) + sign
        if count:
            self.rows[row] = count
        else:
            del self.rows[row]

    def add_to(self, column: NDArray[np.float64]) -> None:
        """Add the counts to an array."""
        if len(self.rows) < _MIN_ARRAY:
            for row, count in self.rows.items():
                column[row] += count
            return
        if self._arrays is None:
            rows = np.fromiter(self.rows.keys(), np.intp, len(self.rows))
            counts = np.fromiter(self.rows.values(), np.float64, len(self.rows))
            self._arrays = rows, counts
        rows, counts = self._arrays
        column[rows] += counts


_Groups: TypeAlias = dict[PodKind, LabelGroup[C]]


class _Namespace(Generic[C]):
    """The groups of one namespace, and an index of them by label key and value."""

    __slots__ = ("groups", "indexes")

    def __init__(self) -> None:
        self.groups: tuple[_Groups[C], _Groups[C]] = ({}, {})
        """The groups of pods that are not being deleted, and those of pods that are."""
        self.indexes: dict[str, Buckets[str, LabelGroup[C]]] = {}

    def add(self, group: LabelGroup[C]) -> None:
        """File a new group."""
        self.groups[group.is_terminating][group.kind] = group
        for label_key, index in self.indexes.items():
            _file(index, label_key, group)

    def remove(self, group: LabelGroup[C]) -> None:
        """Remove a group."""
        del self.groups[group.is_terminating][group.kind]
        labels = group.kind.labels
        for label_key, index in self.indexes.items():
            value = labels.get(label_key)
            if value is not None:
                index.discard(value, group)

    def __iter__(self) -> Iterator[LabelGroup[C]]:
        for groups in self.groups:
            yield from groups.values()

    def candidates(self, choices: list[list[tuple[str, str]]]) -> Iterator[LabelGroup[C]]:
        """The groups that have one of the label pairs, for the choice with the fewest groups."""
        if not choices:
            yield from self
            return
        best = min(
            ([self._bucket(pair) for pair in pairs] for pairs in choices),
            key=lambda buckets: sum(map(len, buckets)),
        )
        for bucket in best:
            yield from bucket

    def _bucket(self, pair: tuple[str, str]) -> Collection[LabelGroup[C]]:
        label_key, value = pair
        index = self.indexes.get(label_key)
        if index is None:
            if len(self.indexes) >= _MAX_INDEXED_KEYS:
                self.indexes.clear()
            index = self.indexes[label_key] = Buckets()
            for group in self:
                _file(index, label_key, group)
        return index.of(value)


class LabelGroups(Generic[C]):
    """The groups of all running pods."""

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace[C]] = {}

    def get(self, pod: PodInfo) -> LabelGroup[C] | None:
        """The group of a pod, if it exists."""
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            return None
        return namespace.groups[pod.is_terminating].get(pod.kind)

    def new(self, pod: PodInfo) -> LabelGroup[C]:
        """Make the group of a pod."""
        group: LabelGroup[C] = LabelGroup(pod.kind, is_terminating=pod.is_terminating)
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            namespace = self._namespaces[pod.namespace] = _Namespace()
        namespace.add(group)
        return group

    def drop(self, group: LabelGroup[C]) -> None:
        """Remove a group without pods."""
        name = group.kind.namespace
        namespace = self._namespaces[name]
        namespace.remove(group)
        if not any(namespace.groups):
            del self._namespaces[name]

    def copy(self) -> "LabelGroups[C]":
        """The same groups, without classes."""
        copy: LabelGroups[C] = LabelGroups()
        for name, namespace in self._namespaces.items():
            of_copy = copy._namespaces[name] = _Namespace[C]()
            for group in namespace:
                # `LabelGroup[C](...)` takes twice as long.
                same: LabelGroup[C] = LabelGroup(group.kind, is_terminating=group.is_terminating)
                same.rows = group.rows.copy()
                of_copy.add(same)
        return copy

    def has_pods_in(self, namespace: str) -> bool:
        """Whether any of the pods is in a namespace."""
        return namespace in self._namespaces

    def candidates(self, pods: PodSelector) -> list[LabelGroup[C]]:
        """Groups a selector may match; each must still be tried."""
        namespaces = self._namespaces
        if pods.namespace_selector.nothing:
            chosen = [namespaces[name] for name in pods.namespaces if name in namespaces]
        else:
            chosen = list(namespaces.values())
        choices = label_choices(pods.selector)
        return [group for namespace in chosen for group in namespace.candidates(choices)]


def _file(index: Buckets[str, LabelGroup[C]], label_key: str, group: LabelGroup[C]) -> None:
    value = group.kind.labels.get(label_key)
    if value is not None:
        index.add(value, group)

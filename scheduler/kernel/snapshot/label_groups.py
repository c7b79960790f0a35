"""Running pods in groups that no selector can tell apart, found by namespace and label.

Where each pod of a workload has labels of its own (Jobs, StatefulSets), there are as many groups as
pods. A new selector must not look at all of them. So for each label key that selectors demand, the
groups are filed by value.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import LabelSet, PodInfo
from scheduler.kernel.snapshot.buckets import Buckets
from scheduler.kernel.snapshot.pod_selectors import PodSelector, label_choices

_MAX_INDEXED_KEYS: Final = 64
"""Label keys filed per namespace; all are forgotten when there would be more."""

_MIN_ARRAY: Final = 8
"""Rows of a group that are worth keeping as arrays."""

GroupKey: TypeAlias = tuple[str, LabelSet, bool]
"""Namespace, labels, and whether the pods are being deleted."""

C = TypeVar("C")

_NOTHING: Final[dict[Any, None]] = {}
"""Stands for no classes, for very many groups; never added to."""


class LabelGroup(Generic[C]):
    """Pods that agree in namespace, labels and being deleted.

    Attributes:
        key: what they agree in.
        rows: how many of them there are, by row.
        classes: what counts them; mostly nothing does.
    """

    __slots__ = ("_arrays", "classes", "key", "rows")

    def __init__(self, key: GroupKey) -> None:
        self._arrays: tuple[NDArray[np.intp], NDArray[np.float64]] | None = None
        self.key = key
        self.rows: dict[int, int] = {}
        self.classes: dict[C, None] = _NOTHING

    def set_classes(self, classes: Iterable[C]) -> None:
        """Say what counts the pods."""
        self.classes = dict.fromkeys(classes) or _NOTHING

    def add_class(self, cls: C) -> None:
        """Say what counts the pods, too."""
        if self.classes:
            self.classes[cls] = None
        else:
            self.classes = {cls: None}

    def add(self, row: int, sign: int) -> None:
        """Count a pod in (`sign` 1) or out (-1)."""
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


_Groups: TypeAlias = dict[GroupKey, LabelGroup[C]]


class _Namespace(Generic[C]):
    """The groups of one namespace, and those of them that have a label, by key and value."""

    __slots__ = ("groups", "indexes")

    def __init__(self) -> None:
        self.groups: _Groups[C] = {}
        self.indexes: dict[str, Buckets[str, LabelGroup[C]]] = {}

    def add(self, group: LabelGroup[C]) -> None:
        """File a new group."""
        self.groups[group.key] = group
        for label_key, index in self.indexes.items():
            _file(index, label_key, group)

    def remove(self, group: LabelGroup[C]) -> None:
        """Take a group out."""
        del self.groups[group.key]
        labels = group.key[1].labels
        for label_key, index in self.indexes.items():
            value = labels.get(label_key)
            if value is not None:
                index.discard(value, group)

    def candidates(self, choices: list[list[tuple[str, str]]]) -> Iterator[LabelGroup[C]]:
        """The groups that have one of the label pairs, for the choice with the fewest groups."""
        if not choices:
            yield from self.groups.values()
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
            for group in self.groups.values():
                _file(index, label_key, group)
        return index.of(value)


class LabelGroups(Generic[C]):
    """The groups of all running pods."""

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace[C]] = {}

    def get(self, pod: PodInfo) -> LabelGroup[C] | None:
        """The group of a pod, if it exists."""
        namespace = self._namespaces.get(pod.namespace)
        return None if namespace is None else namespace.groups.get(_key_of(pod))

    def new(self, pod: PodInfo) -> LabelGroup[C]:
        """Make the group of a pod."""
        group: LabelGroup[C] = LabelGroup(_key_of(pod))
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            namespace = self._namespaces[pod.namespace] = _Namespace()
        namespace.add(group)
        return group

    def drop(self, group: LabelGroup[C]) -> None:
        """Forget a group without pods."""
        name = group.key[0]
        namespace = self._namespaces[name]
        namespace.remove(group)
        if not namespace.groups:
            del self._namespaces[name]

    def copy(self) -> "LabelGroups[C]":
        """The same groups, counted by nothing."""
        copy: LabelGroups[C] = LabelGroups()
        for name, namespace in self._namespaces.items():
            of_copy = copy._namespaces[name] = _Namespace[C]()
            for key, group in namespace.groups.items():
                same = of_copy.groups[key] = LabelGroup[C](key)
                same.rows = group.rows.copy()
        return copy

    def of_namespace(self, name: str) -> Iterable[LabelGroup[C]]:
        """The groups of one namespace."""
        namespace = self._namespaces.get(name)
        return () if namespace is None else namespace.groups.values()

    def candidates(self, pods: PodSelector) -> list[LabelGroup[C]]:
        """Groups a selector may match; each must still be tried."""
        namespaces = self._namespaces
        if pods.namespace_selector.nothing:
            chosen = [namespaces[name] for name in pods.namespaces if name in namespaces]
        else:
            chosen = list(namespaces.values())
        choices = label_choices(pods.selector)
        return [group for namespace in chosen for group in namespace.candidates(choices)]


def _key_of(pod: PodInfo) -> GroupKey:
    return (pod.namespace, pod.label_set, pod.is_terminating)


def _file(index: Buckets[str, LabelGroup[C]], label_key: str, group: LabelGroup[C]) -> None:
    value = group.key[1].labels.get(label_key)
    if value is not None:
        index.add(value, group)

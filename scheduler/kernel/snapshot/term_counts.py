"""The affinity terms of running pods, counted per node.

The terms of running pods affect an incoming one: required anti-affinity excludes it, other terms
attract or repel it. Equal terms of equal kind and weight are one class with a count
per node. Weights are not summed per node, because terms that cancel out still match the pod. For
such a pod kube-scheduler scores all nodes alike; it does not skip the score.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final, TypeAlias

from scheduler.api.affinity import AffinityTerm
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import EVERYTHING
from scheduler.kernel.snapshot.label_columns import LabelColumns
from scheduler.kernel.snapshot.pod_selectors import (
    NamespaceLabels,
    PodSelector,
    SelectorIndex,
    pod_selector_of,
)
from scheduler.kernel.snapshot.row_counts import RowCounts

_MAX_REMEMBERED: Final = 2**20
"""The most classes in all cached lists together; above it all lists are dropped."""
_REMEMBERED_PER_LIST: Final = 8
"""Size of a list beside its classes, in classes."""
_REMEMBERED_PER_SUM: Final = 32
"""Size of a sum of classes, in classes."""
_MERGED_ABOVE: Final = 4
"""Above this number of classes that match a pod, sums of them are returned."""
_MAX_SUMS_PER_CLASS: Final = 1024
_SEVERAL: Final = PodSelector(frozenset(), EVERYTHING, EVERYTHING)
"""The placeholder selector of a sum of terms."""


class TermKind(Enum):
    """The effect of a running pod's term on an incoming pod that it matches."""

    REQUIRED_ANTI_AFFINITY = "forbids"
    REQUIRED_AFFINITY = "attracts, by hardPodAffinityWeight"
    PREFERRED = "attracts or repels, by weight"

    # Members are themselves; the hash of their names would be computed in Python each time.
    __hash__ = object.__hash__


TermKey: TypeAlias = tuple[TermKind, PodSelector, str, int]
"""Kind, selected pods, topology key and signed weight."""


class TermClass:
    """All running pods with one term.

    Attributes:
        key: the key of the term.
        kind: the effect of the term.
        pods: the incoming pods that it selects.
        topology_key: the node label; each of its values is a domain.
        weight: the weight of preferred terms, negative for anti-affinity; 1 for required ones.
        counts: number of such terms by row; a pod that repeats a term counts as often.
        sums: further counts that include this one.
    """

    __slots__ = ("counts", "key", "kind", "pods", "sums", "topology_key", "weight")

    def __init__(self, key: TermKey, counts: RowCounts | None = None) -> None:
        self.key = key
        self.kind, self.pods, self.topology_key, self.weight = key
        self.counts = RowCounts() if counts is None else counts
        self.sums: tuple[RowCounts, ...] = ()


class TermCounts:
    """Counts per node of the affinity terms of running pods.

    Terms with a topology key that no node has affect no node and are never returned.
    """

    def __init__(self, namespaces: NamespaceLabels, labels: LabelColumns) -> None:
        self._namespaces = namespaces
        self._labels = labels
        self._classes: dict[TermKey, TermClass] = {}
        self._index: dict[TermKind, SelectorIndex[TermClass]] = {
            kind: SelectorIndex() for kind in TermKind
        }
        self._remembered: dict[tuple[TermKind, str, object], list[TermClass]] = {}
        self._remembered_size = 0
        self._merged_classes: list[TermClass] = []

    def matching(self, kind: TermKind, pod: PodInfo, capacity: int) -> list[TermClass]:
        """The classes of a kind that match the pod; if these are many, sums by key and weight.

        Until the terms change, pods whose labels no term tells apart get the same list.
        """
        if not self._classes:
            return []
        index = self._index[kind]
        if not index:
            return []
        key = (kind, pod.namespace, index.distinction(pod.labels))
        found = self._remembered.get(key)
        if found is None:
            found = self.about(kind, pod)
            if self._remembered_size > _MAX_REMEMBERED:
                self.forget_matches()
            self._remembered_size += len(found) + _REMEMBERED_PER_LIST
            if len(found) > _MERGED_ABOVE:
                found = self._merged(found, capacity)
                self._remembered_size += len(found) * _REMEMBERED_PER_SUM
            self._remembered[key] = found
        return found

    def about(self, kind: TermKind, pod: PodInfo) -> list[TermClass]:
        """The classes of a kind that match the pod, without sums."""
        found = self._index[kind].matching(pod.labels, pod.namespace, self._namespaces)
        return [cls for cls in found if cls.topology_key in self._labels]

    def change(self, row: int, pod: PodInfo, sign: int, capacity: int) -> None:
        """Add the terms of a pod to the counts (`sign` 1) or remove them (-1)."""
        for key in term_keys_of(pod):
            cls = self._classes.get(key)
            if cls is None:
                cls = self._classes[key] = TermClass(key)
                self._file(cls)
            cls.counts.add(row, sign, capacity)
            if cls.counts.total:
                for counts in cls.sums:
                    counts.add(row, sign, capacity)
            else:
                del self._classes[key]
                self._index[cls.kind].discard(cls)
                self.forget_matches()

    def __len__(self) -> int:
        """Number of terms that are counted."""
        return len(self._classes)

    def at(self, row: int) -> dict[TermKey, int]:
        """Number of affinity terms of each class among the pods of a row."""
        counted = ((key, cls.counts.at(row)) for key, cls in self._classes.items())
        return {key: int(count) for key, count in counted if count}

    def copy(self, namespaces: NamespaceLabels, labels: LabelColumns) -> "TermCounts":
        """An independent copy."""
        copy = TermCounts(namespaces, labels)
        for key, cls in self._classes.items():
            copied = copy._classes[key] = TermClass(key, cls.counts.copy())
            copy._file(copied)
        return copy

    def _file(self, cls: TermClass) -> None:
        self._index[cls.kind].add(cls)
        self.forget_matches()

    def _merged(self, classes: list[TermClass], capacity: int) -> list[TermClass]:
        """Sum classes up to one for each topology key and weight, which is kept up to date."""
        parts: dict[tuple[str, int], list[TermClass]] = {}
        for cls in classes:
            parts.setdefault((cls.topology_key, cls.weight), []).append(cls)
        if any(len(cls.sums) >= _MAX_SUMS_PER_CLASS for cls in classes):
            self.forget_matches()
        merged = []
        for same in parts.values():
            counts = RowCounts.sum_of((cls.counts for cls in same), capacity)
            for cls in same:
                cls.sums += (counts,)
            self._merged_classes += same
            kind, _, topology_key, weight = same[0].key
            merged.append(TermClass((kind, _SEVERAL, topology_key, weight), counts))
        return merged

    def forget_matches(self) -> None:
        """Drop all cached lists: terms, keys of node labels, or a namespace have changed."""
        if not self._remembered:
            return
        self._remembered.clear()
        self._remembered_size = 0
        # Not all classes: each pod may have a term, and so a class, of its own.
        for cls in self._merged_classes:
            cls.sums = ()
        self._merged_classes.clear()


def term_keys_of(pod: PodInfo) -> Iterator[TermKey]:
    """The keys of a pod's terms that affect other pods."""
    for kind, term, weight in terms_of(pod):
        yield kind, pod_selector_of(term, pod.namespace), term.topology_key, weight


def terms_of(pod: PodInfo) -> Iterator[tuple[TermKind, AffinityTerm, int]]:
    """The terms of a pod that affect other pods: kind, term, and signed weight."""
    affinity = pod.shape.affinity
    if affinity is None:
        return
    for term in affinity.required_anti:
        yield TermKind.REQUIRED_ANTI_AFFINITY, term, 1
    for term in affinity.required:
        yield TermKind.REQUIRED_AFFINITY, term, 1
    for weighted in affinity.preferred:
        yield TermKind.PREFERRED, weighted.term, weighted.weight
    for weighted in affinity.preferred_anti:
        yield TermKind.PREFERRED, weighted.term, -weighted.weight

"""The affinity terms of running pods, counted per node.

Running pods have a say about an incoming one: their required anti-affinity keeps it away, their
other terms attract or repel it. Equal terms of equal kind are one class with a count (or a sum of
weights) per node.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final

from scheduler.api.affinity import AffinityTerm
from scheduler.api.pods import LabelSet, PodInfo
from scheduler.snapshot.pod_selectors import (
    NamespaceLabels,
    PodSelector,
    SelectorIndex,
    pod_selector_of,
)
from scheduler.snapshot.row_counts import RowCounts

_MAX_REMEMBERED: Final = 50_000


class TermKind(Enum):
    """What a running pod's term does to an incoming pod it matches."""

    REQUIRED_ANTI_AFFINITY = "forbids"
    """Counts pods."""
    REQUIRED_AFFINITY = "attracts, by hardPodAffinityWeight"
    """Counts pods."""
    PREFERRED = "attracts or repels, by weight"
    """Sums weights; those of anti-affinity are negative."""


class TermClass:
    """All running pods with one term.

    Attributes:
        kind: what the term does.
        pods: which incoming pods it speaks of.
        topology_key: within which domain.
        counts: pods, or the sum of their weights, by row.
    """

    __slots__ = ("counts", "kind", "pods", "topology_key", "users")

    def __init__(self, kind: TermKind, pods: PodSelector, topology_key: str) -> None:
        self.kind = kind
        self.pods = pods
        self.topology_key = topology_key
        self.counts = RowCounts()
        self.users = 0


class TermCounts:
    """Counts per node of the affinity terms of running pods."""

    def __init__(self, namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self._classes: dict[tuple[TermKind, PodSelector, str], TermClass] = {}
        self._index: dict[TermKind, SelectorIndex[TermClass]] = {
            kind: SelectorIndex() for kind in TermKind
        }
        self._remembered: dict[tuple[TermKind, str, LabelSet], list[TermClass]] = {}

    def matching(self, kind: TermKind, pod: PodInfo) -> list[TermClass]:
        """The classes of a kind that speak of the pod."""
        if not self._classes:
            return []
        key = (kind, pod.namespace, pod.label_set)
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = self._index[kind].matching(
                pod.labels, pod.namespace, self._namespaces
            )
        return found

    def change(self, row: int, pod: PodInfo, sign: int, capacity: int) -> None:
        """Count the terms of a pod in (`sign` 1) or out (-1)."""
        for kind, term, weight in terms_of(pod):
            key = (kind, pod_selector_of(term, pod.namespace), term.topology_key)
            cls = self._classes.get(key)
            if cls is None:
                cls = self._classes[key] = TermClass(*key)
                self._index[kind].add(cls)
                self._remembered.clear()
            cls.counts.add(row, sign * weight, capacity)
            cls.users += sign
            if not cls.users:
                del self._classes[key]
                self._index[kind].discard(cls)
                self._remembered.clear()

    def namespace_changed(self) -> None:
        """The labels of a namespace changed: forget which terms speak of which pods."""
        self._remembered.clear()


def terms_of(pod: PodInfo) -> Iterator[tuple[TermKind, AffinityTerm, int]]:
    """The terms of a pod that concern others: kind, term, and count or signed weight."""
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

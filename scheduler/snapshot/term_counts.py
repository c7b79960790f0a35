"""The affinity terms of running pods, counted per node.

Running pods have a say about an incoming one: their required anti-affinity keeps it away, their
other terms attract or repel it. Equal terms of equal kind and weight are one class with a count
per node. Weights are not summed per node, because terms that cancel out still speak of the pod:
kube-scheduler then scores all nodes alike instead of skipping the score.
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
    REQUIRED_AFFINITY = "attracts, by hardPodAffinityWeight"
    PREFERRED = "attracts or repels, by weight"


class TermClass:
    """All running pods with one term.

    Attributes:
        kind: what the term does.
        pods: which incoming pods it speaks of.
        topology_key: within which domain.
        weight: of preferred terms, negative for anti-affinity; 1 for required ones.
        counts: such terms by row; a pod that repeats a term counts as often.
    """

    __slots__ = ("counts", "kind", "pods", "topology_key", "weight")

    def __init__(self, kind: TermKind, pods: PodSelector, topology_key: str, weight: int) -> None:
        self.kind = kind
        self.pods = pods
        self.topology_key = topology_key
        self.weight = weight
        self.counts = RowCounts()


class TermCounts:
    """Counts per node of the affinity terms of running pods."""

    def __init__(self, namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self._classes: dict[tuple[TermKind, PodSelector, str, int], TermClass] = {}
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
            key = (kind, pod_selector_of(term, pod.namespace), term.topology_key, weight)
            cls = self._classes.get(key)
            if cls is None:
                cls = self._classes[key] = TermClass(*key)
                self._index[kind].add(cls)
                self._remembered.clear()
            cls.counts.add(row, sign, capacity)
            if not cls.counts.total:
                del self._classes[key]
                self._index[kind].discard(cls)
                self._remembered.clear()

    def namespace_changed(self) -> None:
        """The labels of a namespace changed: forget which terms speak of which pods."""
        self._remembered.clear()


def terms_of(pod: PodInfo) -> Iterator[tuple[TermKind, AffinityTerm, int]]:
    """The terms of a pod that concern others: kind, term, and signed weight."""
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

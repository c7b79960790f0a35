"""Which pods a term speaks of, and the index that finds the terms that speak of a pod.

Thousands of selectors must not be tried on every pod: each is filed under one label it demands, so
that a pod meets only those filed under its own labels.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeVar

import msgspec

from scheduler.api.affinity import AffinityTerm
from scheduler.api.selectors import NOTHING, Operator, Selector

NamespaceLabels = Mapping[str, Mapping[str, str]]


class PodSelector(msgspec.Struct, frozen=True, gc=False):
    """Pods by namespace and labels.

    Attributes:
        namespaces: namespaces by name.
        namespace_selector: further namespaces, by their labels.
        selector: what the labels of the pod must satisfy.
        skip_terminating: whether pods that are being deleted do not count.
    """

    namespaces: frozenset[str]
    selector: Selector
    namespace_selector: Selector = NOTHING
    skip_terminating: bool = False

    def matches_namespace(self, namespace: str, namespaces: NamespaceLabels) -> bool:
        """Whether pods of the namespace are meant."""
        return namespace in self.namespaces or (
            not self.namespace_selector.nothing
            and self.namespace_selector.matches(namespaces.get(namespace, {}))
        )


def pod_selector_of(term: AffinityTerm, namespace: str) -> PodSelector:
    """The pods an affinity term of a pod in `namespace` speaks of."""
    resolved = term.in_namespace(namespace)
    return PodSelector(resolved.namespaces, resolved.selector, resolved.namespace_selector)


class Selecting(Protocol):
    """Something filed by its pod selector."""

    @property
    def pods(self) -> PodSelector:
        """The pods it speaks of."""
        ...


S = TypeVar("S", bound=Selecting)


class SelectorIndex(Generic[S]):
    """Finds what speaks of a pod by the pod's own labels."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[int, S]] = {}
        self._without_label: dict[int, S] = {}

    def add(self, item: S) -> None:
        """File an item."""
        for bucket in self._buckets(item.pods.selector, create=True):
            bucket[id(item)] = item

    def discard(self, item: S) -> None:
        """Take an item out."""
        for bucket in self._buckets(item.pods.selector, create=False):
            bucket.pop(id(item), None)

    def candidates(self, labels: Mapping[str, str]) -> Iterator[S]:
        """The items that might speak of a pod with these labels; each must still be tried."""
        yield from self._without_label.values()
        if self._by_label:
            for pair in labels.items():
                bucket = self._by_label.get(pair)
                if bucket:
                    yield from bucket.values()

    def matching(
        self, labels: Mapping[str, str], namespace: str, namespaces: NamespaceLabels
    ) -> list[S]:
        """The items that speak of a pod with these labels in this namespace."""
        return [
            item
            for item in self.candidates(labels)
            if item.pods.selector.matches(labels)
            and item.pods.matches_namespace(namespace, namespaces)
        ]

    def _buckets(self, selector: Selector, *, create: bool) -> list[dict[int, S]]:
        pairs = _cheapest_pairs(selector)
        if pairs is None:
            return [self._without_label]
        if create:
            return [self._by_label.setdefault(pair, {}) for pair in pairs]
        return [self._by_label[pair] for pair in pairs if pair in self._by_label]


def _cheapest_pairs(selector: Selector) -> list[tuple[str, str]] | None:
    """The label pairs of which a matching pod has exactly one; None when it may have none."""
    best = None
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and (
            best is None or len(requirement.values) < len(best.values)
        ):
            best = requirement
    return None if best is None else [(best.key, value) for value in best.values]

"""Pod (anti-)affinity terms, parsed once per pod shape.

Source: kubernetes pkg/scheduler/framework/types.go (newAffinityTerm, AffinityTerm.Matches) v1.36.
"""

from functools import lru_cache
from sys import intern
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from scheduler.api.objects import (
    PodAffinitySpec,
    PodAffinityTerm,
    PodSpec,
    WeightedPodAffinityTerm,
)
from scheduler.api.selectors import NOTHING, Selector, selector_from_label_selector

_NO_NAMES: Final[frozenset[str]] = frozenset()


class AffinityTerm(msgspec.Struct, frozen=True, gc=False):
    """A pod (anti-)affinity term: a selector of pods, their namespaces, and a topology key.

    Without namespaces and with a namespace selector that matches nothing, the term covers the
    pod's own namespace.
    """

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector = NOTHING

    @property
    def means_own_namespace(self) -> bool:
        """Whether the term gives neither names nor a selector of namespaces."""
        return not self.namespaces and self.namespace_selector.nothing

    @property
    def selects_namespaces(self) -> bool:
        """Whether labels of namespaces select the namespaces of the term."""
        selector = self.namespace_selector
        return not (selector.nothing or selector.matches({}))

    def in_namespace(self, namespace: str) -> "AffinityTerm":
        """Return the term with this namespace filled in as the pod's own."""
        if not self.means_own_namespace:
            return self
        return msgspec.structs.replace(self, namespaces=_alone(namespace))


class WeightedAffinityTerm(msgspec.Struct, frozen=True, gc=False):
    """A preferred term and its weight."""

    term: AffinityTerm
    weight: int


class AffinityTerms(msgspec.Struct, frozen=True, gc=False):
    """All pod (anti-)affinity terms of a shape.

    Attributes:
        selects_namespaces: whether any term selects its namespaces by their labels.
    """

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti: tuple[WeightedAffinityTerm, ...] = ()
    selects_namespaces: bool = False


def affinity_terms_of(spec: PodSpec) -> AffinityTerms | None:
    """Parse the terms of a pod; None if it has none.

    Raises:
        SelectorError: a selector cannot be read.
    """
    affinity = spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return None
    near = affinity.pod_affinity or PodAffinitySpec()
    far = affinity.pod_anti_affinity or PodAffinitySpec()
    required = _terms(near.required_during_scheduling_ignored_during_execution)
    required_anti = _terms(far.required_during_scheduling_ignored_during_execution)
    preferred = _weighted(near.preferred_during_scheduling_ignored_during_execution)
    preferred_anti = _weighted(far.preferred_during_scheduling_ignored_during_execution)
    weighted = (each.term for each in (*preferred, *preferred_anti))
    selects = any(term.selects_namespaces for term in (*required, *required_anti, *weighted))
    return AffinityTerms(required, required_anti, preferred, preferred_anti, selects)


def _terms(terms: tuple[PodAffinityTerm, ...]) -> tuple[AffinityTerm, ...]:
    return tuple(map(_term, terms))


def _weighted(terms: tuple[WeightedPodAffinityTerm, ...]) -> tuple[WeightedAffinityTerm, ...]:
    return tuple(WeightedAffinityTerm(_term(t.pod_affinity_term), t.weight) for t in terms)


@lru_cache(maxsize=1024)
def _alone(namespace: str) -> frozenset[str]:
    """Return one shared set per namespace: very many terms name few namespaces."""
    return frozenset((namespace,))


def _term(term: PodAffinityTerm) -> AffinityTerm:
    # The API server has already merged matchLabelKeys and mismatchLabelKeys into the selector.
    # Interned: very many terms have few different keys.
    force_setattr(term, "topology_key", intern(term.topology_key))
    return AffinityTerm(
        topology_key=term.topology_key,
        selector=selector_from_label_selector(term.label_selector),
        namespaces=frozenset(term.namespaces) or _NO_NAMES,
        namespace_selector=selector_from_label_selector(term.namespace_selector),
    )

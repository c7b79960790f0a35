"""The (anti-)affinity terms of an incoming pod, with namespaces resolved.

Namespace selectors of an incoming pod are resolved to the names of the namespaces that exist. Those
of running pods are judged by the labels of the incoming pod's namespace instead.

Source: kubernetes pkg/scheduler/framework/plugins/interpodaffinity/plugin.go (v1.36)
mergeAffinityTermNamespacesIfNotEmpty; filtering.go podMatchesAllAffinityTerms.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.api.affinity import AffinityTerm, AffinityTerms
from scheduler.api.kind_memo import KindMemo
from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo, PodKind
from scheduler.api.selectors import EVERYTHING, NOTHING
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.pod_selectors import NamespaceLabels, PodSelector


class OwnTerm(msgspec.Struct, frozen=True, gc=False):
    """One term: the pods that it selects, its topology key, and the weight of a preferred term."""

    topology_key: str
    pods: PodSelector
    weight: int = 1
    """Negative for preferred anti-affinity."""


class OwnTerms(msgspec.Struct, frozen=True):
    """The resolved terms of an incoming pod.

    Attributes:
        affinity_keys: the topology key of each required affinity term.
        near: the pods that satisfy all required affinity terms; only such pods count.
        away: required anti-affinity.
        preferred: both kinds of preferred terms.
    """

    affinity_keys: tuple[str, ...] = ()
    near: PodSelector | None = None
    away: tuple[OwnTerm, ...] = ()
    preferred: tuple[OwnTerm, ...] = ()

    @property
    def has_required(self) -> bool:
        """Whether any term is required."""
        return bool(self.affinity_keys or self.away)


NO_TERMS: Final = OwnTerms()


class OwnTermsCache:
    """Resolves the terms of pods once per shape and namespace."""

    def __init__(self) -> None:
        self._known: KindMemo[tuple[PodShape, str, int | None], OwnTerms] = KindMemo()

    def terms_of(self, pod: PodInfo, snapshot: Snapshot) -> OwnTerms:
        """The terms of a pod, resolved for the present namespaces."""
        kind = pod.kind
        affinity = kind.shape.affinity
        if affinity is None:
            return NO_TERMS
        epoch = snapshot.namespace_epoch if affinity.selects_namespaces else None
        return self._known.value(
            kind,
            (kind.shape, kind.namespace, epoch),
            lambda: _resolved(affinity, kind.namespace, snapshot),
        )


def speaks_of(pods: PodSelector, pod: PodInfo | PodKind, namespaces: NamespaceLabels) -> bool:
    """Whether `pods` selects a pod, or each pod of a kind; terminating pods included."""
    return pods.matches_namespace(pod.namespace, namespaces) and pods.selector.matches(pod.labels)


def resolved_term(term: AffinityTerm, namespace: str, snapshot: Snapshot) -> OwnTerm:
    """A term of a pod of `namespace`, resolved for the present namespaces."""
    return OwnTerm(term.topology_key, _pods(term, namespace, snapshot.namespaces))


def _resolved(affinity: AffinityTerms, namespace: str, snapshot: Snapshot) -> OwnTerms:
    near = [_pods(term, namespace, snapshot.namespaces) for term in affinity.required]
    preferred = [(weighted.term, weighted.weight) for weighted in affinity.preferred]
    preferred.extend((weighted.term, -weighted.weight) for weighted in affinity.preferred_anti)
    return OwnTerms(
        affinity_keys=tuple(term.topology_key for term in affinity.required),
        near=_intersection(near) if near else None,
        away=tuple(resolved_term(term, namespace, snapshot) for term in affinity.required_anti),
        preferred=tuple(
            OwnTerm(term.topology_key, _pods(term, namespace, snapshot.namespaces), weight)
            for term, weight in preferred
        ),
    )


def _pods(term: AffinityTerm, namespace: str, namespaces: NamespaceLabels) -> PodSelector:
    resolved = term.in_namespace(namespace)
    if resolved.namespace_selector.matches({}):
        # Upstream also matches found pods against the namespace selector, but with empty labels.
        # So a selector that only excludes labels matches all namespaces.
        return PodSelector(frozenset(), resolved.selector, EVERYTHING)
    matching = {
        name for name, labels in namespaces.items() if resolved.namespace_selector.matches(labels)
    }
    return PodSelector(resolved.namespaces | matching, resolved.selector, NOTHING)


def _intersection(selectors: Iterable[PodSelector]) -> PodSelector:
    """The selector of the pods that all resolved selectors select."""
    first, *others = selectors
    for other in others:
        if first.namespace_selector.is_everything:
            namespaces, among = other.namespaces, other.namespace_selector
        elif other.namespace_selector.is_everything:
            namespaces, among = first.namespaces, first.namespace_selector
        else:
            namespaces, among = first.namespaces & other.namespaces, NOTHING
        selector = first.selector.with_requirements(other.selector.requirements)
        if other.selector.nothing:
            selector = NOTHING
        first = PodSelector(namespaces, selector, among)
    return first

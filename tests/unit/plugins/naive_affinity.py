"""The rules of inter-pod affinity, written down naively: over nodes and pods, one by one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Affinity, PodAffinitySpec, PodAffinityTerm
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import selector_from_label_selector
from scheduler.kernel.framework.status import Code
from tests.unit.plugins.clusters import Answer, Cluster, labels_of

AFFINITY = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) didn't match pod affinity rules")
ANTI_AFFINITY = (Code.UNSCHEDULABLE, "node(s) didn't match pod anti-affinity rules")
EXISTING = (Code.UNSCHEDULABLE, "node(s) didn't satisfy existing pods anti-affinity rules")

Pair = tuple[str, str]
"""Topology key and value."""


@dataclass
class Terms:
    """The terms of one pod: required, required anti, and preferred ones with signed weights."""

    near: tuple[PodAffinityTerm, ...] = ()
    away: tuple[PodAffinityTerm, ...] = ()
    preferred: list[tuple[int, PodAffinityTerm]] = field(default_factory=list)


def naive_affinity(
    pod: PodInfo,
    cluster: Cluster,
    candidates: set[str] | None,
    *,
    hard_weight: int = 1,
    ignore_existing: bool = False,
) -> Answer:
    """What kube-scheduler would say."""
    answer = Answer(skips_filter=False, rejected={}, skips_score=False, scores={}, normalized={})
    _filter(answer, pod, cluster)
    _score(
        answer, pod, cluster, candidates, hard_weight=hard_weight, ignore_existing=ignore_existing
    )
    return answer


def terms_of(pod: PodInfo) -> Terms:
    affinity = pod.spec.affinity or Affinity()
    near = affinity.pod_affinity or PodAffinitySpec()
    away = affinity.pod_anti_affinity or PodAffinitySpec()
    preferred = [
        (w.weight, w.pod_affinity_term)
        for w in near.preferred_during_scheduling_ignored_during_execution
    ]
    preferred += [
        (-w.weight, w.pod_affinity_term)
        for w in away.preferred_during_scheduling_ignored_during_execution
    ]
    return Terms(
        near.required_during_scheduling_ignored_during_execution,
        away.required_during_scheduling_ignored_during_execution,
        preferred,
    )


def own_term_matches(
    term: PodAffinityTerm, owner: PodInfo, other: PodInfo, cluster: Cluster
) -> bool:
    """Whether a term of the waiting pod speaks of a running one.

    Its namespace selector adds the existing namespaces it finds by their labels. It is then asked
    once more, with no labels at all, and lets every pod pass when it matches those.
    """
    namespaces = _named(term, owner)
    selector = selector_from_label_selector(term.namespace_selector)
    namespaces |= {n for n, labels in cluster.namespaces.items() if selector.matches(labels)}
    if other.namespace not in namespaces and not selector.matches({}):
        return False
    return selector_from_label_selector(term.label_selector).matches(other.labels)


def their_term_matches(
    term: PodAffinityTerm, owner: PodInfo, waiting: PodInfo, cluster: Cluster
) -> bool:
    """Whether a term of a running pod speaks of the waiting one.

    Its namespace selector sees the labels of the waiting pod's namespace: none if it is unknown.
    """
    selector = selector_from_label_selector(term.namespace_selector)
    labels: Mapping[str, str] = cluster.namespaces.get(waiting.namespace, {})
    if waiting.namespace not in _named(term, owner) and not selector.matches(labels):
        return False
    return selector_from_label_selector(term.label_selector).matches(waiting.labels)


def _named(term: PodAffinityTerm, owner: PodInfo) -> set[str]:
    if not term.namespaces and term.namespace_selector is None:
        return {owner.namespace}
    return set(term.namespaces)


def _filter(answer: Answer, pod: PodInfo, cluster: Cluster) -> None:
    own = terms_of(pod)
    near: Counter[Pair] = Counter()
    away: Counter[Pair] = Counter()
    existing: Counter[Pair] = Counter()
    for info in cluster.nodes:
        for other in info.pods.values():
            if own.near and all(own_term_matches(t, pod, other, cluster) for t in own.near):
                near.update(_pairs(info, own.near))
            away.update(
                _pairs(info, [t for t in own.away if own_term_matches(t, pod, other, cluster)])
            )
            theirs = [t for t in terms_of(other).away if their_term_matches(t, other, pod, cluster)]
            existing.update(_pairs(info, theirs))
    if not (own.near or own.away or existing):
        answer.skips_filter = True
        return
    itself = all(own_term_matches(term, pod, pod, cluster) for term in own.near)
    for info in cluster.nodes:
        labels = labels_of(info)
        pairs = _pairs(info, own.near)
        has_keys = len(pairs) == len(own.near)
        met = all(near[pair] for pair in pairs)
        if not has_keys or not (met or (not near and itself)):
            answer.rejected[info.name] = AFFINITY
        elif any(away[pair] for pair in _pairs(info, own.away)):
            answer.rejected[info.name] = ANTI_AFFINITY
        elif any(existing[pair] for pair in labels.items()):
            answer.rejected[info.name] = EXISTING


def _score(
    answer: Answer,
    pod: PodInfo,
    cluster: Cluster,
    candidates: set[str] | None,
    *,
    hard_weight: int,
    ignore_existing: bool,
) -> None:
    own = terms_of(pod)
    if ignore_existing and not own.preferred:
        answer.skips_score = True
        return
    worth: dict[Pair, int] = {}
    for info in cluster.nodes:
        for other in info.pods.values():
            weighted = [
                (w, t) for w, t in own.preferred if own_term_matches(t, pod, other, cluster)
            ]
            theirs = terms_of(other)
            claims = list(theirs.preferred)
            if hard_weight > 0:
                claims += [(hard_weight, t) for t in theirs.near]
            weighted += [(w, t) for w, t in claims if their_term_matches(t, other, pod, cluster)]
            for weight, term in weighted:
                for pair in _pairs(info, [term]):
                    worth[pair] = worth.get(pair, 0) + weight
    if not worth:
        answer.skips_score = True
        return
    feasible = [i for i in cluster.nodes if candidates is None or i.name in candidates]
    answer.scores = {
        info.name: sum(worth.get(pair, 0) for pair in labels_of(info).items()) for info in feasible
    }
    lowest, highest = min(answer.scores.values()), max(answer.scores.values())
    for name, score in answer.scores.items():
        spread = highest - lowest
        answer.normalized[name] = int(100.0 * ((score - lowest) / spread)) if spread else 0


def _pairs(
    info: NodeInfo, terms: tuple[PodAffinityTerm, ...] | list[PodAffinityTerm]
) -> list[Pair]:
    labels = labels_of(info)
    return [(t.topology_key, labels[t.topology_key]) for t in terms if t.topology_key in labels]

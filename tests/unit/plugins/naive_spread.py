"""The rules of topology spread, written down naively: over nodes and pods, one by one."""

import math
from collections import Counter
from collections.abc import Iterable

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import TopologySpreadConstraint
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import Selector, selector_from_label_selector, selector_from_labels
from scheduler.api.taints import Tolerations
from scheduler.kernel.framework.status import Code
from scheduler.kernel.plugins.node_predicates import (
    has_untolerated_taint,
    required_node_affinity_of,
)
from tests.support.builders import HOSTNAME
from tests.unit.plugins.clusters import Answer, Cluster, labels_of, node_of

SKEWED = (Code.UNSCHEDULABLE, "node(s) didn't match pod topology spread constraints")
NO_KEY = (
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    "node(s) didn't match pod topology spread constraints (missing required label)",
)


def naive_spread(
    pod: PodInfo,
    cluster: Cluster,
    candidates: set[str] | None,
    defaults: tuple[TopologySpreadConstraint, ...] = (),
    default_selector: Selector | None = None,
    *,
    defaults_are_the_systems: bool = False,
) -> Answer:
    """What kube-scheduler would say.

    Args:
        pod: the waiting pod.
        cluster: what runs where.
        candidates: the nodes to score; all when None.
        defaults: constraints for a pod that has none.
        default_selector: what services and controllers say belongs together with the pod.
        defaults_are_the_systems: nodes without the keys of `defaults` are scored nevertheless.
    """
    constraints = pod.spec.topology_spread_constraints
    if constraints:
        selected = [(c, own_selector(c, pod)) for c in constraints]
    elif default_selector is not None and default_selector.requirements:
        selected = [(c, default_selector) for c in defaults]
    else:
        selected = []
    hard = [(c, s) for c, s in selected if c.when_unsatisfiable == "DoNotSchedule"]
    soft = [(c, s) for c, s in selected if c.when_unsatisfiable == "ScheduleAnyway"]
    answer = Answer(not hard, {}, not soft, {}, {})
    if hard:
        answer.rejected = _filter(pod, cluster, hard)
    if soft:
        require_all = bool(constraints) or not defaults_are_the_systems
        _score(answer, pod, cluster, soft, candidates, require_all=require_all)
    return answer


def own_selector(constraint: TopologySpreadConstraint, pod: PodInfo) -> Selector:
    selector = selector_from_label_selector(constraint.label_selector)
    if selector.nothing:
        return selector
    more = {k: pod.labels[k] for k in constraint.match_label_keys if k in pod.labels}
    return selector.with_requirements(selector_from_labels(more).requirements)


Selected = list[tuple[TopologySpreadConstraint, Selector]]


def _filter(pod: PodInfo, cluster: Cluster, selected: Selected) -> dict[str, tuple[Code, str]]:
    counts = []
    for constraint, selector in selected:
        by_value: Counter[str] = Counter()
        for info in cluster.nodes:
            labels = labels_of(info)
            if _has_all_keys(info, selected) and _counts_in(constraint, pod, info):
                by_value[labels[constraint.topology_key]] += _matching(pod, info, selector)
        counts.append(by_value)
    rejected = {}
    for info in cluster.nodes:
        for (constraint, selector), by_value in zip(selected, counts, strict=True):
            value = labels_of(info).get(constraint.topology_key)
            if value is None:
                rejected[info.name] = NO_KEY
                break
            lowest = min(by_value.values(), default=0)
            if len(by_value) < (constraint.min_domains or 1):
                lowest = 0
            itself = selector.matches(pod.labels)
            if by_value.get(value, 0) + itself - lowest > constraint.max_skew:
                rejected[info.name] = SKEWED
                break
    return rejected


def _score(
    answer: Answer,
    pod: PodInfo,
    cluster: Cluster,
    selected: Selected,
    candidates: set[str] | None,
    *,
    require_all: bool,
) -> None:
    feasible = [i for i in cluster.nodes if candidates is None or i.name in candidates]
    scored = [i for i in feasible if not require_all or _has_all_keys(i, selected)]
    raw: dict[str, float] = {i.name: 0.0 for i in scored}
    for constraint, selector in selected:
        key = constraint.topology_key
        domains = {labels_of(i).get(key, "") for i in scored}
        size = len(scored) if key == HOSTNAME else len(domains)
        by_value: Counter[str] = Counter()
        for info in cluster.nodes:
            whole = not require_all or _has_all_keys(info, selected)
            if whole and _counts_in(constraint, pod, info):
                by_value[labels_of(info).get(key, "")] += _matching(pod, info, selector)
        for info in scored:
            if key in labels_of(info):
                here = by_value[labels_of(info)[key]]
                count = _matching(pod, info, selector) if key == HOSTNAME else here
                raw[info.name] += count * math.log(size + 2) + (constraint.max_skew - 1)
    rounded = {name: math.floor(score + 0.5) for name, score in raw.items()}
    answer.scores = {i.name: rounded.get(i.name, 0) for i in feasible}
    lowest, highest = min(rounded.values(), default=0), max(rounded.values(), default=0)
    for info in feasible:
        if info.name not in rounded:
            answer.normalized[info.name] = 0
        elif highest == 0:
            answer.normalized[info.name] = 100
        else:
            left = highest + lowest - rounded[info.name]
            answer.normalized[info.name] = 100 * left // highest


def _has_all_keys(
    info: NodeInfo, selected: Iterable[tuple[TopologySpreadConstraint, object]]
) -> bool:
    return all(c.topology_key in labels_of(info) for c, _ in selected)


def _counts_in(constraint: TopologySpreadConstraint, pod: PodInfo, info: NodeInfo) -> bool:
    """Whether the constraint looks at the node."""
    node = node_of(info)
    if (constraint.node_affinity_policy or "Honor") == "Honor" and not required_node_affinity_of(
        pod.spec
    ).matches_node(node):
        return False
    return not (
        constraint.node_taints_policy == "Honor"
        and has_untolerated_taint(node.spec.taints, Tolerations(pod.spec.tolerations))
    )


def _matching(pod: PodInfo, info: NodeInfo, selector: Selector) -> int:
    """How many pods on the node count; the selector of everything counts none."""
    if not selector.nothing and not selector.requirements:
        return 0
    return sum(
        other.namespace == pod.namespace
        and not other.is_terminating
        and selector.matches(other.labels)
        for other in info.pods.values()
    )

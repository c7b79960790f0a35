"""Topology spread constraints, parsed once per pod shape.

Source: kubernetes pkg/scheduler/framework/plugins/podtopologyspread/common.go, plugin.go,
scoring.go (v1.36) filterTopologySpreadConstraints, buildDefaultConstraints, getConstraints.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from scheduler.api.kind_memo import KindMemo
from scheduler.api.objects import PodSpec, TopologySpreadConstraint
from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo, PodKind
from scheduler.api.selectors import (
    Operator,
    Requirement,
    Selector,
    selector_from_label_selector,
)
from scheduler.kernel.plugins.node_predicates import required_node_affinity_of
from scheduler.kernel.plugins.topology_scope import ScopeKey, TopologyScope, TopologyScopes
from scheduler.kernel.snapshot.pod_selectors import PodSelector

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"

SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(
        max_skew=3, topology_key="kubernetes.io/hostname", when_unsatisfiable=SOFT
    ),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SOFT
    ),
)
"""The default constraints for pods of a Service or controller that have none of their own."""

_HONOR: Final = "Honor"


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False):
    """One constraint of a pod.

    Attributes:
        topology_key: the node label whose values are the domains.
        max_skew: largest lead of a domain over the emptiest one.
        min_domains: with fewer domains than this, the lowest count is taken as 0.
        selector: selects the pods that count.
        counted: the pods counted on nodes; None when none count.
    """

    topology_key: str
    max_skew: int
    min_domains: int
    selector: Selector
    counted: PodSelector | None


class SpreadPlan(msgspec.Struct, frozen=True):
    """The parsed constraints of a pod; shared by all pods of a workload.

    Attributes:
        hard: constraints that reject nodes.
        soft: constraints that score nodes.
        hard_scope: the nodes that the hard constraints cover.
        soft_scope: the nodes that the soft constraints cover.
    """

    hard: tuple[SpreadConstraint, ...]
    soft: tuple[SpreadConstraint, ...]
    hard_scope: TopologyScope
    soft_scope: TopologyScope


_Key: TypeAlias = tuple[PodShape, str, Selector | tuple[str | None, ...]]
"""Shape, namespace, and either the deduced selector or the values of the pod's matchLabelKeys."""


class SpreadPlans:
    """The plans of pods, cached by the pod's kind.

    Args:
        defaults: constraints of pods that have none of their own.
        requires_all_keys: whether default soft constraints ignore nodes that lack a topology key,
            as constraints of the pod itself always do.
        selector_of: the selector of the pods that belong together with a pod, for default
            constraints.
        compares: for `Tolerations`.
    """

    def __init__(
        self,
        defaults: Sequence[TopologySpreadConstraint],
        selector_of: Callable[[PodInfo], Selector],
        *,
        requires_all_keys: bool,
        compares: bool = False,
    ) -> None:
        self._defaults = tuple(defaults)
        self._selector_of = selector_of
        self._defaults_require_all_keys = requires_all_keys
        self._plans: KindMemo[_Key, SpreadPlan] = KindMemo()
        self._scopes = TopologyScopes(compares=compares)

    def plan_of(self, pod: PodInfo) -> SpreadPlan | None:
        """The plan of a pod; None when it has no constraints at all.

        Raises:
            SelectorError: a selector of the pod cannot be read.
        """
        kind = pod.kind
        own, labels = kind.shape.spec.topology_spread_constraints, kind.labels
        if own:
            values = tuple([labels.get(key) for each in own for key in each.match_label_keys])
            return self._plans.value(
                kind,
                (kind.shape, kind.namespace, values),
                lambda: self._plan(kind, [(c, _own_selector(c, labels)) for c in own]),
            )
        if not self._defaults:
            return None
        selector = self._selector_of(pod)
        if selector.is_everything:
            return None
        return self._plans.value(
            kind,
            (kind.shape, kind.namespace, selector),
            lambda: self._plan(
                kind,
                [(c, selector) for c in self._defaults],
                requires_all_keys=self._defaults_require_all_keys,
            ),
        )

    def _plan(
        self,
        kind: PodKind,
        constraints: Sequence[tuple[TopologySpreadConstraint, Selector]],
        *,
        requires_all_keys: bool = True,
    ) -> SpreadPlan:
        hard = [pair for pair in constraints if pair[0].when_unsatisfiable == HARD]
        soft = [pair for pair in constraints if pair[0].when_unsatisfiable == SOFT]
        spec, namespace = kind.shape.spec, kind.namespace
        return SpreadPlan(
            tuple(_constraint(c, selector, namespace) for c, selector in hard),
            tuple(_constraint(c, selector, namespace) for c, selector in soft),
            self._scope(spec, (c for c, _ in hard), requires_all_keys=True),
            self._scope(spec, (c for c, _ in soft), requires_all_keys=requires_all_keys),
        )

    def _scope(
        self,
        spec: PodSpec,
        constraints: Iterable[TopologySpreadConstraint],
        *,
        requires_all_keys: bool,
    ) -> TopologyScope:
        keys = tuple(
            ScopeKey(
                c.topology_key,
                honors_affinity=c.node_affinity_policy in (None, _HONOR),
                honors_taints=c.node_taints_policy == _HONOR,
            )
            for c in constraints
        )
        affinity = required_node_affinity_of(spec)
        return self._scopes.scope(
            keys, affinity, spec.tolerations, requires_all_keys=requires_all_keys
        )


def hard_paths(pod: PodInfo) -> list[str]:
    """The field paths of the pod's own hard constraints."""
    return [
        f"spec.topologySpreadConstraints[{i}]"
        for i, constraint in enumerate(pod.spec.topology_spread_constraints)
        if constraint.when_unsatisfiable == HARD
    ]


def _own_selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    """The selector with the pod's own values of matchLabelKeys added."""
    return selector_from_label_selector(constraint.label_selector).with_requirements(
        Requirement(key, Operator.IN, frozenset((labels[key],)))
        for key in constraint.match_label_keys
        if key in labels
    )


def _constraint(
    constraint: TopologySpreadConstraint, selector: Selector, namespace: str
) -> SpreadConstraint:
    counts_none = selector.nothing or selector.is_everything
    return SpreadConstraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        selector=selector,
        # A selector without requirements counts no pod on any node, as in upstream.
        counted=None
        if counts_none
        else PodSelector(frozenset((namespace,)), selector, skip_terminating=True),
    )

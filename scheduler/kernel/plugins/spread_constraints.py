"""Topology spread constraints, parsed once per pod shape.

Source: kubernetes pkg/scheduler/framework/plugins/podtopologyspread/common.go, plugin.go,
scoring.go (v1.36) filterTopologySpreadConstraints, buildDefaultConstraints, getConstraints.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from scheduler.api.objects import TopologySpreadConstraint
from scheduler.api.pods import PodInfo, PodShape
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
"""What spreads the pods of a Service or controller that say nothing themselves."""

_IGNORE: Final = "Ignore"
_HONOR: Final = "Honor"

_MAX_SHAPES: Final = 1024
_MAX_PLANS_PER_SHAPE: Final = 1024


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False):
    """One constraint of a pod.

    Attributes:
        topology_key: the node label whose values are the domains.
        max_skew: how far a domain may be ahead of the emptiest one.
        min_domains: with fewer domains than this the emptiest one counts as empty.
        selector: which pods count.
        counted: the pods that count on nodes; None when they count as none at all.
    """

    topology_key: str
    max_skew: int
    min_domains: int
    selector: Selector
    counted: PodSelector | None


class SpreadPlan(msgspec.Struct, frozen=True):
    """What the constraints of a pod come down to; shared by all pods of a workload.

    Attributes:
        hard: constraints that reject nodes.
        soft: constraints that score nodes.
        hard_scope: the nodes the hard constraints look at.
        soft_scope: the nodes the soft constraints look at.
    """

    hard: tuple[SpreadConstraint, ...]
    soft: tuple[SpreadConstraint, ...]
    hard_scope: TopologyScope
    soft_scope: TopologyScope


_VariantKey: TypeAlias = tuple[str, Selector | tuple[str | None, ...]]
"""Namespace, and either the deduced selector or the values of the pod's matchLabelKeys."""


class _ShapePlans:
    """The plans of one pod shape, by what else they depend on."""

    __slots__ = ("constraints", "label_keys", "plans")

    def __init__(self, shape: PodShape) -> None:
        self.constraints = shape.spec.topology_spread_constraints
        keys = (key for c in self.constraints for key in c.match_label_keys)
        self.label_keys = tuple(dict.fromkeys(keys))
        self.plans: dict[_VariantKey, SpreadPlan] = {}


class SpreadPlans:
    """Finds the plan of a pod, and remembers it by the pod's shape.

    Args:
        defaults: constraints of pods that have none of their own.
        requires_all_keys: whether default soft constraints ignore nodes that lack a topology key,
            as constraints of the pod itself always do.
        selector_of: what selects the pods that belong together with one; these the default
            constraints count.
    """

    def __init__(
        self,
        defaults: Sequence[TopologySpreadConstraint],
        selector_of: Callable[[PodInfo], Selector],
        *,
        requires_all_keys: bool,
    ) -> None:
        self._defaults = tuple(defaults)
        self._selector_of = selector_of
        self._defaults_require_all_keys = requires_all_keys
        self._shapes: dict[PodShape, _ShapePlans] = {}
        self._scopes = TopologyScopes()

    def plan_of(self, pod: PodInfo) -> SpreadPlan | None:
        """The plan of a pod; None when it has no constraints at all.

        Raises:
            SelectorError: a selector of the pod cannot be read.
        """
        shape = self._shapes.get(pod.shape)
        if shape is None:
            shape = self._new_shape(pod.shape)
        if shape.constraints:
            labels = pod.labels
            values = tuple(labels.get(key) for key in shape.label_keys)
            key: _VariantKey = (pod.namespace, values)
            return shape.plans.get(key) or self._own_plan(shape, pod, key)
        if not self._defaults:
            return None
        selector = self._selector_of(pod)
        if selector.is_everything:
            return None
        key = (pod.namespace, selector)
        return shape.plans.get(key) or self._default_plan(shape, pod, key, selector)

    def _new_shape(self, shape: PodShape) -> _ShapePlans:
        if len(self._shapes) >= _MAX_SHAPES:
            self._shapes.clear()
            self._scopes.clear()
        plans = self._shapes[shape] = _ShapePlans(shape)
        return plans

    def _own_plan(self, shape: _ShapePlans, pod: PodInfo, key: _VariantKey) -> SpreadPlan:
        selectors = [_own_selector(c, pod.labels) for c in shape.constraints]
        constraints = list(zip(shape.constraints, selectors, strict=True))
        return self._remember(shape, pod, key, constraints, requires_all_keys=True)

    def _default_plan(
        self, shape: _ShapePlans, pod: PodInfo, key: _VariantKey, selector: Selector
    ) -> SpreadPlan:
        constraints = [(constraint, selector) for constraint in self._defaults]
        return self._remember(
            shape, pod, key, constraints, requires_all_keys=self._defaults_require_all_keys
        )

    def _remember(
        self,
        shape: _ShapePlans,
        pod: PodInfo,
        key: _VariantKey,
        constraints: Sequence[tuple[TopologySpreadConstraint, Selector]],
        *,
        requires_all_keys: bool,
    ) -> SpreadPlan:
        if len(shape.plans) >= _MAX_PLANS_PER_SHAPE:
            shape.plans.clear()
        hard = [pair for pair in constraints if pair[0].when_unsatisfiable == HARD]
        soft = [pair for pair in constraints if pair[0].when_unsatisfiable == SOFT]
        plan = shape.plans[key] = SpreadPlan(
            tuple(_constraint(c, selector, pod.namespace) for c, selector in hard),
            tuple(_constraint(c, selector, pod.namespace) for c, selector in soft),
            self._scope(pod, (c for c, _ in hard), requires_all_keys=True),
            self._scope(pod, (c for c, _ in soft), requires_all_keys=requires_all_keys),
        )
        return plan

    def _scope(
        self,
        pod: PodInfo,
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
        affinity = required_node_affinity_of(pod.spec)
        return self._scopes.scope(
            keys, affinity, pod.spec.tolerations, requires_all_keys=requires_all_keys
        )


def hard_paths(pod: PodInfo) -> list[str]:
    """Where the pod's own constraints that must be kept are written."""
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
        # A selector without requirements counts no pod on any node, strange as it is.
        counted=None
        if counts_none
        else PodSelector(frozenset((namespace,)), selector, skip_terminating=True),
    )

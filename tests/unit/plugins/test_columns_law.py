"""The law of the row-local plugins: columns say what the rules say, node by node.

Every plugin is asked about random pods in random clusters and compared with a reference that looks
at one node at a time in whole numbers; and it must give the same answers for any choice of rows.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.config.args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    ScoringStrategyType,
    UtilizationShapePoint,
)
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import PreFilterPlugin
from scheduler.kernel.framework.status import Status
from scheduler.kernel.plugins.image_locality import ImageLocality
from scheduler.kernel.plugins.node_affinity import NodeAffinity
from scheduler.kernel.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.kernel.plugins.node_ports import NodePorts
from scheduler.kernel.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.plugins.node_unschedulable import NodeUnschedulable
from scheduler.kernel.plugins.taint_toleration import TaintToleration
from tests.support.plugin_answers import FITS, SKIP, filter_answers, score_answers, statuses
from tests.unit.plugins import scalar_reference as reference
from tests.unit.plugins.random_cluster import RandomCluster
from tests.unit.plugins.scalar_reference import EXTENDED, HUGE, OTHER_EXTENDED, FitRules

SEEDS = st.integers(0, 2**32)
EXAMPLES = 150

IGNORING = FitRules(ignored=frozenset({EXTENDED}), groups=frozenset({"vendor.example"}))
MOST = FitRules(strategy="MostAllocated", resources={"memory": 3, EXTENDED: 2, "cpu": 1})
LEAST = FitRules(resources={"cpu": 2, "ephemeral-storage": 1, HUGE: 5})
RATIO = FitRules(
    strategy="RequestedToCapacityRatio",
    resources={"cpu": 3, "memory": 1, OTHER_EXTENDED: 7},
    shape=((10, 9), (33, 2), (40, 0), (90, 10)),
)
FALLING = FitRules(strategy="RequestedToCapacityRatio", shape=((0, 10), (7, 4), (100, 0)))


def fit_of(rules: FitRules) -> NodeResourcesFit:
    """The plugin with these options."""
    ratio = None
    if rules.shape:
        points = (UtilizationShapePoint(utilization=x, score=y) for x, y in rules.shape)
        ratio = RequestedToCapacityRatioParam(shape=tuple(points))
    strategy = ScoringStrategy(
        type=ScoringStrategyType(rules.strategy),
        resources=tuple(ResourceSpec(name=n, weight=w) for n, w in rules.resources.items()),
        requested_to_capacity_ratio=ratio,
    )
    args = NodeResourcesFitArgs(
        ignored_resources=tuple(rules.ignored),
        ignored_resource_groups=tuple(rules.groups),
        scoring_strategy=strategy,
    )
    return NodeResourcesFit(args)


def balance_of(*names: str) -> NodeResourcesBalancedAllocation:
    """The plugin over these resources."""
    resources = tuple(ResourceSpec(name=name) for name in names)
    return NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs(resources=resources))


FILTERS: dict[str, tuple[Any, Callable[..., Status]]] = {
    "unschedulable": (NodeUnschedulable(), reference.unschedulable_filter),
    "taints": (TaintToleration(), reference.taint_filter),
    "node affinity": (NodeAffinity(), reference.affinity_filter),
    "ports": (NodePorts(), reference.ports_filter),
    "features": (NodeDeclaredFeatures(), reference.features_filter),
    "fit": (NodeResourcesFit(), partial(reference.fit_filter, rules=FitRules())),
    "fit that ignores": (fit_of(IGNORING), partial(reference.fit_filter, rules=IGNORING)),
}
BALANCED = (("cpu", "memory"), ("cpu", EXTENDED, "memory", HUGE, "ephemeral-storage"), ("memory",))
SCORES: dict[str, tuple[Any, Callable[..., int]]] = {
    "taints": (TaintToleration(), reference.taint_score),
    "node affinity": (NodeAffinity(), reference.affinity_score),
    "images": (ImageLocality(), reference.image_score),
    "least allocated": (NodeResourcesFit(), partial(reference.fit_score, rules=FitRules())),
    "least allocated, other resources": (
        fit_of(LEAST),
        partial(reference.fit_score, rules=LEAST),
    ),
    "most allocated": (fit_of(MOST), partial(reference.fit_score, rules=MOST)),
    "ratio": (fit_of(RATIO), partial(reference.fit_score, rules=RATIO)),
    "falling ratio": (fit_of(FALLING), partial(reference.fit_score, rules=FALLING)),
    **{
        f"balance of {len(names)}": (
            balance_of(*names),
            partial(reference.balance_score, names=names),
        )
        for names in BALANCED
    },
}


@pytest.mark.parametrize("name", FILTERS)
@given(seed=SEEDS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_filter_rejects_what_the_rule_rejects(name: str, seed: int) -> None:
    """Status and reasons are the reference's on every node; a skip means that all nodes fit."""
    plugin, rule = FILTERS[name]
    cluster = RandomCluster(seed)
    pod = cluster.pod()
    expected = {n: rule(pod, place) for n, place in cluster.places().items()}

    actual = filter_answers(plugin, pod, cluster.snapshot)

    if actual == SKIP:
        actual = dict.fromkeys(expected, FITS)
    if isinstance(actual, Status):
        assert "conflict" in actual.message
        assert not any(status.is_success for status in expected.values())
        return
    assert actual == expected


@pytest.mark.parametrize("name", SCORES)
@given(seed=SEEDS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_score_is_what_the_rule_gives(name: str, seed: int) -> None:
    """Scores are the reference's on every node, to the last point."""
    plugin, rule = SCORES[name]
    cluster = RandomCluster(seed)
    pod = cluster.pod()
    expected = {n: rule(pod, place) for n, place in cluster.places().items()}

    actual = score_answers(plugin, pod, cluster.snapshot)

    if actual == SKIP:
        assert name.startswith("balance") or set(expected.values()) <= {0}
        return
    assert actual == expected


@pytest.mark.parametrize("name", FILTERS)
@given(seed=SEEDS)
@settings(max_examples=EXAMPLES // 3, deadline=None)
def test_filter_does_not_depend_on_the_choice_of_rows(name: str, seed: int) -> None:
    """All rows, some rows in any order and each row alone give the same verdicts."""
    plugin, _ = FILTERS[name]
    cluster = RandomCluster(seed)
    pod, snapshot = cluster.pod(), cluster.snapshot
    state = CycleState()
    if PreFilterPlugin in type(plugin).__mro__:
        _, status = plugin.pre_filter(state, pod, snapshot)
        if not status.is_success:
            return
    whole = statuses(plugin, state, pod, snapshot)
    some = np.array(cluster.draw.sample(range(snapshot.table.size), snapshot.table.size // 2 + 1))

    parts = statuses(plugin, state, pod, snapshot, some)
    single: dict[str, Status] = {}
    for row in range(snapshot.table.size):
        single |= statuses(plugin, state, pod, snapshot, np.array([row], np.intp))

    assert parts == {name: whole[name] for name in parts}
    assert single == whole


@pytest.mark.parametrize("name", SCORES)
@given(seed=SEEDS)
@settings(max_examples=EXAMPLES // 3, deadline=None)
def test_score_does_not_depend_on_the_choice_of_rows(name: str, seed: int) -> None:
    """All rows, some rows in any order and each row alone give the same scores."""
    plugin, _ = SCORES[name]
    cluster = RandomCluster(seed)
    pod, snapshot = cluster.pod(), cluster.snapshot
    whole = score_answers(plugin, pod, snapshot)
    if isinstance(whole, Status):
        return
    some = np.array(cluster.draw.sample(range(snapshot.table.size), snapshot.table.size // 2 + 1))

    parts = score_answers(plugin, pod, snapshot, some)
    single: dict[str, int] = {}
    for row in range(snapshot.table.size):
        answer = score_answers(plugin, pod, snapshot, np.array([row], np.intp))
        assert isinstance(answer, dict)
        single |= answer

    assert isinstance(parts, dict)
    assert parts == {name: whole[name] for name in parts}
    assert single == whole


@given(seed=SEEDS)
@settings(max_examples=EXAMPLES // 3, deadline=None)
def test_state_of_a_class_outlives_changes_of_the_cluster(seed: int) -> None:
    """What was prepared for a pod answers rightly after nodes and pods have come and gone."""
    cluster = RandomCluster(seed)
    pod, snapshot = cluster.pod(), cluster.snapshot
    states: dict[str, CycleState] = {}
    for name, (plugin, _) in FILTERS.items():
        state = CycleState()
        if PreFilterPlugin in type(plugin).__mro__:
            _, status = plugin.pre_filter(state, pod, snapshot)
            if not status.is_success:
                continue
        statuses(plugin, state, pod, snapshot)
        states[name] = state
    for _ in range(10):
        cluster.change([f"n{i}" for i in range(9)])

    for name, state in states.items():
        plugin, rule = FILTERS[name]
        actual = statuses(plugin, state, pod, snapshot)
        assert actual == {n: rule(pod, place) for n, place in cluster.places().items()}, name

"""How many nodes are enough for pods that are alike."""

from typing import Any

import pytest

from scheduler.api.objects import Affinity, LabelSelector, PodAffinitySpec, PodAffinityTerm
from scheduler.kernel.answers.cluster_changes import nodes_for_all
from scheduler.kernel.answers.trials import Trials
from tests.support.builders import HOSTNAME, make_node, make_pod_info
from tests.unit.answers.worlds import FRAMEWORK
from tests.unit.preemption.naive import placed

APART = Affinity(
    pod_anti_affinity=PodAffinitySpec((PodAffinityTerm(HOSTNAME, LabelSelector({"app": "web"})),))
)


def needed(pods: int, trials: int = 100, **fields: Any) -> int | None:
    """How many nodes are enough, beside two that are full."""
    nodes = [make_node("a"), make_node("b")]
    running = [
        make_pod_info(n, node_name=n, requests={"cpu": "3500m"}, labels={"app": "web"})
        for n in "ab"
    ]
    _, snapshot = placed(nodes, running)
    alike = [make_pod_info(f"p-{number}", **fields) for number in range(pods)]
    tried = Trials(FRAMEWORK, alike[0], snapshot, None)
    tried.left = trials
    return nodes_for_all(tried, "a", alike)


@pytest.mark.parametrize(
    ("fields", "pods", "expected"),
    [
        ({"requests": {"cpu": "1"}}, 1, 1),
        ({"requests": {"cpu": "1"}}, 4, 1),
        ({"requests": {"cpu": "1"}}, 5, 2),
        ({"requests": {"cpu": "500m"}}, 3, 1),
        ({"labels": {"app": "web"}, "affinity": APART}, 3, 3),
        ({"requests": {"cpu": "5"}}, 3, None),
    ],
)
def test_so_many_are_enough(fields: dict[str, Any], pods: int, expected: int | None) -> None:
    """Room that is there is used; where an empty node is too small, none is."""
    assert needed(pods, **fields) == expected


def test_nothing_is_told_that_was_not_tried() -> None:
    """When there is no more trying."""
    assert needed(50, trials=20, requests={"cpu": "1"}) is None

"""NodeResourcesBalancedAllocation scores what a pod does to the balance of a node."""

import pytest

from scheduler.api.objects import Node, ResourceRequirements
from scheduler.api.pods import PodInfo
from scheduler.config.args import NodeResourcesBalancedAllocationArgs, ResourceSpec
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.status import SKIP
from scheduler.kernel.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.plugin_answers import score_answers

GPU = "example.com/gpu"


def node(**allocatable: str | int) -> Node:
    """A node with 1 core and 1000 bytes."""
    return make_node("n", allocatable={"cpu": 1, "memory": 1000, **allocatable})


def plugin(*names: str) -> NodeResourcesBalancedAllocation:
    resources = tuple(ResourceSpec(name=name) for name in names or ("cpu", "memory"))
    return NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs(resources=resources))


def score(
    balance: NodeResourcesBalancedAllocation, on: Node, pod: PodInfo, *running: PodInfo
) -> object:
    scores = score_answers(balance, pod, make_snapshot([on], running))
    return scores["n"] if isinstance(scores, dict) else scores


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param({"cpu": "500m", "memory": 500}, 75, id="even on an empty node"),
        pytest.param({"cpu": "1"}, 50, id="as uneven as can be"),
        pytest.param({"cpu": "500m"}, 62, id="half uneven"),
        pytest.param({"cpu": "9"}, 50, id="more than there is counts as all"),
    ],
)
def test_an_empty_node_can_only_lose_its_balance(
    requests: dict[str, str | int], expected: int
) -> None:
    """75 without a change; the deviation of two shares is half their distance."""
    assert score(plugin(), node(), make_pod_info(requests=requests)) == expected


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param({"memory": 800}, 50 + (50 + 100 - 60) // 2, id="made even"),
        pytest.param({"memory": 400}, 50 + (50 + 80 - 60) // 2, id="made more even"),
        pytest.param({"cpu": "200m"}, 50 + (50 + 50 - 60) // 2, id="made less even"),
    ],
)
def test_a_lopsided_node_can_win(requests: dict[str, str | int], expected: int) -> None:
    """800m of cpu and nothing of memory are taken: the balance is 60 before."""
    running = make_pod_info("r", node_name="n", requests={"cpu": "800m"})

    assert score(plugin(), node(), make_pod_info(requests=requests), running) == expected


def test_pods_that_ask_for_none_of_the_resources_are_not_scored() -> None:
    """Best-effort pods would all go to the most balanced node."""
    assert score(plugin(), node(), make_pod_info()) == SKIP
    assert score(plugin(), node(), make_pod_info(requests={"cpu": 0})) == SKIP
    assert score(plugin(GPU), node(**{GPU: 1}), make_pod_info(requests={"cpu": 1})) == SKIP


def test_real_requests_count_not_defaults() -> None:
    """A running pod without requests takes nothing here."""
    running = make_pod_info("r", node_name="n")

    assert score(plugin(), node(), make_pod_info(requests={"cpu": "500m"}), running) == 62


def test_pod_level_requests_count() -> None:
    """Unlike in the score of NodeResourcesFit."""
    pod = make_pod_info(resources=ResourceRequirements(requests={"cpu": "500m", "memory": 500}))

    assert score(plugin(), node(), pod) == 75


def test_three_resources_use_the_standard_deviation() -> None:
    """Shares 0.6, 0.3 and 0: the deviation is the root of 0.06."""
    pod = make_pod_info(requests={"cpu": "600m", "memory": 300})
    big = node(**{"ephemeral-storage": 10})

    assert (
        score(plugin("cpu", "memory", "ephemeral-storage"), big, pod) == 50 + (50 + 75 - 100) // 2
    )


@pytest.mark.parametrize(
    ("requests", "allocatable", "expected"),
    [
        pytest.param({"cpu": "500m"}, {GPU: 4}, 62, id="device not asked for"),
        pytest.param({"cpu": "500m", GPU: 2}, {GPU: 4, "memory": 0}, 75, id="no memory"),
        pytest.param({"cpu": "500m", GPU: 2}, {}, 62, id="no device"),
        pytest.param({"cpu": "500m"}, {"memory": 0}, 75, id="one resource is always even"),
        pytest.param({"cpu": "500m"}, {"cpu": 0, "memory": 0}, 75, id="no resource as well"),
    ],
)
def test_what_is_not_there_or_not_wanted_is_left_out(
    requests: dict[str, str | int], allocatable: dict[str, str | int], expected: int
) -> None:
    """Resources a node has nothing of, and devices the pod does not want, do not count."""
    balance = plugin("cpu", GPU, "memory")

    assert score(balance, node(**allocatable), make_pod_info(requests=requests)) == expected


def test_score_works_without_pre_score() -> None:
    """A profile may switch PreScore off; best-effort pods then score 0."""
    snapshot = make_snapshot([node()])
    rows = snapshot.table.all_rows

    even = plugin().score(CycleState(), make_pod_info(requests={"cpu": "500m"}), snapshot, rows)
    best_effort = plugin().score(CycleState(), make_pod_info(), snapshot, rows)

    assert even.tolist() == [62]
    assert best_effort.tolist() == [0]


def test_what_the_pod_takes_is_signed() -> None:
    """Equal requests are alike however they are written."""
    sign = plugin().sign

    assert sign(make_pod_info(requests={"cpu": 1})) == sign(
        make_pod_info(requests={"cpu": "1000m"})
    )
    assert sign(make_pod_info(requests={"cpu": 1})) != sign(make_pod_info(requests={"cpu": 2}))

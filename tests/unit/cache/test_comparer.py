"""The cache held against what the informers know."""

import json

import pytest

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.kernel.cache import Cache, CacheComparer, RowComparison, compare_rows
from scheduler.observability.dumps import REST, json_slices
from tests.support.builders import make_node, make_pod_info
from tests.unit.preemption.naive import placed


def comparer(
    cache: Cache, nodes: list[Node], pods: list[PodInfo], queued: tuple[str, ...] = ()
) -> CacheComparer:
    return CacheComparer(
        cache,
        {node.metadata.name: node for node in nodes},
        {pod.key: pod for pod in pods},
        is_wanted=lambda pod: pod.spec.scheduler_name != "another",
        is_queued=queued.__contains__,
    )


def test_what_agrees() -> None:
    """Nodes in the cache; pods in the cache or in the queue."""
    cache = Cache()
    node, bound, waiting = make_node("n"), make_pod_info("b", node_name="n"), make_pod_info("w")
    cache.set_node(node)
    cache.add_pod(bound)

    assert comparer(cache, [node], [bound, waiting], (waiting.uid,)).compare().agrees


def test_what_is_missed_and_what_is_too_much() -> None:
    """Each difference by name, ghosts not taken for nodes."""
    cache = Cache()
    cache.set_node(make_node("old"))
    cache.add_pod(make_pod_info("gone", node_name="ghost"))

    found = comparer(cache, [make_node("new")], [make_pod_info("lost", node_name="new")]).compare()

    assert not found.agrees
    assert found.missed_nodes == ("new",)
    assert found.redundant_nodes == ("old",)
    assert found.missed_pods == ("default/lost",)
    assert found.redundant_pods == ("default/gone",)


def test_the_sums_of_a_row_are_held_against_its_pods() -> None:
    """A few rows at a time; what differs is told with both numbers."""
    pod = make_pod_info("p", node_name="b", requests={"cpu": "1"})
    cache, snapshot = placed([make_node("a"), make_node("b")], [pod])
    assert compare_rows(cache, snapshot, 0, 1) == RowComparison((), 1)
    assert compare_rows(cache, snapshot, 1, 10) == RowComparison((), 0)

    del cache.nodes["b"].pods[pod.uid]

    assert set(compare_rows(cache, snapshot, 0, 10).wrong) == {
        "b: requested (cpu): counted 1000, there are 0",
        "b: requested with defaults (cpu): counted 1000, there are 0",
        f"b: requested with defaults (memory): counted {200 * 2**20}, there are 0",
        "b: pods (number): counted 1, there are 0",
    }


def test_the_dump_shows_every_node_with_its_pods() -> None:
    """And which pods are only assumed, which nodes only ghosts."""
    cache = Cache()
    node = make_node("n")
    cache.set_node(node)
    cache.assume_pod(make_pod_info("a", node_name="n", requests={"cpu": "1500m"}))
    cache.add_pod(make_pod_info("b", node_name="gone"))

    dump = json.loads(b"".join(json_slices(comparer(cache, [node], []).dump())))

    assert dump["nodes"] == {
        "gone": {"ghost": True, "pods": {"default/b": "added"}},
        "n": {
            "ghost": False,
            "pods": {"default/a": "assumed"},
            "assumed": {"pods": "1", "cpu": "1500m"},
        },
    }
    assert dump["assumedPods"] == 1
    assert dump["comparison"]["redundant_pods"] == ["default/a", "default/b"]


def test_a_pod_of_another_scheduler_is_not_missed() -> None:
    """It waits for others."""
    theirs = make_pod_info("theirs", scheduler_name="another")

    assert comparer(Cache(), [], [theirs]).compare().agrees


@pytest.mark.parametrize("what", ["missed_nodes", "missed_pods", "redundant_pods"])
def test_a_large_cluster_is_compared_in_steps(what: str) -> None:
    """Others run in between, and what they change meanwhile is no difference."""
    cache = Cache()
    nodes = [make_node(f"n{number}") for number in range(3000)]
    pods = [make_pod_info(f"p{number}", node_name="n0") for number in range(3000)]
    if what == "redundant_pods":
        for pod in pods:
            cache.add_pod(pod)
        pods = []
    names = comparer(cache, nodes, pods).differences()[what]

    first_step = [next(names) for _ in range(1000)]
    for node in nodes[2000:]:
        cache.set_node(node)
    for number in range(2000, 3000):
        pod = make_pod_info(f"p{number}", node_name="n0")
        (cache.remove_pod if what == "redundant_pods" else cache.add_pod)(pod)
    rest = list(names)

    assert first_step.count(REST) == 1
    assert rest.count(REST) == 2
    assert len(first_step) + len(rest) == 2000 + 3

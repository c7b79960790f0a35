"""The cache held against what the informers know."""

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.cache import Cache, CacheComparer
from scheduler.observability.dumps import in_full
from tests.support.builders import make_node, make_pod_info


def comparer(
    cache: Cache, nodes: list[Node], pods: list[PodInfo], queued: tuple[str, ...] = ()
) -> CacheComparer:
    return CacheComparer(cache, lambda: nodes, lambda: pods, lambda: queued)


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


def test_the_dump_shows_every_node_with_its_pods() -> None:
    """And which pods are only assumed, which nodes only ghosts."""
    cache = Cache()
    node = make_node("n")
    cache.set_node(node)
    cache.assume_pod(make_pod_info("a", node_name="n"))
    cache.add_pod(make_pod_info("b", node_name="gone"))

    dump = in_full(comparer(cache, [node], []).dump())

    assert dump["nodes"] == {
        "gone": {"ghost": True, "pods": {"default/b": "added"}},
        "n": {"ghost": False, "pods": {"default/a": "assumed"}},
    }
    assert dump["assumedPods"] == 1

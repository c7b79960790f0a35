"""What runs where: confirmation, ghosts, and what the snapshot is told."""

from scheduler.api.objects import Quantity
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import selector_from_labels
from scheduler.kernel.cache import Cache, PodState
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.pod_selectors import PodSelector
from tests.support.builders import ZONE, make_node, make_pod_info


def make_cache(*nodes: str) -> tuple[Cache, Snapshot]:
    cache = Cache()
    for name in nodes:
        cache.set_node(make_node(name))
    return cache, Snapshot()


def pod_on(node: str, name: str = "p", cpu: Quantity = 1) -> PodInfo:
    return make_pod_info(name, node_name=node, requests={"cpu": cpu})


def pods_in(cache: Cache, snapshot: Snapshot) -> dict[str, int]:
    """How many pods the snapshot counts on each node."""
    cache.update_snapshot(snapshot)
    table = snapshot.table
    return {name: int(table.pod_count[row]) for name, row in table.row_of.items()}


def test_a_pod_confirmed_on_another_node_than_assumed() -> None:
    """The API server is right: the pod moves."""
    cache, snapshot = make_cache("a", "b")
    cache.assume_pod(pod_on("a"))
    assert pods_in(cache, snapshot) == {"a": 1, "b": 0}

    cache.add_pod(pod_on("b"))

    assert pods_in(cache, snapshot) == {"a": 0, "b": 1}
    assert cache.state_of("default/p") is PodState.ADDED
    assert not cache.nodes["a"].pods


def test_a_confirmation_that_changes_nothing_costs_nothing() -> None:
    """The columns hold already; only the pod itself is newer."""
    cache, snapshot = make_cache("a")
    waiting = make_pod_info("p")
    cache.assume_pod(waiting.on_node("a"))
    cache.update_snapshot(snapshot)
    epoch = snapshot.epoch
    confirmed = make_pod_info("p", node_name="a", resource_version="2")

    cache.add_pod(confirmed)
    cache.update_snapshot(snapshot)

    assert snapshot.epoch == epoch
    assert cache.nodes["a"].pods == {"default/p": confirmed}


def test_a_confirmed_pod_with_other_labels_takes_nothing_more() -> None:
    """API servers copy the node's zone to a pod as it is bound: only selectors need look again."""
    cache, snapshot = make_cache("a")
    selectors = [
        PodSelector(frozenset({"default"}), selector_from_labels({key: "x"}))
        for key in (ZONE, "app")
    ]
    assumed = make_pod_info("p", labels={"app": "x"}).on_node("a")
    cache.assume_pod(assumed)
    cache.update_snapshot(snapshot)
    assert [snapshot.pod_counts(pods).total for pods in selectors] == [0, 1]
    sums, changed = snapshot.sum_log.position, snapshot.pod_log.position
    labels = {"app": "x", ZONE: "x"}

    cache.add_pod(make_pod_info("p", node_name="a", resource_version="2", labels=labels))

    assert cache.seen_by_snapshot(assumed.uid) is assumed
    cache.update_snapshot(snapshot)
    assert [snapshot.pod_counts(pods).total for pods in selectors] == [1, 1]
    assert (snapshot.sum_log.position, snapshot.pod_log.position) == (sums, changed + 1)
    assert [pod.labels for pod in snapshot.info(0).pods.values()] == [labels]


def test_an_update_that_counts_replaces_what_was_counted() -> None:
    """A pod that is resized in place."""
    cache, snapshot = make_cache("a")
    cache.add_pod(pod_on("a", cpu=1))
    assert pods_in(cache, snapshot) == {"a": 1}

    cache.update_pod(pod_on("a", cpu=3))

    assert pods_in(cache, snapshot) == {"a": 1}
    table = snapshot.table
    assert table.sums.of_row(table.row_of["a"])[0]["cpu"] == 3000


def test_a_deleted_node_stays_as_a_ghost_until_its_pods_are_gone() -> None:
    """It offers nothing, and what runs there is not forgotten."""
    cache, snapshot = make_cache("a", "b")
    cache.add_pod(pod_on("a", "p"))
    cache.assume_pod(pod_on("a", "q"))

    cache.remove_node("a")

    assert pods_in(cache, snapshot) == {"b": 0}
    assert cache.node_count() == 1
    assert set(cache.nodes["a"].pods) == {"default/p", "default/q"}
    cache.remove_pod(pod_on("a", "p"))
    assert "a" in cache.nodes
    cache.forget_pod(pod_on("a", "q"))
    assert set(cache.nodes) == {"b"}


def test_a_node_that_comes_back_is_as_full_as_before() -> None:
    """Pods that came while it was a ghost count too."""
    cache, snapshot = make_cache("a")
    cache.add_pod(pod_on("a", "p"))
    cache.remove_node("a")
    cache.add_pod(pod_on("a", "q"))
    assert pods_in(cache, snapshot) == {}

    cache.set_node(make_node("a"))

    assert pods_in(cache, snapshot) == {"a": 2}


def test_pods_may_come_before_their_node() -> None:
    """Two watches have no common order."""
    cache, snapshot = make_cache()
    cache.add_pod(pod_on("a"))
    assert (cache.node_count(), len(cache.pods)) == (0, 1)

    cache.set_node(make_node("a"))

    assert pods_in(cache, snapshot) == {"a": 1}


def test_removing_what_is_not_there_changes_nothing() -> None:
    """Late messages about nodes and pods that are gone."""
    cache, snapshot = make_cache("a")

    cache.remove_node("a")
    cache.remove_node("a")
    cache.remove_node("b")
    cache.remove_pod(pod_on("a"))

    assert cache.nodes == {}
    assert pods_in(cache, snapshot) == {}


def test_a_newer_version_of_a_pod_shows_in_a_log_of_its_own() -> None:
    """Nothing that is counted has changed; readers that remember pods see that one has."""
    cache, snapshot = make_cache("a", "b")
    cache.assume_pod(pod_on("a"))
    cache.update_snapshot(snapshot)
    counted, told = snapshot.pod_log.position, snapshot.version_log.position

    cache.add_pod(pod_on("a"))
    cache.update_snapshot(snapshot)

    assert snapshot.pod_log.position == counted
    rows = snapshot.version_log.since(told)
    assert rows is not None
    assert rows.tolist() == [snapshot.table.row_of["a"]]

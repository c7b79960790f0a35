"""Laws of the cache, over random histories."""

from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from scheduler.api.pods import PodInfo
from scheduler.kernel.cache import Cache, PodState
from scheduler.kernel.snapshot import Snapshot
from tests.support.builders import make_node, make_pod_info

NODES = ("a", "b", "c")


class Cluster:
    """A cache that is told random things, none of which contradicts another."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cache = Cache()
        self._serial = 0

    def step(self) -> None:
        events = (
            (4, self.add),
            (6, self.assume),
            (2, self.forget),
            (4, self.confirm),
            (3, self.update),
            (3, self.remove),
            (2, self.set_node),
            (1, self.remove_node),
        )
        weights = [weight for weight, _ in events]
        _, event = self.random.choices(events, weights)[0]
        event()

    def new_pod(self) -> PodInfo:
        self._serial += 1
        return make_pod_info(
            f"p{self._serial}",
            node_name=self.random.choice(NODES),
            labels={"app": self.random.choice("xyz")},
            requests={"cpu": self.random.randint(0, 3)},
            host_ports=self.random.choice(((), (80,))),
        )

    def some(self, *states: PodState) -> PodInfo | None:
        found = [pod for uid, pod in self.cache.pods.items() if self.cache.state_of(uid) in states]
        return self.random.choice(found) if found else None

    def add(self) -> None:
        self.cache.add_pod(self.new_pod())

    def assume(self) -> None:
        self.cache.assume_pod(self.new_pod())

    def forget(self) -> None:
        if pod := self.some(*PodState):
            self.cache.forget_pod(pod)

    def confirm(self) -> None:
        if pod := self.some(PodState.ASSUMED):
            moved = self.random.random() < 0.3
            self.cache.add_pod(pod.on_node(self.random.choice(NODES)) if moved else pod)

    def update(self) -> None:
        if pod := self.some(*PodState):
            self.cache.update_pod(
                make_pod_info(
                    pod.name,
                    node_name=pod.node_name,
                    labels={"app": self.random.choice("xyz")},
                    requests={"cpu": self.random.randint(0, 3)},
                )
            )

    def remove(self) -> None:
        if pod := self.some(*PodState):
            self.cache.remove_pod(pod)

    def set_node(self) -> None:
        name = self.random.choice(NODES)
        self.cache.set_node(make_node(name, zone=self.random.choice(("", "z1", "z2"))))

    def remove_node(self) -> None:
        self.cache.remove_node(self.random.choice(NODES))


def contents(cache: Cache) -> object:
    """All that a cache holds."""
    nodes = {name: (info.node, dict(info.pods)) for name, info in cache.nodes.items()}
    return nodes, dict(cache.pods), len(cache.assumed_pods()), cache.node_count()


def columns(snapshot: Snapshot) -> dict[str, tuple[object, ...]]:
    """What the snapshot says about each node, whatever row it is in."""
    table = snapshot.table
    resources = sorted(("cpu", "memory", "ephemeral-storage"))
    wanted = [table.resources.get(name) for name in resources]
    return {
        name: (
            table.sums.of_row(row),
            tuple(map(float, table.allocatable[wanted, row])),
        )
        for name, row in table.row_of.items()
    }


@pytest.mark.parametrize("seed", range(8))
def test_the_snapshot_equals_one_built_anew(seed: int) -> None:
    """However the cluster came to be; taken over now and then, as cycles do."""
    cluster = Cluster(seed)
    snapshot = Snapshot()
    for _ in range(40):
        for _ in range(cluster.random.randint(1, 12)):
            cluster.step()
        cluster.cache.update_snapshot(snapshot)

        anew = Cache()
        for info in cluster.cache.nodes.values():
            if info.node is not None:
                anew.set_node(info.node)
        for pod in cluster.cache.pods.values():
            anew.add_pod(pod)
        rebuilt = Snapshot()
        anew.update_snapshot(rebuilt)
        assert columns(snapshot) == columns(rebuilt)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(0, 40))
def test_forgetting_undoes_assuming(seed: int, steps: int) -> None:
    """Cache and snapshot are where they were, on real nodes, ghosts and unknown ones."""
    cluster = Cluster(seed)
    for _ in range(steps):
        cluster.step()
    cache, snapshot = cluster.cache, Snapshot()
    cache.update_snapshot(snapshot)
    before, columns_before = contents(cache), columns(snapshot)
    pods = [cluster.new_pod() for _ in range(3)]

    for pod in pods:
        cache.assume_pod(pod)
    cache.update_snapshot(snapshot)
    for pod in pods:
        cache.forget_pod(pod)
    cache.update_snapshot(snapshot)

    assert contents(cache) == before
    assert columns(snapshot) == columns_before


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_counted_twice_or_forgotten(seed: int) -> None:
    """Every pod is on exactly the node it names; ghosts exist only for pods."""
    cluster = Cluster(seed)
    for _ in range(400):
        cluster.step()
        cache = cluster.cache
        placed = [(uid, name) for name, info in cache.nodes.items() for uid in info.pods]
        assert sorted(placed) == sorted((u, p.node_name) for u, p in cache.pods.items())
        ghosts = [info for info in cache.nodes.values() if info.node is None]
        assert all(info.pods for info in ghosts)
        assert cache.node_count() == len(cache.nodes) - len(ghosts)
        states = [cache.state_of(uid) for uid in cache.pods]
        assert len(cache.assumed_pods()) == len(states) - states.count(PodState.ADDED)

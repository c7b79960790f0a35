"""The order of the pods of each node stays right whatever comes, goes or changes."""

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.cache import Cache
from scheduler.kernel.preemption import Importance
from scheduler.kernel.preemption.importance import RankedPods, importance, start_number
from scheduler.kernel.snapshot import Snapshot
from tests.support.builders import make_node, make_pod_info

NAMES = [f"n{number}" for number in range(8)]


class History:
    """A cluster to which random things happen."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.cache, self.snapshot = Cache(), Snapshot()
        self._pods = 0
        for name in NAMES:
            self.cache.set_node(make_node(name))

    def step(self) -> None:
        """One thing happens."""
        draw, cache = self.draw, self.cache
        known = list(cache.pods.values())
        what = draw.choice(("come", "come", "come", "go", "start", "node"))
        if what == "node":
            name = draw.choice(NAMES)
            if name in cache.nodes and cache.nodes[name].node is not None and draw.random() < 0.5:
                cache.remove_node(name)
            else:
                cache.set_node(make_node(name))
        elif what == "come" or not known:
            self._pods += 1
            self._run(f"p{self._pods}", draw.choice(NAMES), draw.choice((0, 0, 5, 9)))
        elif what == "go":
            cache.remove_pod(draw.choice(known))
        else:
            pod = draw.choice(known)
            self._run(pod.name, pod.node_name, pod.priority)

    def _run(self, name: str, node_name: str, priority: int) -> None:
        started = f"2026-01-01T00:00:{self.draw.randint(0, 59):02}Z"
        self.cache.add_pod(
            make_pod_info(
                name,
                node_name=node_name,
                priority=priority,
                start_time=started if self.draw.random() < 0.8 else None,
            )
        )

    def check(self, known: Importance, snapshot: Snapshot) -> None:
        """What is remembered of some rows is what sorting them anew gives."""
        rows = snapshot.table.live_rows()
        rows = np.array(self.draw.sample(rows.tolist(), len(rows) // 2), np.intp)

        below = self.draw.choice((1, 6, 2**31))

        ranked = known.ranked(snapshot, rows, below)

        infos = [snapshot.info(row) for row in rows.tolist()]
        lower = [[p for p in _sorted(i.pods.values()) if p.priority < below] for i in infos]
        check_layout(ranked, lower)
        kept = np.array([self.draw.random() < 0.7 for _ in ranked.nodes], np.bool_)
        left = frozenset(ranked.nodes[kept].tolist())
        lower = [pods if at in left else [] for at, pods in enumerate(lower)]
        ranked = ranked.only(kept)
        check_layout(ranked, lower)
        expected = [(at, pod) for at, pods in enumerate(lower) for pod in pods]
        by_node = ranked.by_node()
        assert list(zip(by_node.at.tolist(), by_node.pods(), strict=True)) == expected
        pods = [pod for _, pod in expected]
        assert by_node.priorities.tolist() == [pod.priority for pod in pods]
        assert by_node.starts.tolist() == [*map(start_number, pods)]
        assert by_node.kinds.tolist() == [*map(snapshot.kinds.number_of, pods)]


def check_layout(ranked: RankedPods, expected: list[list[PodInfo]]) -> None:
    """Rank by rank, the nodes with most pods first, without those that have none."""
    nodes = [at for at, pods in enumerate(expected) if pods]
    nodes.sort(key=lambda at: -len(expected[at]))
    assert ranked.nodes.tolist() == nodes
    for rank, pods in enumerate(ranked.ranks()):
        there = [at for at in nodes if len(expected[at]) > rank]
        assert ranked.nodes[ranked.at[pods]].tolist() == there
        assert ranked.pods(pods) == [expected[at][rank] for at in there]
    assert len(ranked) == sum(map(len, expected)) == sum(ranked.widths)


def _sorted(pods: Iterable[PodInfo]) -> list[PodInfo]:
    return sorted(pods, key=importance)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_remembered_is_what_sorting_anew_gives(seed: int) -> None:
    """Also after pods started, nodes came back, the snapshot was rebuilt, and many blocks left."""
    history, known = History(seed), Importance()
    for number in range(400):
        history.step()
        if history.draw.random() < 0.5:
            history.cache.update_snapshot(history.snapshot)
            history.check(known, history.snapshot)
        if number % 150 == 149:
            history.cache.rebuild(history.snapshot, RuntimeError("a test"))
            history.check(known, history.snapshot)


def test_a_fork_is_another_cluster() -> None:
    """What is remembered of one is not taken for the other, in either direction."""
    history, known = History(1), Importance()
    for _ in range(60):
        history.step()
    history.cache.update_snapshot(history.snapshot)
    [*pods] = [
        pod for pod in history.cache.pods.values() if pod.node_name in history.snapshot.table.row_of
    ]

    for gone in pods[:5]:
        history.check(known, history.snapshot)
        history.check(known, history.snapshot.fork(remove=[gone]))


def test_what_was_read_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extenders are asked about candidates long after the nodes have changed."""
    monkeypatch.setattr("scheduler.kernel.preemption.importance._MIN_PODS", 4)
    history, known = History(2), Importance()
    for _ in range(40):
        history.step()
    history.cache.update_snapshot(history.snapshot)
    read = known.ranked(history.snapshot, history.snapshot.table.live_rows())
    before = read.pods()

    for _ in range(200):
        history.step()
        history.cache.update_snapshot(history.snapshot)
        history.check(known, history.snapshot)

    assert read.pods() == before


def test_all_that_was_ranked_may_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing of it is kept, and there is room for the rows that are ranked next."""
    monkeypatch.setattr("scheduler.kernel.preemption.importance._MIN_PODS", 4)
    cache, snapshot, known = Cache(), Snapshot(), Importance()
    pods = [make_pod_info(f"p{i}", node_name=f"n{i}") for i in range(8)]
    for pod in pods:
        cache.set_node(make_node(pod.node_name))
        cache.add_pod(pod)
    cache.update_snapshot(snapshot)
    rows = snapshot.table.live_rows()

    known.ranked(snapshot, rows)
    for pod in pods:
        cache.remove_pod(pod)
        cache.add_pod(pod)
    cache.update_snapshot(snapshot)

    assert [pod.name for pod in known.ranked(snapshot, rows[:5]).pods()] == [
        "p0",
        "p1",
        "p2",
        "p3",
        "p4",
    ]

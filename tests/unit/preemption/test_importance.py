"""The order of the pods of each node stays right whatever comes, goes or changes."""

from random import Random

import numpy as np
import pytest

from scheduler.cache import Cache
from scheduler.preemption import Importance
from scheduler.preemption.importance import importance, start_number
from scheduler.snapshot import Snapshot
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
        known = [pod for pod, _ in cache.pods().values()]
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

        ranked = known.ranked(snapshot, rows)

        infos = [snapshot.info(row) for row in rows.tolist()]
        expected = [(at, pod) for at, i in enumerate(infos) for pod in _sorted(i.pods.values())]
        assert list(zip(ranked.at.tolist(), ranked.pods(), strict=True)) == expected
        pods = [pod for _, pod in expected]
        assert ranked.priorities.tolist() == [pod.priority for pod in pods]
        assert ranked.starts.tolist() == [*map(start_number, pods)]
        assert ranked.kinds.tolist() == [*map(snapshot.kinds.number_of, pods)]


def _sorted(pods: object) -> list[object]:
    return sorted(pods, key=importance)  # type: ignore[call-overload, no-any-return] # any pods


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
        pod
        for pod, _ in history.cache.pods().values()
        if pod.node_name in history.snapshot.table.row_of
    ]

    for gone in pods[:5]:
        history.check(known, history.snapshot)
        history.check(known, history.snapshot.fork(remove=[gone]))


def test_what_was_read_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extenders are asked about candidates long after the nodes have changed."""
    monkeypatch.setattr("scheduler.preemption.importance._MIN_PODS", 4)
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

"""Laws of forks: they see what is added and removed, and nobody sees what the other becomes."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from scheduler.api.selectors import Operator, Requirement
from scheduler.kernel.snapshot import Change, NodeSet, PodAdded, PodRemoved, Snapshot
from scheduler.kernel.snapshot.label_columns import LabelColumn
from tests.support.builders import make_node, make_node_info
from tests.support.histories import History
from tests.unit.snapshot.test_snapshot_law import view


def told(snapshot: Snapshot) -> dict[str, Any]:
    """What a snapshot tells, pods on nodes by what they are instead of by whom they are told."""
    told = view(snapshot)
    for name, row in told["nodes"].items():
        info = row.pop("info")
        row["node"] = snapshot.node(snapshot.table.row_of[name])
        row["pods here"] = {uid: info.pods[uid].labels for uid in info.pods}
    return told


def grown(seed: int, nodes: int, steps: int) -> tuple[History, Snapshot]:
    cluster, snapshot = History(seed, nodes), Snapshot()
    for _ in range(steps):
        snapshot.update(cluster.change())
    return cluster, snapshot


def assert_same(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    for part, value in expected.items():
        assert actual[part] == value, part


CASES = given(seed=st.integers(0, 2**32), nodes=st.integers(1, 8), steps=st.integers(1, 80))
SETTINGS = settings(deadline=None, max_examples=25)


@SETTINGS
@CASES
def test_a_fork_tells_what_an_update_would_have_told(seed: int, nodes: int, steps: int) -> None:
    """Pods added and removed are in every sum, count, port and term of the fork."""
    cluster, snapshot = grown(seed, nodes, steps)
    running = [pod for info in cluster.nodes.values() for pod in info.pods.values()]
    removed = cluster.random.sample(running, len(running) // 3)
    names = list(cluster.nodes)
    added = [cluster.new_pod().on_node(cluster.random.choice(names)) for _ in names]

    fork = snapshot.fork(added, removed)

    rebuilt, changed = Snapshot(), [*map(PodAdded, added), *map(PodRemoved, removed)]
    rebuilt.update(cluster.rebuild())
    rebuilt.update(changed)
    expected = view(rebuilt)
    actual = view(fork)
    for part in ("domains", "labels", "pods", "ports", "terms"):
        assert actual[part] == expected[part], part
    for name, row in rebuilt.table.row_of.items():
        here = fork.table.row_of[name]
        assert fork.table.sums_of(here) == rebuilt.table.sums_of(row)
        pods = {*cluster.nodes[name].pods, *(p.uid for p in added if p.node_name == name)}
        pods -= {p.uid for p in removed}
        assert set(fork.info(here).pods) == pods


@SETTINGS
@CASES
def test_a_fork_stays_what_it_is_when_its_original_changes(
    seed: int, nodes: int, steps: int
) -> None:
    """Nodes, pods, labels, ports, images, namespaces, counts: nothing is shared."""
    cluster, snapshot = grown(seed, nodes, steps)
    names = list(cluster.nodes)
    fork = snapshot.fork([cluster.new_pod().on_node(name) for name in names])
    second = fork.fork()
    before = told(fork)

    for _ in range(40):
        snapshot.update(cluster.change())

    assert_same(told(fork), before)
    assert_same(told(second), before)
    rebuilt = Snapshot()
    rebuilt.update(cluster.rebuild())
    assert_same(told(snapshot), told(rebuilt))


@SETTINGS
@CASES
def test_the_original_stays_what_it_is_when_a_fork_changes(
    seed: int, nodes: int, steps: int
) -> None:
    """A fork can be told of everything a snapshot can, and follows."""
    cluster, snapshot = grown(seed, nodes, steps)
    fork = snapshot.fork()
    other = History(seed + 1, nodes)
    changes: list[Change] = [
        change
        for info in list(cluster.nodes.values())
        for pod in info.pods.values()
        for change in (PodRemoved(pod),)
    ]
    before = told(snapshot)

    fork.update(changes)
    for info in cluster.nodes.values():
        node = make_node(info.name, labels={"example.com/new": "x"}, allocatable={"a.b/c": 3})
        fork.update([NodeSet(make_node_info(node), node)])
        fork.update([PodAdded(other.new_pod().on_node(info.name))])

    assert_same(told(snapshot), before)
    for info in cluster.nodes.values():
        row = fork.table.row_of[info.name]
        assert len(fork.info(row).pods) == fork.table.pod_count[row] == 1
        assert fork.node(row).metadata.labels["example.com/new"] == "x"
    assert snapshot.has_label("example.com/new") is False


def test_what_is_known_of_a_labels_values_is_each_ones_own() -> None:
    """Both have learnt one value more, not the same one."""
    column = LabelColumn(2)
    column.fill(["a", "b"])
    wants_x = Requirement("key", Operator.IN, frozenset({"x"}))
    fork = column.copy()

    column.set(0, "x", 2)
    fork.set(0, "y", 2)

    assert column.verdicts(wants_x).tolist() == [False, False, False, True]
    assert fork.verdicts(wants_x).tolist() == [False, False, False, False]


def test_a_pod_without_a_node_cannot_be_added() -> None:
    """The caller is told, and the original is as it was."""
    _, snapshot = grown(1, 3, 20)
    before = told(snapshot)

    with pytest.raises(KeyError):
        snapshot.fork([History(2, 1).new_pod().on_node("nowhere")])

    assert_same(told(snapshot), before)


def test_the_epoch_grows_with_every_update_that_changes_something() -> None:
    """And only then; a fork with other pods has another one."""
    cluster, snapshot = grown(3, 3, 20)
    before = snapshot.epoch

    snapshot.update([])

    assert snapshot.epoch == before
    name = next(iter(cluster.nodes))
    pod = cluster.new_pod().on_node(name)
    assert snapshot.fork().epoch == before
    assert snapshot.fork([pod]).epoch > before
    snapshot.update([PodAdded(pod)])
    assert snapshot.epoch > before

"""Laws of forks and copies: what they see, how long, and that no change reaches another one."""

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
    for part in ("domains", "labels", "pods", "ports", "terms", "each term"):
        assert actual[part] == expected[part], part
    for name, row in rebuilt.table.row_of.items():
        here = fork.table.row_of[name]
        assert fork.table.sums.of_row(here) == rebuilt.table.sums.of_row(row)
        pods = {*cluster.nodes[name].pods, *(p.uid for p in added if p.node_name == name)}
        pods -= {p.uid for p in removed}
        assert set(fork.info(here).pods) == pods


def test_a_fork_ends_when_its_original_changes() -> None:
    """Its forks as well: what they shared is another cluster now, and reading it would be wrong."""
    cluster, snapshot = grown(1, 3, 20)
    fork = snapshot.fork()
    second = fork.fork()

    snapshot.update(cluster.change())

    for ended in (fork, second):
        with pytest.raises(AttributeError):
            ended.table.node_order()


def test_a_fork_of_a_fork_leaves_it_as_it_is() -> None:
    """Also on a node where both have other pods."""
    cluster, snapshot = grown(1, 3, 20)
    name = next(iter(cluster.nodes))
    fork = snapshot.fork([cluster.new_pod().on_node(name)])
    before = told(fork)

    second = fork.fork([cluster.new_pod().on_node(name)])

    assert_same(told(fork), before)
    assert len(second.info(0).pods) == len(fork.info(0).pods) + 1


def test_a_fork_cannot_be_updated() -> None:
    """It has nothing of its own."""
    cluster, snapshot = grown(1, 3, 20)

    with pytest.raises(TypeError):
        snapshot.fork().update(cluster.change())


@SETTINGS
@CASES
def test_a_copy_stays_what_it_is_when_its_original_changes(
    seed: int, nodes: int, steps: int
) -> None:
    """Nodes, pods, labels, ports, images, namespaces, counts: nothing is shared."""
    cluster, snapshot = grown(seed, nodes, steps)
    names = list(cluster.nodes)
    fork = snapshot.fork([cluster.new_pod().on_node(name) for name in names])
    before, copy, second = told(fork), fork.copy(), snapshot.copy()
    of_original = told(second)

    for _ in range(40):
        snapshot.update(cluster.change())

    assert_same(told(copy), before)
    assert_same(told(second), of_original)
    rebuilt = Snapshot()
    rebuilt.update(cluster.rebuild())
    assert_same(told(snapshot), told(rebuilt))


@SETTINGS
@CASES
def test_the_original_stays_what_it_is_when_a_copy_changes(
    seed: int, nodes: int, steps: int
) -> None:
    """A copy can be told of everything a snapshot can, and follows."""
    cluster, snapshot = grown(seed, nodes, steps)
    copy = snapshot.copy()
    other = History(seed + 1, nodes)
    changes: list[Change] = [
        change
        for info in list(cluster.nodes.values())
        for pod in info.pods.values()
        for change in (PodRemoved(pod),)
    ]
    before = told(snapshot)

    copy.update(changes)
    for info in cluster.nodes.values():
        node = make_node(info.name, labels={"example.com/new": "x"}, allocatable={"a.b/c": 3})
        copy.update([NodeSet(make_node_info(node), node)])
        copy.update([PodAdded(other.new_pod().on_node(info.name))])

    assert_same(told(snapshot), before)
    for info in cluster.nodes.values():
        row = copy.table.row_of[info.name]
        assert len(copy.info(row).pods) == copy.table.pod_count[row] == 1
        assert copy.node(row).metadata.labels["example.com/new"] == "x"
    assert "example.com/new" not in snapshot.label_keys()


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

"""Memory belongs to those who make nodes: asking takes none, and what is gone is let go."""

import pytest

from scheduler.api.objects import Taint
from scheduler.api.selectors import Operator, Requirement, selector_from_labels
from scheduler.kernel.cache import Cache
from scheduler.kernel.snapshot import (
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRemoved,
    Snapshot,
    selector_counts,
)
from scheduler.kernel.snapshot.interning import InternedColumn
from scheduler.kernel.snapshot.label_columns import LabelColumns
from scheduler.kernel.snapshot.pod_kinds import PodKinds
from scheduler.kernel.snapshot.pod_selectors import PodSelector
from tests.support.builders import make_node, make_node_info, make_pod_info, make_snapshot


def set_node(snapshot: Snapshot, name: str, **fields: object) -> None:
    node = make_node(name, **fields)  # passed on as they are
    snapshot.update([NodeSet(make_node_info(node), node)])


def test_a_label_that_no_node_has_takes_no_column() -> None:
    """Whatever keys pods name, all of them share one answer."""
    snapshot = make_snapshot([make_node("n")])
    known = snapshot.label_column("kubernetes.io/hostname")

    columns = {id(snapshot.label_column(f"tenant.example/{i}")) for i in range(1000)}
    requirement = Requirement("tenant.example/1", Operator.NOT_IN, frozenset({"x"}))
    verdicts = snapshot.label_column("tenant.example/1").verdicts(requirement)

    assert len(columns) == 1
    assert verdicts.tolist() == [True]
    assert len(snapshot._labels._columns) == 1
    assert snapshot.label_column("kubernetes.io/hostname") is known
    assert snapshot._labels._absent._verdicts == {}


def test_a_node_that_is_gone_is_let_go() -> None:
    """Its row may be another node's next."""
    snapshot = make_snapshot([make_node("n", allocatable={"cpu": "4"})])

    snapshot.update([NodeRemoved("n")])

    for of_row in (snapshot.info, snapshot.node):
        with pytest.raises(KeyError):
            of_row(0)
    assert not snapshot.table.allocatable.any()


def test_a_label_goes_with_the_last_node_that_has_it() -> None:
    """Its column too, and the answer says that keys came or went."""
    labels = LabelColumns()
    labels.set_row(0, {"a": "1"}, 64)
    labels.set_row(1, {"a": "2"}, 64)
    column = labels.column("a", 64)

    is_last = labels.set_row(0, {}, 64)
    still = labels.column("a", 64)
    are_others = labels.set_row(1, {"b": "1"}, 64)

    assert still is column
    assert (is_last, are_others) == (False, True)
    assert "a" not in labels
    assert labels.column("a", 64).ids(2).tolist() == [0, 0]
    labels.set_row(1, {"a": "3"}, 64)
    assert labels.column("a", 64).values.values == [None, "3"]


def test_a_resource_that_no_node_offers_takes_no_column() -> None:
    """Pods may hold it all the same; once a node offers it, what they hold counts there."""
    snapshot = make_snapshot([make_node("n"), make_node("m")])
    pods = [
        make_pod_info(f"p{i}", node_name="n", requests={f"a.b/r{i}": 2, "a.b/r": 1})
        for i in range(100)
    ]
    layout = snapshot.table.sums.layout
    snapshot.update(map(PodAdded, pods))

    assert len(snapshot.table.resources) == 3
    assert snapshot.table.sums.layout is layout
    set_node(snapshot, "m", allocatable={"a.b/r": 7, "a.b/r5": 1})

    table = snapshot.table
    column, row = table.resources.get("a.b/r"), table.row_of["n"]
    assert column is not None
    assert table.sums.layout is not layout
    assert table.requested[column].tolist() == [100, 0]
    assert table.allocatable[column].tolist() == [0, 7]
    snapshot.update(map(PodRemoved, pods))
    assert table.sums.of_row(row)[0] == {}
    assert table.sums._unoffered == {}


def test_columns_of_resources_that_nobody_offers_any_more_go() -> None:
    """And what pods hold of them is kept, and comes back with the resource."""
    snapshot = make_snapshot([make_node("n")])
    pod = make_pod_info("p", node_name="n", requests={"a.b/r3": 2**60, "a.b/r4": 5})
    snapshot.update([PodAdded(pod)])
    before = snapshot.table.sums.of_row(0)

    for i in range(500):
        set_node(snapshot, "n", allocatable={f"a.b/r{i}": 1})

    assert len(snapshot.table.resources) < 30
    assert snapshot.table.resources.get("a.b/r0") is None
    assert len(snapshot.table.sums._requested.floats) < 40
    assert snapshot.table.sums.of_row(0) == before
    set_node(snapshot, "n", allocatable={"a.b/r3": 1})
    column = snapshot.table.resources.get("a.b/r3")
    assert column is not None
    assert snapshot.table.sums.exact_requested(column, 0) == 2**60
    offered = zip(snapshot.table.resources.values, snapshot.table.allocatable, strict=False)
    extended = {name: of_rows.tolist() for name, of_rows in offered if of_rows.any()}
    assert extended.keys() == {"cpu", "memory", "a.b/r3"}
    assert extended["a.b/r3"] == [1]


def test_amounts_that_float64_does_not_hold_move_with_their_column() -> None:
    """Columns before it went, because no node offers their resources any more."""
    snapshot = make_snapshot([make_node("n"), make_node("m")])
    set_node(snapshot, "n", allocatable={f"a.b/r{i}": 1 for i in range(20)})
    set_node(snapshot, "m", allocatable={"a.b/kept": 2**62 + 1})
    pod = make_pod_info("p", node_name="m", requests={"a.b/kept": 2**60 + 1})
    snapshot.update([PodAdded(pod)])
    before = snapshot.table.resources.get("a.b/kept")

    set_node(snapshot, "n")

    column, row = snapshot.table.resources.get("a.b/kept"), snapshot.table.row_of["m"]
    assert column is not None
    assert column != before
    assert snapshot.table.sums.exact_allocatable(column, row) == 2**62 + 1
    assert snapshot.table.sums.exact_requested(column, row) == 2**60 + 1
    snapshot.update([PodRemoved(pod)])
    assert snapshot.table.sums.of_row(row) == ({}, (0, 0), 0)


def test_a_resource_whose_column_moved_can_be_withdrawn() -> None:
    """Columns before it went, because no node offers their resources any more."""
    snapshot = make_snapshot([make_node("n", allocatable={"a.b/r": 1}), make_node("m")])
    set_node(snapshot, "m", allocatable={"a.b/kept": 7})
    before = snapshot.table.resources.get("a.b/kept")
    for i in range(500):
        set_node(snapshot, "n", allocatable={f"a.b/r{i}": 1})
    table = snapshot.table
    after = table.resources.get("a.b/kept")
    assert (before, after) == (4, 3)
    assert table.allocatable[3, table.row_of["m"]] == 7

    set_node(snapshot, "m")

    assert table.allocatable[3, table.row_of["m"]] == 0


def test_taints_and_features_that_no_node_has_any_more_go() -> None:
    """The sets that are left are numbered anew, in a new object."""
    snapshot = make_snapshot(
        [make_node("n"), make_node("m", taints=[Taint("k", "v", "NoSchedule")])]
    )
    first = snapshot.table.taint_sets

    for i in range(1000):
        taint = Taint("k", str(i), "NoSchedule")
        set_node(snapshot, "n", taints=[taint], declared_features=[f"f{i}"])

    table = snapshot.table
    assert len(table.taint_sets) < 140
    assert len(table.feature_sets) < 140
    assert table.taint_sets is not first
    told = [table.taint_sets.values[i] for i in table.taint_set]
    assert told == [(Taint("k", "999", "NoSchedule"),), (Taint("k", "v", "NoSchedule"),)]
    snapshot.update([NodeRemoved("n"), NodeRemoved("m")])
    assert table.taint_set.tolist() == [0, 0]


def test_values_that_are_used_keep_their_numbers() -> None:
    """However many there are. Whatever was worked out by number would be void otherwise."""
    column = InternedColumn("", 8)

    for row in range(300):
        column.set(row, str(row), 512)
    for row in range(300):
        column.set(row, str(row + 1), 512)

    assert column.numbering == 0
    assert [column.value_of(row) for row in range(300)] == [str(row + 1) for row in range(300)]


def test_kinds_without_pods_are_numbered_anew() -> None:
    """Once most have no pods any more. What was worked out by number is void then."""
    kinds, stays = PodKinds(), make_pod_info("stays")
    goes = [make_pod_info("goes", labels={"of the renumbering": str(i)}) for i in range(2000)]
    last = [kinds.number_of(pod) for pod in (*goes, stays)][-1]
    column = kinds.column("key", lambda kind: float(len(kind.labels)))

    kinds.trim()
    before = kinds.epoch, kinds.number_of(stays)
    goes.clear()
    kinds.trim()

    assert column.tolist() == [1.0] * 2000 + [0.0]
    assert (before, last) == ((0, 2000), 2000)
    assert (kinds.epoch, kinds.number_of(stays)) == (1, 0)
    assert kinds.column("key", lambda _: 7.0).tolist() == [7.0]


def test_verdicts_about_labels_are_bounded() -> None:
    """Requirements with thousands of values are not kept for ever."""
    snapshot = make_snapshot([make_node("n", labels={"k": "v"})])
    column = snapshot.label_column("k")

    for i in range(100):
        values = frozenset(f"{i}-{j}" for j in range(2000))
        assert column.verdicts(Requirement("k", Operator.IN, values)).tolist() == [False, False]

    assert len(column._verdicts) < 10


def test_selectors_take_no_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes; those asked for longest ago go when pods come and go, and count right again."""
    monkeypatch.setattr(selector_counts, "_MAX_BYTES", 100_000)
    snapshot = make_snapshot([make_node("n")])
    pods = [make_pod_info(f"p{i}", node_name="n", labels={"app": f"a{i}"}) for i in range(300)]
    selectors = [
        PodSelector(frozenset({"default"}), selector_from_labels({"app": f"a{i}"}))
        for i in range(300)
    ]
    for selector in selectors:
        snapshot.pod_counts(selector)

    snapshot.update(map(PodAdded, pods))

    counts = snapshot.selector_counts
    assert sum(cls.size_bytes for cls in counts._classes.values()) <= 110_000
    assert [snapshot.pod_counts(selector).total for selector in selectors] == [1] * 300


def test_a_selector_that_speaks_of_many_kinds_of_pods_takes_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them knows its selectors: of narrow ones there would be room for 80 and more."""
    monkeypatch.setattr(selector_counts, "_MAX_BYTES", 100_000)
    snapshot = make_snapshot([make_node("n")])
    pods = [make_pod_info(f"p{i}", node_name="n", labels={"app": f"a{i}"}) for i in range(300)]
    broad = [
        PodSelector(frozenset({"default", f"other-{i}"}), selector_from_labels({}))
        for i in range(10)
    ]
    snapshot.update(map(PodAdded, pods))
    for selector in broad:
        snapshot.pod_counts(selector)

    snapshot.update(map(PodRemoved, pods[:10]))

    assert 1 <= len(snapshot.selector_counts) <= 4
    assert [snapshot.pod_counts(selector).total for selector in broad] == [290] * 10


@pytest.mark.parametrize(("name", "most"), [("_MAX_CLASSES", 10), ("_MAX_BYTES", 20_000)])
def test_selectors_go_one_by_one_though_no_pod_comes(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    """100,000 waiting pods ask for as many; to let go of all that at once takes a second."""
    monkeypatch.setattr(selector_counts, name, most)
    cache, snapshot = Cache(), Snapshot()
    cache.set_node(make_node("n"))
    kept = []

    for i in range(100):
        cache.update_snapshot(snapshot)
        selector = selector_from_labels({"app": f"a{i}"})
        snapshot.pod_counts(PodSelector(frozenset({"default"}), selector))
        kept.append(len(snapshot.selector_counts))

    assert 5 < max(kept) < 20


def test_selectors_that_all_count_the_same_pods_are_thinned_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What thousands of broad selectors add to the cost of each pod that comes is bounded."""
    monkeypatch.setattr(selector_counts, "_MAX_CLASSES_PER_GROUP", 4)
    snapshot = make_snapshot([make_node("n")])
    pods = [make_pod_info(f"p{i}", node_name="n", labels={"app": "a"}) for i in range(40)]
    snapshot.update(map(PodAdded, pods[:2]))
    broad = [
        PodSelector(
            frozenset({"default"}),
            selector_from_labels({}).with_requirements(
                [Requirement("app", Operator.NOT_IN, frozenset({f"x{i}"}))]
            ),
        )
        for i in range(100)
    ]
    for selector in broad:
        assert snapshot.pod_counts(selector).total == 2

    snapshot.update(map(PodAdded, pods[2:]))

    assert len(snapshot.selector_counts._classes) == 4
    assert [snapshot.pod_counts(selector).total for selector in broad] == [40] * 100

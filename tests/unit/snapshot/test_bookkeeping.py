"""When the snapshot keeps, lets go and makes anew what it derives: none of it changes an answer."""

from random import Random

import numpy as np
import pytest

from scheduler.api.objects import (
    Affinity,
    ContainerImage,
    LabelSelector,
    PodAffinitySpec,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import NOTHING, Operator, Requirement, selector_from_labels
from scheduler.kernel.snapshot import (
    NodeSet,
    PodAdded,
    PodRemoved,
    Snapshot,
    label_columns,
    selector_counts,
    term_counts,
)
from scheduler.kernel.snapshot.changes import RowLog
from scheduler.kernel.snapshot.images import ImageIndex
from scheduler.kernel.snapshot.interning import InternedColumn
from scheduler.kernel.snapshot.label_columns import LabelColumn, LabelColumns, Topology
from scheduler.kernel.snapshot.pod_kinds import PodKinds
from scheduler.kernel.snapshot.pod_selectors import PodSelector, SelectorIndex
from scheduler.kernel.snapshot.row_counts import RowCounts
from scheduler.kernel.snapshot.selector_counts import SelectorCounts
from scheduler.kernel.snapshot.term_counts import TermKind
from tests.support.builders import HOSTNAME, make_node, make_node_info, make_pod_info, make_snapshot
from tests.support.histories import History
from tests.unit.snapshot.test_snapshot_law import POD_SELECTORS

# --- counts by row --------------------------------------------------------------------------------

OF_DICTIONARY, OF_ENTRY, OF_NUMBER = 256, 100, 8
"""Bytes that counts take: at least, for each row in a dictionary, and for each row in an array."""


def counted(rows: int, capacity: int) -> RowCounts:
    counts = RowCounts()
    for row in range(rows):
        counts.add(row, 1, capacity)
    return counts


@pytest.mark.parametrize(("capacity", "most", "few"), [(64, 16, 4), (512, 16, 4), (2048, 64, 16)])
def test_counts_of_many_rows_are_an_array(capacity: int, most: int, few: int) -> None:
    """From more than one row in 32 on, at least 16, until at most one in 128, at least 4.

    Rows that come and go in between change nothing.
    """
    array = OF_DICTIONARY + OF_NUMBER * capacity
    counts = counted(most, capacity)
    assert counts.size_bytes == OF_DICTIONARY + OF_ENTRY * most

    counts.add(most, 1, capacity)
    assert counts.size_bytes == array
    for row in range(most, few, -1):
        for amount in (-1, 1, -1):
            assert counts.size_bytes == array
            counts.add(row, amount, capacity)
    counts.add(few, 0, capacity)
    assert counts.size_bytes == array
    counts.add(0, 1, capacity)
    counts.add(few, -1, capacity)

    assert counts.size_bytes == OF_DICTIONARY + OF_ENTRY * few
    assert [counts.at(row) for row in range(few + 1)] == [2, *[1] * (few - 1), 0]
    assert counts.total == few + 1


@pytest.mark.parametrize(("rows", "is_array"), [(64, False), (65, True)])
def test_a_column_becomes_counts_of_the_same_form(rows: int, *, is_array: bool) -> None:
    """As if they had been counted one by one."""
    column = np.zeros(2048)
    column[:rows] = 1

    counts = RowCounts.of_column(column)

    own = OF_NUMBER * 2048 if is_array else OF_ENTRY * rows
    assert counts.size_bytes == counted(rows, 2048).size_bytes == OF_DICTIONARY + own
    assert (counts.total, counts.column(2048).tolist()) == (rows, column.tolist())


def test_sums_of_counts_are_counts() -> None:
    """Of arrays and dictionaries alike, on rows that they share and rows that they do not."""
    parts = [counted(100, 128), counted(3, 128), RowCounts()]
    parts[1].add(120, 5, 128)

    total = RowCounts.sum_of(parts, 128)

    assert total.column(128).tolist() == [2.0] * 3 + [1.0] * 97 + [0.0] * 20 + [5.0] + [0.0] * 7
    assert total.total == 108


def test_an_array_grows_with_the_table() -> None:
    """To the capacity that is given, or to what is asked for."""
    counts = counted(40, 64)
    assert counts.at(64) == 0

    counts.add(100, 1, 128)

    assert counts.size_bytes == OF_DICTIONARY + OF_NUMBER * 128
    assert (counts.at(100), counts.at(127), counts.at(128)) == (1, 0, 0)
    assert counts.column(200).sum() == 41
    assert counts.size_bytes == OF_DICTIONARY + OF_NUMBER * 200
    assert counts.rows().tolist() == [*range(40), 100]


def test_rows_beyond_the_capacity_are_counted() -> None:
    """A fork counts with the capacity that it needs for one row."""
    counts = RowCounts()

    for row in range(300, 317):
        counts.add(row, 1, 10)

    assert counts.rows().tolist() == [*range(300, 317)]
    assert counts.size_bytes == OF_DICTIONARY + OF_NUMBER * 317


def test_sums_by_domain_are_kept_for_the_two_topologies_asked_last() -> None:
    """And for none that is gone."""
    counts = counted(3, 64)
    own = counts.size_bytes
    first, second, third = (Topology(np.arange(64) % n, n) for n in (2, 3, 4))
    sizes = []

    for topology in (first, second, first, third):
        counts.by_domain(topology)
        sizes.append((counts.size_bytes - own) // OF_NUMBER)
    del topology, third
    counts.by_domain(second)
    sizes.append((counts.size_bytes - own) // OF_NUMBER)
    counts.by_domain(first)
    sizes.append((counts.size_bytes - own) // OF_NUMBER)

    assert sizes == [2, 5, 5, 7, 7, 5]
    assert counts.copy().size_bytes == own


@pytest.mark.parametrize(("domains", "is_kept"), [(44, True), (45, False)])
def test_sums_are_kept_where_they_take_no_more_than_the_counts(
    domains: int, *, is_kept: bool
) -> None:
    """Counts of one row take 356 bytes."""
    counts = counted(1, 64)
    topology = Topology(np.arange(64) % domains, domains)

    counts.by_domain(topology)

    assert counts.size_bytes == 356 + (OF_NUMBER * domains if is_kept else 0)


def test_sums_leave_out_rows_that_came_after_the_topology() -> None:
    """Another topology is asked about by then."""
    counts = counted(3, 64)
    old = Topology(np.zeros(3, np.intp), 2)

    before = counts.by_domain(old).tolist()
    counts.add(3, 1, 64)
    counts.add(2, 1, 64)

    assert (before, counts.by_domain(old).tolist()) == ([3, 0], [4, 0])


# --- values by number -----------------------------------------------------------------------------


def churned(column: InternedColumn[str], times: int) -> int:
    """How often values are numbered anew while a row has one new value after the other."""
    for i in range(times):
        column.set(0, f"new {i}", 512)
    return column.numbering


def test_values_are_numbered_anew_once_65_are_not_used() -> None:
    """The one that is used keeps its value."""
    assert churned(InternedColumn("", 8), 65) == 0
    column = InternedColumn("", 8)

    assert churned(column, 66) == 1
    assert (column.values.values, column.value_of(0)) == (["", "new 65"], "new 65")
    assert churned(column, 64) == 1
    column.set(0, "one more", 8)
    assert column.numbering == 2


@pytest.mark.parametrize(("times", "numbering"), [(201, 0), (202, 1)])
def test_values_are_numbered_anew_once_half_are_not_used(times: int, numbering: int) -> None:
    """Of more than 130."""
    column = InternedColumn("", 8)
    for row in range(200):
        column.set(row, str(row), 512)

    assert churned(column, times) == numbering
    assert [column.value_of(row) for row in range(1, 200)] == [str(row) for row in range(1, 200)]
    assert column.of(np.array([5, 0])).tolist() == [
        column.values.get("5"),
        column.values.get(f"new {times - 1}"),
    ]


@pytest.mark.parametrize(("last", "numbering"), [("a", 1), ("b", 0)])
def test_a_value_is_used_while_any_row_has_it(last: str, numbering: int) -> None:
    """Also one that a column was filled with."""
    column = InternedColumn("", 8)
    column.fill(["b", "a", "a", "", "b"])
    column.set(0, "a", 8)
    column.set(4, last, 8)

    assert churned(column, 65) == numbering
    column.set(4, "a", 8)
    assert column.numbering == 1
    copy = column.copy()
    copy.set(1, "c", 8)
    assert (column.value_of(1), copy.value_of(1)) == ("a", "c")


# --- labels of nodes ------------------------------------------------------------------------------


@pytest.mark.parametrize(("bytes_", "most"), [(0, 16), (17 * 64 * 8, 17), (17 * 64 * 8 - 1, 16)])
def test_the_columns_asked_for_last_are_kept(
    monkeypatch: pytest.MonkeyPatch, bytes_: int, most: int
) -> None:
    """As many as there is memory for, but no fewer than 16; others go when a node changes."""
    monkeypatch.setattr(label_columns, "_MAX_BYTES", bytes_)
    labels = LabelColumns()
    keys = [f"k{i}" for i in range(most + 1)]
    labels.set_row(0, dict.fromkeys(keys, "x"), 64)
    columns = {key: labels.column(key, 64) for key in keys[:-1]}
    labels.set_row(1, {"k0": "x"}, 64)
    assert all(labels.column(key, 64) is columns[key] for key in reversed(keys[:-1]))
    columns[keys[-1]] = labels.column(keys[-1], 64)

    labels.set_row(2, {"k0": "y"}, 64)

    gone = [key for key in keys if labels.column(key, 64) is not columns[key]]
    assert gone == [keys[-2]]
    assert labels.column("k0", 64).ids(3).tolist() == [1, 1, 2]


def in_values(*values: str) -> Requirement:
    return Requirement("k", Operator.IN, frozenset(values))


@pytest.mark.parametrize(
    ("most", "kept"),
    [(129, [False, False]), (130, [False, True]), (259, [False, True]), (260, [True, True])],
)
def test_verdicts_are_kept_as_far_as_there_is_memory(
    monkeypatch: pytest.MonkeyPatch, most: int, kept: list[bool]
) -> None:
    """All are given up when one more has no room: 64 bytes, 64 for each value, one per id."""
    monkeypatch.setattr(label_columns, "_MAX_VERDICT_BYTES", most)
    column = LabelColumn(2)
    column.fill(["v"])
    wanted = in_values("v"), in_values("w")

    tables = [column.verdicts(each) for each in wanted]

    found = [column._verdicts.get(each) for each in wanted]
    assert [one is other for one, other in zip(found, tables, strict=True)] == kept
    assert [table.tolist() for table in tables] == [[False, True], [False, False]]


def test_a_copy_keeps_verdicts_of_its_own() -> None:
    """The same number may stand for another value there."""
    column = LabelColumn(2)
    column.fill(["v"])
    column.verdicts(in_values("w"))
    copy = column.copy()

    copy.set(1, "w", 2)
    column.set(1, "x", 2)

    assert copy.verdicts(in_values("w")).tolist() == [False, False, True]
    assert column.verdicts(in_values("w")).tolist() == [False, False, False]


def test_verdicts_know_new_values() -> None:
    """The same table is given until there are any."""
    column = LabelColumn(2)
    column.fill(["v"])
    first = column.verdicts(in_values("w"))
    assert column.verdicts(in_values("w")) is first

    column.set(1, "w", 2)

    assert column.verdicts(in_values("w")).tolist() == [False, False, True]
    assert len(column.values) == 3


def test_a_topology_is_the_same_until_a_node_changes() -> None:
    """Results are kept by it; it says whether every node is in a domain."""
    snapshot = make_snapshot([make_node("n", labels={"rack": "1"}), make_node("m")])
    names, racks, none = (snapshot.topology(key) for key in (HOSTNAME, "rack", "none"))
    assert [each.is_complete for each in (names, racks, none)] == [True, False, False]
    assert [each.count for each in (names, racks, none)] == [3, 2, 1]
    assert snapshot.topology(HOSTNAME) is names
    assert snapshot.topology("none") is not none

    node = make_node("m", labels={"rack": "2"})
    snapshot.update([NodeSet(make_node_info(node), node)])

    assert snapshot.topology(HOSTNAME) is not names
    assert snapshot.topology("rack").is_complete
    assert racks.ids.tolist() == [1, 0]
    assert snapshot.topology("rack").ids.tolist() == [1, 2]


# --- selectors ------------------------------------------------------------------------------------


def assert_books_balance(counts: SelectorCounts) -> None:
    """What selectors and groups of pods know of each other."""
    groups = [group for each in counts._groups._namespaces.values() for group in each]
    for cls in counts._classes.values():
        assert cls.groups == sum(cls in group.classes for group in groups)
    known = set(counts._classes.values())
    assert all(known.issuperset(group.classes) for group in groups)
    assert len(counts._index) == len(counts._classes)


@pytest.mark.parametrize("most", [5, 1000])
def test_the_books_of_selectors_balance(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Whatever comes, goes, is asked for and is given up; their memory is the sum of theirs."""
    monkeypatch.setattr(selector_counts, "_MAX_CLASSES", most)
    random, cluster, snapshot = Random(1), History(7, 12), Snapshot()
    counts = snapshot.selector_counts

    for _ in range(300):
        snapshot.update(changes := list(cluster.change()))
        assert_books_balance(counts)
        if changes and isinstance(changes[-1], PodAdded | PodRemoved):
            assert len(counts) <= most
            assert counts._size_bytes == sum(c.size_bytes for c in counts._classes.values())
        known, before = set(counts._classes), counts._size_bytes
        asked = random.choice(POD_SELECTORS)
        snapshot.pod_counts(asked)
        if asked not in known:
            before += counts._classes[asked].size_bytes
            assert counts._size_bytes == before


def test_counts_are_taken_from_groups_as_they_are_now() -> None:
    """Also from one on so many nodes that it has its rows at hand."""
    counts = SelectorCounts({})
    for row in range(20):
        counts.change(row, make_pod_info(f"p{row}", labels={"a": "1"}), 1, 64)
    first = counts.counts(PodSelector(frozenset({"default"}), selector_from_labels({})), 64)

    counts.change(20, make_pod_info("p20", labels={"a": "1"}), 1, 64)
    counts.change(0, make_pod_info("p0", labels={"a": "1"}), -1, 64)
    of_a = PodSelector(frozenset({"default"}), selector_from_labels({"a": "1"}))
    second = counts.counts(of_a, 64)

    assert first.rows().tolist() == second.rows().tolist() == [*range(1, 21)]


class Item:
    def __init__(self, *namespaces: str, **labels: str) -> None:
        self.pods = PodSelector(frozenset(namespaces), selector_from_labels(labels))


def test_a_selector_is_filed_where_it_has_the_fewest_neighbours() -> None:
    """Pods with the other label need not be tried on it."""
    index: SelectorIndex[Item] = SelectorIndex()
    crowd = [Item("default", app="web") for _ in range(3)]
    for each in crowd:
        index.add(each)
    item = Item("default", app="web", job="a")

    index.add(item)

    assert list(index.candidates({"app": "web"}, "default")) == crowd
    assert list(index.candidates({"job": "a"}, "default")) == [item]
    assert index.matching({"app": "web", "job": "a"}, "default", {}) == [*crowd, item]
    assert not list(index.candidates({"job": "a"}, "other"))
    for each in (*crowd, item):
        index.discard(each)
    assert (len(index), index._drawers, index._named) == (0, {}, {})


@pytest.mark.parametrize(("count", "tried"), [(8, False), (9, True)])
def test_a_selector_of_very_many_namespaces_is_tried_in_all(count: int, *, tried: bool) -> None:
    """It would be filed under each of them."""
    index: SelectorIndex[Item] = SelectorIndex()
    item = Item(*(f"n{i}" for i in range(count)), app="web")

    index.add(item)

    assert list(index.candidates({"app": "web"}, "n0")) == [item]
    assert list(index.candidates({"app": "web"}, "other")) == ([item] if tried else [])
    assert index.matching({"app": "web"}, "other", {}) == []


def test_only_labels_that_a_selector_names_tell_pods_apart() -> None:
    """As long as any does."""
    index: SelectorIndex[Item] = SelectorIndex()
    items = Item("default", app="web"), Item("default", app="db"), Item("default", app="web")
    labels = {"app": "web", "job": "a"}
    distinctions = [index.distinction(labels)]

    for each in items:
        index.add(each)
    distinctions += [index.distinction(labels), index.distinction({"app": "other"})]
    for each in items:
        index.discard(each)
        distinctions.append(index.distinction(labels))

    web, other = (("app", "web"),), (("app", None),)
    assert distinctions == [(), web, other, web, web, ()]


# --- terms ----------------------------------------------------------------------------------------


def preferring(weight: int, **labels: str) -> Affinity:
    term = PodAffinityTerm(
        HOSTNAME, LabelSelector(labels), namespace_selector=LabelSelector({"t": "a"})
    )
    weighted = (WeightedPodAffinityTerm(weight, term),)
    spec = PodAffinitySpec(preferred_during_scheduling_ignored_during_execution=weighted)
    return Affinity(pod_affinity=spec)


def speakers(*weights: int) -> Snapshot:
    """Running pods, each with a term of that weight about pods of team a without a label `x`."""
    snapshot = make_snapshot([make_node("n")])
    snapshot.namespaces.update({f"team-{i}": {"t": "a"} for i in range(5)})
    for i, weight in enumerate(weights):
        term = PodAffinityTerm(
            HOSTNAME,
            LabelSelector({"app": "web"}),
            namespaces=(f"team-{i + 10}",),
            namespace_selector=LabelSelector({"t": "a"}),
        )
        spec = PodAffinitySpec(
            preferred_during_scheduling_ignored_during_execution=(
                WeightedPodAffinityTerm(weight, term),
            )
        )
        affinity = Affinity(pod_affinity=spec)
        snapshot.update([PodAdded(make_pod_info(f"s{i}", node_name="n", affinity=affinity))])
    return snapshot


def told(snapshot: Snapshot, team: int, **labels: str) -> list[term_counts.TermClass]:
    probe = make_pod_info("probe", namespace=f"team-{team}", labels={"app": "web", **labels})
    return snapshot.terms_about(TermKind.PREFERRED, probe)


def test_what_terms_say_is_the_same_list_until_they_change() -> None:
    """For all pods whose labels they cannot tell apart."""
    snapshot = speakers(1, 2)

    first = told(snapshot, 0)
    assert told(snapshot, 0, other="label") is first
    assert told(snapshot, 1) is not first
    pod = make_pod_info("more", node_name="n", affinity=preferring(7))
    snapshot.update([PodAdded(pod)])

    assert sorted(each.weight for each in told(snapshot, 0)) == [1, 2, 7]
    snapshot.update([PodRemoved(pod)])
    assert sorted(each.weight for each in told(snapshot, 0)) == [1, 2]


@pytest.mark.parametrize(("count", "are_summed"), [(4, False), (5, True)])
def test_more_than_four_terms_are_summed_up(count: int, *, are_summed: bool) -> None:
    """Those of equal key and weight; the sum follows the pods."""
    snapshot = speakers(*[3] * count)

    first = told(snapshot, 0)

    assert len(first) == (1 if are_summed else count)
    assert sum(each.counts.total for each in first) == count
    again = snapshot.terms_about(TermKind.PREFERRED, make_pod_info("x", namespace="team-0"))
    assert again == []
    each = snapshot.each_term_about(
        TermKind.PREFERRED, make_pod_info("p", namespace="team-0", labels={"app": "web"})
    )
    assert len(each) == count


@pytest.mark.parametrize(
    ("weights", "most", "is_kept"),
    [
        pytest.param((1,), 18, True, id="two lists of one"),
        pytest.param((1,), 17, False, id="more than two lists of one"),
        pytest.param((1, 2), 20, True, id="two lists of two"),
        pytest.param((1, 2), 19, False, id="more than two lists of two"),
        pytest.param((3, 3, 3, 3, 3), 90, True, id="two sums of five"),
        pytest.param((3, 3, 3, 3, 3), 89, False, id="more than two sums of five"),
    ],
)
def test_lists_of_terms_are_kept_as_far_as_there_is_memory(
    monkeypatch: pytest.MonkeyPatch, weights: tuple[int, ...], most: int, *, is_kept: bool
) -> None:
    """A list is worth 8 terms beside its own, a sum 32; above the limit all are made anew."""
    monkeypatch.setattr(term_counts, "_MAX_REMEMBERED", most)
    snapshot = speakers(*weights)

    first, *_ = [told(snapshot, team) for team in range(3)]

    assert (told(snapshot, 0) is first) is is_kept
    assert sum(each.counts.total for each in told(snapshot, 0)) == len(weights)


# --- resources, kinds, images, changed rows -------------------------------------------------------


@pytest.mark.parametrize(("unused", "used", "left"), [(8, 0, 11), (9, 0, 3), (9, 6, 18), (9, 5, 8)])
def test_lines_of_resources_go_once_most_are_not_offered(unused: int, used: int, left: int) -> None:
    """More than eight, and more than half."""
    lines = {f"a.b/u{i}": 1 for i in range(used)}
    snapshot = make_snapshot([make_node("n", allocatable=lines), make_node("m")])
    for offered in ({f"a.b/r{i}": 1 for i in range(unused)}, {}):
        node = make_node("m", allocatable=offered)
        snapshot.update([NodeSet(make_node_info(node), node)])

    assert len(snapshot.table.resources) == left
    assert snapshot.table.allocatable.shape == (left, 2)
    expected = {*lines} if left < 11 else {*lines, *(f"a.b/r{i}" for i in range(unused))}
    extended = {name for name in snapshot.table.resources.values if name.startswith("a.b/")}
    assert extended == expected


@pytest.mark.parametrize(("gone", "epoch"), [(1025, 0), (1026, 1)])
def test_kinds_are_numbered_anew_once_most_have_no_pods(gone: int, epoch: int) -> None:
    """And 1,024 beside them."""
    kinds, stays = PodKinds(), make_pod_info("stays")
    numbers = [kinds.number_of(stays)]
    numbers += [
        kinds.number_of(make_pod_info("goes", labels={"of the numbering": str(i)}))
        for i in range(gone)
    ]
    asked: list[object] = []
    assert kinds.kind(0) is stays.kind
    for _ in range(2):
        kinds.column("key", lambda kind: float(not asked.append(kind)))

    kinds.trim()

    assert numbers == [*range(gone + 1)]
    assert (kinds.epoch, len(asked)) == (epoch, 1)


def image(size: int, *names: str) -> ContainerImage:
    return ContainerImage(names=names, size_bytes=size)


def test_what_may_change_the_score_of_an_image_is_noticed() -> None:
    """Its own nodes and size, and the number of nodes; neither other images nor its last loss."""
    index = ImageIndex()
    index.set_row(0, (image(5, "a", "a:1"), image(7, "b")))
    index.nodes_changed()
    seen = [index.changed_at(["a", "none"])]

    def is_noticed() -> bool:
        seen.append(index.changed_at(["a", "none"]))
        return seen[-1] != seen[-2]

    index.set_row(0, (image(5, "a", "a:1"), image(9, "b")))
    assert not is_noticed()
    index.set_row(1, (image(5, "a"),))
    assert is_noticed()
    assert index.holders(["a", "b"]).tolist() == [0, 1]
    index.nodes_changed()
    assert is_noticed()
    index.set_row(1, ())
    assert is_noticed()
    assert index.find("a") is not None
    index.set_row(0, ())

    assert index.changed_at(["a", "none"]) == 0
    assert index.holders(["a"]).tolist() == []
    assert index.find("a") is None


@pytest.mark.parametrize(("keep", "most", "left"), [(64, 8192, 4096), (5000, 10_000, 5000)])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_log_is_trimmed_at_twice_what_it_keeps(
    keep: int, most: int, left: int, *, at_once: bool
) -> None:
    """No sooner, and to what it keeps; all of that can be read."""
    log = RowLog(7)
    before = [log.since(6), log.since(7)]
    if at_once:
        log.extend(range(most), keep)
    else:
        for row in range(most):
            log.append(row, keep)
    whole = log.since(7)

    log.append(most, keep)

    assert (before[0], [] if before[1] is None else None) == (None, None)
    assert whole is not None
    assert whole.tolist() == [*range(most)]
    end = log.position
    assert end == 7 + most + 1
    assert log.since(end - left - 1) is None
    readable = log.since(end - left)
    assert readable is not None
    assert readable.tolist() == [*range(most + 1 - left, most + 1)]


def test_the_first_of_some_nodes_is_by_name() -> None:
    """Wherever they are, and after nodes came and went."""
    snapshot = make_snapshot([make_node(name) for name in "cab"])
    rows = snapshot.table.row_of
    assert snapshot.table.first_by_name(np.array([rows["c"], rows["b"]])) == "b"

    node = make_node("aa")
    snapshot.update([NodeSet(make_node_info(node), node)])

    rows = snapshot.table.row_of
    assert snapshot.table.first_by_name(np.array([rows["c"], rows["aa"], rows["b"]])) == "aa"


def test_selectors_that_select_nothing_and_everything() -> None:
    """Of namespaces that it names, and of those whose labels it selects."""
    pod = make_pod_info("p", namespace="red", labels={"a": "1"})
    labels = {"red": {"team": "a"}}
    of_team = selector_from_labels({"team": "a"})
    a = selector_from_labels({"a": "1"})

    def matches(pods: PodSelector, pod: PodInfo = pod) -> bool:
        return pods.matches(pod, labels)

    assert matches(PodSelector(frozenset({"red"}), a))
    assert matches(PodSelector(frozenset(), a, of_team))
    assert not matches(PodSelector(frozenset(), a, selector_from_labels({"team": "b"})))
    assert not matches(PodSelector(frozenset({"blue"}), a, NOTHING))
    assert not matches(PodSelector(frozenset({"red"}), NOTHING))
    ending = make_pod_info("p", namespace="red", labels={"a": "1"}, deletion_timestamp="2026")
    assert matches(PodSelector(frozenset({"red"}), a), ending)
    assert not matches(PodSelector(frozenset({"red"}), a, skip_terminating=True), ending)


def test_nodes_of_several_zones_take_turns() -> None:
    """The deprecated label of a zone counts before the present one, also if it is empty."""
    old, new = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    labels = [{new: "x", old: "a"}, {new: "x", old: "a"}, {new: "x", old: ""}, {new: "x"}]
    nodes = [make_node(f"n{number}", labels=each) for number, each in enumerate(labels)]

    table = make_snapshot(nodes).table

    assert [table.names[row] for row in table.node_order()] == ["n0", "n2", "n3", "n1"]

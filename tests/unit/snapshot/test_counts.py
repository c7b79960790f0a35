"""What the counts of the snapshot do beyond the law: forgetting, and staying small."""

from random import Random

import numpy as np
import pytest

from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    PodAffinitySpec,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import Operator, Requirement, selector_from_labels
from scheduler.kernel.snapshot import (
    NamespaceChanged,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRemoved,
    Snapshot,
    selector_counts,
    term_counts,
)
from scheduler.kernel.snapshot.label_columns import Topology
from scheduler.kernel.snapshot.pod_selectors import PodSelector
from scheduler.kernel.snapshot.row_counts import RowCounts
from scheduler.kernel.snapshot.selector_counts import SelectorCounts
from scheduler.kernel.snapshot.term_counts import TermKind
from tests.support.builders import HOSTNAME, make_node, make_node_info, make_pod_info, make_snapshot

CAPACITY = 64


def set_node(name: str) -> NodeSet:
    """A node appears."""
    node = make_node(name)
    return NodeSet(make_node_info(node), node)


def pods_of(app: str) -> PodSelector:
    return PodSelector(frozenset({"default"}), selector_from_labels({"app": app}))


def make_app_pod(app: str, name: str = "pod") -> PodInfo:
    return make_pod_info(name, labels={"app": app}, node_name="node")


def preferring(*weights: int, key: str = HOSTNAME) -> Affinity:
    """Preferred affinity to every pod of namespaces of team a, once per weight."""
    term = PodAffinityTerm(key, LabelSelector(), namespace_selector=LabelSelector({"t": "a"}))
    terms = tuple(WeightedPodAffinityTerm(weight, term) for weight in weights)
    return Affinity(
        pod_affinity=PodAffinitySpec(preferred_during_scheduling_ignored_during_execution=terms)
    )


def test_a_namespace_that_gets_a_label_is_spoken_of_at_once() -> None:
    """Terms with a namespace selector follow the labels of namespaces."""
    snapshot = Snapshot()
    speaker = make_pod_info("speaker", node_name="node", affinity=preferring(3))
    probe = make_pod_info("probe", namespace="other")
    snapshot.update([set_node("node"), PodAdded(speaker)])
    before = snapshot.terms_about(TermKind.PREFERRED, probe)

    snapshot.update([NamespaceChanged("other", {"t": "a"})])

    assert before == []
    assert [c.weight for c in snapshot.terms_about(TermKind.PREFERRED, probe)] == [3]


def test_terms_speak_while_a_node_has_their_topology_key() -> None:
    """No sooner and no longer, in whichever order pods and nodes come and go."""
    snapshot = Snapshot()
    speaker = make_pod_info("speaker", node_name="node", affinity=preferring(3, key="rack"))
    probe = make_pod_info("probe", namespace="other")
    racked = make_node("other", labels={"rack": "1"})
    appears = NodeSet(make_node_info(racked), racked)
    told: list[int] = []

    for changes in (
        [NamespaceChanged("other", {"t": "a"}), set_node("node")],
        [PodAdded(speaker)],
        [appears],
        [NodeRemoved("other")],
        [appears],
    ):
        snapshot.update(changes)
        told.append(len(snapshot.terms_about(TermKind.PREFERRED, probe)))

    assert told == [0, 0, 1, 0, 1]


def test_terms_that_cancel_out_still_speak_of_the_pod() -> None:
    """Classes are per weight: two weights are two classes, whatever their sum."""
    snapshot = Snapshot()
    speaker = make_pod_info("speaker", node_name="node", affinity=preferring(3, -3))
    probe = make_pod_info("probe", namespace="other")

    snapshot.update(
        [
            set_node("node"),
            NamespaceChanged("other", {"t": "a"}),
            PodAdded(speaker),
        ]
    )

    classes = snapshot.terms_about(TermKind.PREFERRED, probe)
    assert sorted((c.weight, c.counts.total) for c in classes) == [(-3, 1), (3, 1)]


def test_the_class_asked_for_longest_ago_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes are bounded, and one that went counts right when it is asked for again."""
    monkeypatch.setattr(selector_counts, "_MAX_CLASSES", 2)
    counts = SelectorCounts({})
    counts.change(0, make_app_pod("a"), 1, CAPACITY)
    counts.change(0, make_app_pod("b"), 1, CAPACITY)
    kept, dropped = counts.counts(pods_of("a"), CAPACITY), counts.counts(pods_of("b"), CAPACITY)

    counts.counts(pods_of("a"), CAPACITY)
    counts.counts(pods_of("c"), CAPACITY)
    counts.trim()
    counts.change(1, make_app_pod("a"), 1, CAPACITY)
    counts.change(1, make_app_pod("b"), 1, CAPACITY)

    assert counts.counts(pods_of("a"), CAPACITY) is kept
    assert kept.total == 2
    assert dropped.total == 1
    assert counts.counts(pods_of("b"), CAPACITY).total == 2


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    """A group goes with its last pod: labels that never come back cost nothing."""
    counts = SelectorCounts({})
    counts.counts(pods_of("a"), CAPACITY)
    for i in range(3):
        pod = make_app_pod("a", f"pod-{i}")
        counts.change(i, pod, 1, CAPACITY)
        counts.change(i, pod, -1, CAPACITY)

    assert counts._groups._namespaces == {}


def test_new_selectors_find_pods_by_any_of_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are filed by the keys selectors demand; filings are bounded and follow the pods."""
    monkeypatch.setattr(selector_counts, "_MAX_INDEXED_KEYS", 1)
    counts = SelectorCounts({})
    labelled = [{"app": "a", "job": f"job-{i % 4}"} for i in range(8)] + [{}]
    pods = [make_pod_info(f"p-{i}", labels=labels) for i, labels in enumerate(labelled)]
    for row, pod in enumerate(pods):
        counts.change(row, pod, 1, CAPACITY)

    def rows_of(**labels: str) -> list[int]:
        selected = PodSelector(frozenset({"default"}), selector_from_labels(labels))
        return sorted(counts.counts(selected, CAPACITY).rows().tolist())

    assert rows_of(app="a") == list(range(8))
    assert rows_of(job="job-1") == [1, 5]
    counts.change(1, pods[1], -1, CAPACITY)
    counts.change(5, pods[5], -1, CAPACITY)
    counts.change(9, make_pod_info(labels={"app": "b", "job": "job-1"}), 1, CAPACITY)
    assert rows_of(app="a", job="job-1") == []
    assert rows_of(app="b") == [9]
    assert rows_of(app="b", job="job-1") == [9]
    assert rows_of() == [0, 2, 3, 4, 6, 7, 8, 9]


def test_a_selector_that_can_match_nothing_matches_nothing() -> None:
    """A requirement without values (no API server lets it pass) selects no pod."""
    selector = selector_from_labels({}).with_requirements([Requirement("app", Operator.IN)])
    pods = PodSelector(frozenset({"default"}), selector)
    counts = SelectorCounts({})
    counts.change(0, make_app_pod("a"), 1, CAPACITY)
    found = counts.counts(pods, CAPACITY)
    counts.change(0, make_app_pod("b"), 1, CAPACITY)

    assert found.is_empty


def test_counts_turn_into_an_array_and_back() -> None:
    """Few rows are a dictionary, many an array, and few again a dictionary."""
    counts = RowCounts()
    for row in range(500):
        counts.add(row, 2.0, 512)
    many = (counts._dense is not None, counts.column(500).sum(), len(counts.rows()))

    for row in range(2, 500):
        counts.add(row, -2.0, 512)

    assert many == (True, 1000, 500)
    assert counts._dense is None
    assert counts.rows().tolist() == [0, 1]
    assert counts.column(4).tolist() == [2, 2, 0, 0]
    assert (counts.at(1), counts.at(2)) == (2, 0)


@pytest.mark.parametrize("rows", [3, 500], ids=["dictionary", "array"])
def test_a_copy_counts_for_itself(rows: int) -> None:
    """Changes of a copy do not reach the original."""
    counts = RowCounts()
    for row in range(rows):
        counts.add(row, 1.0, 512)

    copy = counts.copy()
    for row in range(rows):
        copy.add(row, -1.0, 512)

    assert (copy.total, copy.is_empty) == (0, True)
    assert (counts.total, counts.is_empty) == (rows, False)
    assert counts.at(rows - 1) == 1


@pytest.mark.parametrize("rows", [3, 500], ids=["dictionary", "array"])
def test_domain_sums_leave_out_rows_that_do_not_count(rows: int) -> None:
    """Only eligible rows are summed."""
    counts = RowCounts()
    for row in range(rows):
        counts.add(row, 1.0, 512)
    domain_ids = np.arange(512) % 2
    every = Topology(domain_ids, 2)
    some = Topology(domain_ids, 2, np.arange(512) != 1)

    assert counts.by_domain(every).tolist() == [(rows + 1) // 2, rows // 2]
    assert counts.by_domain(some).tolist() == [(rows + 1) // 2, rows // 2 - 1]


def test_domain_sums_follow_the_counts() -> None:
    """Whoever asked before pods came and went gets the same as who asks for the first time."""
    random = Random(0)
    counts = RowCounts()
    ids = np.arange(512) % 5
    asked = [Topology(ids, 5), Topology(ids, 5, np.arange(512) % 3 == 0)]

    for _ in range(300):
        row = random.randrange(300)
        counts.add(row, random.choice((1.0, 2.0, -counts.at(row))), 512)
        counts.by_domain(random.choice(asked))[:] = -1.0

        for topology in asked:
            fresh = counts.copy().by_domain(topology)
            assert counts.by_domain(topology).tolist() == fresh.tolist()


def test_domain_sums_take_no_more_than_the_counts() -> None:
    """Pods name topology keys: sums over many domains are not kept for a few pods."""
    counts = RowCounts()
    counts.add(0, 1.0, 5000)
    size = counts.size_bytes

    of_each_node = counts.by_domain(Topology(np.arange(5000), 5000))
    of_two = Topology(np.arange(5000) % 2, 2)
    counts.by_domain(of_two)

    assert of_each_node.sum() == 1.0
    assert counts.size_bytes == size + 2 * of_each_node.itemsize


def test_values_that_no_node_has_any_more_are_dropped() -> None:
    """A label whose values come and go with nodes does not grow for ever."""
    snapshot = Snapshot()
    snapshot.update([set_node("stays")])
    column = snapshot.label_column(HOSTNAME)
    requirement = Requirement(HOSTNAME, Operator.IN, frozenset({"stays", "node-999"}))

    for i in range(1000):
        column.verdicts(requirement)
        snapshot.update([set_node(f"node-{i}")])
        if i < 999:
            snapshot.update([NodeRemoved(f"node-{i}")])

    ids = column.ids(snapshot.table.size)
    assert len(column.values) < 3 * CAPACITY + 64
    assert [column.values.values[i] for i in ids] == ["stays", "node-999"]
    assert column.verdicts(requirement)[ids].tolist() == [True, True]


def test_a_pod_that_leaves_takes_its_terms_along() -> None:
    """A class of terms ends with its last pod."""
    snapshot = Snapshot()
    speaker = make_pod_info("speaker", node_name="node", affinity=preferring(3))
    probe = make_pod_info("probe", namespace="other")
    snapshot.update(
        [
            set_node("node"),
            NamespaceChanged("other", {"t": "a"}),
            PodAdded(speaker),
        ]
    )
    before = snapshot.terms_about(TermKind.PREFERRED, probe)
    had_terms = snapshot.has_terms

    snapshot.update([PodRemoved(speaker)])

    assert (len(before), had_terms) == (1, True)
    assert snapshot.terms_about(TermKind.PREFERRED, probe) == []
    assert not snapshot.has_terms


def test_a_pod_larger_than_any_node_leaves_no_trace() -> None:
    """Whoever names a node can ask for anything; what others take there must stay exact."""
    small = make_pod_info("small", node_name="n", requests={"cpu": "3900m", "memory": "100M"})
    huge = make_pod_info("huge", node_name="n", requests={"cpu": "9e15", "memory": "8Ei"})
    snapshot = make_snapshot([make_node("n")], [small])
    before = snapshot.table.requested.copy(), snapshot.table.sums.non_zero_requested.copy()

    snapshot.update([PodAdded(huge)])
    during = snapshot.table.requested.max()
    snapshot.update([PodRemoved(huge)])

    assert during >= 2**53
    assert np.array_equal(snapshot.table.requested, before[0])
    assert np.array_equal(snapshot.table.sums.non_zero_requested, before[1])


def test_sums_of_terms_stay_though_others_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod is told the same as before. A term is part of so many sums at most."""
    monkeypatch.setattr(term_counts, "_MAX_SUMS_PER_CLASS", 4)
    snapshot = make_snapshot([make_node("node")])
    names = [f"n{i}" for i in range(20)]
    snapshot.update(NamespaceChanged(name, {"t": "a"}) for name in names)
    running = make_pod_info("p", node_name="node", affinity=preferring(*range(1, 7)))
    snapshot.update([PodAdded(running)])
    probes = [make_pod_info("probe", namespace=name) for name in names]

    told = [snapshot.terms_about(TermKind.PREFERRED, probe) for probe in probes[:3]]
    again = [snapshot.terms_about(TermKind.PREFERRED, probe) for probe in probes[:3]]
    for probe in probes:
        snapshot.terms_about(TermKind.PREFERRED, probe)

    assert [one is other for one, other in zip(told, again, strict=True)] == [True] * 3
    terms = snapshot.each_term_about(TermKind.PREFERRED, probes[0])
    assert [len(term.sums) <= 4 for term in terms] == [True] * 6

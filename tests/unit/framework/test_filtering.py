"""From PreFilter to verdicts: who rejects, in which order, with which words."""

from itertools import permutations
from math import inf
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from scheduler.api.nodes import NodeInfo
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import Bits, Plugin, Reads
from scheduler.kernel.framework.results import Reason
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.changed_rows import ChangedRows
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE
from scheduler.kernel.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from scheduler.kernel.framework.types import Excess
from scheduler.kernel.snapshot import NodeRemoved, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods
from tests.support.builders import make_pod_info
from tests.support.fake_plugins import (
    ColumnFilter,
    Neighbours,
    NodeFilter,
    PodLimit,
    PreFilter,
    make_framework,
    make_snapshot,
)

POD = make_pod_info("judged")


def nominated_pods(**names: str) -> NominatedPods:
    """One pod for each of some nodes."""
    nominated = NominatedPods()
    for node, name in names.items():
        nominated.nominate(make_pod_info(name), node)
    return nominated


def verdicts(framework: Framework, snapshot: Snapshot, **how: Any) -> dict[str, Any]:
    """Per node the first rejecting plugin and its reasons; None for a node that fits."""
    found = framework.filtering.find_nodes_that_fit(how.pop("pod", POD), snapshot, **how)
    assert found.verdicts is not None
    diagnosis = found.diagnosis(snapshot)
    feasible = {snapshot.table.names[row] for row in found.feasible_rows()}
    statuses = {name: diagnosis.status_of(name) for name in sorted(snapshot.table.row_of)}
    return {
        name: None if name in feasible else (status.plugin, status.reasons)
        for name, status in statuses.items()
    }


def message(framework: Framework, snapshot: Snapshot, **how: Any) -> str:
    found = framework.filtering.find_nodes_that_fit(how.pop("pod", POD), snapshot, **how)
    return found.diagnosis(snapshot).message()


KINDS = {
    "node": lambda name, nodes: ColumnFilter(name, dict.fromkeys(nodes, 1)),
    "pods": lambda name, nodes: ColumnFilter(name, dict.fromkeys(nodes, 1), reads=Reads.PODS),
    "cluster": lambda name, nodes: ColumnFilter(name, dict.fromkeys(nodes, 1), reads=Reads.CLUSTER),
    "by-node": lambda name, nodes: NodeFilter(
        name, lambda node: unschedulable(f"{name} says no") if node.name in nodes else SUCCESS
    ),
}


@pytest.mark.parametrize("kinds", list(permutations(KINDS, 3)), ids=" ".join)
def test_the_first_plugin_in_order_rejects(kinds: tuple[str, ...]) -> None:
    """Whatever plugins read, and however they are called, the order of the profile counts."""
    plugins = [
        KINDS[kind](name, nodes)
        for kind, name, nodes in zip(kinds, "ABC", (("a", "ab"), ("ab", "b"), "c"), strict=True)
    ]
    framework = make_framework(*plugins)

    found = verdicts(framework, make_snapshot("a", "ab", "b", "c", "none"))

    assert found == {
        "a": ("A", ("A says no",)),
        "ab": ("A", ("A says no",)),
        "b": ("B", ("B says no",)),
        "c": ("C", ("C says no",)),
        "none": None,
    }


def test_a_node_form_plugin_is_asked_about_candidates_only() -> None:
    """Nodes that a plugin before it rejects cost it nothing."""
    before = ColumnFilter("Before", {"a": 1})
    asked = NodeFilter("Asked", lambda node: SUCCESS)
    after = ColumnFilter("After", {"b": 1})

    verdicts(make_framework(before, asked, after), make_snapshot("a", "b", "c"))

    assert asked.asked == ["b", "c"]


def test_a_node_form_plugin_may_say_something_else_of_every_node() -> None:
    """There is no limit to the number of its reasons."""
    names = [f"n{i:03}" for i in range(150)]
    framework = make_framework(
        NodeFilter("Each", lambda node: unresolvable(f"not {node.name}", "nowhere"))
    )

    found = verdicts(framework, make_snapshot(*names))

    assert found == {name: ("Each", (f"not {name}", "nowhere")) for name in names}


def test_the_worst_reason_decides_the_code() -> None:
    """A reason without a text raises the code and is not told."""
    reasons = [Reason("short"), Reason("", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)]
    framework = make_framework(ColumnFilter("F", {"a": 1, "b": 3}, reasons=reasons))
    snapshot = make_snapshot("a", "b")

    diagnosis = framework.filtering.find_nodes_that_fit(POD, snapshot).diagnosis(snapshot)

    assert diagnosis.status_of("a") == Status(Code.UNSCHEDULABLE, ("short",), "F")
    assert diagnosis.status_of("b") == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("short",), "F")


def test_rows_of_deleted_nodes_are_no_candidates() -> None:
    """A row without a node is neither feasible nor counted."""
    snapshot = make_snapshot("a", "b", "c")
    framework = make_framework(ColumnFilter("F", {"b": 1}))
    assert verdicts(framework, snapshot) == {"a": None, "b": ("F", ("F says no",)), "c": None}

    snapshot.update([NodeRemoved("a"), NodeRemoved("c")])

    assert message(framework, snapshot) == "0/1 nodes are available: 1 F says no."
    assert list(framework.filtering.find_nodes_that_fit(POD, snapshot).feasible_rows()) == []


# --- messages -------------------------------------------------------------------------------------


def test_the_message_counts_each_reason_and_sorts_as_text() -> None:
    """A node with two reasons counts for both; "10 ..." comes before "2 ..."."""
    ten = {f"n{i}": 1 for i in range(10)}
    framework = make_framework(ColumnFilter("F", ten | {"both": 3, "never": 2}))

    text = message(framework, make_snapshot(*ten, "both", "never"))

    assert text == "0/12 nodes are available: 11 F says no, 2 F says never."


def test_a_pod_level_rejection_is_the_whole_message() -> None:
    """What PreFilter says is told instead of counts."""
    framework = make_framework(PreFilter("P", unresolvable("one", "two")))

    assert message(framework, make_snapshot("a")) == "0/1 nodes are available: one, two."


def test_the_diagnosis_knows_who_rejected() -> None:
    """Those whose events may wake the pod: rejecting and restricting plugins, Pending apart."""
    pending = NodeFilter(
        "Pending", lambda n: Status(Code.PENDING, ("soon",)) if n.name == "b" else SUCCESS
    )
    framework = make_framework(
        PreFilter("Set", nodes=("a", "b")), ColumnFilter("F", {"a": 1}), pending
    )
    snapshot = make_snapshot("a", "b", "c")

    diagnosis = framework.filtering.find_nodes_that_fit(POD, snapshot).diagnosis(snapshot)

    assert diagnosis.unschedulable_plugins == {"Set", "F"}
    assert diagnosis.pending_plugins == {"Pending"}
    assert diagnosis.status_of("b").code is Code.PENDING


# --- PreFilter ------------------------------------------------------------------------------------


def test_unresolvable_ends_prefilter() -> None:
    """Nobody after it is asked."""
    after = PreFilter("After")
    framework = make_framework(
        PreFilter("Maybe", unschedulable("perhaps")), PreFilter("No", unresolvable("no")), after
    )

    found = framework.filtering.find_nodes_that_fit(POD, make_snapshot("a"))

    assert found.verdicts is None
    assert found.pre_filter == unresolvable("no").by("No")
    assert after.calls == 0


def test_the_last_unschedulable_counts() -> None:
    """After Unschedulable the others still run."""
    after = PreFilter("After")
    framework = make_framework(
        PreFilter("First", unschedulable("one")), PreFilter("Last", unschedulable("two")), after
    )

    found = framework.filtering.find_nodes_that_fit(POD, make_snapshot("a"))

    assert found.pre_filter == unschedulable("two").by("Last")
    assert after.calls == 1


class Exceeded(ColumnFilter):
    """No node could ever hold what pods ask for."""

    @override
    def excess(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Excess | None:
        return Excess("cpu", 8000)


@pytest.mark.parametrize("status", [SUCCESS, unschedulable("not yet"), unresolvable("never")])
def test_a_pod_that_is_rejected_as_a_whole_waits_for_more_than_nodes(status: Status) -> None:
    """For what PreFilter misses, too, even if no node could hold it."""
    framework = make_framework(PreFilter("P", status), Exceeded("F", {"n": 1}), trusted=["F"])
    snapshot = make_snapshot("n")

    diagnosis = framework.filtering.find_nodes_that_fit(POD, snapshot).diagnosis(snapshot)

    assert diagnosis.excess(snapshot) == (Excess("cpu", 8000) if status.is_success else None)


@pytest.mark.parametrize("status", [error("boom"), Status(Code.WAIT, ("boom",))], ids=str)
def test_any_other_answer_of_prefilter_is_a_failure(status: Status) -> None:
    """Only rejections are values."""
    framework = make_framework(PreFilter("P", status))

    with pytest.raises(PluginError, match=r'"P": (Error|returned Wait): boom'):
        framework.filtering.find_nodes_that_fit(POD, make_snapshot("a"))


class SkippingFilter(PreFilter, ColumnFilter):
    """Skips in PreFilter, would reject in Filter."""

    def __init__(self, name: str, reads: Reads) -> None:
        PreFilter.__init__(self, name, SKIP)
        ColumnFilter.__init__(self, name, {"a": 1}, reads=reads)


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.PODS, Reads.CLUSTER], ids=str)
def test_who_skips_does_not_filter(reads: Reads) -> None:
    """Skip turns the plugin's Filter off for this pod."""
    plugin = SkippingFilter("S", reads)

    assert verdicts(make_framework(plugin), make_snapshot("a")) == {"a": None}
    assert plugin.rows_asked == []


# --- node-name sets -------------------------------------------------------------------------------


def test_only_nodes_in_all_sets_are_looked_at() -> None:
    """The others get a reason that names the plugins, and no plugin of their own."""
    framework = make_framework(
        PreFilter("B", nodes=("a", "b", "gone")),
        PreFilter("A", nodes=("b", "c")),
        ColumnFilter("F", {"b": 1, "c": 1}),
    )
    snapshot = make_snapshot("a", "b", "c")
    left_out = ("", ("node(s) didn't satisfy plugin(s) [A B]",))

    assert verdicts(framework, snapshot) == {
        "a": left_out,
        "b": ("F", ("F says no",)),
        "c": left_out,
    }
    assert message(framework, snapshot) == (
        "0/3 nodes are available: 1 F says no, 2 node(s) didn't satisfy plugin(s) [A B]."
    )


def test_names_of_no_nodes_leave_out_every_node() -> None:
    """A set is not empty because its nodes do not exist."""
    framework = make_framework(PreFilter("P", nodes=("gone",)))

    assert message(framework, make_snapshot("a", "b")) == (
        "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [P]."
    )


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        pytest.param({"P": ()}, "node(s) didn't satisfy plugin P", id="one plugin"),
        pytest.param(
            {"Q": ("a",), "P": ("b",)},
            "node(s) didn't satisfy plugin(s) [P Q] simultaneously",
            id="two plugins",
        ),
    ],
)
def test_an_empty_intersection_rejects_the_pod(sets: dict[str, Any], expected: str) -> None:
    """Nobody is to blame alone, so no plugin is named."""
    after = PreFilter("After")
    framework = make_framework(*(PreFilter(n, nodes=s) for n, s in sets.items()), after)
    snapshot = make_snapshot("a", "b")

    found = framework.filtering.find_nodes_that_fit(POD, snapshot)

    assert found.pre_filter == unresolvable(expected)
    assert found.diagnosis(snapshot).message() == f"0/2 nodes are available: {expected}."
    assert found.diagnosis(snapshot).unschedulable_plugins == set(sets)
    assert after.calls == 0


@pytest.mark.parametrize("nominated", ["a", "c"], ids=["outside the set", "in the set"])
def test_the_own_nominated_node_is_tried_whatever_the_set(nominated: str) -> None:
    """Whoever rejects it there is named as well for the nodes left out."""
    framework = make_framework(PreFilter("P", nodes=("c",)), ColumnFilter("F", {"a": 1, "c": 1}))
    pod = make_pod_info("p", nominated_node_name=nominated)

    found = verdicts(framework, make_snapshot("a", "b", "c"), pod=pod)

    assert found[nominated] == ("F", ("F says no",))
    assert found["b"] == ("", ("node(s) didn't satisfy plugin(s) [F P]",))


def test_an_own_nominated_node_that_fits_is_a_candidate() -> None:
    """Even when a set leaves it out; one that does not exist changes nothing."""
    framework = make_framework(PreFilter("P", nodes=("c",)))
    snapshot = make_snapshot("a", "b", "c")
    left_out = ("", ("node(s) didn't satisfy plugin(s) [P]",))

    there = make_pod_info("p", nominated_node_name="a")
    assert verdicts(framework, snapshot, pod=there) == {"a": None, "b": left_out, "c": None}
    gone = make_pod_info("p", nominated_node_name="gone")
    assert verdicts(framework, snapshot, pod=gone) == {"a": left_out, "b": left_out, "c": None}


# --- nominated pods -------------------------------------------------------------------------------


def test_room_is_left_for_nominated_pods() -> None:
    """Row-local plugins see them on their node; other nodes and later attempts are not touched."""
    framework = make_framework(PodLimit(1))
    snapshot = make_snapshot("a", "b")
    nominated = nominated_pods(a="n", gone="m")

    found = verdicts(framework, snapshot, nominated=nominated)

    assert found == {"a": ("PodLimit", ("full",)), "b": None}
    assert verdicts(framework, snapshot) == {"a": None, "b": None}


@pytest.mark.parametrize(("end", "is_let"), [(50.0, True), (50.5, False), (inf, False)])
def test_room_that_is_needed_later_is_free_for_pods_that_end_before(
    end: float, *, is_let: bool
) -> None:
    """Room of which it is not known when it is needed is free for none."""
    framework, snapshot = make_framework(PodLimit(1)), make_snapshot("a", "b", "c")
    nominated = nominated_pods(a="x")
    nominated.nominate(make_pod_info("y"), "b", 50.9)
    nominated.nominate(make_pod_info("z"), "c", 10.0)
    nominated.end_if_started = lambda _: end

    found = verdicts(framework, snapshot, nominated=nominated)

    assert [name for name, verdict in found.items() if verdict is None] == ["b"] * is_let
    assert list(nominated.validate()) == []


def test_node_form_plugins_see_nominated_pods_on_the_node() -> None:
    """The node they are given is the one with these pods, and the cache's stays as it is."""
    running = make_pod_info("r", node_name="a")
    snapshot = make_snapshot("a", "b", pods=[running])
    framework = make_framework(
        NodeFilter("Two", lambda n: unschedulable("two") if len(n.pods) > 1 else SUCCESS)
    )

    found = verdicts(framework, snapshot, nominated=nominated_pods(a="n"))

    assert found == {"a": ("Two", ("two",)), "b": None}
    assert len(snapshot.info(snapshot.table.row_of["a"]).pods) == 1


def test_extensions_hear_of_nominated_pods() -> None:
    """Plugins that count over the cluster are told which pods come to which row."""
    plugin = Neighbours()
    snapshot = make_snapshot("a", "b")

    found = verdicts(make_framework(plugin), snapshot, nominated=nominated_pods(b="n"))

    assert found == {"a": None, "b": ("Neighbours", ("crowded",))}
    assert plugin.heard == [("add", "n", snapshot.table.row_of["b"])]


def test_who_skipped_does_not_hear_of_nominated_pods() -> None:
    """Skip turns the extensions off as well."""
    plugin = Neighbours(status=SKIP)

    found = verdicts(make_framework(plugin), make_snapshot("a"), nominated=nominated_pods(a="n"))

    assert (found, plugin.heard) == ({"a": None}, [])


def test_the_verdict_with_nominated_pods_comes_first() -> None:
    """A plugin late in the order that they bring to reject is told, not the one that always does.

    Only when they are not in the way, the verdict without them counts.
    """
    full_with_guest = PodLimit(1)
    late = ColumnFilter("Late", {"a": 1, "b": 1})
    framework = make_framework(full_with_guest, late)
    nominated = nominated_pods(a="n")

    found = verdicts(framework, make_snapshot("a", "b"), nominated=nominated)

    assert found == {"a": ("PodLimit", ("full",)), "b": ("Late", ("Late says no",))}


def test_extensions_hear_of_pods_that_go() -> None:
    """What may happen to rows is told to filters that follow single pods, row by row."""
    plugin = Neighbours()
    framework = make_framework(plugin)
    victim = make_pod_info("victim", node_name="b")
    snapshot = make_snapshot("a", "b")
    snapshot.info(1).pods[victim.uid] = victim
    attempt = framework.filtering.find_nodes_that_fit(POD, snapshot).attempt
    assert attempt is not None
    number = np.array([snapshot.kinds.number_of(victim)])
    rows = ChangedRows(attempt, snapshot, np.array([0, 1]), OtherPods(snapshot.kinds, number))

    rows.remove(np.array([1]), np.array([0]), lambda: [victim])
    rows.judge()

    assert plugin.heard == [("remove", "victim", 1)]


class Intolerant(Neighbours):
    """Rejects a node unless a pod has left it."""

    def __init__(self) -> None:
        super().__init__()
        self._left: set[str] = set()

    def remove_pod(self, state: Any, pod: Any, snapshot: Any, removed: Any, row: int) -> Status:
        self._left = {snapshot.table.names[row]}
        return SUCCESS

    def filter(self, state: Any, pod: Any, node: Any) -> Status:
        return SUCCESS if node.name in self._left else unschedulable("crowded")


def test_a_filter_that_follows_single_pods_is_asked_about_one_row_at_a_time() -> None:
    """What has left one row is not looked at for another."""
    framework = make_framework(Intolerant())
    victims = [make_pod_info(f"victim-{name}", node_name=name) for name in "ab"]
    snapshot = make_snapshot("a", "b")
    for row, victim in enumerate(victims):
        snapshot.info(row).pods[victim.uid] = victim
    attempt = framework.filtering.find_nodes_that_fit(POD, snapshot).attempt
    assert attempt is not None
    numbers = np.array([snapshot.kinds.number_of(victim) for victim in victims])
    kinds, of_victim = np.unique(numbers, return_inverse=True)
    rows = ChangedRows(attempt, snapshot, np.array([0, 1]), OtherPods(snapshot.kinds, kinds))

    rows.remove(np.array([0, 1]), of_victim, lambda: victims)

    assert rows.judge().first.tolist() == [FEASIBLE, FEASIBLE]


@pytest.mark.parametrize("order", [("PodLimit", "Fixed"), ("Fixed", "PodLimit")])
def test_a_node_that_a_filter_of_nodes_rejects_stays_rejected_when_its_pods_go(
    order: tuple[str, str],
) -> None:
    """Whether or not another filter has hidden that before."""
    filters = {"PodLimit": PodLimit(1), "Fixed": ColumnFilter("Fixed", {"a": 2})}
    framework = make_framework(*(filters[name] for name in order))
    victims = [make_pod_info(f"victim-{name}", node_name=name) for name in "ab"]
    snapshot = make_snapshot("a", "b", pods=victims)
    found = framework.filtering.find_nodes_that_fit(POD, snapshot)
    assert found.attempt is not None
    numbers = np.array([snapshot.kinds.number_of(victim) for victim in victims])
    kinds, of_victim = np.unique(numbers, return_inverse=True)
    others = OtherPods(snapshot.kinds, kinds)
    rows = ChangedRows(found.attempt, snapshot, np.array([0, 1]), others)

    rows.remove(np.array([0, 1]), of_victim, lambda: victims)
    judged = rows.judge()

    assert judged.status(0) == unschedulable("Fixed says never").by("Fixed")
    assert judged.status(1).is_success


# --- every verdict --------------------------------------------------------------------------------


def test_every_verdict_asks_beyond_the_first_rejection() -> None:
    """Each filter is heard about every node, nominated pods included."""
    framework = make_framework(
        PreFilter("Set", nodes=("a",)),
        ColumnFilter("F", {"a": 1, "b": 2}),
        PodLimit(1),
        NodeFilter("N", lambda node: unresolvable(f"not {node.name}")),
    )
    snapshot = make_snapshot("a", "b")
    nominated = nominated_pods(a="n")
    found = framework.filtering.find_nodes_that_fit(POD, snapshot, nominated)

    every = framework.filtering.every_verdict(found, POD, snapshot, nominated)

    row_of = snapshot.table.row_of
    told = {
        name: [v.status(row).reasons for v in every if not v.status(row).is_success]
        for name, row in row_of.items()
    }
    assert told == {
        "a": [("F says no",), ("full",), ("not a",)],
        "b": [("F says never",), ("not b",)],
    }


class Company(PodLimit):
    """Rejects empty nodes."""

    NAME = "Company"

    def __init__(self) -> None:
        super().__init__(1)

    @override
    def filter(self, *asked: Any) -> Bits | None:
        full = super().filter(*asked)
        return None if full is None else 1 - full

    @override
    def reasons(self, *_: Any) -> list[Reason]:
        return [Reason("empty")]


def test_every_verdict_asks_about_nodes_with_and_without_nominated_pods() -> None:
    """A filter that rejects a node without them may be hidden by one that does with them."""
    framework = make_framework(Company(), PodLimit(1))
    snapshot, nominated = make_snapshot("a"), nominated_pods(a="n")
    found = framework.filtering.find_nodes_that_fit(POD, snapshot, nominated)

    every = framework.filtering.every_verdict(found, POD, snapshot, nominated)

    assert [each.status(0).reasons for each in every] == [("empty",), ("full",)]
    assert found.diagnosis(snapshot).status_of("a").reasons == ("full",)


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(None, "returned None, expected a Status", id="nothing"),
        pytest.param(error("disk full"), "Error: disk full", id="error"),
        pytest.param(
            SKIP,
            "returned Skip, expected Success, Pending, Unschedulable, "
            "UnschedulableAndUnresolvable or Error",
            id="a code of no meaning here",
        ),
        pytest.param(
            Status(Code.WAIT, ("later",)),
            "returned Wait: later, expected Success, Pending, Unschedulable, "
            "UnschedulableAndUnresolvable or Error",
            id="a code of Permit only",
        ),
    ],
)
def test_a_node_form_filter_that_fails_is_named(answer: object, expected: str) -> None:
    """The attempt fails with the plugin and what it did."""
    framework = make_framework(NodeFilter("Mine", lambda node: answer))

    with pytest.raises(PluginError) as raised:
        framework.filtering.find_nodes_that_fit(POD, make_snapshot("a"))

    assert str(raised.value) == f'running Filter plugin "Mine": {expected}'
    assert raised.value.plugin == "Mine"


class Raising(ColumnFilter):
    def filter(self, *_: Any) -> Any:
        raise KeyError("gone")


class WrongSize(ColumnFilter):
    def filter(self, *_: Any) -> Any:
        return np.zeros(7, np.uint64)


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.PODS, Reads.CLUSTER], ids=str)
@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        pytest.param(Raising, "KeyError: 'gone'", id="raises"),
        pytest.param(WrongSize, r"returned an array of shape \(7,\), expected \(2,\)", id="size"),
    ],
)
def test_a_column_filter_that_fails_is_named(
    cls: type[ColumnFilter], expected: str, reads: Reads
) -> None:
    """One bad plugin fails the attempt of one pod, also of the next one."""
    plugin: Plugin = cls("Bad", {}, reads=reads)
    framework = make_framework(plugin)

    for _ in range(2):
        with pytest.raises(PluginError, match=f'running Filter plugin "Bad": .*{expected}'):
            framework.filtering.find_nodes_that_fit(POD, make_snapshot("a", "b"))


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.PODS, Reads.CLUSTER], ids=str)
def test_a_filter_that_fails_matters_only_where_it_is_reached(reads: Reads) -> None:
    """Nodes that others reject before it are rejected; upstream does not even ask it there."""
    before = ColumnFilter("Before", {"a": 1, "b": 1})
    framework = make_framework(before, Raising("Bad", {}, reads=reads))

    assert message(framework, make_snapshot("a", "b")) == (
        "0/2 nodes are available: 2 Before says no."
    )
    with pytest.raises(PluginError, match="Bad"):
        make_framework(before, Raising("Bad", {}, reads=reads)).filtering.find_nodes_that_fit(
            POD, make_snapshot("a", "b", "c")
        )


def test_a_node_that_nominated_pods_fill_fails_no_attempt() -> None:
    """A later filter fails on it, and judges the other nodes."""

    def judge(node: NodeInfo) -> Status:
        if node.name == "full":
            raise LookupError("not yet")
        return SUCCESS if node.name == "free" else unschedulable("no")

    framework = make_framework(PodLimit(1), NodeFilter("Later", judge))
    snapshot = make_snapshot("free", "full", "other")

    assert verdicts(framework, snapshot, nominated=nominated_pods(full="before")) == {
        "free": None,
        "full": ("PodLimit", ("full",)),
        "other": ("Later", ("no",)),
    }
    with pytest.raises(PluginError, match="not yet"):
        verdicts(framework, snapshot)


def test_a_filter_that_fails_is_not_reached_where_nominated_pods_are_in_the_way() -> None:
    """The look with them comes first."""
    framework = make_framework(PodLimit(1), Raising("Bad", {}, reads=Reads.CLUSTER))

    text = message(framework, make_snapshot("a"), nominated=nominated_pods(a="n"))

    assert text == "0/1 nodes are available: 1 full."


@pytest.mark.parametrize(("nominated", "fails"), [("fits", False), ("no", True), ("bad", True)])
def test_a_filter_fails_on_no_node_beside_a_nominated_one_that_fits(
    nominated: str, fails: bool
) -> None:
    """Upstream tries that node first, and others only if the pod does not fit there."""

    def judge(node: NodeInfo) -> Status:
        if node.name == "bad":
            raise LookupError("no such overload")
        return SUCCESS if node.name == "fits" else unschedulable("no")

    framework = make_framework(NodeFilter("F", judge))
    snapshot = make_snapshot("bad", "fits", "no")
    pod = make_pod_info("p", nominated_node_name=nominated)

    find = framework.filtering.find_nodes_that_fit

    with pytest.raises(PluginError, match="no such overload"):
        find(pod, snapshot)
    if fails:
        with pytest.raises(PluginError, match="no such overload"):
            find(pod, snapshot, nominated_first=True)
    else:
        found = find(pod, snapshot, nominated_first=True)
        assert found.feasible_rows().tolist() == [snapshot.table.row_of["fits"]]


class FailingOnce(ColumnFilter):
    """Fails the first time."""

    def filter(self, *args: Any) -> Any:
        self.texts, failing = (), bool(self.texts)
        if failing:
            raise ValueError("not yet")


@pytest.mark.parametrize("reads", [Reads.NODE, Reads.PODS, Reads.CLUSTER], ids=str)
def test_a_failure_is_not_remembered(reads: Reads) -> None:
    """The next attempt asks again."""
    framework = make_framework(FailingOnce("F", {}, reads=reads))
    snapshot = make_snapshot("a")

    with pytest.raises(PluginError, match="not yet"):
        framework.filtering.find_nodes_that_fit(POD, snapshot)

    assert verdicts(framework, snapshot) == {"a": None}


class FailingTogether(PodLimit):
    """Fails the first time that nominated pods are there as well."""

    fails = True

    def filter(self, *args: Any) -> Any:
        snapshot = args[2]
        if snapshot.is_fork and self.fails:
            self.fails = False
            raise ValueError("not yet")
        return super().filter(*args)


def test_a_failure_beside_nominated_pods_is_not_remembered() -> None:
    """Their room is not taken for free by the next pod of the class."""
    framework = make_framework(FailingTogether(1))
    snapshot, nominated = make_snapshot("a"), nominated_pods(a="n")

    with pytest.raises(PluginError, match="not yet"):
        framework.filtering.find_nodes_that_fit(POD, snapshot, nominated)

    found = verdicts(framework, snapshot, nominated=nominated)
    assert found == {"a": ("PodLimit", ("full",))}

"""When reasons are looked for, what is kept of them, and what looking may cost."""

from typing import Any

import pytest
from msgspec import UNSET

from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinitySpec,
    PodAffinityTerm,
    Taint,
)
from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.edits import AddNodes, DropRule, LowerRequest, SetLabel, Uncordon
from scheduler.kernel.answers.model import PodAnswer
from scheduler.kernel.answers.trials import Trials, TrialsSpentError
from scheduler.kernel.answers.why import MOST_TRIALS, Depth, Whys, explained
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.status import unschedulable
from scheduler.kernel.snapshot import PodAdded, Snapshot
from scheduler.tools.cli.why_text import say_why
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.fake_plugins import NodeFilter, make_framework
from tests.unit.answers.worlds import FRAMEWORK

ZONE = "topology.kubernetes.io/zone"
NOBODY = NominatedPods()
"""The nominated pods of a cluster that has none."""


class Counted:
    """A profile that counts how often it is asked aside."""

    def __init__(self, framework: Framework) -> None:
        self.asked = 0
        self._framework = framework

    def __getattr__(self, name: str) -> Any:
        return getattr(self._framework, name)

    def aside(self, without: Any = ()) -> Any:
        self.asked += 1
        return self._framework.aside(without)


def tainted() -> Snapshot:
    return make_snapshot([make_node("a", taints=[Taint("gpu", "", "NoSchedule")])])


def added(
    whys: Whys,
    snapshot: Snapshot,
    framework: Any = FRAMEWORK,
    depth: Depth = Depth.CHANGES,
    pod: PodInfo | None = None,
) -> PodAnswer:
    blank = PodAnswer("default/p", "stowage")
    pod = pod or make_pod_info("p")
    found = framework.filtering.find_nodes_that_fit(pod, snapshot, NOBODY)
    return whys.add(blank, depth, framework, pod, found, snapshot, NOBODY)


@pytest.mark.parametrize(
    ("depth", "there"),
    [
        (Depth.VERDICTS, (False, False, False, False)),
        (Depth.CHECKS, (True, True, False, False)),
        (Depth.CHANGES, (True, True, True, True)),
    ],
)
def test_as_much_as_is_asked_for(depth: Depth, there: tuple[bool, ...]) -> None:
    """What nobody asked for is not in the answer at all."""
    answer = added(Whys(), tainted(), depth=depth)

    found = (answer.checks, answer.nearest, answer.changes, answer.guesses)
    assert tuple(each is not UNSET for each in found) == there


def test_of_equal_pods_one_is_looked_into() -> None:
    """As long as nothing changes."""
    whys, snapshot, framework = Whys(), tainted(), Counted(FRAMEWORK)

    first = added(whys, snapshot, framework)
    asked = framework.asked
    again = added(whys, snapshot, framework, pod=make_pod_info("q"))

    assert (again.checks, again.changes) == (first.checks, first.changes)
    assert framework.asked == asked
    added(whys, snapshot, framework, pod=make_pod_info("other", requests={"cpu": 1}))
    assert framework.asked > asked


def test_another_cluster_is_looked_at_anew() -> None:
    """Also where only a pod came."""
    whys, snapshot, framework = Whys(), tainted(), Counted(FRAMEWORK)
    added(whys, snapshot, framework)
    asked = framework.asked

    snapshot.update([PodAdded(make_pod_info("new", node_name="a"))])
    added(whys, snapshot, framework)

    assert framework.asked > asked


def test_a_plugin_that_fails_costs_reasons_and_nothing_else() -> None:
    """Where who comes before it rejects all nodes: the answer stays what it was."""

    def fail(_: Any) -> Any:
        raise RuntimeError("broken")

    first = NodeFilter("First", lambda _: unschedulable("no"))
    framework = make_framework(first, NodeFilter("Broken", fail))

    assert added(Whys(), tainted(), framework) == PodAnswer("default/p", "stowage")


def test_a_resource_is_given_up_last() -> None:
    """Less of it, a toleration and another label are smaller changes of a pod."""
    gpu = {"cpu": 8, "example.com/gpu": 1, "pods": 9}
    small = {**gpu, "cpu": 2}
    taint = Taint("gpu", "", "NoSchedule")
    snapshot = make_snapshot(
        [
            make_node("plain", allocatable={"cpu": 8, "pods": 9}, labels={"disk": "ssd"}),
            make_node("tainted", allocatable=gpu, taints=[taint], labels={"disk": "ssd"}),
            make_node("labelled", allocatable=gpu),
            make_node("small", allocatable=small, labels={"disk": "ssd"}),
        ]
    )
    requests = {"cpu": 4, "example.com/gpu": 1}
    pod = make_pod_info("p", requests=requests, node_selector={"disk": "ssd"})

    changes = added(Whys(), snapshot, pod=pod).changes

    assert isinstance(changes, tuple)
    of_the_pod = [
        each for each in changes if each.kind in {"lowerRequest", "addToleration", "dropRule"}
    ]
    assert [(each.kind, each.node) for each in of_the_pod] == [
        ("lowerRequest", "small"),
        ("addToleration", "tainted"),
        ("dropRule", "labelled"),
        ("lowerRequest", "plain"),
    ]


def test_less_of_several_resources_comes_before_none_of_one() -> None:
    """A node without the resource is no place for a pod that needs it."""
    snapshot = make_snapshot(
        [
            make_node("plain", allocatable={"cpu": 8, "pods": 9}),
            make_node("small", allocatable={"cpu": 2, "example.com/gpu": 1, "pods": 9}),
        ]
    )
    pod = make_pod_info("p", requests={"cpu": 4, "example.com/gpu": 2})

    changes = added(Whys(), snapshot, pod=pod).changes

    assert isinstance(changes, tuple)
    lowered = [
        ([(edit.resource, edit.at_most) for edit in change.edits if isinstance(edit, LowerRequest)])
        for change in changes
    ]
    assert lowered[:2] == [[("cpu", "2"), ("example.com/gpu", "1")], [("example.com/gpu", "0")]]


@pytest.mark.parametrize(
    ("zones", "untried", "line"),
    [
        (4, UNSET, []),
        (5, 1, ["1 more kind of new node was not tried."]),
        (7, 3, ["3 more kinds of new nodes were not tried."]),
    ],
)
def test_kinds_of_nodes_that_are_not_tried_are_told(
    zones: int, untried: object, line: list[str]
) -> None:
    """A new node in any of the zones has the same conflict, and only four are tried."""
    names = [f"n{number}" for number in range(zones)]
    web = {"app": "web"}
    term = PodAffinityTerm(ZONE, LabelSelector(web))
    pod = make_pod_info("p", affinity=Affinity(pod_anti_affinity=PodAffinitySpec((term,))))
    nodes = [make_node(name, labels={ZONE: name}) for name in names]
    running = [make_pod_info(f"web-{name}", node_name=name, labels=web) for name in names]

    answer = explained(Depth.CHANGES, FRAMEWORK, pod, make_snapshot(nodes, running))

    assert answer.untried_nodes == untried
    assert not any(isinstance(e, AddNodes) for c in answer.changes or () for e in c.edits)
    lines: list[str] = []
    say_why(answer, lines.append)
    assert [each for each in lines if "not tried" in each] == line


def test_of_a_new_node_that_helps_nothing_is_left_untried() -> None:
    """The first kind that helps is enough."""
    nodes = [make_node(f"n{number}", labels={ZONE: f"z{number}"}) for number in range(6)]
    running = [
        make_pod_info(f"r{number}", node_name=f"n{number}", requests={"pods": "1", "cpu": "4"})
        for number in range(6)
    ]

    answer = explained(
        Depth.CHANGES,
        FRAMEWORK,
        make_pod_info("p", requests={"cpu": "4"}),
        make_snapshot(nodes, running),
    )

    assert any(isinstance(e, AddNodes) for c in answer.changes or () for e in c.edits)
    assert answer.untried_nodes is UNSET


@pytest.mark.parametrize(
    ("free", "at_most"), [("5Mi", 4 * 2**20), ("4Mi", 4 * 2**20), ("1Mi", 0), ("0", 0)]
)
def test_huge_pages_are_lowered_by_whole_pages(free: str, at_most: int) -> None:
    """The API server takes multiples of the page size only."""
    pages = "hugepages-2Mi"
    pod = make_pod_info("p", requests={pages: "6Mi"})

    answer = added(Whys(), make_snapshot([make_node("n", allocatable={pages: free})]), pod=pod)

    edits = [edit for change in answer.changes or () for edit in change.edits]
    assert LowerRequest(pages, str(6 * 2**20), str(at_most)) in edits


def test_a_cordoned_node_is_found_behind_hopeless_ones() -> None:
    """Those with another taint are tried last."""
    cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    bad = Taint("bad", "", "NoSchedule")
    nodes = [
        make_node(f"n{i}", unschedulable=True, taints=[cordon, bad] if i < 9 else [cordon])
        for i in range(10)
    ]

    answer = added(Whys(), make_snapshot(nodes))

    edits = [edit for change in answer.changes or () for edit in change.edits]
    assert [edit for edit in edits if isinstance(edit, Uncordon)] == [Uncordon("n9")]


@pytest.mark.parametrize(
    ("key", "operator", "values"),
    [
        ("gpus", "Gt", ("many",)),
        ("gpus", "Gt", (str(2**63 - 1),)),
        ("gpus", "Gt", ("9" * 5000,)),
        ("gpus", "Gt", ()),
        ("gpus", "Lt", ("",)),
        ("gpus", "Lt", ("0",)),
        ("gpus", "In", ()),
        ("gpus", "In", ("-",)),
        ("kubernetes.io/arch", "In", ("arm64",)),
        ("topology.kubernetes.io/zone", "In", ("b",)),
        ("beta.kubernetes.io/os", "Exists", ()),
    ],
)
def test_a_demand_that_no_label_satisfies_is_advice_to_drop_it(
    key: str, operator: str, values: tuple[str, ...]
) -> None:
    """The API server takes a text for Gt, and labels of the machine are not for people to set."""
    demand = NodeSelectorRequirement(key, operator, values)
    terms = NodeSelector((NodeSelectorTerm((demand,)),))
    pod = make_pod_info("p", affinity=Affinity(node_affinity=NodeAffinitySpec(terms)))

    answer = added(Whys(), make_snapshot([make_node("n")]), pod=pod)

    kinds = {type(edit) for change in answer.changes or () for edit in change.edits}
    assert kinds == {DropRule}


@pytest.mark.parametrize(
    ("operator", "bound", "value"),
    [("Gt", "3", "4"), ("Lt", "3", "2"), ("Lt", "1", "0"), ("Gt", "0007", "8")],
)
def test_a_number_that_a_label_can_have_is_suggested(operator: str, bound: str, value: str) -> None:
    """The nearest one that satisfies the requirement."""
    demand = NodeSelectorRequirement("gpus", operator, (bound,))
    terms = NodeSelector((NodeSelectorTerm((demand,)),))
    pod = make_pod_info("p", affinity=Affinity(node_affinity=NodeAffinitySpec(terms)))

    answer = added(Whys(), make_snapshot([make_node("n")]), pod=pod)

    edits = [edit for change in answer.changes or () for edit in change.edits]
    assert [edit for edit in edits if isinstance(edit, SetLabel)] == [SetLabel("n", "gpus", value)]


def test_trials_end() -> None:
    """What could be tried without end is given up; what was found before stays."""
    snapshot = tainted()
    trials = Trials(FRAMEWORK, make_pod_info("p"), snapshot, None)
    trials.left = 1

    assert len(trials.rows()) == 0
    with pytest.raises(TrialsSpentError):
        trials.rows()


@pytest.mark.parametrize(
    ("fields", "least"),
    [
        ({"requests": {f"example.com/r{i}": 5 for i in range(60)}}, 100),
        ({"requests": {f"example.com/r{i}": 2**60 + i for i in range(60)}}, 100),
        ({"node_selector": {f"k{i}": "y" for i in range(60)}}, 30),
        ({"node_selector": {f"k{i}": "y" for i in range(30)}}, 60),
        ({"host_ports": range(1000, 1020)}, 40),
    ],
)
def test_a_pod_of_many_demands_is_answered_within_bounds(
    fields: dict[str, Any], least: int
) -> None:
    """However many resources, labels and ports it names."""
    asked: list[int] = []

    class Watched(Counted):
        def aside(self, without: Any = ()) -> Any:
            aside = super().aside(without)
            find = aside.find_nodes_that_fit

            def counted(*args: Any) -> Any:
                asked.append(1)
                return find(*args)

            aside.find_nodes_that_fit = counted
            return aside

    nodes = [make_node(f"n{i}", labels={f"k{j}": "x" for j in range(60)}) for i in range(3)]
    holders = [
        make_pod_info(f"h{i}", node_name=f"n{i}", host_ports=range(1000, 1020)) for i in range(3)
    ]
    framework: Any = Watched(FRAMEWORK)

    answer = explained(
        Depth.CHANGES, framework, make_pod_info("p", **fields), make_snapshot(nodes, holders)
    )

    assert answer.checks is not UNSET
    assert least < len(asked) < 3 * MOST_TRIALS

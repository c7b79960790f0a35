"""Groups of nodes, and how close they came."""

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.api.objects import Node, Taint, Toleration
from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.model import FeasibleNode, PluginRejection, PodAnswer, RejectedNode
from scheduler.kernel.answers.report import (
    Group,
    Miss,
    TaintCount,
    amount_for_people,
    best_nodes,
    groups_of,
)
from scheduler.kernel.framework.results import Reason, Shortage
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.plugins.taint_toleration import TaintToleration
from scheduler.kernel.snapshot import NodeSet, PodAdded, Snapshot
from tests.support.builders import make_node, make_node_info, make_pod_info
from tests.support.fake_plugins import make_framework, make_snapshot

CODE = "Unschedulable"


def rejected(name: str, plugin: str, *reasons: str) -> RejectedNode:
    return RejectedNode(name, plugin, CODE, reasons)


def short(resource: str, missing: float) -> Reason:
    return Reason("some text", data=Shortage(resource, missing, 0, missing))


def reasons_of(data: dict[str, tuple[Any, ...]]) -> dict[str, list[Reason]]:
    return {
        node: [Reason("some text", data=each) for each in found] for node, found in data.items()
    }


def test_nodes_are_grouped_by_the_set_of_reasons() -> None:
    """The largest group first; the order of reasons makes no difference, the plugin does."""
    answer = PodAnswer(
        "p",
        "s",
        nodes=(
            rejected("a", "Fit", "Insufficient cpu", "Insufficient memory"),
            rejected("b", "Fit", "Insufficient memory", "Insufficient cpu"),
            rejected("c", "Fit", "Insufficient cpu"),
            rejected("d", "Other", "Insufficient cpu"),
            FeasibleNode("e", {}, 5),
        ),
    )
    reasons = {
        "a": [short("cpu", 900), short("memory", 1)],
        "b": [short("cpu", 300)],
        "c": [short("cpu", 4000)],
        "d": [Reason("Insufficient cpu")],
    }

    groups = groups_of(answer, reasons)

    assert [(group.nodes, group.misses) for group in groups] == [
        (("a", "b"), (Miss("cpu", "300m", 2, "b"), Miss("memory", "1", 1, "a"))),
        (("c",), (Miss("cpu", "4", 1, "c"),)),
        (("d",), ()),
    ]


def test_all_reasons_make_finer_groups() -> None:
    """Where every plugin was asked."""
    taint = PluginRejection("Taint", CODE, ("tainted",))
    full = PluginRejection("Fit", CODE, ("Insufficient cpu",))
    nodes = [
        RejectedNode("a", "Taint", CODE, ("tainted",), rejections=(taint,)),
        RejectedNode("b", "Taint", CODE, ("tainted",), rejections=(taint, full)),
    ]

    groups = groups_of(PodAnswer("p", "s", nodes=tuple(nodes)), {"b": [short("cpu", 1500)]})

    assert groups == [
        Group((taint,), ("a",), ()),
        Group((taint, full), ("b",), (Miss("cpu", "1500m", 1, "b"),)),
    ]


def test_the_best_nodes_come_first() -> None:
    """By total, then by name."""
    nodes = tuple(FeasibleNode(name, {}, total) for name, total in (("b", 1), ("c", 2), ("a", 1)))

    assert [node.node for node in best_nodes(PodAnswer("p", "s", nodes=nodes))] == ["c", "a", "b"]


def test_numbers_leave_room_for_nominated_pods() -> None:
    """What runs and what is to run counts; a resource no node has is missing everywhere."""
    running = make_pod_info("r", node_name="a", requests={"cpu": "3"})
    guest = make_pod_info("g", requests={"cpu": "3500m"})
    pod = make_pod_info("p", requests={"cpu": "2", "memory": "1Gi", "x.com/y": 3})
    snapshot = make_snapshot("a", "b", pods=[running])

    nominated = NominatedPods()
    nominated.nominate(guest, "b")

    assert told(snapshot, pod, nominated) == {
        "a": (Shortage("cpu", 2000, 1000, 4000), Shortage("x.com/y", 3, 0, 0)),
        "b": (Shortage("cpu", 2000, 500, 4000), Shortage("x.com/y", 3, 0, 0)),
    }


def told(
    snapshot: Snapshot, pod: PodInfo, nominated: NominatedPods | None = None
) -> dict[str, tuple[object, ...]]:
    """By node, the data of what NodeResourcesFit and TaintToleration say."""
    framework = make_framework(TaintToleration(), NodeResourcesFit())
    verdicts = framework.filtering.find_nodes_that_fit(pod, snapshot, nominated).verdicts
    assert verdicts is not None
    return {
        name: tuple(r.data for r in verdicts.reasons(row) if r.data is not None)
        for name, row in snapshot.table.row_of.items()
    }


def make_snapshot_of(*nodes: Node, pods: Sequence[PodInfo] = ()) -> Snapshot:
    """Nodes, with the pods that name them."""
    snapshot = Snapshot()
    for node in nodes:
        running = [pod for pod in pods if pod.node_name == node.metadata.name]
        snapshot.update([NodeSet(make_node_info(node, running), node), *map(PodAdded, running)])
    return snapshot


def test_nodes_too_small_for_the_pod_are_told_apart() -> None:
    """Of the nodes that are short, those that would be even without any pod are counted."""
    running = [make_pod_info(f"r-{n}", node_name=n, requests={"cpu": "4"}) for n in "ab"]
    nodes = [make_node("a", allocatable={"cpu": "8"}), make_node("b", allocatable={"cpu": "4"})]
    snapshot = make_snapshot_of(*nodes, pods=running)
    pod = make_pod_info("p", requests={"cpu": "5", "x.com/y": 1})
    short = tuple(rejected(n, "Fit", "Insufficient cpu", "Insufficient x.com/y") for n in "ab")

    groups = groups_of(PodAnswer("p", "s", nodes=short), reasons_of(told(snapshot, pod)))

    assert [group.misses for group in groups] == [
        (Miss("cpu", "1", 2, "a", 1), Miss("x.com/y", "1", 2, "a", 2))
    ]


def test_taints_that_keep_the_pod_away_are_counted() -> None:
    """As kubectl writes them, the most frequent first; tolerated and soft ones are left out."""
    gpu = Taint("gpu", "true", "NoSchedule")
    soft, fine = Taint("soft", "", "PreferNoSchedule"), Taint("fine", "", "NoSchedule")
    gone = Taint("gone", "", "NoExecute")
    snapshot = make_snapshot_of(
        make_node("a", taints=[gpu, soft, fine]), make_node("b", taints=[gone, gpu])
    )
    pod = make_pod_info("p", tolerations=[Toleration("fine", "Exists")])
    nodes = tuple(rejected(n, "TaintToleration", "node(s) had untolerated taint(s)") for n in "ab")

    groups = groups_of(PodAnswer("p", "s", nodes=nodes), reasons_of(told(snapshot, pod)))

    assert [group.taints for group in groups] == [
        (TaintCount("gpu=true:NoSchedule", 2), TaintCount("gone:NoExecute", 1))
    ]


@pytest.mark.parametrize(
    ("resource", "amount", "expected"),
    [
        ("cpu", 300, "300m"),
        ("cpu", 2500, "2500m"),
        ("cpu", 2000, "2"),
        ("cpu", 1_234_567_000, "1234567"),
        ("memory", 100, "100"),
        ("memory", 2**30, "1Gi"),
        ("memory", 2**30 + 1, "1.1Gi"),
        ("ephemeral-storage", 3 * 2**20 // 2, "1.5Mi"),
        ("memory", 1_234_567 * 2**40, "1234567Ti"),
        ("hugepages-2Mi", 2**22, "4Mi"),
        ("example.com/gpu", 3, "3"),
    ],
)
def test_amounts_are_written_as_in_pods(resource: str, amount: float, expected: str) -> None:
    """Never less than what is missing."""
    assert amount_for_people(resource, amount) == expected

"""What filters have against nodes, in numbers and names."""

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.api.objects import (
    Affinity,
    ContainerPort,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinitySpec,
    PodAffinityTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import selector_from_label_selector
from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap import FrameworkBuilder
from scheduler.kernel.answers.checks import checks_of, every_check
from scheduler.kernel.framework.obstacles import (
    DomainCount,
    LabelObstacle,
    Obstacle,
    PodOnNode,
    PodTermObstacle,
    PortObstacle,
    ResourceObstacle,
    SpreadObstacle,
    TaintObstacle,
    ValueCount,
)
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod_info
from tests.unit.preemption.naive import placed

FRAMEWORK = FrameworkBuilder(lambda: 0.0).build(default_configuration("stowage"))["stowage"]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def obstacles(
    pod: PodInfo,
    nodes: Sequence[Node],
    pods: Sequence[PodInfo] = (),
    nominated: NominatedPods | None = None,
) -> dict[str, tuple[Obstacle, ...]]:
    """By plugin, what stands in the way of a pod."""
    _, snapshot = placed(nodes, pods)
    checks = checks_of(every_check(FRAMEWORK, pod, snapshot, nominated))
    return {check.plugin: check.obstacles for check in checks}


def running(name: str, node: str, **fields: Any) -> PodInfo:
    return make_pod_info(name, node_name=node, **fields)


def test_resources_are_told_with_the_nearest_node() -> None:
    """What no node offers is missing everywhere, and so is a place where there is none."""
    nodes = [
        make_node("a", allocatable={"cpu": "4", "pods": 1}),
        make_node("b", allocatable={"cpu": "1"}),
    ]
    pod = make_pod_info("p", requests={"cpu": "2", "example.com/gpu": 1})

    found = obstacles(pod, nodes, [running("r", "a", requests={"cpu": "2500m"})])

    assert found["NodeResourcesFit"] == (
        ResourceObstacle("pods", 1, 1, 1, "a", 0),
        ResourceObstacle("cpu", 2, 2000, 500, "a", 1),
        ResourceObstacle("example.com/gpu", 2, 1, 1, "a", 2),
    )


def test_numbers_leave_room_for_nominated_pods() -> None:
    """What waits for the node counts as if it ran there."""
    nominated = NominatedPods()
    nominated.nominate(make_pod_info("guest", requests={"cpu": "3"}), "a")

    found = obstacles(make_pod_info("p", requests={"cpu": "2"}), [make_node("a")], (), nominated)

    assert found == {"NodeResourcesFit": (ResourceObstacle("cpu", 1, 2000, 1000, "a", 0),)}


def test_taints_are_counted() -> None:
    """The most frequent first; tolerated and soft ones are left out."""
    gpu, team = Taint("gpu", "true", "NoSchedule"), Taint("team", "", "NoExecute")
    soft, fine = Taint("soft", "", "PreferNoSchedule"), Taint("fine", "", "NoSchedule")
    nodes = [make_node("a", taints=[gpu, soft, fine]), make_node("b", taints=[team, gpu])]

    found = obstacles(make_pod_info("p", tolerations=[Toleration("fine", "Exists")]), nodes)

    assert found == {
        "TaintToleration": (
            TaintObstacle("gpu=true:NoSchedule", 2),
            TaintObstacle("team:NoExecute", 1),
        )
    }


def test_requirements_on_labels_are_told_with_what_nodes_have() -> None:
    """Each one by itself; those that every node satisfies are left out."""
    nodes = [make_node(f"n{i}", labels={"disk": d}) for i, d in enumerate(("hdd", "ssd", "hdd"))]
    terms = (
        NodeSelectorTerm(
            (
                NodeSelectorRequirement("disk", "In", ("hdd", "ssd")),
                NodeSelectorRequirement("disk", "NotIn", ("ssd",)),
                NodeSelectorRequirement("rack", "Exists"),
            ),
        ),
        NodeSelectorTerm((), (NodeSelectorRequirement("metadata.name", "In", ("x",)),)),
    )
    pod = make_pod_info(
        "p",
        node_selector={"disk": "nvme"},
        affinity=Affinity(NodeAffinitySpec(NodeSelector(terms))),
    )

    found = obstacles(pod, nodes)["NodeAffinity"]

    at = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    have = (3, (ValueCount("hdd", 2), ValueCount("ssd", 1)))
    assert found == (
        LabelObstacle("spec.nodeSelector[disk]", "disk", "In", ("nvme",), 3, *have),
        LabelObstacle(f"{at}[0].matchExpressions[1]", "disk", "NotIn", ("ssd",), 1, *have),
        LabelObstacle(f"{at}[0].matchExpressions[2]", "rack", "Exists", (), 3, 0, ()),
        LabelObstacle(f"{at}[1].matchFields[0]", "metadata.name", "In", ("x",), 3, 3, ()),
    )


def _affinity(app: str, key: str = ZONE) -> PodAffinitySpec:
    return PodAffinitySpec((PodAffinityTerm(key, LabelSelector({"app": app})),))


ZONED = [make_node("a", zone="1"), make_node("b", zone="1"), make_node("c", zone="2")]


def test_anti_affinity_is_told_with_who_is_in_the_way() -> None:
    """Some of the pods, and all nodes of their domains."""
    pods = [running("web-0", "a", labels={"app": "web"}), running("db", "c", labels={"app": "db"})]
    pod = make_pod_info("p", affinity=Affinity(pod_anti_affinity=_affinity("web")))

    found = obstacles(pod, [make_node("a", zone="1"), make_node("b", zone="1")], pods[:1])

    path = f"spec.affinity.podAntiAffinity.{REQUIRED}[0]"
    assert found["InterPodAffinity"] == (
        PodTermObstacle(
            "antiAffinity",
            path,
            ZONE,
            "app=web",
            ("default",),
            nodes=2,
            missing_key=0,
            count=1,
            pods=(PodOnNode("default/web-0", "a"),),
        ),
    )


def test_affinity_is_told_with_where_its_pods_are() -> None:
    """Nodes that lack the topology key are counted apart."""
    nodes = [make_node("a", zone="1"), make_node("b", zone="2"), make_node("c")]
    pods = [running("web-0", "a", labels={"app": "web"}, requests={"cpu": "4"})]
    pod = make_pod_info(
        "p", requests={"cpu": "1"}, affinity=Affinity(pod_affinity=_affinity("web"))
    )

    (found,) = obstacles(pod, nodes, pods)["InterPodAffinity"]

    assert isinstance(found, PodTermObstacle)
    assert (found.rule, found.nodes, found.missing_key, found.count) == ("affinity", 2, 1, 1)
    assert found.pods == (PodOnNode("default/web-0", "a"),)


def test_anti_affinity_of_running_pods_is_told_with_whose_it_is() -> None:
    """What it says of this pod, and which pods say it."""
    lone = running("lone", "a", affinity=Affinity(pod_anti_affinity=_affinity("p", HOSTNAME)))
    other = running("other", "a")

    (found,) = obstacles(make_pod_info("p", labels={"app": "p"}), [make_node("a")], [lone, other])[
        "InterPodAffinity"
    ]

    assert found == PodTermObstacle(
        "existingAntiAffinity",
        "",
        HOSTNAME,
        "app=p",
        ("default",),
        nodes=1,
        missing_key=0,
        count=1,
        pods=(PodOnNode("default/lone", "a"),),
    )


def test_spread_is_told_with_its_domains() -> None:
    """Their pods, the skew now, and the skew with the pod there."""
    nodes = [*ZONED[:2], make_node("c", zone="2", unschedulable=True), make_node("d")]
    pods = [running(f"web-{i}", node, labels={"app": "web"}) for i, node in enumerate("aab")]
    constraint = TopologySpreadConstraint(1, ZONE, "DoNotSchedule", LabelSelector({"app": "web"}))
    pod = make_pod_info("p", labels={"app": "web"}, topology_spread_constraints=[constraint])

    (found,) = obstacles(pod, nodes, pods)["PodTopologySpread"]

    assert found == SpreadObstacle(
        "spec.topologySpreadConstraints[0]",
        ZONE,
        max_skew=1,
        min_domains=1,
        selector="app=web",
        nodes=3,
        missing_key=1,
        lowest=0,
        domain_count=2,
        domains=(DomainCount("2", 0, 0, 1), DomainCount("1", 3, 3, 4)),
    )


def test_of_many_domains_the_emptiest_and_the_fullest_are_told() -> None:
    """So that an answer stays short."""
    nodes = [make_node(f"n{i:02}") for i in range(40)]
    pods = [
        running(f"web-{i}-{j}", f"n{i:02}", labels={"app": "web"}, requests={"cpu": "100m"})
        for i in range(40)
        for j in range(i // 4)
    ]
    constraint = TopologySpreadConstraint(
        1, HOSTNAME, "DoNotSchedule", LabelSelector({"app": "web"})
    )
    pod = make_pod_info(
        "p",
        labels={"app": "web"},
        requests={"cpu": "8"},
        topology_spread_constraints=[constraint],
    )

    (found,) = obstacles(pod, nodes, pods)["PodTopologySpread"]

    assert isinstance(found, SpreadObstacle)
    assert found.domain_count == 40
    assert [each.pods for each in found.domains] == [0] * 4 + [1] * 4 + [2] * 2 + [7] * 2 + [
        8
    ] * 4 + [9] * 4


def test_ports_are_told_with_who_holds_them() -> None:
    """Also where only the wildcard address is the same."""
    held = ContainerPort(host_port=80, host_ip="10.0.0.1")
    pods = [running("a-0", "a", host_ports=[held]), running("b-0", "b", host_ports=[81])]
    pod = make_pod_info("p", host_ports=[80, 81])

    found = obstacles(pod, [make_node("a"), make_node("b")], pods)

    assert found["NodePorts"] == (
        PortObstacle(80, "TCP", "0.0.0.0", 1, 1, (PodOnNode("default/a-0", "a"),)),  # noqa: S104 - the wildcard
        PortObstacle(81, "TCP", "0.0.0.0", 1, 1, (PodOnNode("default/b-0", "b"),)),  # noqa: S104 - the wildcard
    )


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, "<none>"),
        (LabelSelector(), "<all>"),
        (LabelSelector({"b": "1", "a": "2"}), "a=2,b=1"),
        (
            LabelSelector(
                match_expressions=(
                    LabelSelectorRequirement("a", "In", ("x", "w")),
                    LabelSelectorRequirement("b", "NotIn", ("x",)),
                    LabelSelectorRequirement("c", "NotIn", ("x", "y")),
                    LabelSelectorRequirement("d", "Exists"),
                    LabelSelectorRequirement("e", "DoesNotExist"),
                )
            ),
            "!e,a in (w,x),b!=x,c notin (x,y),d",
        ),
    ],
)
def test_selectors_are_written_as_kubectl_writes_them(
    selector: LabelSelector | None, expected: str
) -> None:
    """In a fixed order."""
    assert selector_from_label_selector(selector).text == expected

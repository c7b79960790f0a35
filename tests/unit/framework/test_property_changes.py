"""Which events an update is."""

import pytest

from scheduler.api.objects import (
    Container,
    ContainerStatus,
    Node,
    NodeCondition,
    ResourceRequirements,
    Taint,
    Toleration,
)
from scheduler.api.pods import PodInfo, pod_info
from scheduler.kernel.framework.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from tests.support.builders import make_node, make_pod, make_pod_info

TAINT = Taint(key="k", effect="NoSchedule")
TOLERATION = Toleration(key="k", operator="Exists")


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        pytest.param(
            make_pod_info(),
            make_pod_info(resource_version="2"),
            ["UnschedulablePodUpdate"],
            id="nothing that has a name",
        ),
        pytest.param(
            make_pod_info(labels={"a": "1"}),
            make_pod_info(labels={"a": "2"}),
            ["UnschedulablePodUpdatePodLabel"],
            id="labels",
        ),
        pytest.param(
            make_pod_info(labels={"a": "1"}, node_name="n"),
            make_pod_info(labels={"a": "2"}, node_name="n"),
            ["AssignedPodUpdatePodLabel"],
            id="labels of an assigned pod",
        ),
        pytest.param(
            make_pod_info(requests={"cpu": "2"}),
            make_pod_info(requests={"cpu": "1"}),
            ["UnschedulablePodUpdatePodScaleDown"],
            id="smaller request",
        ),
        pytest.param(
            make_pod_info(requests={"cpu": "2", "memory": "1Gi"}),
            make_pod_info(requests={"cpu": "2"}),
            ["UnschedulablePodUpdatePodScaleDown"],
            id="request gone",
        ),
        pytest.param(
            make_pod_info(requests={"memory": "1"}),
            make_pod_info(requests={"memory": "1m"}),
            ["UnschedulablePodUpdatePodScaleDown"],
            id="request smaller by less than a byte",
        ),
        pytest.param(
            make_pod_info(requests={"cpu": "1"}),
            make_pod_info(requests={"cpu": "2"}),
            ["UnschedulablePodUpdate"],
            id="larger request",
        ),
        pytest.param(
            make_pod_info(gates=["a", "b"]),
            make_pod_info(gates=["a"]),
            ["UnschedulablePodUpdate"],
            id="one of two gates gone",
        ),
        pytest.param(
            make_pod_info(gates=["a"]),
            make_pod_info(),
            ["UnschedulablePodUpdatePodSchedulingGatesEliminated"],
            id="last gate gone",
        ),
        pytest.param(
            make_pod_info(),
            make_pod_info(tolerations=[TOLERATION]),
            ["UnschedulablePodUpdatePodToleration"],
            id="toleration added",
        ),
        pytest.param(
            make_pod_info(gates=["a"]),
            make_pod_info(labels={"a": "1"}, tolerations=[TOLERATION]),
            [
                "UnschedulablePodUpdatePodLabel",
                "UnschedulablePodUpdatePodSchedulingGatesEliminated",
                "UnschedulablePodUpdatePodToleration",
            ],
            id="several at once",
        ),
    ],
)
def test_events_of_a_pod_update(old: PodInfo, new: PodInfo, labels: list[str]) -> None:
    """Each property that changed is one event; else the update is a general one."""
    assert [event.label for event in pod_scheduling_properties_change(old, new)] == labels


def test_an_actuated_resize_is_a_scale_down() -> None:
    """When the kubelet gives resources back, the pod holds less although its request is old."""

    def running(actuated_cpu: str) -> PodInfo:
        requests = ResourceRequirements(requests={"cpu": "1"})
        pod = make_pod(node_name="n", containers=[Container(name="main", resources=requests)])
        status = ContainerStatus(
            name="main", resources=ResourceRequirements(requests={"cpu": actuated_cpu})
        )
        return pod_info(
            type(pod)(pod.metadata, pod.spec, type(pod.status)(container_statuses=(status,)))
        )

    events = pod_scheduling_properties_change(running("3"), running("1"))

    assert [event.label for event in events] == ["AssignedPodUpdatePodScaleDown"]


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        pytest.param(make_node(), make_node(resource_version="2"), [], id="nothing"),
        pytest.param(
            make_node(allocatable={"cpu": "4"}),
            make_node(allocatable={"cpu": "5"}),
            ["NodeUpdateNodeAllocatable"],
            id="allocatable",
        ),
        pytest.param(
            make_node(allocatable={"cpu": "4"}),
            make_node(allocatable={"cpu": "4000m"}),
            [],
            id="the same amount written differently",
        ),
        pytest.param(
            make_node(allocatable={"cpu": "4"}),
            make_node(allocatable={"cpu": "much"}),
            ["NodeUpdateNodeAllocatable"],
            id="an amount that cannot be read",
        ),
        pytest.param(
            make_node(),
            make_node(allocatable={"x.example/gpu": 1}),
            ["NodeUpdateNodeAllocatable"],
            id="a new resource",
        ),
        pytest.param(
            make_node(), make_node(labels={"a": "1"}), ["NodeUpdateNodeLabel"], id="labels"
        ),
        pytest.param(
            make_node(), make_node(taints=[TAINT]), ["NodeUpdateNodeTaint"], id="a new taint"
        ),
        pytest.param(make_node(), make_node(unschedulable=True), [], id="cordoned"),
        pytest.param(
            make_node(unschedulable=True), make_node(), ["NodeUpdateNodeTaint"], id="uncordoned"
        ),
        pytest.param(
            make_node(unschedulable=True, taints=[TAINT]),
            make_node(),
            ["NodeUpdateNodeTaint"],
            id="uncordoned and taint gone is one event",
        ),
        pytest.param(
            make_node(conditions=[NodeCondition("Ready", "False")]),
            make_node(conditions=[NodeCondition("Ready", "True")]),
            ["NodeUpdateNodeCondition"],
            id="condition",
        ),
        pytest.param(
            make_node(conditions=[NodeCondition("A", "True"), NodeCondition("B", "True")]),
            make_node(conditions=[NodeCondition("B", "True"), NodeCondition("A", "True")]),
            [],
            id="conditions in another order",
        ),
        pytest.param(
            make_node(),
            make_node(annotations={"a": "1"}),
            ["NodeUpdateNodeAnnotation"],
            id="annotations",
        ),
        pytest.param(
            make_node(),
            make_node(declared_features=["F"]),
            ["NodeUpdateNodeDeclaredFeature"],
            id="declared features",
        ),
        pytest.param(
            make_node(),
            make_node(labels={"a": "1"}, taints=[TAINT]),
            ["NodeUpdateNodeLabel", "NodeUpdateNodeTaint"],
            id="several at once",
        ),
    ],
)
def test_events_of_a_node_update(old: Node, new: Node, labels: list[str]) -> None:
    """Each property that changed is one event; a heartbeat is none."""
    assert [event.label for event in node_scheduling_properties_change(old, new)] == labels

"""NodeDeclaredFeatures sends pods to kubelets that can run them."""

import pytest

from scheduler.api.objects import Container, ContainerRestartRule, Node
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from scheduler.kernel.framework.status import SKIP, Code, Status
from scheduler.kernel.plugins.node_declared_features import (
    NodeDeclaredFeatures,
    is_schedulable_after_node_change,
    is_schedulable_after_pod_update,
    required_features,
)
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.plugin_answers import FITS, filter_answers

RESTART = "RestartAllContainersOnContainerExits"
USERS = "UserNamespacesHostNetworkSupport"
REJECTED = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) didn't match Pod's required features",)
)


def restarting(action: str, **fields: bool) -> PodInfo:
    container = Container(name="main", restart_policy_rules=(ContainerRestartRule(action),))
    return make_pod_info(containers=[container], **fields)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod_info(), set(), id="plain"),
        pytest.param(restarting("RestartAllContainers"), {RESTART}, id="restarts all containers"),
        pytest.param(restarting("Restart"), set(), id="restarts one container"),
        pytest.param(
            make_pod_info(
                init_containers=[
                    Container(restart_policy_rules=(ContainerRestartRule("RestartAllContainers"),))
                ]
            ),
            {RESTART},
            id="an init container restarts all",
        ),
        pytest.param(
            make_pod_info(host_network=True, host_users=False),
            {USERS},
            id="own users, host network",
        ),
        pytest.param(make_pod_info(host_network=True), set(), id="host network"),
        pytest.param(make_pod_info(host_users=False), set(), id="own users"),
        pytest.param(
            make_pod_info(host_network=True, host_users=True), set(), id="host network and users"
        ),
        pytest.param(
            restarting("RestartAllContainers", host_network=True, host_users=False),
            {RESTART, USERS},
            id="both",
        ),
    ],
)
def test_needs_are_read_from_the_specification(pod: PodInfo, expected: set[str]) -> None:
    """Two features matter when a pod is scheduled; they are also what is signed."""
    assert required_features(pod.spec) == expected
    assert NodeDeclaredFeatures().sign(pod) == expected


def test_a_node_must_declare_every_needed_feature() -> None:
    """More does not hurt, less rejects."""
    snapshot = make_snapshot(
        [
            make_node("none"),
            make_node("one", declared_features=[RESTART]),
            make_node("all", declared_features=[RESTART, USERS, "Other"]),
        ]
    )
    pod = restarting("RestartAllContainers", host_network=True, host_users=False)

    answers = filter_answers(NodeDeclaredFeatures(), pod, snapshot)

    assert answers == {"none": REJECTED, "one": REJECTED, "all": FITS}


def test_pods_without_needs_are_skipped() -> None:
    """Most pods."""
    snapshot = make_snapshot([make_node()])

    assert filter_answers(NodeDeclaredFeatures(), make_pod_info(), snapshot) == SKIP


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, make_node(), QueueingHint.QUEUE, id="new node"),
        pytest.param(make_node(), make_node(), QueueingHint.SKIP, id="declares the same"),
        pytest.param(
            make_node(),
            make_node(declared_features=["Other"]),
            QueueingHint.QUEUE,
            id="declares something else",
        ),
    ],
)
def test_other_declarations_wake_the_pod(
    old: Node | None, new: Node, expected: QueueingHint
) -> None:
    """Upstream does not ask whether it is the right feature."""
    assert is_schedulable_after_node_change(make_pod_info(), old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            restarting("RestartAllContainers"),
            restarting("Restart"),
            QueueingHint.QUEUE,
            id="needs less",
        ),
        pytest.param(make_pod_info(), make_pod_info(), QueueingHint.SKIP, id="needs the same"),
        pytest.param(
            restarting("RestartAllContainers"),
            make_pod_info("other"),
            QueueingHint.SKIP,
            id="another pod",
        ),
    ],
)
def test_other_needs_wake_the_pod(old: PodInfo, new: PodInfo, expected: QueueingHint) -> None:
    """Only the pod's own."""
    assert is_schedulable_after_pod_update(make_pod_info(), old, new) is expected


def test_the_events_are_upstreams() -> None:
    """Nodes that are added or declare other features, updates of the pod."""
    assert [
        (registered.event, registered.queueing_hint)
        for registered in NodeDeclaredFeatures().events_to_register()
    ] == [
        (
            ClusterEvent(
                EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
            ),
            is_schedulable_after_node_change,
        ),
        (ClusterEvent(EventResource.POD, ActionType.UPDATE), is_schedulable_after_pod_update),
    ]

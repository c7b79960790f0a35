"""NodeUnschedulable keeps pods off cordoned nodes."""

import pytest

from scheduler.api.objects import Node, Toleration
from scheduler.kernel.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.plugins.node_unschedulable import (
    NodeUnschedulable,
    is_schedulable_after_node_change,
    is_schedulable_after_pod_toleration_change,
)
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.plugin_answers import FITS, filter_answers

KEY = "node.kubernetes.io/unschedulable"
OPEN, CORDONED = make_node("n"), make_node("n", unschedulable=True)
REJECTED = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) were unschedulable",))


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], REJECTED, id="no toleration"),
        pytest.param([Toleration(KEY, "Exists", effect="NoSchedule")], FITS, id="daemon sets"),
        pytest.param([Toleration(operator="Exists")], FITS, id="everything tolerated"),
        pytest.param([Toleration(KEY, "Exists", effect="NoExecute")], REJECTED, id="other effect"),
        pytest.param([Toleration(KEY, "Equal", "true")], REJECTED, id="other value"),
    ],
)
def test_a_cordon_stops_pods_that_do_not_tolerate_its_taint(
    tolerations: list[Toleration], expected: Status
) -> None:
    """The cordon counts like a taint of its own; open nodes take everybody."""
    snapshot = make_snapshot([make_node("open"), make_node("shut", unschedulable=True)])

    answers = filter_answers(NodeUnschedulable(), make_pod_info(tolerations=tolerations), snapshot)

    assert answers == {"open": FITS, "shut": expected}


def test_only_the_answer_is_signed() -> None:
    """Pods with different tolerations are alike as long as both stay off cordoned nodes."""
    sign = NodeUnschedulable().sign
    other = make_pod_info(tolerations=[Toleration("gpu", "Exists")])
    tolerant = make_pod_info(tolerations=[Toleration(operator="Exists")])

    assert sign(make_pod_info()) == sign(other)
    assert sign(make_pod_info()) != sign(tolerant)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, OPEN, QueueingHint.QUEUE, id="new node"),
        pytest.param(None, CORDONED, QueueingHint.SKIP, id="new cordoned node"),
        pytest.param(CORDONED, OPEN, QueueingHint.QUEUE, id="uncordoned"),
        pytest.param(OPEN, CORDONED, QueueingHint.SKIP, id="cordoned"),
        pytest.param(OPEN, OPEN, QueueingHint.SKIP, id="was open anyway"),
    ],
)
def test_an_open_node_wakes_the_pod(old: Node | None, new: Node, expected: QueueingHint) -> None:
    """A node that opens is worth another look."""
    assert is_schedulable_after_node_change(make_pod_info(), old, new) is expected


@pytest.mark.parametrize(
    ("name", "key", "expected"),
    [
        pytest.param("pod", KEY, QueueingHint.QUEUE, id="tolerates the cordon now"),
        pytest.param("pod", "other", QueueingHint.SKIP, id="tolerates something else now"),
        pytest.param("other", KEY, QueueingHint.SKIP, id="another pod"),
    ],
)
def test_a_toleration_of_the_cordon_wakes_the_pod(
    name: str, key: str, expected: QueueingHint
) -> None:
    """Only the pod's own tolerations, and only the right one."""
    new = make_pod_info(name, tolerations=[Toleration(key, "Exists")])

    hint = is_schedulable_after_pod_toleration_change(make_pod_info(), make_pod_info(name), new)

    assert hint is expected


def test_the_events_are_upstreams() -> None:
    """Nodes that are added or change taints, pods that change tolerations."""
    assert [
        (registered.event, registered.queueing_hint)
        for registered in NodeUnschedulable().events_to_register()
    ] == [
        (
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT),
            is_schedulable_after_node_change,
        ),
        (
            ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION),
            is_schedulable_after_pod_toleration_change,
        ),
    ]

"""NodePorts gives each host port of a node to one pod."""

import pytest

from scheduler.api.objects import Container, ContainerPort
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import (
    NODE_ADD,
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.status import SKIP, Code, Status
from scheduler.kernel.plugins.node_ports import NodePorts, is_schedulable_after_pod_deleted
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.plugin_answers import FITS, filter_answers

REJECTED = Status(
    Code.UNSCHEDULABLE, ("node(s) didn't have free ports for the requested pod ports",)
)
ANY = "0.0.0.0"  # noqa: S104 - the API's word for every address


def port(number: int, ip: str = "", protocol: str = "TCP") -> ContainerPort:
    return ContainerPort(host_port=number, host_ip=ip, protocol=protocol)


@pytest.mark.parametrize(
    ("wanted", "held", "expected"),
    [
        pytest.param(port(80), port(80), REJECTED, id="same port"),
        pytest.param(port(80), port(81), FITS, id="other port"),
        pytest.param(port(80), port(80, protocol="UDP"), FITS, id="other protocol"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.2"), FITS, id="other address"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.1"), REJECTED, id="same address"),
        pytest.param(port(80, ANY), port(80, "10.0.0.2"), REJECTED, id="wants all addresses"),
        pytest.param(port(80, "10.0.0.2"), port(80), REJECTED, id="all addresses held"),
        pytest.param(port(80, "::"), port(80, "10.0.0.2"), FITS, id="no wildcard in IPv6"),
    ],
)
def test_ports_conflict_by_protocol_number_and_address(
    wanted: ContainerPort, held: ContainerPort, expected: Status
) -> None:
    """What one pod holds on a node another cannot have there."""
    holder = make_pod_info("holder", node_name="busy", host_ports=[held])
    snapshot = make_snapshot([make_node("busy"), make_node("idle")], [holder])

    answers = filter_answers(NodePorts(), make_pod_info(host_ports=[wanted]), snapshot)

    assert answers == {"busy": expected, "idle": FITS}


def test_one_conflict_among_several_ports_suffices() -> None:
    """All wanted ports must be free."""
    pods = [make_pod_info(f"p{n}", node_name=f"n{n}", host_ports=[n]) for n in (1, 2, 3)]
    snapshot = make_snapshot([make_node(f"n{n}") for n in (1, 2, 3)], pods)

    answers = filter_answers(NodePorts(), make_pod_info(host_ports=[1, 2]), snapshot)

    assert answers == {"n1": REJECTED, "n2": REJECTED, "n3": FITS}


def test_sidecars_hold_ports_and_other_init_containers_do_not() -> None:
    """An init container that ends gives its port back before the pod is up."""
    sidecar = Container(name="s", ports=(port(80),), restart_policy="Always")
    step = Container(name="i", ports=(port(80),))
    snapshot = make_snapshot(
        [make_node("a"), make_node("b")],
        [
            make_pod_info("with-sidecar", node_name="a", init_containers=[sidecar]),
            make_pod_info("with-step", node_name="b", init_containers=[step]),
        ],
    )

    answers = filter_answers(NodePorts(), make_pod_info(host_ports=[80]), snapshot)

    assert answers == {"a": REJECTED, "b": FITS}
    assert filter_answers(NodePorts(), make_pod_info(init_containers=[step]), snapshot) == SKIP


def test_pods_without_host_ports_are_skipped() -> None:
    """Container ports alone take nothing of the node."""
    assert filter_answers(NodePorts(), make_pod_info(), make_snapshot([make_node()])) == SKIP


def test_filter_demands_pre_filter() -> None:
    """As upstream, the filter fails where a profile switches PreFilter off."""
    snapshot = make_snapshot([make_node()])

    told = "nothing was written under NodePorts/wanted; is its plugin disabled at preFilter"
    with pytest.raises(KeyError, match=told):
        NodePorts().filter(
            CycleState(), make_pod_info(host_ports=[80]), snapshot, snapshot.table.all_rows
        )


def test_the_ports_are_signed() -> None:
    """Pods that want the same ports are alike."""
    sign = NodePorts().sign

    assert sign(make_pod_info(host_ports=[80])) == sign(make_pod_info("other", host_ports=[80]))
    assert sign(make_pod_info(host_ports=[80])) != sign(make_pod_info(host_ports=[81]))


@pytest.mark.parametrize(
    ("ports", "node_name", "nominated", "expected"),
    [
        pytest.param([80], "n", "", QueueingHint.QUEUE, id="held the port"),
        pytest.param([80], "", "n", QueueingHint.QUEUE, id="was nominated to a node"),
        pytest.param([80], "", "", QueueingHint.SKIP, id="had no node"),
        pytest.param([81], "n", "", QueueingHint.SKIP, id="held another port"),
        pytest.param([], "n", "", QueueingHint.SKIP, id="held no port"),
    ],
)
def test_a_deleted_pod_that_frees_a_wanted_port_wakes_the_pod(
    ports: list[int], node_name: str, nominated: str, expected: QueueingHint
) -> None:
    """Only ports that the pod wants, and that were held or promised."""
    gone = make_pod_info(
        "gone", host_ports=ports, node_name=node_name, nominated_node_name=nominated
    )

    hint = is_schedulable_after_pod_deleted(make_pod_info(host_ports=[80, 443]), gone, None)

    assert hint is expected


def test_the_events_are_upstreams() -> None:
    """Deleted pods, and new nodes without a question."""
    assert [
        (registered.event, registered.queueing_hint)
        for registered in NodePorts().events_to_register()
    ] == [
        (ClusterEvent(EventResource.POD, ActionType.DELETE), is_schedulable_after_pod_deleted),
        (NODE_ADD, None),
    ]

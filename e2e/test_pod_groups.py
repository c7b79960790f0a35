"""Promise: no member of a pod group is bound alone, and its condition and event say why it waits.

The API server needs a feature gate to keep `spec.schedulingGroup`, so the control plane is our own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.objects import make_node, make_pod
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.stowage import start_stowage
from e2e.support.waiting import wait_for

REASON = "pods with a scheduling group are not supported by this scheduler"
ARGUMENTS = (
    "--feature-gates=GenericWorkload=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)


@pytest.fixture(scope="module")
def cluster_with_groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server of 1.36 that knows pod groups."""
    directory = tmp_path_factory.mktemp("groups")
    with (
        ControlPlane(Options(api_server_arguments=ARGUMENTS)) as own,
        Cluster("own control plane", own.kubeconfig, directory, control_plane=own) as cluster,
    ):
        yield cluster


def test_a_member_of_a_group_waits(cluster_with_groups: Cluster, tmp_path: Path) -> None:
    """A pod without a group is bound beside it, with the default configuration."""
    cluster = cluster_with_groups
    cluster.create_nodes([make_node("n")])
    daemon = start_stowage(scheduler_kubeconfig(cluster), tmp_path)
    try:
        cluster.create_pods(
            [
                make_pod("member", namespace="ml", schedulingGroup={"podGroupName": "train"}),
                make_pod("single", namespace="ml"),
            ]
        )
        cluster.wait_until_bound("ml", but=1)
        wait_for(lambda: cluster.events("ml", "FailedScheduling"), "the event about the member")
    finally:
        daemon.stop()

    member = cluster.pod("ml", "member")
    assert member["spec"]["schedulingGroup"] == {"podGroupName": "train"}
    assert "nodeName" not in member["spec"]
    [condition] = member["status"]["conditions"]
    [event] = cluster.events("ml", "FailedScheduling")
    assert condition["reason"] == "Unschedulable"
    assert condition["message"] == event["note"] == f"0/1 nodes are available: {REASON}."

"""Promise: a gang with a topology key runs in one rack or not at all, and names the nearest rack.

The API server needs feature gates for these fields, so the test starts its own control plane.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import module_control_plane
from e2e.support.cluster import Cluster
from e2e.support.controlplane import Options
from e2e.support.objects import Json, make_node
from e2e.support.pod_groups import (
    API,
    make_gang,
    make_members,
    places,
    wait_for_condition,
)
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.stowage import start_stowage
from e2e.support.waiting import wait_for

GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
RACK = "example.com/rack"
NONE_OF_TWO = "0/2 placements are available, first placement status: pod group is unschedulable"


@pytest.fixture(scope="module")
def cluster_of_racks(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """A control plane with two racks: `a` with one node of four CPUs, `b` with two."""
    options = Options(
        api_server_arguments=(f"--feature-gates={GATES}", f"--runtime-config={API}=true")
    )
    with module_control_plane(options, tmp_path_factory, pytestconfig) as cluster:
        cluster.create_nodes([in_rack("a0", "a"), in_rack("b0", "b"), in_rack("b1", "b")])
        yield cluster


def in_rack(name: str, rack: str) -> Json:
    """Build a node of a rack."""
    node = make_node(name)
    node["metadata"].setdefault("labels", {})[RACK] = rack
    return node


def test_a_gang_runs_in_one_rack_or_waits(cluster_of_racks: Cluster, tmp_path: Path) -> None:
    """Six members fit in `b` only; ten fit nowhere until `b` has another node."""
    cluster = cluster_of_racks
    cluster.create_namespace("racks")
    kubeconfig = scheduler_kubeconfig(cluster)
    arguments = [f"--feature-gates=GangScheduling=true,{GATES}", "--serve-without-authorization"]
    daemon = start_stowage(kubeconfig, tmp_path, arguments=arguments)
    try:
        make_gang(cluster, "racks", "six", 6, key=RACK)
        cluster.create_pods(make_members(6, group="six", namespace="racks"))
        cluster.wait_until_bound("racks")
        assert set(places(cluster, "racks", "six")) == {"b0", "b1"}
        wait_for_condition(cluster, "racks", "six", "True")
        cluster.delete_pods("racks")

        make_gang(cluster, "racks", "ten", 10, key=RACK)
        cluster.create_pods(make_members(10, group="ten", namespace="racks"))
        found = wait_for_condition(cluster, "racks", "ten", "False")
        assert found == ("False", "Unschedulable", NONE_OF_TWO)
        lacks = "0/2 nodes are available: 2 Insufficient cpu."
        wait_for(
            lambda: any(
                condition.get("message", "").startswith(lacks)
                for pod in cluster.pods("racks")
                for condition in pod["status"].get("conditions", [])
            ),
            "a member to say what its rack lacks",
        )
        assert set(places(cluster, "racks", "ten")) == {""}

        cluster.create_nodes([in_rack("b2", "b")])
        cluster.wait_until_bound("racks")
        assert set(places(cluster, "racks", "ten")) <= {"b0", "b1", "b2"}
        assert wait_for_condition(cluster, "racks", "ten", "True") == ("True", "Scheduled", "")
    finally:
        daemon.stop()
    cluster.delete_pods("racks")

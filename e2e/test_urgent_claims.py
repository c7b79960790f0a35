"""Promise: an urgent pod with a claim does not wait until thousands of other claims are written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.devices import CONTROLLERS as DEVICE_CONTROLLERS, Devices, make_device_pod
from e2e.support.faults import Lag
from e2e.support.objects import make_nodes
from e2e.support.proxy import FaultProxy
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.waiting import wait_for

CONTROLLERS = DEVICE_CONTROLLERS
URGENT: Final = "e2e-urgent-claims"
PATIENT_PODS: Final = 400
TIMEOUT_SECONDS: Final = 180


@pytest.fixture(scope="module")
def shared_cluster(cluster_with_controllers: Cluster) -> Cluster:
    """A control plane with the controllers for claims."""
    return cluster_with_controllers


@pytest.fixture(autouse=True)
def urgent(cluster: Cluster) -> Iterator[None]:
    with cluster.priority_classes({URGENT: 1000}):
        yield


def test_its_claim_is_written_before_those_that_wait(
    cluster: Cluster, namespace: str, devices: Devices, run_stowage: StartStowage, tmp_path: Path
) -> None:
    """Each write of a claim takes half a second, and every other pod waits for its turn."""
    cluster.create_nodes(nodes := make_nodes(5))
    for node in nodes:
        devices.offer(node["metadata"]["name"], PATIENT_PODS // 4)
    devices.template(namespace, "one")
    pods = [make_device_pod(f"p-{i:03}", namespace, template="one") for i in range(PATIENT_PODS)]
    cluster.create_pods(pods)
    wait_for(lambda: len(devices.claims(namespace)) == PATIENT_PODS, "the claims", TIMEOUT_SECONDS)
    with FaultProxy(scheduler_kubeconfig(cluster)) as proxy:
        proxy.add(Lag(0.5), method="PUT|PATCH", path=r"/resourceclaims/[^/]+/status")
        run_stowage(proxy.kubeconfig(tmp_path / "proxy.kubeconfig"))
        wait_for(lambda: len(bound(proxy)) > 20, "the first to be bound", TIMEOUT_SECONDS)
        already = len(bound(proxy))
        urgent = make_device_pod("urgent", namespace, template="one", priorityClassName=URGENT)
        cluster.create_pods([urgent])
        cluster.wait_until_bound(namespace, timeout_seconds=TIMEOUT_SECONDS)
        order = bound(proxy)

    # Its claim must be created and seen first; 64 others are bound each second meanwhile.
    assert len(order) == PATIENT_PODS + 1
    assert order.index("urgent") - already < PATIENT_PODS // 2


def bound(proxy: FaultProxy) -> list[str]:
    """Return the pods whose bindings have arrived at the proxy, in order."""
    return [
        record.path.split("/")[-2] for record in proxy.records if record.path.endswith("/binding")
    ]

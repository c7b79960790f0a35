"""Promise: a failed binding loses no pod, and frees the capacity that it had reserved."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.faults import Answer, Before, DropAfter, DropBefore, Fault, Hang
from e2e.support.objects import make_node, make_pod, make_pods
from e2e.support.placements import bindings_by_pod, overcommitted_nodes
from e2e.support.proxy import FaultProxy
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.waiting import wait_for

BINDING = r"/pods/[^/]+/binding"
PODS = 20


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(scheduler_kubeconfig(cluster)) as running:
        yield running


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Answer(409, "Conflict"), id="409"),
        pytest.param(Answer(500, "InternalError"), id="500"),
        pytest.param(Answer(429, "TooManyRequests", 1), id="429 with Retry-After"),
        pytest.param(DropBefore(), id="connection lost before"),
        pytest.param(DropAfter(), id="answer lost"),
    ],
)
def test_a_refused_binding_is_repeated(
    cluster: Cluster,
    namespace: str,
    run_stowage: StartStowage,
    proxy: FaultProxy,
    tmp_path: Path,
    fault: Fault,
) -> None:
    """All pods are bound once and fill the node exactly, so every reservation was released."""
    cluster.create_nodes([make_node("only", allocatable={"cpu": "2", "memory": "8Gi"})])
    proxy.add(fault, method="POST", path=BINDING, times=PODS // 2)
    run_stowage(kubeconfig=proxy.kubeconfig(tmp_path / "proxy.kubeconfig"))

    cluster.create_pods(make_pods(PODS, namespace=namespace, requests={"cpu": "100m"}))

    cluster.wait_until_bound(namespace, timeout_seconds=60)
    assert proxy.count("POST", BINDING, type(fault).__name__) == PODS // 2
    assert overcommitted_nodes(cluster.nodes(), cluster.pods(namespace)) == {}
    if cluster.control_plane is not None:
        bound = bindings_by_pod(cluster.audit_events())
        counts = {n for key, n in bound.items() if key.startswith(f"{namespace}/")}
        assert counts == {1}


def test_a_binding_without_an_answer_keeps_nobody_else_waiting(
    cluster: Cluster,
    namespace: str,
    run_stowage: StartStowage,
    proxy: FaultProxy,
    tmp_path: Path,
) -> None:
    """While one request hangs, the other pods are bound."""
    cluster.create_nodes([make_node("only")])
    proxy.add(Hang(), method="POST", path=r"/pods/stuck/binding", times=1)
    run_stowage(kubeconfig=proxy.kubeconfig(tmp_path / "proxy.kubeconfig"))
    cluster.create_pods([make_pod("stuck", namespace=namespace)])

    cluster.create_pods(make_pods(PODS, namespace=namespace))

    cluster.wait_until_bound(namespace, but=1, timeout_seconds=20)
    cluster.wait_until_bound(namespace, timeout_seconds=90)


def test_a_pod_deleted_while_it_is_bound_frees_its_place(
    cluster: Cluster,
    namespace: str,
    run_stowage: StartStowage,
    proxy: FaultProxy,
    tmp_path: Path,
) -> None:
    """The next pod gets the capacity at once."""
    cluster.create_nodes([make_node("only", allocatable={"cpu": "1"})])

    async def delete(request: web.Request) -> None:
        del request
        await cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/victim?gracePeriodSeconds=0")

    fault = _in_cluster_loop(cluster, delete)
    proxy.add(fault, method="POST", path=r"/pods/victim/binding", times=1)
    run_stowage(kubeconfig=proxy.kubeconfig(tmp_path / "proxy.kubeconfig"))
    cluster.create_pods([make_pod("victim", namespace=namespace, requests={"cpu": "1"})])
    wait_for(lambda: proxy.count("POST", r"/pods/victim/binding", answered=True), "the binding")

    cluster.create_pods([make_pod("next", namespace=namespace, requests={"cpu": "1"})])

    cluster.wait_until_bound(namespace, timeout_seconds=20)
    assert [p["metadata"]["name"] for p in cluster.pods(namespace)] == ["next"]


def test_a_node_deleted_between_decision_and_binding(
    cluster: Cluster,
    namespace: str,
    run_stowage: StartStowage,
    proxy: FaultProxy,
    tmp_path: Path,
) -> None:
    """The API server binds the first pod to the deleted node; later pods get the second node."""
    cluster.create_nodes([make_node("first")])

    async def delete(request: web.Request) -> None:
        del request
        await cluster.api.delete("/api/v1/nodes/first")

    proxy.add(_in_cluster_loop(cluster, delete), method="POST", path=BINDING, times=1)
    daemon = run_stowage(kubeconfig=proxy.kubeconfig(tmp_path / "proxy.kubeconfig"))
    cluster.create_pods([make_pod("early", namespace=namespace)])
    wait_for(lambda: proxy.count("POST", BINDING, answered=True), "the first binding")

    cluster.create_nodes([make_node("second")])
    cluster.create_pods(make_pods(PODS, namespace=namespace))

    cluster.wait_until_bound(namespace, timeout_seconds=30)
    late = [p for p in cluster.pods(namespace) if p["metadata"]["name"] != "early"]
    assert {p["spec"]["nodeName"] for p in late} == {"second"}
    assert daemon.is_running()


def _in_cluster_loop(cluster: Cluster, action: object) -> Before:
    """Run a call in the cluster's event loop; the proxy has another one."""

    async def run(request: web.Request) -> None:
        await asyncio.to_thread(lambda: cluster.run(action(request)))  # type: ignore[operator]

    return Before(run)

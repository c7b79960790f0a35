"""Promise: the fault proxy injects faults into matching requests, and passes all others."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from e2e.support.api import Api, ApiRefusedError, Call
from e2e.support.cluster import Cluster
from e2e.support.faults import (
    Answer,
    Before,
    DropAfter,
    DropBefore,
    Fault,
    Hang,
    HangAfter,
    Lag,
)
from e2e.support.objects import make_binding, make_node, make_pod
from e2e.support.proxy import FaultProxy
from e2e.support.waiting import wait_for

BINDING = "/binding$"


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(cluster.kubeconfig) as running:
        yield running


@pytest.fixture
def through(proxy: FaultProxy, tmp_path: Path) -> Path:
    """A kubeconfig with the proxy as its server."""
    return proxy.kubeconfig(tmp_path / "through.kubeconfig")


@pytest.fixture
def binding(cluster: Cluster, namespace: str) -> Call:
    """Build a binding that succeeds, with its pod and node."""
    cluster.create_nodes([make_node("node")])
    cluster.create_pods([make_pod("pod", namespace=namespace)])
    path = f"/api/v1/namespaces/{namespace}/pods/pod/binding"
    return Call("POST", path, make_binding("pod", "node", namespace=namespace))


@pytest.mark.parametrize(
    ("fault", "outcome", "is_bound"),
    [
        pytest.param(Answer(409, "Conflict"), 409, False, id="conflict"),
        pytest.param(Answer(500, "InternalError"), 500, False, id="internal error"),
        pytest.param(DropBefore(), "disconnected", False, id="lost request"),
        pytest.param(DropAfter(), "disconnected", True, id="lost answer"),
        pytest.param(Hang(0.1), "disconnected", False, id="timeout"),
        pytest.param(HangAfter(0.1), "disconnected", True, id="timeout after it was done"),
    ],
)
def test_a_fault_meets_what_it_claims_as_often_as_told(
    cluster: Cluster,
    proxy: FaultProxy,
    through: Path,
    binding: Call,
    fault: Fault,
    outcome: object,
    is_bound: bool,
) -> None:
    """The first binding fails; other requests and the second binding succeed."""
    proxy.add(fault, method="POST", path=BINDING, times=1)
    namespace = binding.path.split("/")[4]

    before = _outcome(cluster, through, Call("GET", "/api/v1/nodes"))
    first = _outcome(cluster, through, binding)
    bound_after_first = cluster.unbound(namespace, "stowage") == []
    second = _outcome(cluster, through, binding)

    assert (before, first, bound_after_first) == (200, outcome, is_bound)
    assert second == (409 if is_bound else 200)
    assert proxy.count("POST", BINDING, fault=type(fault).__name__) == 1
    assert proxy.count("POST", BINDING, fault="") == 1
    assert proxy.count("GET") == 1


def test_too_many_requests_says_when_to_come_back(
    cluster: Cluster, proxy: FaultProxy, through: Path, binding: Call
) -> None:
    """429 has Retry-After, and a client that honours it succeeds."""
    answer = Answer(429, "TooManyRequests", retry_after_seconds=1)
    proxy.add(answer, path=BINDING, times=1, only_if=lambda request: request.method == "POST")

    started = time.monotonic()
    outcome = _outcome(cluster, through, binding)

    assert outcome == 200
    assert time.monotonic() - started >= 1
    # The client has the last byte of an answer before the proxy notes its status.
    wait_for(lambda: [record.status for record in proxy.records] == [429, 201], "both answers")


def test_something_may_happen_between_decision_and_binding(
    cluster: Cluster, proxy: FaultProxy, through: Path, binding: Call
) -> None:
    """If the pod is deleted just before its binding arrives, the binding gets 404."""

    async def delete_pod(request: web.Request) -> None:
        async with Api.connect(cluster.kubeconfig) as api:
            await api.delete(f"{request.path.removesuffix('/binding')}?gracePeriodSeconds=0")

    proxy.add(Before(delete_pod), path=BINDING)

    assert _outcome(cluster, through, binding) == 404


def test_a_watch_streams_through_until_the_proxy_is_cut_off(
    cluster: Cluster, proxy: FaultProxy, through: Path, namespace: str
) -> None:
    """Events arrive as they happen; a cut ends watches and refuses requests until ``restore``."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    version = cluster.run(cluster.api.get(path))["metadata"]["resourceVersion"]
    seen: list[str] = []

    async def follow() -> str:
        async with Api.connect(through) as api:
            try:
                async for kind, pod in api.watch(path, version):
                    seen.append(f"{kind} {pod['metadata']['name']}")
            except (aiohttp.ClientError, OSError):
                return "disconnected"
            return "ended"

    async def start() -> asyncio.Task[str]:
        return asyncio.create_task(follow())

    async def result(watch: asyncio.Task[str]) -> str:
        return await asyncio.wait_for(watch, 60)

    watch = cluster.run(start())
    cluster.create_pods([make_pod("first", namespace=namespace)])
    wait_for(lambda: seen, "the event of the first pod")
    cluster.create_pods([make_pod("second", namespace=namespace)])
    wait_for(lambda: len(seen) == 2, "the event of the second pod")
    proxy.cut()
    watch_outcome = cluster.run(result(watch))
    while_cut = _outcome(cluster, through, Call("GET", path))
    proxy.restore()

    assert seen == ["ADDED first", "ADDED second"]
    assert (watch_outcome, while_cut) == ("disconnected", "disconnected")
    assert _outcome(cluster, through, Call("GET", path)) == 200


def test_what_lags_comes_late_and_whole(
    cluster: Cluster, proxy: FaultProxy, through: Path, binding: Call
) -> None:
    """Writes take effect at once; their responses are delayed."""
    proxy.add(Lag(1.0), path=BINDING, times=1)
    namespace = binding.path.split("/")[4]

    started = time.monotonic()
    with ThreadPoolExecutor(1) as background:
        outcome = background.submit(_outcome, cluster, through, binding)
        wait_for(lambda: not cluster.unbound(namespace, "stowage"), "the pod to be bound")

        assert outcome.result() == 200
    assert time.monotonic() - started >= 1


def _outcome(cluster: Cluster, kubeconfig: Path, call: Call) -> int | str:
    """Send a request once; return its status or the kind of failure."""

    async def send() -> int | str:
        async with Api.connect(kubeconfig) as api:
            try:
                await api.call(call)
            except ApiRefusedError as error:
                return error.status
            except aiohttp.ClientError:
                return "disconnected"
            return 200

    return cluster.run(send())

"""The load of the demo: valid, repeatable, and small enough for its cluster."""

import asyncio

import pytest

from apistub import Sandbox
from apistub.demo.load import (
    FOREIGN,
    GIANT,
    LATE_POOL,
    NAMESPACE,
    POOL_LABEL,
    Load,
    make_load,
)
from scheduler.api.quantity import milli_value


@pytest.mark.parametrize(
    ("nodes", "pods"),
    [(12, 120), (12, 720), (60, 600), (100, 6000)],
    ids=str,
)
def test_the_api_server_takes_every_object(nodes: int, pods: int) -> None:
    """The sandbox, which validates like a real server, accepts all nodes and pods."""
    load = make_load(nodes, pods, seed=3)

    async def play() -> int:
        async with await Sandbox.start() as sandbox:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            sandbox.create(namespace, *load.nodes, *load.late_nodes, *load.pods)
            important = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            sandbox.create({**important, **load.important}, load.urgent)
            return len(list(sandbox.list("pods", NAMESPACE)))

    assert asyncio.run(play()) == pods + 1


def test_the_same_seed_gives_the_same_load() -> None:
    """A run can be repeated; another seed gives another one."""
    assert make_load(20, 200, seed=1) == make_load(20, 200, seed=1)
    assert make_load(20, 200, seed=1) != make_load(20, 200, seed=2)


def test_nodes_have_reported_in() -> None:
    """`kubectl describe node` shows since when, also for the nodes that come late."""
    load = make_load(12, 120, 1, "2026-01-02T03:04:05Z")

    for node in (*load.nodes, *load.late_nodes):
        (ready,) = node["status"]["conditions"]
        assert ready["lastHeartbeatTime"] == "2026-01-02T03:04:05Z"


def asked(load: Load, names: frozenset[str]) -> int:
    return sum(
        milli_value(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        for pod in load.pods
        if pod["metadata"]["name"] in names
    )


@pytest.mark.parametrize(("nodes", "pods"), [(12, 120), (12, 720), (60, 600), (1000, 20_000)])
def test_what_is_expected_fits_with_room_to_spare(nodes: int, pods: int) -> None:
    """All expected pods together leave a quarter of the cpu free, the batch pool included."""
    load = make_load(nodes, pods, seed=1)
    allocatable = [milli_value(node["status"]["allocatable"]["cpu"]) for node in load.nodes]
    batch_nodes = [
        milli_value(node["status"]["allocatable"]["cpu"])
        for node in load.nodes
        if node["metadata"]["labels"].get(POOL_LABEL) == "batch"
    ]
    batch = frozenset(name for name in load.expected if name.startswith("batch-"))

    assert asked(load, load.expected) <= 0.75 * sum(allocatable)
    assert asked(load, batch) <= 0.75 * sum(batch_nodes)
    assert load.expected.isdisjoint({GIANT, FOREIGN})
    assert len(load.expected) == pods - 2


def test_somebody_waits_for_the_late_nodes() -> None:
    """The report pods select a pool that only the nodes added later belong to."""
    load = make_load(60, 600, seed=1)

    waiting = [
        pod for pod in load.pods if pod["spec"].get("nodeSelector", {}).get(POOL_LABEL) == LATE_POOL
    ]
    early = {node["metadata"]["labels"].get(POOL_LABEL) for node in load.nodes}
    late = {node["metadata"]["labels"].get(POOL_LABEL) for node in load.late_nodes}
    assert waiting
    assert LATE_POOL not in early
    assert late == {LATE_POOL}

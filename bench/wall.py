"""``python -m bench.wall``: binds every waiting pod to the next node, without scheduling.

Its throughput is an upper bound for any scheduler on the same machine. It uses aiohttp on uvloop
with a fixed number of concurrent requests, and one watch like a scheduler's. For claims, groups and
preemption it sends the writes of a scheduler, but waits for no controller. It keeps running until
terminated, so that its CPU time can be read.

With ``--follow`` it binds each pod as soon as it appears.
"""

import asyncio
from collections.abc import Iterator
from itertools import chain, cycle
from pathlib import Path

import aiohttp
import click
import uvloop

from bench.clearing import FullNodes, event_call
from bench.devices import (
    CLAIMS as DEVICE_CLAIMS,
    DeviceAllocator,
    claim_name,
    first_request,
    write_claim,
)
from bench.groups import GroupConditions
from bench.objects import SCHEDULER_NAME
from bench.storage import CLAIMS, SELECTED_NODE, VOLUMES, claim_names
from bench.workload import MEASURED
from e2e.support.api import Api, Call, Credentials
from e2e.support.devices import RESOURCE
from e2e.support.objects import Json, make_binding
from scheduler.clock import SystemClock
from scheduler.daemon.driver.loop_rest import rest_for_ever

_PODS = f"/api/v1/namespaces/{MEASURED}/pods"
_WAITING = f"fieldSelector=spec.nodeName%3D,spec.schedulerName%3D{SCHEDULER_NAME}"


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--events", is_flag=True, help="Write an event after each binding.")
@click.option("--in-flight", default=32, show_default=True, help="Concurrent requests.")
@click.option("--follow", is_flag=True, help="Bind new pods instead of waiting ones.")
def main(kubeconfig: Path, events: bool, in_flight: int, follow: bool) -> None:
    """Bind all waiting pods, then idle until terminated."""
    work = _follow if follow else _run
    uvloop.run(work(kubeconfig, events, in_flight))


async def _follow(kubeconfig: Path, events: bool, in_flight: int) -> None:
    coming = asyncio.Queue[str]()
    async with Api.connect(kubeconfig) as api, asyncio.TaskGroup() as group:
        nodes = await _nodes(api)
        version = (await api.get(f"{_PODS}?limit=1"))["metadata"]["resourceVersion"]
        for _ in range(in_flight):
            group.create_task(_bind_from(coming, nodes, api, events))
        async for kind, pod in api.watch(f"{_PODS}?{_WAITING}", version):
            if kind == "ADDED":
                coming.put_nowait(pod["metadata"]["name"])


async def _bind_from(
    coming: asyncio.Queue[str], nodes: Iterator[str], api: Api, events: bool
) -> None:
    while True:
        pod = await coming.get()
        await api.call_all(_calls(pod, next(nodes), events), 1)


async def _run(kubeconfig: Path, events: bool, in_flight: int) -> None:
    async with Api.connect(kubeconfig) as api:
        nodes = await _nodes(api)
        pods = await api.list_items(f"{_PODS}?{_WAITING}")
        version = (await api.get("/api/v1/pods?limit=1"))["metadata"]["resourceVersion"]
        watching = asyncio.create_task(_watch(await Credentials.load(kubeconfig), version))
        volumes = iter([each["metadata"]["name"] for each in await api.list_items(VOLUMES)])
        full = await FullNodes.read(api, pods)
        claims = {each["metadata"]["name"]: each for each in await api.list_items(DEVICE_CLAIMS)}
        allocator = DeviceAllocator(
            await api.list_items(f"{RESOURCE}/resourceslices") if claims else ()
        )
        groups = GroupConditions()

        def calls(pod: Json, node: str) -> Iterator[Call]:
            return chain(
                _claim_calls(pod, node, volumes),
                () if full is None else full.calls(pod, node, events=events),
                _calls(pod["metadata"]["name"], node, events),
                groups.calls(pod),
            )

        async def bind(pods: Iterator[Json]) -> None:
            for pod in pods:
                node, claim = next(nodes), claims.get(claim_name(pod) or "")
                if claim is not None:
                    node, devices = allocator.take(first_request(claim)[1])
                    await write_claim(api, claim, pod, node, devices)
                await api.call_all(calls(pod, node), 1)

        resting = asyncio.create_task(rest_for_ever(SystemClock(), lambda: in_flight))
        waiting = iter(pods)
        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                # Each task binds a pod and then writes its event, as a scheduler does.
                group.create_task(bind(waiting))
        resting.cancel()
        await watching


async def _nodes(api: Api) -> Iterator[str]:
    """Return an endless cycle of all node names."""
    return cycle([each["metadata"]["name"] for each in await api.list_items("/api/v1/nodes")])


def _claim_calls(pod: Json, node: str, volumes: Iterator[str]) -> Iterator[Call]:
    """Assign a volume to each claim of the pod; without free volumes, select the claim's node."""
    for claim in claim_names(pod):
        volume = next(volumes, None)
        if volume is None:
            body: Json = {"metadata": {"annotations": {SELECTED_NODE: node}}}
            path = f"{CLAIMS}/{claim}"
        else:
            body = {"spec": {"claimRef": {"namespace": MEASURED, "name": claim}}}
            path = f"{VOLUMES}/{volume}"
        yield Call("PATCH", path, body, "application/merge-patch+json")


def _calls(pod: str, node: str, events: bool) -> Iterator[Call]:
    yield Call("POST", f"{_PODS}/{pod}/binding", make_binding(pod, node, namespace=MEASURED))
    if events:
        about = {"metadata": {"name": pod, "namespace": MEASURED}}
        note = f"Successfully assigned {MEASURED}/{pod} to {node}"
        yield event_call(about, "Scheduled", "Binding", note)


async def _watch(credentials: Credentials, version: str) -> None:
    """Receive a scheduler's watch events without decoding them."""
    path = f"{credentials.server}/api/v1/pods?watch=true&resourceVersion={version}"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
        session.get(path, ssl=credentials.context or True, headers=credentials.headers) as response,
    ):
        async for _ in response.content.iter_any():
            pass


if __name__ == "__main__":
    main()

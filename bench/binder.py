"""``python -m bench.binder``: provisions volumes for selected nodes, and binds claims.

It replaces kube-controller-manager and a provisioner, identically for every contestant. It sends
one write per claim with an existing volume, and two otherwise, so that the measurement shows the
scheduler and the API server.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
import uvloop

from bench.storage import BIND_COMPLETED, CLAIMS, SELECTED_NODE, VOLUMES, make_volume, reference
from e2e.support.api import Api, Call
from e2e.support.objects import Json

_MERGE_PATCH = "application/merge-patch+json"


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--in-flight", default=16, show_default=True, help="Concurrent claims.")
def main(kubeconfig: Path, in_flight: int) -> None:
    """Bind claims until terminated."""
    uvloop.run(_run(kubeconfig, in_flight))


async def _run(kubeconfig: Path, in_flight: int) -> None:
    async with Api.connect(kubeconfig) as api, asyncio.TaskGroup() as group:
        binder = Binder(api)
        group.create_task(_follow(api, CLAIMS, binder.claim_seen))
        group.create_task(_follow(api, VOLUMES, binder.volume_seen))
        for _ in range(in_flight):
            group.create_task(binder.work())


class Binder:
    """Binds each claim once, as soon as a scheduler has selected a volume or node."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._work = asyncio.Queue[Callable[[], Awaitable[None]]]()
        self._begun: set[str] = set()

    def claim_seen(self, claim: Json) -> None:
        """Handle a new or changed claim."""
        node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
        if node is not None and not claim["spec"].get("volumeName"):
            self._begin(claim["metadata"]["name"], lambda: self._make(claim, node))

    def volume_seen(self, volume: Json) -> None:
        """Handle a new or changed volume."""
        claim = volume["spec"].get("claimRef")
        if claim is not None:
            name = volume["metadata"]["name"]
            self._begin(claim["name"], lambda: self._bind(claim["name"], name))

    async def work(self) -> None:
        """Process pending binds one after another."""
        while True:
            begin = await self._work.get()
            await begin()

    def _begin(self, claim: str, begin: Callable[[], Awaitable[None]]) -> None:
        if claim not in self._begun:
            self._begun.add(claim)
            self._work.put_nowait(begin)

    async def _make(self, claim: Json, node: str) -> None:
        name = claim["metadata"]["name"]
        volume = make_volume(f"made-{name}", claim["spec"]["storageClassName"], node)
        volume["spec"]["claimRef"] = reference(claim)
        await self._api.post(VOLUMES, volume)
        await self._bind(name, volume["metadata"]["name"])

    async def _bind(self, claim: str, volume: str) -> None:
        body = {
            "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": volume},
        }
        await self._api.call_all([Call("PATCH", f"{CLAIMS}/{claim}", body, _MERGE_PATCH)], 1)


async def _follow(api: Api, path: str, seen: Callable[[Json], None]) -> None:
    """List and watch objects, and call ``seen`` with each."""
    version = (await api.get(f"{path}?limit=1"))["metadata"]["resourceVersion"]
    for found in await api.list_items(path):
        seen(found)
    async for kind, found in api.watch(path, version):
        if kind in ("ADDED", "MODIFIED"):
            seen(found)


if __name__ == "__main__":
    main()

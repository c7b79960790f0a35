"""Renews the leases of simulated nodes in clusters with a node lifecycle controller.

Without renewals the controller taints a node after about 40 s, and later evicts its pods.
"""

import asyncio
import datetime as dt
import sys

from aiohttp import ClientError

from e2e.support.api import Api, ApiRefusedError, Call
from e2e.support.objects import Json

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_RENEW_SECONDS = 10


class Heartbeats:
    """Leases of a set of nodes, renewed by a task on the running event loop."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._nodes: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def add(self, nodes: list[str]) -> None:
        """Create the leases of ``nodes`` and start to renew them."""
        await self._api.create_all(LEASES, (_lease(node) for node in nodes))
        self._nodes.update(nodes)
        if self._task is None:
            self._task = asyncio.create_task(self._renew_for_ever())

    async def remove_all(self) -> None:
        """Stop renewing and delete the leases."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        for node in self._nodes:
            await delete_if_there(self._api, f"{LEASES}/{node}")
        self._nodes.clear()

    async def _renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            renewal = {"spec": {"renewTime": _now()}}
            try:
                await self._api.call_all(
                    Call("PATCH", f"{LEASES}/{node}", renewal, "application/merge-patch+json")
                    for node in sorted(self._nodes)
                )
            except* (ApiRefusedError, ClientError) as problems:
                # The controller waits for several renewals; without any, it would taint the nodes.
                print("heartbeats:", *problems.exceptions, file=sys.stderr)


async def delete_if_there(api: Api, path: str) -> None:
    """Delete an object with grace period 0; ignore 404."""
    try:
        await api.delete(f"{path}?gracePeriodSeconds=0")
    except ApiRefusedError as error:
        if error.status != 404:
            raise


def _lease(node: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": _now()},
    }


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""Devices of the load: what drivers publish, what pods claim, and what is given back.

It also is the controller of claims: a claim goes when its pod is gone. Pools are renewed all the
time, with the same devices, so that any claim can be had at any time.
"""

from collections.abc import Collection
from random import Random
from typing import Final

from e2e.support.api import Api
from e2e.support.devices import CLASS, DRIVER, RESOURCE, gpu_class
from e2e.support.objects import Json

MOST: Final = 12
"""Pods with devices: on some node the largest claim always finds what it wants."""
_EACH: Final = 4
_NUMA: Final = "numa.example.org/node"
_SLICES: Final = f"{RESOURCE}/resourceslices"


class Devices:
    """The devices of some nodes, and the claims of one namespace."""

    def __init__(self, api: Api, draw: Random, namespace: str, nodes: Collection[str]) -> None:
        self._api = api
        self._draw = draw
        self._nodes = list(nodes)
        self._generations = dict.fromkeys(nodes, 1)
        self.claims = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"

    async def prepare(self) -> None:
        """Publishes the devices, and a class for them."""
        await self._api.post(f"{RESOURCE}/deviceclasses", gpu_class())
        await self._api.create_all(_SLICES, map(self._slice, self._nodes))

    async def claim(self, name: str) -> Json:
        """Makes a claim, and returns what is to be merged into the specification of its pod."""
        spec = self._draw.choice((_one, _pair, _either))()
        await self._api.post(self.claims, {"metadata": {"name": name}, "spec": {"devices": spec}})
        return {"resourceClaims": [{"name": "device", "resourceClaimName": name}]}

    async def renew(self) -> None:
        """Publishes one pool anew, or for the first time where the server was set back."""
        node = self._draw.choice(self._nodes)
        self._generations[node] += 1
        path = f"{_SLICES}/{node}"
        await self._api.patch(path, {"spec": self._slice(node)["spec"]})

    async def give_back(self, names: Collection[str]) -> None:
        """Deletes these claims, whatever holds them."""
        for name in names:
            await self._api.patch(f"{self.claims}/{name}", {"metadata": {"finalizers": None}})
            await self._api.delete(f"{self.claims}/{name}")

    def _slice(self, node: str) -> Json:
        devices = [
            {"name": f"gpu-{i}", "attributes": {_NUMA: {"int": i % 2}}} for i in range(_EACH)
        ]
        pool = {"name": node, "generation": self._generations[node], "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        return {"metadata": {"name": node}, "spec": spec}


def _one() -> Json:
    return {"requests": [{"name": "r", "exactly": {"deviceClassName": CLASS}}]}


def _pair() -> Json:
    request = {"name": "r", "exactly": {"deviceClassName": CLASS, "count": 2}}
    return {"requests": [request], "constraints": [{"matchAttribute": _NUMA}]}


def _either() -> Json:
    alternatives = [
        {"name": "all", "deviceClassName": CLASS, "count": _EACH},
        {"name": "one", "deviceClassName": CLASS},
    ]
    return {"requests": [{"name": "r", "firstAvailable": alternatives}]}

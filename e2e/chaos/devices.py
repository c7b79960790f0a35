"""Devices and claims of the load.

There are four kinds of claims: named in the pod, created from a template, created by the scheduler
for an extended resource, and shared by several pods. The controller manager deallocates unused
claims and deletes claims whose pod is gone. Pools are republished continuously with the same
devices, so that every claim can always be allocated at some time.
"""

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from random import Random
from types import MappingProxyType
from typing import Final

from e2e.support.api import Api
from e2e.support.devices import CLASS, CONTROLLERS as OF_CLAIMS, DRIVER, RESOURCE, gpu_class
from e2e.support.objects import Json

KINDS: Final = ("claim-by-name", "claim-from-template", "extended", "claim-shared")
"""Values of the kind label for pods with devices."""
BY_NAME, FROM_TEMPLATE, EXTENDED, SHARED = KINDS
MOST: Final = 10
"""Limit of pods with devices of their own, so that some node always has room for the largest
claim."""
CONTROLLERS: Final = tuple(each for each in OF_CLAIMS if "node" not in each)
"""Controllers of the control plane, without the node controllers, which the load replaces."""
_SHARED: Final = ("shared-a", "shared-b")
_EACH: Final = 4
_NUMA: Final = "numa.example.org/node"
_SLICES: Final = f"{RESOURCE}/resourceslices"
_EXTENDED: Final = "example.com/accelerator"
_CLAIM_SECONDS: Final = 5.0
"""A claim is created just before its pod; an older claim without a pod is deleted."""


class Devices:
    """The devices of some nodes, and the claims of one namespace."""

    def __init__(self, api: Api, draw: Random, namespace: str, nodes: Collection[str]) -> None:
        self._api = api
        self._draw = draw
        self._nodes = list(nodes)
        self._generations = dict.fromkeys(nodes, 1)
        self._namespace = f"{RESOURCE}/namespaces/{namespace}"
        self.claims = f"{self._namespace}/resourceclaims"

    async def prepare(self) -> None:
        """Publish the devices; create classes, templates and shared claims."""
        classes = [gpu_class(), gpu_class() | {"metadata": {"name": "by-resource"}}]
        classes[1]["spec"] |= {"extendedResourceName": _EXTENDED}
        await self._api.create_all(f"{RESOURCE}/deviceclasses", classes)
        await self._api.create_all(_SLICES, map(self._slice, self._nodes))
        templates = [
            {"metadata": {"name": name}, "spec": {"spec": {"devices": wanted()}}}
            for name, wanted in _WANTED.items()
        ]
        await self._api.create_all(f"{self._namespace}/resourceclaimtemplates", templates)
        for name in _SHARED:
            await self._make_claim(name, _one())

    async def give(self, kind: str, pod: Json) -> None:
        """Set the claims of a new pod according to its kind."""
        name = pod["metadata"]["name"]
        if kind == BY_NAME:
            await self._make_claim(name, self._draw.choice(list(_WANTED.values()))())
            self._claim(pod, resourceClaimName=name)
        elif kind == FROM_TEMPLATE:
            self._claim(pod, resourceClaimTemplateName=self._draw.choice(list(_WANTED)))
        elif kind == SHARED:
            self._claim(pod, resourceClaimName=self._draw.choice(_SHARED))
            # All pods of a shared claim must fit on one node.
            del pod["spec"]["containers"][0]["resources"]
        else:
            count = self._draw.choice(("1", "1", "2"))
            pod["spec"]["containers"][0]["resources"]["limits"] = {_EXTENDED: count}

    async def renew(self) -> None:
        """Republish one pool, or create it again after a restored backup."""
        node = self._draw.choice(self._nodes)
        self._generations[node] += 1
        path = f"{_SLICES}/{node}"
        await self._api.patch(path, {"spec": self._slice(node)["spec"]})

    async def remove_unused(self, pods: Iterable[Json]) -> None:
        """Delete the named claims whose pods are gone."""
        used = {name for pod in pods for name in claim_names(pod)}
        for claim in await self._api.list_items(self.claims):
            meta = claim["metadata"]
            is_made = "ownerReferences" in meta or meta["name"] in _SHARED
            if not is_made and meta["name"] not in used and age(claim) > _CLAIM_SECONDS:
                await self._api.delete(f"{self.claims}/{meta['name']}")

    async def unused_claims(self, pods: Iterable[Json]) -> list[str]:
        """Return the claims that are allocated to, or were created for, none of these pods."""
        used = {name for pod in pods for name in claim_names(pod)}
        return [
            claim["metadata"]["name"]
            for claim in await self._api.list_items(self.claims)
            if claim["metadata"]["name"] not in used
            and (claim["metadata"]["name"] not in _SHARED or claim.get("status"))
        ]

    async def _make_claim(self, name: str, devices: Json) -> None:
        body = {"metadata": {"name": name}, "spec": {"devices": devices}}
        await self._api.post(self.claims, body)

    @staticmethod
    def _claim(pod: Json, **source: str) -> None:
        pod["spec"]["resourceClaims"] = [{"name": "device", **source}]

    def _slice(self, node: str) -> Json:
        devices = [
            {"name": f"gpu-{i}", "attributes": {_NUMA: {"int": i % 2}}} for i in range(_EACH)
        ]
        pool = {"name": node, "generation": self._generations[node], "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        return {"metadata": {"name": node}, "spec": spec}


def claim_names(pod: Json) -> Iterator[str]:
    """Yield the names of a pod's claims; an empty string for a claim not created yet."""
    status = pod.get("status", {})
    made = {each["name"]: each for each in status.get("resourceClaimStatuses", ())}
    for entry in pod["spec"].get("resourceClaims", ()):
        name = entry.get("resourceClaimName")
        yield name or made.get(entry["name"], {}).get("resourceClaimName", "")
    if pod["metadata"]["labels"].get("kind") == EXTENDED:
        yield status.get("extendedResourceClaimStatus", {}).get("resourceClaimName", "")


def lacks_claim(pod: Json) -> bool:
    """Report whether a pod waits for a claim that the controller has not created."""
    return "resourceClaims" in pod["spec"] and "" in claim_names(pod)


def age(made: Json) -> float:
    """Return an object's age in seconds."""
    created = dt.datetime.fromisoformat(made["metadata"]["creationTimestamp"])
    return (dt.datetime.now(dt.UTC) - created).total_seconds()


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


_WANTED: Final[Mapping[str, Callable[[], Json]]] = MappingProxyType(
    {"one": _one, "pair": _pair, "either": _either}
)
"""Request of each claim template, by name."""

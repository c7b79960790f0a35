"""Devices of a workload: slices, a class and claims, as an API server takes them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from bench.workload import MEASURED, DeviceTemplate, Workload
from e2e.support.api import Api
from e2e.support.devices import DRIVER, RESOURCE, devices_of, gpu_class
from e2e.support.objects import Json

CLAIMS: Final = f"{RESOURCE}/namespaces/{MEASURED}/resourceclaims"
_CARD: Final = "card"
_NUMA: Final = "numa.example.org/node"
_MODELS: Final = ("h100", "a100")
_SHOWN: Final = 3
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"


def slices_of(template: DeviceTemplate, nodes: Sequence[str]) -> Iterator[Json]:
    """Gives the slices of all nodes; of one kind, every node has the same devices."""
    for node in nodes:
        where = {"driver": DRIVER, "nodeName": node}
        if not template.partitions:
            yield _slice(node, where, 1, devices=_devices(template))
            continue
        counters = {"slices": {"value": str(template.each - 1)}}
        shared = [{"name": _CARD, "counters": counters}]
        yield _slice(node, where, 2, devices=_partitions(template))
        yield _slice(node, where, 2, "-counters", sharedCounters=shared)


def _slice(node: str, where: Json, count: int, suffix: str = "", **content: Any) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu{suffix}"},
        "spec": {**where, "pool": pool, **content},
    }


def _devices(template: DeviceTemplate) -> list[Json]:
    """Gives devices of which each half shares a model, and every other one a NUMA node."""
    half = (template.each + 1) // 2
    return [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "model": {"string": _MODELS[index // half]},
                _NUMA: {"int": index % 2},
            },
        }
        for index in range(template.each)
    ]


def _partitions(template: DeviceTemplate) -> list[Json]:
    """Gives a card, and the equal parts of it that may be had instead."""
    parts = template.each - 1
    return [
        {
            "name": "gpu-0" if amount > 1 else f"part-{index}",
            "attributes": {"model": {"string": "whole" if amount > 1 else "part"}},
            "consumesCounters": [
                {"counterSet": _CARD, "counters": {"slices": {"value": str(amount)}}}
            ],
        }
        for index, amount in enumerate([parts, *[1] * parts])
    ]


def claims_of(template: DeviceTemplate, first: int, count: int) -> Iterator[Json]:
    """Gives the claims of the measured pods, which name them by their number."""
    for index in range(first, first + count):
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"claim-{index:06}", "namespace": MEASURED},
            "spec": {"devices": dict(template.claim)},
        }


async def create_devices(
    api: Api, workload: Workload, nodes: Sequence[str], first: int, count: int
) -> None:
    """Creates everything but the measured pods."""
    if workload.devices is None:
        return
    await api.post(f"{RESOURCE}/deviceclasses", gpu_class())
    await api.create_all(f"{RESOURCE}/resourceslices", slices_of(workload.devices, nodes))
    await api.create_all(CLAIMS, claims_of(workload.devices, first, count))


def claim_name(pod: Json) -> str | None:
    """Gives the name of the claim of a pod, if it has one."""
    claims = pod["spec"].get("resourceClaims", ())
    return str(claims[0]["resourceClaimName"]) if claims else None


class Shelf:
    """Gives out devices one node after the other, for who writes claims without any scheduling."""

    def __init__(self, slices: Iterable[Json]) -> None:
        by_shape: dict[str, list[str]] = defaultdict(list)
        for each in slices:
            node = each["spec"]["nodeName"]
            # Whole cards come first where there are parts.
            names = [device["name"] for device in each["spec"].get("devices", ())]
            parts = [name for name in names if name.startswith("part-")]
            by_shape[node] += parts or names
        self._free = ((node, names) for node, names in by_shape.items())
        self._node, self._names = "", list[str]()

    def take(self, count: int) -> tuple[str, list[str]]:
        """Gives a node and so many of its devices that were not given before."""
        while len(self._names) < count:
            self._node, self._names = next(self._free)
        taken, self._names = self._names[:count], self._names[count:]
        return self._node, taken


def first_request(claim: Json) -> tuple[str, int]:
    """Gives what the first choice of a claim is called in results, and how many devices it is."""
    request = claim["spec"]["devices"]["requests"][0]
    if "firstAvailable" in request:
        chosen = request["firstAvailable"][0]
        return f"{request['name']}/{chosen['name']}", chosen.get("count", 1)
    return request["name"], request["exactly"].get("count", 1)


async def write_claim(api: Api, claim: Json, pod: Json, node: str, devices: Sequence[str]) -> None:
    """Makes the two writes that a scheduler makes before it binds: the claim, and its status."""
    path = f"{CLAIMS}/{claim['metadata']['name']}"
    metadata = {**claim["metadata"], "finalizers": [_FINALIZER]}
    written = await api.put(path, {**claim, "metadata": metadata})
    request, _ = first_request(claim)
    result = {"request": request, "driver": DRIVER, "pool": node}
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": [{**result, "device": device} for device in devices]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
    }
    meta = pod["metadata"]
    reader = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
    status = {"allocation": allocation, "reservedFor": [reader]}
    await api.put(f"{path}/status", {**written, "status": status})


async def device_violations(api: Api) -> tuple[str, ...]:
    """Gives what is wrong with the devices of the measured pods, a few examples."""
    claims = {each["metadata"]["name"]: each for each in await api.list_items(CLAIMS)}
    pods = await api.list_items(f"/api/v1/namespaces/{MEASURED}/pods")
    return tuple(islice(violations_of(pods, claims), _SHOWN))


def violations_of(pods: Iterable[Json], claims: Mapping[str, Json]) -> Iterator[str]:
    """Gives each device that two claims have, and each pod that is not where its devices are."""
    held = Counter(device for claim in claims.values() for device in devices_of(claim))
    for device, count in held.items():
        if count > 1:
            yield f"device {'/'.join(device)} has {count} claims"
    for pod in pods:
        name, node = claim_name(pod), pod["spec"].get("nodeName")
        if name is None or node is None:
            continue
        if {pool for _, pool, _ in devices_of(claims[name])} != {node}:
            yield f"pod {pod['metadata']['name']} is on {node}, where its claim has no device"

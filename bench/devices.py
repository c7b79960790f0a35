"""ResourceSlices, DeviceClass and claims of a workload."""

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
    """Yield the slices of all nodes; every node has identical devices."""
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
    """Return devices of two models, on alternating NUMA nodes."""
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
    """Return a card and its partitions, of which either may be allocated."""
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
    """Yield the claims of the measured pods, which refer to them by number."""
    for index in range(first, first + count):
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"claim-{index:06}", "namespace": MEASURED},
            "spec": {"devices": dict(template.claim)},
        }


def objects_of(workload: Workload, nodes: Sequence[str], first: int, count: int) -> Iterator[Json]:
    """Yield all devices and claims, but not the measured pods."""
    if workload.devices is not None:
        yield {**gpu_class(), "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
        yield from slices_of(workload.devices, nodes)
        yield from claims_of(workload.devices, first, count)


async def create_devices(
    api: Api, workload: Workload, nodes: Sequence[str], first: int, count: int
) -> None:
    """Create all devices and claims, but not the measured pods."""
    if workload.devices is None:
        return
    await api.post(f"{RESOURCE}/deviceclasses", gpu_class())
    await api.create_all(f"{RESOURCE}/resourceslices", slices_of(workload.devices, nodes))
    await api.create_all(CLAIMS, claims_of(workload.devices, first, count))


def claim_name(pod: Json) -> str | None:
    """Return the name of a pod's claim, or None."""
    claims = pod["spec"].get("resourceClaims", ())
    return str(claims[0]["resourceClaimName"]) if claims else None


class DeviceAllocator:
    """Allocates devices node by node, for writers that do not schedule."""

    def __init__(self, slices: Iterable[Json]) -> None:
        by_shape: dict[str, list[str]] = defaultdict(list)
        for each in slices:
            node = each["spec"]["nodeName"]
            # Where a card has partitions, the whole card comes first.
            names = [device["name"] for device in each["spec"].get("devices", ())]
            parts = [name for name in names if name.startswith("part-")]
            by_shape[node] += parts or names
        self._free = ((node, names) for node, names in by_shape.items())
        self._node, self._names = "", list[str]()

    def take(self, count: int) -> tuple[str, list[str]]:
        """Return a node and this many of its unallocated devices."""
        while len(self._names) < count:
            self._node, self._names = next(self._free)
        taken, self._names = self._names[:count], self._names[count:]
        return self._node, taken


def first_request(claim: Json) -> tuple[str, int]:
    """Return the first request's name in allocation results, and its device count."""
    request = claim["spec"]["devices"]["requests"][0]
    if "firstAvailable" in request:
        chosen = request["firstAvailable"][0]
        return f"{request['name']}/{chosen['name']}", chosen.get("count", 1)
    return request["name"], request["exactly"].get("count", 1)


async def write_claim(api: Api, claim: Json, pod: Json, node: str, devices: Sequence[str]) -> None:
    """Send a scheduler's two writes before a binding: the claim and its status."""
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
    """Return some errors in the device allocations of the measured pods."""
    claims = {each["metadata"]["name"]: each for each in await api.list_items(CLAIMS)}
    pods = await api.list_items(f"/api/v1/namespaces/{MEASURED}/pods")
    return tuple(islice(violations_of(pods, claims), _SHOWN))


def violations_of(pods: Iterable[Json], claims: Mapping[str, Json]) -> Iterator[str]:
    """Yield devices allocated to two claims, and pods on another node than their devices."""
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

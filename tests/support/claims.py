"""Slices, classes and claims of devices for tests, in few words."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from scheduler.api.devices import (
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import AnnotatedMeta, Node, NodeStatus
from scheduler.kernel.cel import compile_expression
from scheduler.kernel.devices.allocator import Allocator
from scheduler.kernel.devices.catalog import Devices
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.changes import NodeRemoved, NodeSet

DRIVER = "gpu.example.com"

_compiled = lru_cache(compile_expression)
"""Clusters come and go in tests; their expressions are the same."""


def a_device(name: str, **fields: Any) -> dict[str, Any]:
    """A device as JSON; attributes may be plain values."""
    attributes = {
        key: value if isinstance(value, Mapping) else {_kind(value): value}
        for key, value in fields.pop("attributes", {}).items()
    }
    capacity = {
        key: value if isinstance(value, Mapping) else {"value": value}
        for key, value in fields.pop("capacity", {}).items()
    }
    return {"name": name, "attributes": attributes, "capacity": capacity, **fields}


def a_slice(
    name: str,
    devices: Sequence[Mapping[str, Any]] = (),
    *,
    driver: str = DRIVER,
    pool: str | None = None,
    generation: int = 1,
    count: int = 1,
    **place: Any,
) -> ResourceSlice:
    """A slice; it is for the node of its pool's name unless `place` says otherwise."""
    pool = name if pool is None else pool
    spec = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": list(devices),
        **(place or {"nodeName": pool}),
    }
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def a_class(name: str = "gpu", *expressions: str, config: Sequence[Any] = ()) -> DeviceClass:
    """A device class."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    spec = {"selectors": selectors, "config": list(config)}
    return msgspec.json.decode(
        msgspec.json.encode({"metadata": {"name": name}, "spec": spec}), type=DeviceClass
    )


def exactly(name: str = "r", count: int = 1, class_: str = "gpu", **fields: Any) -> dict[str, Any]:
    """A request for a number of devices."""
    return {"name": name, "exactly": _request(count, class_, fields)}


def first_of(name: str, *alternatives: Mapping[str, Any]) -> dict[str, Any]:
    """A prioritized list."""
    return {"name": name, "firstAvailable": list(alternatives)}


def alternative(name: str, count: int = 1, class_: str = "gpu", **fields: Any) -> dict[str, Any]:
    """One way of a prioritized list."""
    return {"name": name, **_request(count, class_, fields)}


def every(name: str = "r", class_: str = "gpu", **fields: Any) -> dict[str, Any]:
    """A request for all devices."""
    return exactly(name, 0, class_, allocationMode="All", **fields)


def a_claim(
    *requests: Mapping[str, Any],
    name: str = "c",
    constraints: Sequence[Mapping[str, Any]] = (),
    config: Sequence[Mapping[str, Any]] = (),
) -> ResourceClaim:
    """A claim in the namespace `ns`."""
    devices = {
        "requests": list(requests),
        "constraints": list(constraints),
        "config": list(config),
    }
    claim = {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"devices": devices},
    }
    return msgspec.json.decode(msgspec.json.encode(claim), type=ResourceClaim)


def nodes_of(*names: str, labels: Mapping[str, Mapping[str, str]] | None = None) -> Snapshot:
    """A snapshot of nodes."""
    snapshot = Snapshot()
    set_nodes(snapshot, *names, labels=labels)
    return snapshot


def set_nodes(
    snapshot: Snapshot, *names: str, labels: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    """Let nodes come, or change."""
    changes = []
    for name in names:
        meta = AnnotatedMeta(name=name, labels=dict((labels or {}).get(name, {})))
        node = Node(metadata=meta, status=NodeStatus())
        info = NodeInfo(name)
        info.node = node
        changes.append(NodeSet(info, node))
    snapshot.update(changes)


def remove_node(snapshot: Snapshot, name: str) -> None:
    """Let a node go."""
    snapshot.update([NodeRemoved(name)])


def cluster(slices: Iterable[ResourceSlice] = (), classes: Sequence[DeviceClass] = ()) -> Devices:
    """Devices of a cluster."""
    devices = Devices(_compiled)
    for device_class in classes or [a_class()]:
        devices.set_class(device_class)
    for one in slices:
        devices.set_slice(one)
    return devices


def allocate(
    devices: Devices, snapshot: Snapshot, node: str, *claims: ResourceClaim
) -> list[AllocationResult] | None:
    """Look for the devices of claims on a node; shares are called share-0, share-1, ..."""
    numbers = iter(range(1000))
    row = snapshot.table.row_of[node]
    return allocator_of(devices, snapshot, *claims).allocate(
        row, claims, node, lambda: f"share-{next(numbers)}"
    )


def allocator_of(devices: Devices, snapshot: Snapshot, *claims: ResourceClaim) -> Allocator:
    """What answers for claims."""
    return devices.allocator(claims, snapshot)


def verdicts(devices: Devices, snapshot: Snapshot, *claims: ResourceClaim) -> dict[str, int]:
    """By node, whether claims can be allocated there."""
    codes = devices.allocator(claims, snapshot).judge().codes
    return {name: int(codes[row]) for name, row in snapshot.table.row_of.items()}


def chosen(allocations: Sequence[AllocationResult] | None) -> list[list[str]] | None:
    """By claim, `request=device` for each device."""
    if allocations is None:
        return None
    return [[f"{r.request}={r.device}" for r in a.devices.results] for a in allocations]


def take(
    devices: Devices, snapshot: Snapshot, node: str, *claims: ResourceClaim
) -> list[list[str]]:
    """Allocate claims on a node, each under its name as UID, and say what they got."""
    found = allocate(devices, snapshot, node, *claims)
    assert found is not None
    for claim, allocation in zip(claims, found, strict=True):
        devices.allocate(claim.metadata.uid, allocation)
    return chosen(found) or []


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int" if isinstance(value, int) else "string"


def _request(count: int, class_: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(fields)
    selectors = [{"cel": {"expression": text}} for text in fields.pop("selectors", ())]
    capacity = fields.pop("capacity", None)
    return {
        "deviceClassName": class_,
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": selectors,
        **({"capacity": {"requests": capacity}} if capacity else {}),
        **fields,
    }

"""Devices of a cluster: slices as drivers publish them, claims, and a watch that judges."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.objects import Json, make_pod

CONTROLLERS: Final = (
    "resourceclaim-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "node-lifecycle-controller",
)
"""They make claims of templates, give back what no pod uses, and delete what has no owner."""
RESOURCE: Final = "/apis/resource.k8s.io/v1"
DRIVER: Final = "gpu.example.com"
CLASS: Final = "gpu"

Device = tuple[str, str, str]
"""Driver, pool and name."""


class Devices:
    """Makes slices, classes and claims, and looks at them; slices and classes go with the test."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._made: list[str] = []
        self.create("deviceclasses", CLASS, gpu_class()["spec"])

    def create(self, resource: str, name: str, spec: Json) -> None:
        """Creates an object that belongs to no namespace."""
        path = f"{RESOURCE}/{resource}"
        self._cluster.run(self._cluster.api.post(path, {"metadata": {"name": name}, "spec": spec}))
        self._made.append(f"{path}/{name}")

    def remove(self) -> None:
        """Deletes what was made."""
        for path in reversed(self._made):
            try:
                self._cluster.run(self._cluster.api.delete(path))
            except ApiRefusedError as error:
                if error.status != 404:
                    raise

    def offer(self, node: str, count: int, **device: Any) -> None:
        """Publishes so many equal devices of a node, in one slice."""
        spec = {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{i}", **device} for i in range(count)],
        }
        self.create("resourceslices", f"{node}-gpu", spec)

    def renew(self, node: str, names: Sequence[str], generation: int) -> None:
        """Publishes the pool of a node anew, as a later generation."""
        pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
        spec = {"pool": pool, "devices": [{"name": name} for name in names]}
        path = f"{RESOURCE}/resourceslices/{node}-gpu"
        self._cluster.run(self._cluster.api.patch(path, {"spec": spec}))

    def template(self, namespace: str, name: str, **wanted: Any) -> None:
        """Makes a template of claims with one request."""
        spec = {"spec": {"devices": {"requests": [_request(wanted)]}}}
        path = f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates"
        body = {"metadata": {"name": name}, "spec": spec}
        self._cluster.run(self._cluster.api.post(path, body))

    def claim(self, namespace: str, name: str, **wanted: Any) -> None:
        """Makes a claim with one request."""
        path = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        body = {
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [_request(wanted)]}},
        }
        self._cluster.run(self._cluster.api.post(path, body))

    def claims(self, namespace: str) -> list[Json]:
        """Returns the claims of a namespace."""
        path = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        return self._cluster.run(self._cluster.api.list_items(path))

    @contextmanager
    def watched(self) -> Iterator["Watch"]:
        """Follows the claims of all namespaces from now on; the log is complete at the end."""
        path = f"{RESOURCE}/resourceclaims"
        version = self._cluster.run(self._cluster.api.get(f"{path}?limit=1"))["metadata"]
        watch = Watch()

        async def follow() -> None:
            seen = version["resourceVersion"]
            while True:
                # A server with too much to do may end a watch.
                async for kind, claim in self._cluster.api.watch(path, seen):
                    seen = claim["metadata"]["resourceVersion"]
                    watch.take(kind, claim)

        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(follow())

        async def end() -> None:
            assert not task.done(), f"the watch has ended: {task.exception()!r}"
            task.cancel()
            await asyncio.wait([task])

        task = self._cluster.run(begin())
        try:
            yield watch
        finally:
            self._cluster.run(end())


@dataclass
class Holders:
    """Which claim has which devices, as the API server's answers or events say one by one."""

    held: dict[str, "Held"] = field(default_factory=dict)
    """Claims that have devices, by UID."""
    _holders: dict[Device, str] = field(default_factory=dict)

    def give(self, claim: Json, at: float = 0.0) -> list[str]:
        """Takes in a claim as it is now, and says which of its devices another one has as well."""
        uid, devices = claim["metadata"]["uid"], devices_of(claim)
        before = self.held.get(uid)
        if before is not None and before.devices == devices:
            return []
        self.take_back(uid)
        if not devices:
            return []
        name = claim["metadata"]["name"]
        doubles = [
            f"{'/'.join(device)}: {self.held[self._holders[device]].name}, then {name}"
            for device in devices
            if device in self._holders
        ]
        self.held[uid] = Held(name, devices, at)
        self._holders.update(dict.fromkeys(devices, uid))
        return doubles

    def take_back(self, uid: str) -> None:
        """Takes in that a claim has nothing any more."""
        claim = self.held.pop(uid, None)
        for device in claim.devices if claim else ():
            if self._holders.get(device) == uid:
                del self._holders[device]


@dataclass(slots=True)
class Held:
    """A claim that has devices, and since when."""

    name: str
    devices: list[Device]
    since: float


@dataclass
class Watch:
    """What a watch of claims has shown, whose events come in one order for all of them."""

    doubles: list[str] = field(default_factory=list)
    """Devices that a claim was given while another one had them."""
    allocations: int = 0
    _holders: Holders = field(default_factory=Holders)

    def take(self, kind: str, claim: Json) -> None:
        """Takes the next event."""
        uid, held = claim["metadata"]["uid"], self._holders.held
        if kind == "DELETED":
            self._holders.take_back(uid)
            return
        before = uid in held
        self.doubles += self._holders.give(claim)
        self.allocations += uid in held and not before


def devices_of(claim: Json) -> list[Device]:
    """Returns the devices that a claim has for itself."""
    allocation = claim.get("status", {}).get("allocation") or {}
    return [
        (result["driver"], result["pool"], result["device"])
        for result in allocation.get("devices", {}).get("results", ())
        if "shareID" not in result and not result.get("adminAccess")
    ]


def readers_of(claim: Json) -> list[str]:
    """Returns the names of the pods that a claim is reserved for."""
    return [reader["name"] for reader in claim.get("status", {}).get("reservedFor", ())]


def make_device_pod(
    name: str, namespace: str, *, template: str = "", claim: str = "", **spec: Any
) -> Json:
    """Makes a pod with one claim, from a template or by its name."""
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    pod = make_pod(name, namespace=namespace, resourceClaims=[{"name": "device", **source}], **spec)
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "device"}]}
    return pod


def gpu_class() -> Json:
    """Makes the class of the driver's devices."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {"metadata": {"name": CLASS}, "spec": {"selectors": [selector]}}


def _request(wanted: Json) -> Json:
    return {"name": "r", "exactly": {"deviceClassName": CLASS, **wanted}}

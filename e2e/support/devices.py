"""Creates ResourceSlices and ResourceClaims, and watches claims for double allocations."""

import asyncio
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import ClientError

from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.objects import Json, make_pod
from e2e.support.waiting import wait_for

CONTROLLERS: Final = (
    "resourceclaim-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "node-lifecycle-controller",
)
"""Controllers that create claims from templates, deallocate unused claims, and delete claims
without an owner."""
RESOURCE: Final = "/apis/resource.k8s.io/v1"
DRIVER: Final = "gpu.example.com"
CLASS: Final = "gpu"

_GONE = 410
_REPEAT_SECONDS = 0.1

Device = tuple[str, str, str]
"""(driver, pool, device name)."""


class Devices:
    """Creates and reads ResourceSlices, DeviceClasses and claims."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._made: list[str] = []
        self.create("deviceclasses", CLASS, gpu_class()["spec"])

    def create(self, resource: str, name: str, spec: Json) -> None:
        """Create a cluster-scoped object of resource.k8s.io."""
        path = f"{RESOURCE}/{resource}"
        self._cluster.run(self._cluster.api.post(path, {"metadata": {"name": name}, "spec": spec}))
        self._made.append(f"{path}/{name}")

    def remove(self) -> None:
        """Delete the created slices and classes."""
        for path in reversed(self._made):
            try:
                self._cluster.run(self._cluster.api.delete(path))
            except ApiRefusedError as error:
                if error.status != 404:
                    raise

    def offer(self, node: str, count: int, **device: Any) -> None:
        """Publish ``count`` identical devices of a node in one ResourceSlice."""
        spec = {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{i}", **device} for i in range(count)],
        }
        self.create("resourceslices", f"{node}-gpu", spec)

    def renew(self, node: str, names: Sequence[str], generation: int) -> None:
        """Publish the pool of a node again with a higher generation."""
        pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
        spec = {"pool": pool, "devices": [{"name": name} for name in names]}
        path = f"{RESOURCE}/resourceslices/{node}-gpu"
        self._cluster.run(self._cluster.api.patch(path, {"spec": spec}))

    def template(self, namespace: str, name: str, **wanted: Any) -> None:
        """Create a ResourceClaimTemplate with one request."""
        spec = {"spec": {"devices": {"requests": [_request(wanted)]}}}
        path = f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates"
        body = {"metadata": {"name": name}, "spec": spec}
        self._cluster.run(self._cluster.api.post(path, body))

    def claim(self, namespace: str, name: str, **wanted: Any) -> None:
        """Create a ResourceClaim with one request."""
        path = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        body = {
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [_request(wanted)]}},
        }
        self._cluster.run(self._cluster.api.post(path, body))

    def claims(self, namespace: str) -> list[Json]:
        """Return the claims of a namespace."""
        path = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        return self._cluster.run(self._cluster.api.list_items(path))

    @contextmanager
    def watched(self) -> Iterator["Watch"]:
        """Watch the claims of all namespaces; the log is complete on exit.

        A watch that breaks off continues after the last event. If the API server has forgotten that
        version, the claims are listed again.
        """
        api, path = self._cluster.api, f"{RESOURCE}/resourceclaims"
        watch = Watch(version=_version(self._cluster.run(api.get(f"{path}?limit=1"))))

        async def follow() -> None:
            is_forgotten = False
            while True:
                try:
                    if is_forgotten:
                        found = await api.get(path)
                        watch.restart(found["items"], _version(found))
                        is_forgotten = False
                    async for kind, claim in api.watch(path, str(watch.version)):
                        watch.take(kind, claim)
                except ApiRefusedError as error:
                    is_forgotten |= error.status == _GONE
                    print("watch of claims:", error, file=sys.stderr)
                except (ClientError, OSError) as error:
                    print("watch of claims:", repr(error), file=sys.stderr)
                await asyncio.sleep(_REPEAT_SECONDS)

        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(follow())

        async def end() -> None:
            assert not task.done(), f"the watch has ended: {task.exception()!r}"
            task.cancel()
            await asyncio.wait([task])

        task = self._cluster.run(begin())
        try:
            yield watch
            self._wait_for_all(watch, task)
        finally:
            self._cluster.run(end())

    def _wait_for_all(self, watch: "Watch", task: asyncio.Task[None]) -> None:
        """Wait until the watch has delivered what was written so far: a claim made now is last."""
        api, path = self._cluster.api, f"{RESOURCE}/namespaces/default/resourceclaims"
        body = {
            "metadata": {"generateName": "last-"},
            "spec": {"devices": {"requests": [_request({})]}},
        }
        claim = self._cluster.run(api.post(path, body))
        last = _version(claim)
        try:
            wait_for(lambda: watch.version >= last or task.done(), "the watch to deliver all")
        finally:
            self._cluster.run(api.delete(f"{path}/{claim['metadata']['name']}"))


@dataclass
class Holders:
    """Allocated claims and their devices, updated with one claim at a time."""

    held: dict[str, "Held"] = field(default_factory=dict)
    """Allocated claims, by UID."""
    _holders: dict[Device, str] = field(default_factory=dict)
    _versions: dict[str, float] = field(default_factory=dict)
    """Latest resource version of each claim, by UID; infinite for a deleted claim."""

    def give(self, claim: Json, at: float = 0.0, *, since: float = 0.0) -> list[str]:
        """Record a claim's state; return its devices that another claim holds, allocated ``since``.

        A state older than a recorded one is ignored: a claim may be deallocated, and deleted,
        before the API server completes the response to its allocation.
        """
        uid, devices = claim["metadata"]["uid"], devices_of(claim)
        version = int(claim["metadata"].get("resourceVersion", 0))
        if version < self._versions.get(uid, 0):
            return []
        self._versions[uid] = version
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
            if device in self._holders and self.held[self._holders[device]].since >= since
        ]
        self.held[uid] = Held(name, devices, at)
        self._holders.update(dict.fromkeys(devices, uid))
        return doubles

    def take_back(self, uid: str) -> None:
        """Record that a claim holds no devices."""
        claim = self.held.pop(uid, None)
        for device in claim.devices if claim else ():
            if self._holders.get(device) == uid:
                del self._holders[device]

    def delete(self, uid: str) -> None:
        """Record that a claim is deleted."""
        self.take_back(uid)
        self._versions[uid] = math.inf


@dataclass(slots=True)
class Held:
    """The devices of an allocated claim, and the time of the allocation."""

    name: str
    devices: list[Device]
    since: float


@dataclass
class Watch:
    """Double allocations seen by a watch, which delivers the events of all claims in one order."""

    doubles: list[str] = field(default_factory=list)
    """Devices allocated to a claim while another claim held them."""
    allocations: int = 0
    version: int = 0
    """Resource version of the last event, or of a list after it."""
    _holders: Holders = field(default_factory=Holders)

    def take(self, kind: str, claim: Json) -> None:
        """Record the next watch event."""
        uid, held = claim["metadata"]["uid"], self._holders.held
        self.version = _version(claim)
        if kind == "DELETED":
            self._holders.delete(uid)
            return
        before = uid in held
        self.doubles += self._holders.give(claim)
        self.allocations += uid in held and not before

    def restart(self, claims: Sequence[Json], version: int) -> None:
        """Record the state of all claims at a version, after events were lost."""
        before, self._holders = self._holders.held, Holders()
        for claim in claims:
            self.doubles += self._holders.give(claim)
        self.allocations += len(self._holders.held.keys() - before.keys())
        self.version = version


def devices_of(claim: Json) -> list[Device]:
    """Return the devices that a claim holds exclusively, without those for admin access."""
    allocation = claim.get("status", {}).get("allocation") or {}
    return [
        (result["driver"], result["pool"], result["device"])
        for result in allocation.get("devices", {}).get("results", ())
        if "shareID" not in result and not result.get("adminAccess")
    ]


def readers_of(claim: Json) -> list[str]:
    """Return the names of the pods in the claim's ``reservedFor``."""
    return [reader["name"] for reader in claim.get("status", {}).get("reservedFor", ())]


def make_device_pod(
    name: str, namespace: str, *, template: str = "", claim: str = "", **spec: Any
) -> Json:
    """Create a pod manifest with one claim, from a template or by its name."""
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    pod = make_pod(name, namespace=namespace, resourceClaims=[{"name": "device", **source}], **spec)
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "device"}]}
    return pod


def _version(found: Json) -> int:
    """Return the resource version of an object or a list."""
    return int(found["metadata"]["resourceVersion"])


def gpu_class() -> Json:
    """Create the DeviceClass manifest of the driver's devices."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {"metadata": {"name": CLASS}, "spec": {"selectors": [selector]}}


def _request(wanted: Json) -> Json:
    return {"name": "r", "exactly": {"deviceClassName": CLASS, **wanted}}

"""Sends the requests of the operator: lists, server-side apply, deletion, status."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from scheduler.daemon.client.direct import JSON, Fence
from scheduler.daemon.client.errors import NotFoundError, TooLargeError, UnavailableError
from scheduler.daemon.client.session import MERGE_PATCH, ApiSession
from scheduler.daemon.client.wire import UNREADABLE, json_string, segment
from scheduler.operator.desired import Reference, reference
from scheduler.operator.raw_json import RawJson
from scheduler.operator.reading import ResourceT, UnreadableError, read_object
from scheduler.operator.resources import (
    GROUP,
    VERSION,
    Json,
    Scheduler,
    SchedulingProfile,
)

SCHEDULERS: Final = "schedulers"
PROFILES: Final = "schedulingprofiles"
APPLY_PATCH: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
FIELD_MANAGER: Final = "stowage-operator"

_PLURALS: Final = {"NetworkPolicy": "networkpolicies"}
"""Irregular plurals of kinds."""

PAGE_OBJECTS: Final = 200
"""Objects per page; fewer if they are large."""
MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
"""Bytes at most of a page of several objects; one object is at most 1.5 MB long in etcd."""


class FencedClient:
    """A client of one API server; the fence is checked right before every write is sent."""

    def __init__(self, session: ApiSession, fence: Fence) -> None:
        self._session = session
        self._fence = fence

    async def list_objects(
        self, plural: str, kind: type[ResourceT]
    ) -> tuple[list[ResourceT], list[str]]:
        """Return all custom resources of a kind, and a message for each without a name.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
        """
        found, nameless = [], []
        async for raw in self._items(f"/apis/{GROUP}/{VERSION}/{plural}"):
            try:
                found.append(read_object(raw, kind))
            except UnreadableError as problem:
                nameless.append(f"{plural}: an object cannot be read: {problem}")
        return found, nameless

    async def namespaces(self) -> dict[str, dict[str, str]]:
        """Return the labels of namespaces by name.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
        """
        found = {}
        async for raw in self._items("/api/v1/namespaces"):
            metadata = _object("namespaces", raw.raw).get("metadata", {})
            found[metadata.get("name", "")] = metadata.get("labels", {})
        return found

    async def read(self, what: Reference) -> Json | None:
        """Read an object; None if it does not exist.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
        """
        try:
            answer = await self._session.request("GET", path_of(what))
        except NotFoundError:
            return None
        return _object(path_of(what), answer.body)

    async def leases(self, namespace: str) -> list[str]:
        """Return the names of the Leases of a namespace that have a holder.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
        """
        path = path_of(Reference("coordination.k8s.io/v1", "Lease", namespace, ""))
        found = []
        async for raw in self._items(path.removesuffix("/")):
            lease = _object(path, raw.raw)
            if lease.get("spec", {}).get("holderIdentity"):
                found.append(lease.get("metadata", {}).get("name", ""))
        return found

    async def apply(self, written: Json, uid: str) -> Json:
        """Apply an object by server-side apply; fields of other managers stay.

        Args:
            written: the object.
            uid: the UID of the existing object; empty to create it. An object that another client
                has created with other values is not overwritten.

        Raises:
            ConflictError: another object of this name exists.
            ApiError: see `scheduler.daemon.client.errors`.
            FencedError: another operator may lead.
        """
        path = f"{path_of(reference(written))}?fieldManager={FIELD_MANAGER}"
        if uid:
            path += "&force=true"
            written = {**written, "metadata": {**written["metadata"], "uid": uid}}
        return await self._write("PATCH", path, written, APPLY_PATCH)

    async def delete(self, what: Reference, uid: str) -> None:
        """Delete the object with this UID, if it still exists.

        Raises:
            ConflictError: another object of this name exists.
            ApiError: see `scheduler.daemon.client.errors`.
            FencedError: another operator may lead.
        """
        options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        try:
            await self._write("DELETE", path_of(what), options, JSON)
        except NotFoundError:
            return

    async def set_status(self, what: Reference, status: Json) -> None:
        """Write the status of a custom resource; a missing object is ignored.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
            FencedError: another operator may lead.
        """
        path = f"{path_of(what)}/status?fieldManager={FIELD_MANAGER}"
        # Replace the whole status: a merge would keep fields of the earlier status.
        patch = [{"op": "add", "path": "/status", "value": status}]
        try:
            await self._write("PATCH", path, patch, JSON_PATCH)
        except NotFoundError:
            return

    async def set_finalizers(self, scheduler: Scheduler, finalizers: Sequence[str]) -> None:
        """Replace the finalizers of a Scheduler if its resource version is unchanged.

        Raises:
            ConflictError: the Scheduler has changed.
            ApiError: see `scheduler.daemon.client.errors`.
            FencedError: another operator may lead.
        """
        version = scheduler.metadata.resource_version
        body = {"metadata": {"finalizers": list(finalizers), "resourceVersion": version}}
        await self._write("PATCH", path_of(reference_of(scheduler)), body, MERGE_PATCH)

    async def _write(self, method: str, path: str, body: object, content_type: str) -> Json:
        answer = await self._session.request(
            method, path, json_string(body), content_type=content_type, fence=self._fence
        )
        return _object(path, answer.body)

    async def _items(self, path: str) -> AsyncIterator[RawJson]:
        """Yield the objects of all pages of a list."""
        token, count = "", PAGE_OBJECTS
        while True:
            asked = f"{path}?limit={count}&continue={segment(token)}"
            try:
                body: bytes | None = (await self._session.request("GET", asked)).body
            except TooLargeError:
                body = None
                if count == 1:
                    raise
            if body is None or (len(body) > MAX_PAGE_BYTES and count > 1):
                count = max(1, count // 10)
                continue
            page = RawJson(body).fields()
            if "items" not in page or "metadata" not in page:
                raise UnavailableError(f"GET {asked}", message="the answer is not a list")
            for item in page["items"].items():
                yield item
            token = str(_object(asked, page["metadata"].raw).get("continue", ""))
            if not token:
                return


def reference_of(custom: Scheduler | SchedulingProfile) -> Reference:
    """Return the reference of a custom resource."""
    return Reference(f"{GROUP}/{VERSION}", type(custom).__name__, *custom.key)


def path_of(what: Reference) -> str:
    """Return the path of an object on the server."""
    root = "apis" if "/" in what.api_version else "api"
    plural = _PLURALS.get(what.kind, f"{what.kind.lower()}s")
    place = f"/namespaces/{segment(what.namespace)}" if what.namespace else ""
    return f"/{root}/{what.api_version}{place}/{plural}/{segment(what.name)}"


def _object(path: str, body: bytes) -> dict[str, Any]:
    """Decode the JSON object in an answer.

    Raises:
        UnavailableError: the body is no JSON object: a proxy may have answered.
    """
    try:
        decoded: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except UNREADABLE as problem:
        message = f"the answer is not a JSON object: {problem}"
        raise UnavailableError(path, message=message) from problem
    return decoded

"""The requests of the operator: lists, server-side apply, deletion, status."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from scheduler.client.direct import JSON, Fence
from scheduler.client.errors import NotFoundError
from scheduler.client.session import MERGE_PATCH, ApiSession
from scheduler.client.wire import json_string, segment
from scheduler.operator.desired import Reference, reference
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
"""Of kinds that do not end in an s alone."""

ObjectT = TypeVar("ObjectT", Scheduler, SchedulingProfile)


class _Continued(msgspec.Struct, frozen=True):
    remaining: str = msgspec.field(name="continue", default="")


class _Listed(msgspec.Struct):
    items: list[msgspec.Raw]
    metadata: _Continued = _Continued()


class Cluster:
    """One API server; every write asks the fence in the moment it leaves."""

    def __init__(self, session: ApiSession, fence: Fence) -> None:
        self._session = session
        self._fence = fence

    async def list_objects(
        self, plural: str, kind: type[ObjectT]
    ) -> tuple[list[ObjectT], list[str]]:
        """All custom resources of a kind, and what cannot be read of them.

        Raises:
            ApiError: see `scheduler.client.errors`.
        """
        found, unreadable = [], []
        for raw in await self._items(f"/apis/{GROUP}/{VERSION}/{plural}"):
            try:
                found.append(msgspec.json.decode(raw, type=kind))
            except msgspec.ValidationError as problem:
                metadata = msgspec.json.decode(raw).get("metadata", {})
                where = f"{metadata.get('namespace')}/{metadata.get('name')}"
                unreadable.append(f"{plural} {where}: {problem}")
        return found, unreadable

    async def namespaces(self) -> dict[str, dict[str, str]]:
        """Labels of namespaces by name.

        Raises:
            ApiError: see `scheduler.client.errors`.
        """
        metadata = [
            msgspec.json.decode(raw)["metadata"] for raw in await self._items("/api/v1/namespaces")
        ]
        return {each["name"]: each.get("labels", {}) for each in metadata}

    async def read(self, what: Reference) -> Json | None:
        """An object, or None when there is none.

        Raises:
            ApiError: see `scheduler.client.errors`.
        """
        try:
            answer = await self._session.request("GET", path_of(what))
        except NotFoundError:
            return None
        return _decoded(answer.body)

    async def apply(self, written: Json) -> Json:
        """Make an object as it is written; what others have added to it stays.

        Raises:
            ApiError: see `scheduler.client.errors`.
            FencedError: another operator may lead.
        """
        path = f"{path_of(reference(written))}?fieldManager={FIELD_MANAGER}&force=true"
        return await self._write("PATCH", path, written, APPLY_PATCH)

    async def delete(self, what: Reference) -> None:
        """Delete an object, should it be there.

        Raises:
            ApiError: see `scheduler.client.errors`.
            FencedError: another operator may lead.
        """
        try:
            await self._write("DELETE", path_of(what), {"propagationPolicy": "Background"}, JSON)
        except NotFoundError:
            return

    async def set_status(self, what: Reference, status: Json) -> None:
        """Write the status of a custom resource; one that is gone needs none.

        Raises:
            ApiError: see `scheduler.client.errors`.
            FencedError: another operator may lead.
        """
        path = f"{path_of(what)}/status?fieldManager={FIELD_MANAGER}"
        # As a whole: a merge would leave what an earlier one had.
        patch = [{"op": "add", "path": "/status", "value": status}]
        try:
            await self._write("PATCH", path, patch, JSON_PATCH)
        except NotFoundError:
            return

    async def set_finalizers(self, scheduler: Scheduler, finalizers: Sequence[str]) -> None:
        """Replace the finalizers of a Scheduler that is still at the version that was read.

        Raises:
            ConflictError: it has changed since.
            ApiError: see `scheduler.client.errors`.
            FencedError: another operator may lead.
        """
        version = scheduler.metadata.resource_version
        body = {"metadata": {"finalizers": list(finalizers), "resourceVersion": version}}
        await self._write("PATCH", path_of(reference_of(scheduler)), body, MERGE_PATCH)

    async def _write(self, method: str, path: str, body: object, content_type: str) -> Json:
        answer = await self._session.request(
            method, path, json_string(body), content_type=content_type, fence=self._fence
        )
        return _decoded(answer.body)

    async def _items(self, path: str) -> list[msgspec.Raw]:
        """All pages of a list."""
        items: list[msgspec.Raw] = []
        token = ""
        while True:
            answer = await self._session.request(
                "GET", f"{path}?limit=500&continue={segment(token)}"
            )
            page = msgspec.json.decode(answer.body, type=_Listed)
            items += page.items
            token = page.metadata.remaining
            if not token:
                return items


def reference_of(custom: Scheduler | SchedulingProfile) -> Reference:
    """Which custom resource this is."""
    return Reference(f"{GROUP}/{VERSION}", type(custom).__name__, *custom.key)


def path_of(what: Reference) -> str:
    """Where the server has an object."""
    root = "apis" if "/" in what.api_version else "api"
    plural = _PLURALS.get(what.kind, f"{what.kind.lower()}s")
    place = f"/namespaces/{segment(what.namespace)}" if what.namespace else ""
    return f"/{root}/{what.api_version}{place}/{plural}/{segment(what.name)}"


def _decoded(body: bytes) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(body)
    return decoded

"""An API server in memory for one kind, at the port informers use; does as badly as it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec

from scheduler.api.objects import ObjectMeta
from scheduler.daemon.client.errors import GoneError, UnavailableError
from scheduler.daemon.client.http_connection import Response
from tests.support.bodies import WholeBody

T = TypeVar("T")
Json = dict[str, Any]


class FakeApi:
    """Objects with versions, their history, and watches on it.

    Attributes:
        objects: what is there, by key.
        version: of the last change.
        compacted: versions before this are forgotten.
        is_gone_as_event: tells of forgotten versions by an ERROR event instead of a status.
        continues_expire: continue tokens are never accepted.
        requests: paths that were asked for.
        outage: all requests fail with it, while it is set.
        part_bytes: lists come in parts of this length.
        list_kind: what a list calls itself.
    """

    part_bytes = 700
    list_kind = "NodeList"

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.version = 0
        self.compacted = 0
        self.is_gone_as_event = False
        self.continues_expire = False
        self.requests: list[str] = []
        self.outage: Exception | None = None
        self._history: list[tuple[int, str, Json]] = []
        self._lists: dict[str, list[Json]] = {}
        self._watches: list[tuple[asyncio.Queue[bytes | Exception], int]] = []

    @property
    def is_watched(self) -> bool:
        """Whether a watch is open that has not been cut."""
        return bool(self._watches)

    # --- what happens on the server -------------------------------------------------------------

    def put(self, key: str, obj: Json) -> None:
        """Creates or changes an object."""
        self._change("MODIFIED" if key in self.objects else "ADDED", key, obj)

    def delete(self, key: str) -> None:
        """Deletes an object, when it is there."""
        if key in self.objects:
            self._change("DELETED", key, self.objects[key])

    def bookmark(self) -> None:
        """Tells all watches where the server is."""
        self._send(self.version, {"type": "BOOKMARK", "object": _at(self.version)})

    def compact(self) -> None:
        """Forgets all history."""
        self.compacted = self.version
        self._lists.clear()

    def set_back(self, objects: dict[str, Json], version: int) -> None:
        """Restores a backup: nobody was told of what is different now."""
        self.objects, self.version, self.compacted = dict(objects), version, 0
        self._history = [each for each in self._history if each[0] <= version]
        self._lists.clear()

    def cut(self, problem: Exception | None = None) -> None:
        """Ends all watches, in good order or with an error."""
        for watch, _ in self._watches:
            watch.put_nowait(b"" if problem is None else problem)
        self._watches.clear()

    def send_raw(self, line: bytes) -> None:
        """Sends a line to all watches, whatever it is."""
        for watch, _ in self._watches:
            watch.put_nowait(line)

    def _change(self, event_type: str, key: str, obj: Json) -> None:
        self.version += 1
        stamped = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.version)}}
        if event_type == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = stamped
        self._history.append((self.version, event_type, stamped))
        self._send(self.version, {"type": event_type, "object": stamped})

    def _send(self, version: int, event: Json) -> None:
        """Sends an event to the watches that began before its version, as the watch cache does."""
        for watch, since in self._watches:
            if version > since:
                watch.put_nowait(msgspec.json.encode(event) + b"\n")

    # --- the port -------------------------------------------------------------------------------

    async def request(self, method: str, path: str, *, timeout: float) -> Response:
        await self._begin(path)
        query = _query(path)
        token = query.get("continue", "")
        if token and (self.continues_expire or token not in self._lists):
            raise GoneError(path, status=410, reason="Expired")
        items = self._lists[token] if token else list(self.objects.values())
        key, _, name = query.get("fieldSelector", "").partition("=")
        if key == "metadata.name":
            items = [each for each in items if each["metadata"]["name"] == name]
        version = token.split("/")[0] if token else str(self.version)
        limit = int(query.get("limit", "0")) or len(items) or 1
        meta = {"resourceVersion": version}
        if len(items) > limit:
            meta["continue"] = f"{version}/{len(self.requests)}"
            self._lists[meta["continue"]] = items[limit:]
        page = {"kind": self.list_kind, "metadata": meta, "items": items[:limit]}
        if "/pods" in path:
            page["kind"] = "PodList"
        return Response(200, {}, msgspec.json.encode(page))

    @asynccontextmanager
    async def download(self, path: str, *, timeout: float) -> AsyncIterator[WholeBody]:
        answer = await self.request("GET", path, timeout=timeout)
        yield WholeBody(answer.body, self.part_bytes)

    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator["_Queue"]:
        await self._begin(path)
        query = _query(path)
        queue: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        since = int(query["resourceVersion"])
        if since < self.compacted:
            if not self.is_gone_as_event:
                raise GoneError(path, status=410, reason="Expired")
            queue.put_nowait(ERROR_410)
        for version, event_type, obj in self._history:
            if version > since:
                event = {"type": event_type, "object": obj}
                queue.put_nowait(msgspec.json.encode(event) + b"\n")
        self._watches.append((queue, since))
        yield _Queue(queue)

    async def _begin(self, path: str) -> None:
        await asyncio.sleep(0)
        self.requests.append(path)
        if self.outage is not None:
            raise self.outage


ERROR_410 = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version: 1 (9)","reason":"Expired","code":410}}\n'
)


class _Queue:
    def __init__(self, queue: "asyncio.Queue[bytes | Exception]") -> None:
        self._queue = queue

    async def read(self) -> list[bytes]:
        line = await self._queue.get()
        if isinstance(line, Exception):
            raise line
        return [line.removesuffix(b"\n")] if line else []


def broken() -> Exception:
    """A connection that breaks."""
    return UnavailableError("watch", message="Server disconnected")


def _at(version: int) -> Json:
    return {"metadata": {"resourceVersion": str(version)}, "spec": {"containers": None}}


def _query(path: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(path).query).items()}


class Mirror(Generic[T]):
    """A handler that holds the store's promises to the letter and keeps what it was told."""

    def __init__(self, meta_of: Callable[[T], ObjectMeta]) -> None:
        self._meta_of = meta_of
        self.objects: dict[str, T] = {}
        self.story: list[str] = []

    def on_add(self, obj: T) -> None:
        key = self._key(obj)
        assert key not in self.objects
        self.objects[key] = obj
        self.story.append(f"+{key}")

    def on_update(self, old: T, new: T) -> None:
        key = self._key(new)
        assert self.objects[key] is old
        assert self._meta_of(old).uid == self._meta_of(new).uid
        self.objects[key] = new
        self.story.append(f"~{key}")

    def on_delete(self, obj: T) -> None:
        key = self._key(obj)
        assert self.objects.pop(key) is obj
        self.story.append(f"-{key}")

    def _key(self, obj: T) -> str:
        meta = self._meta_of(obj)
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

"""A running sandbox and a client for it, and objects to send."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

import aiohttp
import msgspec

from apistub import Sandbox, Settings
from tests.support.clock import FakeClock

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
TIMEOUT_SECONDS = 60.0


class Answer:
    """What came back for one request."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def object(self) -> Object:
        return msgspec.json.decode(self.body)

    @property
    def message(self) -> str:
        return self.object["message"]


class Client:
    """Plain HTTP, so that the tests see what is on the wire."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def request(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            named.setdefault("Content-Type", "application/json")
        async with self.session.request(method, path, data=data, headers=named) as response:
            return Answer(response.status, dict(response.headers), await response.read())

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.request("GET", path, **headers)

    async def post(self, path: str, body: Any, **headers: str) -> Answer:
        return await self.request("POST", path, body, **headers)

    async def put(self, path: str, body: Any, **headers: str) -> Answer:
        return await self.request("PUT", path, body, **headers)

    async def delete(self, path: str, body: Any = None) -> Answer:
        return await self.request("DELETE", path, body)

    async def patch(self, path: str, body: Any, kind: str = "merge") -> Answer:
        media = {
            "json": "application/json-patch+json",
            "merge": "application/merge-patch+json",
            "strategic": "application/strategic-merge-patch+json",
            "apply": "application/apply-patch+yaml",
        }[kind]
        return await self.request("PATCH", path, body, Content_Type=media)

    def watch(self, path: str) -> "WatchStream":
        return WatchStream(self.session, path)


class WatchStream:
    """The events of one watch."""

    def __init__(self, session: aiohttp.ClientSession, path: str) -> None:
        self._context = session.get(path)

    async def __aenter__(self) -> Self:
        self.response = await self._context.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._context.__aexit__(*error)

    async def line(self) -> bytes:
        return await self.response.content.readline()

    async def next(self) -> Object:
        line = await self.line()
        assert line, "the watch has ended"
        return msgspec.json.decode(line)

    async def rest(self) -> list[Object]:
        """All events until the server ends the watch."""
        return [msgspec.json.decode(line) async for line in self.response.content]


def serve(
    story: Callable[[Sandbox, Client], Awaitable[None]],
    settings: Settings | None = None,
    clock: FakeClock | None = None,
) -> None:
    """Runs a story against a fresh sandbox."""

    async def play() -> None:
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            await Sandbox.start(settings, clock=clock or FakeClock()) as sandbox,
            aiohttp.ClientSession(sandbox.url) as session,
        ):
            await story(sandbox, Client(session))

    asyncio.run(play())


def pod(name: str = "p", **spec: Any) -> Object:
    spec.setdefault("containers", [{"name": "c", "image": "app:1"}])
    labels = spec.pop("labels", None)
    metadata: Object = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str = "n", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata: Object = {"name": name} | ({"labels": labels} if labels else {})
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {"capacity": resources},
    }


def binding(name: str, to: str, uid: str = "") -> Object:
    metadata = {"name": name} | ({"uid": uid} if uid else {})
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"kind": "Node", "name": to},
    }


def causes(answer: Answer) -> list[tuple[str, str]]:
    """Field and message of each cause of a refusal."""
    return [(cause["field"], cause["message"]) for cause in answer.object["details"]["causes"]]


def names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer.object["items"]]

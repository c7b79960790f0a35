"""Faults that ``proxy`` injects into requests to the API server."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from aiohttp import web


class Passage(Protocol):
    """Forwards one request to the API server and its response to the client."""

    async def answer(self, lag_seconds: float = 0) -> web.StreamResponse:
        """Forward the request and stream the response to the client with a delay."""
        ...

    async def swallow(self) -> None:
        """Forward the request and discard the response."""
        ...


class Fault(Protocol):
    """Handles a request in place of plain forwarding."""

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Responds with a Status object instead of forwarding the request."""

    status: int
    reason: str = ""
    retry_after_seconds: int | None = None

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        headers = {"Content-Type": "application/json"}
        if self.retry_after_seconds is not None:
            headers["Retry-After"] = str(self.retry_after_seconds)
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f"injected {self.status}",
            "reason": self.reason,
            "code": self.status,
        }
        return web.Response(status=self.status, headers=headers, body=msgspec.json.encode(body))


@dataclass(frozen=True, slots=True)
class Hang:
    """Holds the request without a response, then drops the connection."""

    seconds: float = 3600

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        await asyncio.sleep(self.seconds)
        return drop(request)


@dataclass(frozen=True, slots=True)
class Hold:
    """Holds the request until ``released`` is set, then forwards it if the client still waits."""

    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        self.arrived.set()
        while not self.released.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.02)
        return await passage.answer()


@dataclass(frozen=True, slots=True)
class DropBefore:
    """Drops the connection before the request reaches the API server."""

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        return drop(request)


@dataclass(frozen=True, slots=True)
class DropAfter:
    """Drops the connection after the API server has executed the request."""

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        await passage.swallow()
        return drop(request)


@dataclass(frozen=True, slots=True)
class HangAfter:
    """Forwards the request, but never sends the response."""

    seconds: float = 3600

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        await passage.swallow()
        await asyncio.sleep(self.seconds)
        return drop(request)


@dataclass(frozen=True, slots=True)
class Lag:
    """Forwards the request at once and delays the response."""

    seconds: float

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        return await passage.answer(self.seconds)


@dataclass(frozen=True, slots=True)
class Cut(DropBefore):
    """Drops the connection because the whole proxy is disconnected."""


@dataclass(frozen=True, slots=True)
class Before:
    """Runs an action first, such as deleting the pod that the request binds."""

    action: Callable[[web.Request], Awaitable[None]]

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        await self.action(request)
        return await passage.answer()


def drop(request: web.Request) -> web.StreamResponse:
    """Close the connection at once; the returned response is not sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)

"""What can go wrong with a request on its way to the API server; ``proxy`` makes it happen."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from aiohttp import web


class Passage(Protocol):
    """The way of one request to the API server and of its answer back."""

    async def answer(self, lag_seconds: float = 0) -> web.StreamResponse:
        """Passes the request on and streams the answer to the client, each part so much later."""
        ...

    async def swallow(self) -> None:
        """Passes the request on and keeps the answer."""
        ...


class Fault(Protocol):
    """What happens to a request instead of simply passing."""

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Answers in the API server's place, with a Status object as it would send."""

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
    """Keeps the request without an answer, then drops the connection."""

    seconds: float = 3600

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        await asyncio.sleep(self.seconds)
        return drop(request)


@dataclass(frozen=True, slots=True)
class Hold:
    """Keeps the request until it is let go, then passes it on, late; gone when its sender is."""

    arrived: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        self.arrived.set()
        while not self.let_go.is_set():  # noqa: ASYNC110 - another thread lets it go
            await asyncio.sleep(0.02)
        return await passage.answer()


@dataclass(frozen=True, slots=True)
class DropBefore:
    """Drops the connection; the API server never sees the request."""

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        return drop(request)


@dataclass(frozen=True, slots=True)
class DropAfter:
    """Lets the API server carry the request out, then drops the connection before the answer."""

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        await passage.swallow()
        return drop(request)


@dataclass(frozen=True, slots=True)
class HangAfter:
    """Lets the API server carry the request out, and never tells."""

    seconds: float = 3600

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        await passage.swallow()
        await asyncio.sleep(self.seconds)
        return drop(request)


@dataclass(frozen=True, slots=True)
class Lag:
    """Passes the request on at once; what is answered arrives late, as from a server that lags."""

    seconds: float

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        return await passage.answer(self.seconds)


@dataclass(frozen=True, slots=True)
class Cut(DropBefore):
    """The connection is gone because the whole proxy is cut off."""


@dataclass(frozen=True, slots=True)
class Before:
    """Does something else first, such as deleting the pod that is about to be bound."""

    action: Callable[[web.Request], Awaitable[None]]

    async def __call__(self, request: web.Request, passage: Passage) -> web.StreamResponse:
        await self.action(request)
        return await passage.answer()


def drop(request: web.Request) -> web.StreamResponse:
    """Ends the connection at once; the returned response goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)

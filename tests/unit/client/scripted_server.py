"""A loopback HTTP server that answers as a test tells it to, also with faults."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from scheduler.clock import Clock, SystemClock
from scheduler.daemon.client.connection import Access, Connection
from scheduler.daemon.client.session import ApiSession

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Seen(msgspec.Struct):
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ScriptedServer:
    """Answers every request with `answer`; remembers them all in `seen`."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.seen: list[Seen] = []
        self.url = ""

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["ScriptedServer"]:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._handle)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(Seen(request.method, request.raw_path, dict(request.headers), body))
        return await self.answer(request)


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[ScriptedServer, ApiSession]]:
    """A scripted server and a session to it."""
    async with ScriptedServer(answer).running() as server, session_to(server.url) as session:
        yield server, session


def session_to(url: str, *, clock: Clock | None = None, **options: float) -> ApiSession:
    """A session to a URL, without credentials."""
    return ApiSession(Connection(None, Access(url)), clock=clock or SystemClock(), **options)


def json_answer(
    body: object, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """An answer with a JSON body."""
    return web.Response(
        status=status,
        body=msgspec.json.encode(body),
        content_type="application/json",
        headers=headers,
    )


def status_answer(
    status: int,
    reason: str = "",
    message: str = "",
    *,
    headers: dict[str, str] | None = None,
    **details: object,
) -> web.Response:
    """A metav1.Status as an API server answers it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure" if status >= 300 else "Success",
        "reason": reason,
        "message": message,
        "code": status,
        "details": details,
    }
    return json_answer(body, status, headers)


def dropped(request: web.Request) -> web.Response:
    """Cuts the connection instead of answering."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def hang() -> web.Response:
    """Never answers."""
    await asyncio.sleep(3600)
    raise AssertionError("unreachable")


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits until something holds; fails when it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)

"""An HTTP proxy between the daemon and the API server that injects faults.

It serves plain HTTP on a loopback port and adds the credentials of a kubeconfig, so clients need
none. Requests that match no fault pass unchanged; watches are streamed.
"""

import asyncio
import re
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web
from yarl import URL

from e2e.support.api import Credentials
from e2e.support.faults import Cut, Fault, drop
from e2e.support.kubeconfig import write_kubeconfig
from e2e.support.loops import LoopThread

# Hop-by-hop headers, which a proxy must not forward (RFC 9110, section 7.6.1).
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host")
)


@dataclass(slots=True)
class Record:
    """One request, recorded when it arrives: before the API server or the client knows its end."""

    method: str
    path: str
    fault: str
    """Class name of the injected fault; empty if the request was forwarded."""
    at: float
    """Time of arrival, on the monotonic clock."""
    status: int = 0
    """Status of the response, set once all of it was sent; 0 before that, or if none was sent."""


@dataclass(slots=True)
class _Rule:
    """Selects the requests that a fault applies to, and counts the remaining ones."""

    method: re.Pattern[str]
    path: re.Pattern[str]
    fault: Fault
    left: float
    only_if: Callable[[web.Request], bool]

    def matches(self, request: web.Request) -> bool:
        return (
            self.left > 0
            and self.method.fullmatch(request.method) is not None
            and self.path.search(request.path_qs) is not None
            and self.only_if(request)
        )


@dataclass(slots=True)
class FaultProxy:
    """A running proxy; use it as a context manager.

    Faults may be added and removed from the test's thread at any time. The first matching rule
    applies.
    """

    upstream: Path
    """Kubeconfig with the API server's address, and credentials unless clients send theirs."""
    tls: ssl.SSLContext | None = None
    """TLS context of the server; None for plain HTTP."""
    records: list[Record] = field(default_factory=list, repr=False)
    """The requests so far, in the order of their arrival."""
    url: str = ""
    _rules: list[_Rule] = field(default_factory=list)
    _loop: LoopThread | None = None
    _runner: web.AppRunner | None = None
    _session: aiohttp.ClientSession | None = None
    _transports: set[asyncio.Transport] = field(default_factory=set)
    _is_cut: threading.Event = field(default_factory=threading.Event)

    def add(
        self,
        fault: Fault,
        *,
        method: str = ".*",
        path: str = "",
        times: float = float("inf"),
        only_if: Callable[[web.Request], bool] = lambda _: True,
    ) -> None:
        """Inject ``fault`` into the next ``times`` matching requests.

        Args:
            fault: the fault.
            method: regular expression that matches the whole method.
            path: regular expression to search in path and query.
            times: number of requests.
            only_if: additional condition on the request.
        """
        self._rules.append(_Rule(re.compile(method), re.compile(path), fault, times, only_if))

    def clear(self) -> None:
        """Remove all faults."""
        self._rules.clear()

    def cut(self) -> None:
        """Disconnect the proxy: drop all connections, and refuse new ones."""
        self._is_cut.set()
        self.drop_connections()

    def restore(self) -> None:
        self._is_cut.clear()

    def drop_connections(self) -> None:
        """Drop every open connection, including watches; accept new ones."""
        self._running_loop().run(self._drop_connections())

    def count(
        self,
        method: str = ".*",
        path: str = "",
        fault: str | None = None,
        *,
        answered: bool = False,
    ) -> int:
        """Count arrived requests, by regular expressions as in ``add``.

        Args:
            method: regular expression that matches the whole method.
            path: regular expression to search in path and query.
            fault: class name of the injected fault; empty counts forwarded requests only.
            answered: count only those whose response was sent.
        """
        return sum(
            re.fullmatch(method, each.method) is not None
            and re.search(path, each.path) is not None
            and fault in (None, each.fault)
            and (each.status > 0 or not answered)
            for each in list(self.records)
        )

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig with the proxy as its server."""
        return write_kubeconfig(path, self.url)

    def __enter__(self) -> Self:
        self._loop = LoopThread("e2e-proxy")
        self._loop.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        loop = self._running_loop()
        loop.run(self._stop())
        loop.close()

    async def _start(self) -> None:
        credentials = await Credentials.load(self.upstream)
        self._session = aiohttp.ClientSession(
            credentials.server,
            connector=aiohttp.TCPConnector(limit=0, ssl=credentials.context or True),
            headers=credentials.headers,
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            read_bufsize=2**21,
        )
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"{'https' if self.tls else 'http'}://{host}:{port}"

    async def _stop(self) -> None:
        await self._drop_connections()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()
            # TLS connections complete their shutdown before the loop closes.
            await asyncio.sleep(0.25)

    async def _drop_connections(self) -> None:
        for transport in list(self._transports):
            transport.abort()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            self._transports.add(request.transport)
        fault = self._fault_for(request)
        name = type(fault).__name__ if fault else ""
        record = Record(request.method, request.path_qs, name, time.monotonic())
        self.records.append(record)
        try:
            passage = _Forwarder(self._opened_session(), request, await request.read())
            response = await (fault(request, passage) if fault else passage.answer())
        except aiohttp.ClientError:
            # The API server is down or closed the connection: drop the client's connection too.
            return drop(request)
        record.status = 0 if _is_dropped(request) else response.status
        return response

    def _fault_for(self, request: web.Request) -> Fault | None:
        if self._is_cut.is_set():
            return Cut()
        for rule in self._rules:
            if rule.matches(request):
                rule.left -= 1
                return rule.fault
        return None

    def _running_loop(self) -> LoopThread:
        assert self._loop is not None, "the proxy is not running"
        return self._loop

    def _opened_session(self) -> aiohttp.ClientSession:
        assert self._session is not None, "the proxy is not running"
        return self._session


@dataclass(frozen=True, slots=True)
class _Forwarder:
    """Forwards one request to the API server."""

    session: aiohttp.ClientSession
    request: web.Request
    body: bytes

    async def answer(self, lag_seconds: float = 0) -> web.StreamResponse:
        async with self._send() as answer:
            response = web.StreamResponse(
                status=answer.status, reason=answer.reason, headers=_passable(answer.headers)
            )
            await response.prepare(self.request)
            async for due, chunk in _timed(answer.content.iter_any(), lag_seconds):
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await response.write(chunk)
            await response.write_eof()
            return response

    async def swallow(self) -> None:
        async with self._send() as answer:
            await answer.read()

    def _send(self) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self.session.request(
            self.request.method,
            # Encoding the URL again could change it.
            URL(self.request.path_qs, encoded=True),
            data=self.body or None,
            headers=_passable(self.request.headers),
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )


async def _timed(
    chunks: AsyncIterator[bytes], lag_seconds: float
) -> AsyncIterator[tuple[float, bytes]]:
    """Yield each chunk with its delivery time, and keep reading meanwhile."""
    if not lag_seconds:
        async for chunk in chunks:
            yield 0.0, chunk
        return
    held: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()

    async def read() -> None:
        try:
            async for chunk in chunks:
                held.put_nowait((time.monotonic() + lag_seconds, chunk))
        finally:
            held.put_nowait(None)

    reading = asyncio.create_task(read())
    try:
        while (each := await held.get()) is not None:
            yield each
    finally:
        reading.cancel()
        await asyncio.wait([reading])


def _passable(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def _is_dropped(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()

"""The one way in which requests reach the API server: aiohttp, bytes in, bytes out.

What a request does not need is switched off, because binding is the scheduler's most frequent
request and its cost is the limit of throughput: no cookies, no redirects, no decompression, no
tracing, no per-request headers (they are prepared once), URLs that are not parsed for quoting.
Measured with a bearer token over TLS on uvloop: 70 us of CPU per request, 80 us without the tuning,
770 us and more through the typed client.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Final, Protocol, Self, TypeAlias

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload
from typing_extensions import override
from yarl import URL

from scheduler import __version__
from scheduler.client.connection import Access, Connection
from scheduler.client.errors import (
    ApiError,
    FencedError,
    UnauthorizedError,
    UnavailableError,
    cut,
    error_from_response,
)
from scheduler.client.throttle import TokenBucket
from scheduler.clock import Clock

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

USER_AGENT: Final = f"stowage/{__version__} scheduler"
REQUEST_TIMEOUT_SECONDS: Final = 30.0
CONNECT_TIMEOUT_SECONDS: Final = 10.0
MAX_RETRIES: Final = 10
"""Times a request is repeated because the server asked for it.

Source: client-go rest/request.go (maxRetries) v0.36.
"""

_READ_BUFFER_BYTES: Final = 2**22
"""A watch line longer than twice this breaks the stream; etcd takes objects of 1.5 MB."""
_KEEPALIVE_SECONDS: Final = 60.0
"""Idle connections are dropped before a server (90 s) or a load balancer would drop them."""
_FIRST_FAILURE: Final = 300
_NO_CODE: Final = "<error>"
"""Source: client-go rest/request.go (updateURLMetrics) v0.36."""
_BROKEN: Final = (aiohttp.ClientError, TimeoutError, OSError, ValueError)
"""What aiohttp raises when a connection fails or what comes over it is not HTTP."""

Fence: TypeAlias = Callable[[], bool]
"""Asked in the moment before the bytes leave: may this still be written?"""


class Response(msgspec.Struct, gc=False):
    """An answer that means success."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lines(Protocol):
    """A body that arrives line by line."""

    async def readline(self) -> bytes:
        """The next line with its end, or nothing at the end of the body."""
        ...


class RequestObserver(Protocol):
    """Hears of every request."""

    def request_done(self, method: str, host: str, code: str, seconds: float) -> None:
        """The answer has begun (a stream) or ended; the code is `<error>` when there is none."""


class ApiSession:
    """Requests to one API server over kept-alive connections.

    The number of connections is not limited here: who sends many requests at once bounds them,
    so that a lease is never renewed behind a queue of binds.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock,
        qps: float = 0.0,
        burst: int = 0,
        user_agent: str = USER_AGENT,
        observer: RequestObserver | None = None,
    ) -> None:
        self._observer = observer
        self._connection = connection
        self._clock = clock
        self._throttle = TokenBucket(qps, burst, clock) if qps > 0 else None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_KEEPALIVE_SECONDS,
                socket_factory=_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=_READ_BUFFER_BYTES,
            headers={
                "User-Agent": user_agent,
                "Accept": JSON,
                "Accept-Encoding": "identity",
            },
        )
        self._adopt(connection.access)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
        fence: Fence | None = None,
        is_urgent: bool = False,
    ) -> Response:
        """Sends one request and reads the whole answer.

        A 429 or 5xx answer that names a time to come back is obeyed within the timeout.

        Args:
            method: the HTTP method.
            path: path and query, already quoted.
            body: the body as it goes over the wire.
            content_type: what the body is.
            timeout: seconds for everything, repetitions included.
            fence: asked right before the bytes are written, each time.
            is_urgent: no throttle and no repetition (the lease).

        Raises:
            ApiError: the answer is not a success, or there is none.
            FencedError: the fence said no; nothing was written.
        """
        deadline = self._clock.monotonic() + timeout
        for attempt in range(MAX_RETRIES + 1):
            if self._throttle is not None and not is_urgent:
                await self._throttle.acquire()
            try:
                return await self._send(method, path, body, content_type, timeout, fence)
            except ApiError as problem:
                pause = problem.retry_after_seconds
                if pause is None or is_urgent or attempt == MAX_RETRIES:
                    raise
                timeout = deadline - self._clock.monotonic() - pause
                if timeout <= 0:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Lines]:
        """Opens a long answer and gives its lines as they come.

        Args:
            path: path and query, already quoted.
            read_timeout: seconds without any byte after which the connection counts as dead.

        Raises:
            ApiError: also from within the block, when the stream breaks.
        """
        if self._throttle is not None:
            await self._throttle.acquire()
        access = self._current()
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=read_timeout
        )
        response = await self._open(access, path, timeout)
        async with response:
            yield _Lines(f"GET {path}", response.content)

    async def _open(
        self, access: Access, path: str, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        url = URL(access.server + path, encoded=True)
        start, code = self._clock.monotonic(), _NO_CODE
        try:
            response = await self._session.get(
                url, allow_redirects=False, timeout=timeout, **self._routing
            )
            code = str(response.status)
            if response.status < _FIRST_FAILURE:
                return response
            async with response:
                answer = await response.read()
        except _BROKEN as problem:
            raise _no_answer(f"GET {path}", problem) from problem
        finally:
            self._observe("GET", code, start)
        raise self._refusal(f"GET {path}", response.status, response.headers, answer)

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
        timeout: float,
        fence: Fence | None,
    ) -> Response:
        access = self._current()
        start, code = self._clock.monotonic(), _NO_CODE
        try:
            response = await self._session.request(
                method,
                URL(access.server + path, encoded=True),
                data=None if body is None else _FencedBytes(body, content_type, fence),
                allow_redirects=False,
                timeout=_total_timeout(timeout),
                **self._routing,
            )
            answer = await response.read()
            code = str(response.status)
        except _BROKEN as problem:
            if isinstance(problem.__cause__, FencedError):
                raise problem.__cause__ from None
            raise _no_answer(f"{method} {path}", problem) from problem
        finally:
            self._observe(method, code, start)
        if response.status >= _FIRST_FAILURE:
            raise self._refusal(f"{method} {path}", response.status, response.headers, answer)
        return Response(response.status, response.headers, answer)

    def _observe(self, method: str, code: str, start: float) -> None:
        if self._observer is not None:
            seconds = self._clock.monotonic() - start
            self._observer.request_done(method, self._host, code, seconds)

    def _current(self) -> Access:
        access = self._connection.access
        if access is not self._access:
            self._adopt(access)
        return access

    def _adopt(self, access: Access) -> None:
        """Takes over credentials that changed. A new TLS context means new connections."""
        self._access = access
        self._host = URL(access.server).authority
        self._routing: dict[str, Any] = {"proxy": access.proxy}
        if access.tls is not None:
            self._routing["ssl"] = access.tls.context
            self._routing["server_hostname"] = access.server_hostname
        if access.authorization:
            self._session.headers["Authorization"] = access.authorization
        else:
            self._session.headers.pop("Authorization", None)

    def _refusal(
        self, request: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> ApiError:
        problem = error_from_response(request, status, headers, body)
        if isinstance(problem, UnauthorizedError):
            self._connection.note_refused()
        return problem


class _Lines:
    """The lines of a streamed answer, with our errors."""

    def __init__(self, request: str, content: aiohttp.StreamReader) -> None:
        self._request = request
        self._content = content

    async def readline(self) -> bytes:
        """See `Lines.readline`."""
        try:
            return await self._content.readline()
        except _BROKEN as problem:
            raise _no_answer(self._request, problem) from problem


class _FencedBytes(BytesPayload):
    """A body that asks its fence in the same step of the loop in which it is written.

    Checking earlier is not enough: a process that is frozen between the check and the write would
    write after its lease has passed to another.
    """

    def __init__(self, value: bytes, content_type: str, fence: Fence | None) -> None:
        super().__init__(value, content_type=content_type)
        self._fence = fence

    @override
    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        if self._fence is not None and not self._fence():
            raise FencedError("not written: the lease may have passed to another scheduler")
        # aiohttp has held the headers back until now and writes both at once.
        await writer.write(self._value)


@lru_cache(maxsize=64)
def _total_timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_TIMEOUT_SECONDS)


def _no_answer(request: str, problem: Exception) -> UnavailableError:
    if isinstance(problem, TimeoutError):
        message = "no answer in time"
    elif isinstance(problem, aiohttp.ClientConnectorCertificateError):
        # Their own texts show Python objects.
        trouble = problem.certificate_error
        message = cut(f"cannot trust {problem.host}:{problem.port}: {trouble}")
    elif isinstance(problem, aiohttp.ClientConnectorError):
        cause = problem.os_error.strerror or str(problem.os_error)
        message = cut(f"cannot connect to {problem.host}:{problem.port}: {cause}")
    else:
        message = cut(str(problem) or type(problem).__name__)
    return UnavailableError(request, message=message)


UNACKNOWLEDGED_SECONDS: Final = 5
"""The kernel gives up a connection whose peer has not acknowledged for so long.

This is also the time for which a bind that was written may still be under way: a leader that is cut
off stops binding `lease duration - renew deadline` (5 s by default) before its lease can be taken.
"""


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket on which the kernel notices within 20 s that the peer is gone."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)  # noqa: FBT003 - its only, positional argument
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 15),
        ("TCP_KEEPINTVL", 5),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_SECONDS * 1000),
    ):
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made

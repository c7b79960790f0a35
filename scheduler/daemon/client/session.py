"""Sends all requests to the API server: takes and returns encoded bodies.

Short requests use `direct`; lists, watches and all requests through a proxy use aiohttp.
"""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, Final, Self

import aiohttp
from yarl import URL

from scheduler.clock import Clock
from scheduler.daemon.client.body import Body, StreamedBody
from scheduler.daemon.client.connection import Access, Connection
from scheduler.daemon.client.direct import (
    CONNECT_TIMEOUT_SECONDS,
    JSON,
    KEEPALIVE_SECONDS,
    SOCKET_OPTIONS,
    DirectConnections,
    Fence,
    Request,
)
from scheduler.daemon.client.errors import (
    ApiError,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
    error_from_response,
)
from scheduler.daemon.client.http_connection import (
    FIRST_FAILURE,
    NoAnswerError,
    Response,
    TooLongError,
)
from scheduler.daemon.client.lines import Lines, StreamedLines
from scheduler.daemon.client.proxied import (
    BROKEN,
    ProxiedRequests,
    ending_with_connection,
    read_whole,
    why,
)
from scheduler.daemon.client.throttle import TokenBucket
from scheduler.observability.build_info import stowage_version
from scheduler.observability.client_metrics import ClientMetrics
from scheduler.observability.instruments import Instruments

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

USER_AGENT: Final = f"stowage/{stowage_version()} scheduler"
REQUEST_TIMEOUT_SECONDS: Final = 30.0
MAX_RETRIES: Final = 10
"""Repetitions at most of a request after an answer with Retry-After.

Source: client-go rest/request.go (maxRetries) v0.36.
"""

SPREAD: Final = 0.25
"""A request is repeated later than Retry-After by a random part of it, this share at most. If all
requests came together, an overloaded server would refuse most of them each time."""

_READ_BUFFER_BYTES: Final = 2**20
"""Bytes to buffer of a watch; at about twice as many, aiohttp stops reading from the server."""
_NO_CODE: Final = "<error>"
"""Source: client-go rest/request.go (updateURLMetrics) v0.36."""


class ApiSession:
    """Requests to one API server over kept-alive connections.

    The session does not limit the number of connections. The caller limits it by the number of
    requests that it sends at once. Urgent requests have their own connections, which are open
    already. So the renewal of a new leader's lease does not wait for the TLS handshakes of many
    binds.

    Args:
        connection: the server, and the credentials for it.
        clock: the clock of deadlines and metrics.
        qps: requests per second, except for watches; 0 for any number.
        burst: requests at once, if `qps` is not 0.
        user_agent: the User-Agent header.
        metrics: counts and measures the requests.
        home: the event loop of `connection` and `metrics`, if this session runs in another one.
    """

    def __init__(  # noqa: PLR0913 - what one connection differs in from another
        self,
        connection: Connection,
        *,
        clock: Clock,
        qps: float = 0.0,
        burst: int = 0,
        user_agent: str = USER_AGENT,
        metrics: ClientMetrics | None = None,
        home: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._home = home
        self._metrics = metrics or ClientMetrics(Instruments())
        self._connection = connection
        self._clock = clock
        self._rng = random.Random()  # noqa: S311 - spreads repetitions, keeps no secret
        self._throttle = TokenBucket(qps, burst, clock) if qps > 0 else None
        self._access: Access | None = None
        self._headers = {
            "User-Agent": user_agent,
            "Accept": JSON,
            "Accept-Encoding": "identity",
        }

    @cached_property
    def _session(self) -> aiohttp.ClientSession:
        """The session of aiohttp, opened by the first request: before it, none must be closed."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=KEEPALIVE_SECONDS,
                socket_factory=_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A proxy receives these headers too, so the token is not among them.
            headers=self._headers,
            auto_decompress=False,
            read_bufsize=_READ_BUFFER_BYTES,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._access is not None:
            self._close_direct()
            await self._session.close()

    async def request(  # noqa: PLR0913 - the parts of a request, by name
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
        """Send one request and read the whole answer.

        After a 429 or 5xx answer with Retry-After the request is repeated at that time, or up to
        `SPREAD` later, within the timeout.

        Args:
            method: the HTTP method.
            path: path and query, already quoted.
            body: the encoded body, or None.
            content_type: the media type of the body.
            timeout: seconds for the request and its repetitions.
            fence: called right before each write of the request; see `Fence`.
            is_urgent: whether to skip throttle and repetitions, for the lease.

        Raises:
            ApiError: the server refused the request, or did not answer.
            FencedError: the fence refused; nothing was written.
        """
        deadline = self._clock.monotonic() + timeout
        request = Request(method, path, body, content_type, fence)
        is_certain = True
        for attempt in range(MAX_RETRIES + 1):
            if self._throttle is not None and not is_urgent:
                await self._wait_turn(self._throttle, method)
            try:
                return await self._send(request, timeout, is_urgent=is_urgent)
            except ApiError as problem:
                # The server may have carried out an earlier try, whatever it answers to this one.
                is_certain = problem.is_certain = is_certain and problem.is_certain
                pause = problem.retry_after_seconds
                if pause is None or is_urgent or attempt == MAX_RETRIES:
                    raise
                pause *= 1 + SPREAD * self._rng.random()
                timeout = deadline - self._clock.monotonic() - pause
                if timeout <= 0:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Lines]:
        """Open a long answer and yield its lines as they arrive; the throttle is not for watches.

        Source: client-go rest/request.go (Watch) v0.36.

        Args:
            path: path and query, already quoted.
            read_timeout: seconds without any byte after which the connection counts as dead.

        Raises:
            ApiError: the server refused the request, or, within the block, the stream broke off.
        """
        timeout = aiohttp.ClientTimeout(
            total=None,
            # For all addresses, the TLS handshake, and the answer of a proxy to CONNECT.
            connect=3 * CONNECT_TIMEOUT_SECONDS,
            sock_connect=CONNECT_TIMEOUT_SECONDS,
            sock_read=read_timeout,
        )
        async with await self._open(path, timeout, "identity") as response:
            with ending_with_connection(response):
                yield StreamedLines(f"GET {path}", response.content)

    @asynccontextmanager
    async def download(self, path: str, *, timeout: float) -> AsyncIterator[Body]:
        """Open a long answer and yield its bytes as they arrive.

        API servers compress long answers (128 KiB), which costs them less than encrypting them.

        Args:
            path: path and query, already quoted.
            timeout: seconds for the request and the caller's block.

        Raises:
            ApiError: the server refused the request, or, within the block, the answer broke off.
        """
        if self._throttle is not None:
            await self._wait_turn(self._throttle, "GET")
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_TIMEOUT_SECONDS)
        async with await self._open(path, limits, "gzip") as response:
            with ending_with_connection(response):
                yield StreamedBody(f"GET {path}", response)

    async def _open(
        self, path: str, timeout: aiohttp.ClientTimeout, encoding: str
    ) -> aiohttp.ClientResponse:
        url = URL(self._current().server + path, encoded=True)
        start, code = self._clock.monotonic(), _NO_CODE
        try:
            response = await self._session.get(
                url,
                headers={"Accept-Encoding": encoding, **self._authorization},
                allow_redirects=False,
                timeout=timeout,
                **self._routing,
            )
            code = str(response.status)
            if response.status < FIRST_FAILURE:
                return response
            async with response:
                answer = await read_whole(response)
        except (*BROKEN, NoAnswerError) as problem:
            tls = self._current().tls
            if tls is not None and isinstance(problem, aiohttp.ClientConnectorError):
                tls.context.forget_sessions()
            raise UnavailableError(f"GET {path}", message=why(problem)) from problem
        finally:
            self._observe("GET", code, start, 0, None)
        raise self._refusal(f"GET {path}", response.status, response.headers, answer)

    async def _send(self, request: Request, timeout: float, *, is_urgent: bool) -> Response:
        self._current()
        connections = self._urgent if is_urgent else self._requests
        start, code, received = self._clock.monotonic(), _NO_CODE, None
        try:
            response = await connections.exchange(request, timeout)
            code, received = str(response.status), len(response.body)
        except TooLongError as problem:
            raise TooLargeError(str(request), message=str(problem)) from problem
        except NoAnswerError as problem:
            raise UnavailableError(str(request), message=str(problem)) from problem
        finally:
            self._observe(request.method, code, start, len(request.body or b""), received)
        if response.status >= FIRST_FAILURE:
            raise self._refusal(str(request), response.status, response.headers, response.body)
        return response

    async def _wait_turn(self, throttle: TokenBucket, method: str) -> None:
        """Wait until the throttle allows one more request, and measure the wait."""
        start = self._clock.monotonic()
        await throttle.acquire()
        waited = self._clock.monotonic() - start
        self._current()
        self._metrics.rate_limiter_duration[method, self._host].observe(waited)

    def _observe(
        self, method: str, code: str, start: float, sent: int, received: int | None
    ) -> None:
        """Count and measure a request; `received` is None for streams and without an answer."""
        seconds = self._clock.monotonic() - start
        self._at_home(self._metrics.observe, method, code, self._host, seconds, sent, received)

    def _at_home(self, tell: Callable[..., None], *about: Any) -> None:
        """Call a function in the event loop that the connection and the metrics belong to."""
        if self._home is None:
            tell(*about)
        else:
            self._home.call_soon_threadsafe(tell, *about)

    def _current(self) -> Access:
        access = self._connection.access
        if access is not self._access:
            if self._access is not None:
                self._close_direct()
            self._adopt(access)
        return access

    def _close_direct(self) -> None:
        self._requests.close()
        self._urgent.close()

    def _adopt(self, access: Access) -> None:
        """Use changed credentials, with new connections."""
        self._access = access
        self._host = URL(access.server).authority
        self._authorization = (
            {"Authorization": access.authorization} if access.authorization else {}
        )
        self._routing: dict[str, Any] = {"proxy": access.proxy}
        context = access.tls.context if access.tls else None
        if context is not None:
            self._routing["ssl"] = context
            self._routing["server_hostname"] = access.server_hostname

        def connections() -> DirectConnections | ProxiedRequests:
            if access.proxy is None:
                headers = {**self._headers, **self._authorization}
                return DirectConnections(access.server, context, access.server_hostname, headers)
            routing = {**self._routing, "headers": self._authorization}
            return ProxiedRequests(self._session, access.server, routing)

        self._requests, self._urgent = connections(), connections()

    def _refusal(
        self, request: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> ApiError:
        problem = error_from_response(request, status, headers, body)
        if isinstance(problem, UnauthorizedError):
            self._at_home(self._connection.note_refused)
        return problem


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket on which the kernel detects a dead peer within 20 s."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)  # noqa: FBT003 - its only, positional argument
    for level, option, value in SOCKET_OPTIONS:
        made.setsockopt(level, option, value)
    return made

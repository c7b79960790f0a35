"""Kept-alive connections straight to the API server, for requests with short answers.

aiohttp spends most of a small request's time on features that a request to an API server does not
need (cookies, redirects, form data, middleware, per-request objects), and a pod needs two requests.
Here a request is one write and one future; llhttp parses the answer. Lists, watches and all
requests through a proxy use aiohttp. `python -m bench --workload plain` compares their costs.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import httptools
import msgspec
from typing_extensions import override
from yarl import URL

from scheduler.daemon.client.errors import FencedError, cut

JSON: Final = "application/json"
CONNECT_TIMEOUT_SECONDS: Final = 10.0
KEEPALIVE_SECONDS: Final = 60.0
"""Idle connections are dropped before a server (90 s) or a load balancer would drop them."""
UNACKNOWLEDGED_SECONDS: Final = 5
"""The kernel gives up a connection if its peer has not acknowledged for so long.

This is also the time for which a bind that was written may still be under way: a leader that is cut
off stops binding `lease duration - renew deadline` (5 s by default) before its lease can be taken.
"""
SOCKET_OPTIONS: Final = tuple(
    (level, getattr(socket, name), value)
    for level, name, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 15),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", UNACKNOWLEDGED_SECONDS * 1000),
    )
    if hasattr(socket, name)  # not every system has all of them
)
"""Level, option and value; with them the kernel notices within 20 s that the peer is gone."""

MAX_ANSWER_BYTES: Final = 2**25
"""A longer answer is given up; lists come another way, in parts."""

FIRST_FAILURE: Final = 300
_FIRST_FINAL: Final = 200
_BODILESS: Final = frozenset({204, 304})

Fence: TypeAlias = Callable[[], bool]
"""Called right before the bytes leave: True if this process may still write."""


class NoAnswerError(Exception):
    """A request without an answer; the message gives the reason, for people."""


class TooLongError(NoAnswerError):
    """An answer is longer than the limit."""


class Request(msgspec.Struct, gc=False):
    """An HTTP request.

    Attributes:
        method: the HTTP method.
        path: path and query, already quoted.
        body: the bytes on the wire, if any.
        content_type: the media type of the body.
        fence: called right before the bytes are written, each time.
    """

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    fence: Fence | None = None

    @override
    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Response(msgspec.Struct, gc=False):
    """An HTTP response.

    Attributes:
        status: the HTTP status.
        headers: by lower-case name; a success may lack them: no caller reads those.
        body: the whole body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class DirectConnections:
    """Connections to one server, as many as there are requests at the same time.

    Args:
        server: the URL of the API server, without a slash at its end.
        context: the TLS context for https.
        server_hostname: the name the certificate must carry, when it is not the URL's.
        headers: sent with every request.
    """

    def __init__(
        self,
        server: str,
        context: ssl.SSLContext | None,
        server_hostname: str | None,
        headers: Mapping[str, str],
    ) -> None:
        url = URL(server)
        self._host, self._port = url.host or "", url.port or 0
        self._context = context
        self._server_hostname = (server_hostname or self._host) if context else None
        self._prefix = url.raw_path.rstrip("/")
        lines = {"Host": url.host_port_subcomponent or "", **headers}
        self._headers = "".join(f"\r\n{name}: {value}" for name, value in lines.items())
        # A line break in a token would end the headers.
        is_whole = self._headers.count("\n") == len(lines)
        self._problem = "" if is_whole else "the credentials hold a line break"
        """The reason why no request is sent, or empty."""
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Connection] = []

    def close(self) -> None:
        """Close idle connections at once, and those in use after their answer."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        self._problem = self._problem or "the connections are closed"

    async def exchange(self, request: Request, timeout: float) -> Response:
        """Send a request and read the whole answer, within `timeout` seconds.

        Raises:
            NoAnswerError: there is no answer.
            FencedError: the fence refused; nothing was written.
        """
        if self._problem:
            raise NoAnswerError(self._problem)
        body = request.body
        about = (
            ""
            if body is None
            else f"\r\nContent-Type: {request.content_type}\r\nContent-Length: {len(body)}"
        )
        start = f"{request.method} {self._prefix}{request.path} HTTP/1.1"
        head = f"{start}{self._headers}{about}\r\n\r\n".encode("latin-1")
        started = self._loop.time()
        connection = self._reuse(started) or await self._connect(timeout)
        # No step of the loop is between this check and the write.
        if request.fence is not None and not request.fence():
            self._idle.append(connection)
            raise FencedError("not written: the lease may have passed to another scheduler")
        # One write: what is encrypted now leaves in this step of the loop.
        answered = connection.send(head + body if body else head, started + timeout)
        try:
            answer = await answered
        except BaseException:
            # The rest of the answer must not be taken for that of another request.
            connection.abort()
            raise
        if connection.is_reusable and not self._problem:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _reuse(self, now: float) -> "_Connection | None":
        """The connection that was used last, unless all have been idle for too long."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now - connection.idle_since < KEEPALIVE_SECONDS:
                return connection
            connection.close()
        return None

    async def _connect(self, timeout: float) -> "_Connection":
        where = f"{self._host}:{self._port}"
        try:
            async with asyncio.timeout(min(timeout, CONNECT_TIMEOUT_SECONDS)):
                transport, connection = await self._loop.create_connection(
                    lambda: _Connection(self._loop),
                    self._host,
                    self._port,
                    ssl=self._context,
                    server_hostname=self._server_hostname,
                )
        except TimeoutError as problem:
            raise NoAnswerError("no answer in time") from problem
        except ssl.CertificateError as problem:
            raise NoAnswerError(cut(f"cannot trust {where}: {problem}")) from problem
        except OSError as problem:
            cause = problem.strerror or str(problem)
            raise NoAnswerError(cut(f"cannot connect to {where}: {cause}")) from problem
        connected = transport.get_extra_info("socket")
        for level, option, value in SOCKET_OPTIONS:
            connected.setsockopt(level, option, value)
        return connection


class _Connection(asyncio.Protocol):
    """One connection: at most one request at a time, and no unrequested byte.

    Bytes after an answer, or before a request, would be taken for the answer to the next request.
    A connection that received such bytes is given up.

    Attributes:
        is_reusable: whether it can send another request after the present one is answered.
        idle_since: the time of its last answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_reusable = True
        self.idle_since = loop.time()
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Response] | None = None
        self._due = 0.0
        """The deadline of the response."""
        self._timer: asyncio.TimerHandle | None = None
        """Set for the present request, or for an earlier one: then it is set again when it ends."""
        self._transport: Any = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._received = 0
        self._has_headers = False

    def send(self, request: bytes, due: float) -> asyncio.Future[Response]:
        """Write a request; the future gets the answer, if the answer arrives in time.

        Cost: no new timer as long as requests follow each other. The loop would close a timer of
        each request.
        """
        self._waiter = waiter = self._loop.create_future()
        self._received = 0
        if self._timer is not None and due < self._due:
            self._drop_timer()
        self._due = due
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._is_late)
        try:
            self._transport.write(request)
        except RuntimeError as problem:
            # uvloop's: the server hung up before the first request.
            self.fail(cut(f"connection lost: {problem}"), problem)
        return waiter

    def fail(self, problem: NoAnswerError | str, cause: Exception | None = None) -> None:
        """Raise an error for the waiting caller: there will be no answer."""
        self.is_reusable = False
        if self._is_waited_for:
            error = problem if isinstance(problem, NoAnswerError) else NoAnswerError(problem)
            error.__cause__ = cause
            self._answer_with(error)

    def close(self) -> None:
        """End the connection properly."""
        self.is_reusable = False
        self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self.is_reusable = False
        self._transport.abort()

    # --- from the transport ---------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if not self._is_waited_for:
            self.abort()
        elif self._received > MAX_ANSWER_BYTES:
            self.fail(TooLongError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes"))
            self.abort()
        else:
            self._parse(data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_timer()
        if exc is None and self._is_waited_for and self._ends_with_connection:
            self.is_reusable = False
            self._complete()
        self.fail(cut(f"connection lost: {exc}") if exc else "Server disconnected", exc)

    # --- from the parser ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of an answer, interim ones included, or of unrequested data."""
        self._headers = []
        self._has_headers = False
        if not self._is_waited_for:
            self.is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Part of an answer."""
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Note that the headers are complete: the body follows."""
        self._has_headers = True

    def on_body(self, chunk: bytes) -> None:
        """Part of an answer."""
        self._body += chunk

    def on_message_complete(self) -> None:
        """The end of an answer; one below 200 announces another."""
        if self._is_waited_for and self._parser.get_status_code() >= _FIRST_FINAL:
            if not self._parser.should_keep_alive():
                self.is_reusable = False
            self._complete()

    # --- helpers --------------------------------------------------------------------------------

    def _is_late(self) -> None:
        """The timer has ended, maybe for a request that was answered in time."""
        self._timer = None
        if not self._is_waited_for:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._is_late)
        else:
            self.fail("no answer in time")

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_waited_for(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    @property
    def _ends_with_connection(self) -> bool:
        """Whether only the end of the connection ends the body (RFC 9112, 6.3)."""
        headers = self._decoded_headers()
        status = self._parser.get_status_code() if self._has_headers else 0
        return (
            status >= _FIRST_FINAL
            and status not in _BODILESS
            and "content-length" not in headers
            and "transfer-encoding" not in headers
        )

    def _decoded_headers(self) -> dict[str, str]:
        return {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._headers
        }

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:
            # A server that changes the protocol (101) does so unrequested.
            self.fail("the answer is not HTTP", problem)
            self.abort()

    def _complete(self) -> None:
        status = self._parser.get_status_code()
        headers = self._decoded_headers() if status >= FIRST_FAILURE else {}
        body = bytes(self._body)
        self._body.clear()
        self._answer_with(Response(status, headers, body))

    def _answer_with(self, answer: Response | NoAnswerError) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            return
        if isinstance(answer, NoAnswerError):
            waiter.set_exception(answer)
        else:
            waiter.set_result(answer)

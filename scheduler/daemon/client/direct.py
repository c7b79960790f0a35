"""Kept-alive connections to the API server without aiohttp, for requests with short answers.

aiohttp spends most of a small request's time on features that a request to an API server does not
need (cookies, redirects, form data, middleware, per-request objects), and a pod needs two requests.
Here a request is one write and one future; llhttp parses the answer. Lists, watches and all
requests through a proxy use aiohttp. `python -m bench --workload plain` compares their costs.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import aiohappyeyeballs
import httptools
import msgspec
from typing_extensions import override
from yarl import URL

from scheduler.daemon.client.errors import FencedError, cut
from scheduler.daemon.client.tls import ResumingContext

JSON: Final = "application/json"
CONNECT_TIMEOUT_SECONDS: Final = 10.0
NEXT_ADDRESS_SECONDS: Final = 0.25
"""The next address of a name is tried as well after this time; as in aiohttp and RFC 8305."""
KEEPALIVE_SECONDS: Final = 60.0
"""Idle connections are closed before a server (90 s) or a load balancer would close them."""
UNACKNOWLEDGED_SECONDS: Final = 5
"""The kernel closes a connection whose peer has not acknowledged data for this time.

A bind that was written may be under way for this time: a leader without connection stops binding
`lease duration - renew deadline` (5 s by default) before another instance can acquire its lease.
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
"""Level, option and value; they make the kernel detect a dead peer within 20 s."""

MAX_ANSWER_BYTES: Final = 2**25
"""A longer answer is an error; lists are read in parts, by aiohttp."""

FIRST_FAILURE: Final = 300
_FIRST_FINAL: Final = 200
_BODILESS: Final = frozenset({204, 304})

Fence: TypeAlias = Callable[[], bool]
"""Called right before a request is written; returns whether this process may still write."""


class NoAnswerError(Exception):
    """A request had no answer; the message gives the reason."""


class TooLongError(NoAnswerError):
    """The answer to a request is longer than the limit."""


class Request(msgspec.Struct, gc=False):
    """An HTTP request.

    Attributes:
        method: the HTTP method.
        path: path and query, already quoted.
        body: the encoded body, or None.
        content_type: the media type of the body.
        fence: called right before each write of the request; see `Fence`.
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
        headers: by lower-case name; empty for a success, whose headers no caller reads.
        body: the whole body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class DirectConnections:
    """Connections to one server, one for each concurrent request.

    Args:
        server: the URL of the API server, without a slash at its end.
        context: the TLS context for https.
        server_hostname: the name that the certificate must have, if it is not the URL's host.
        headers: sent with every request.
    """

    def __init__(
        self,
        server: str,
        context: ResumingContext | None,
        server_hostname: str | None,
        headers: Mapping[str, str],
    ) -> None:
        url = URL(server)
        self._host, self._port = url.host or "", url.port or 0
        self._context = context
        # Certificates do not have the dot at the end of a name, which excludes search domains.
        name = (server_hostname or self._host).rstrip(".")
        self._server_hostname = name if context else None
        self._prefix = url.raw_path.rstrip("/")
        lines = {"Host": url.host_port_subcomponent or "", **headers}
        self._headers = "".join(f"\r\n{name}: {value}" for name, value in lines.items())
        # A line break in a token would add a header or end the headers.
        is_whole = self._headers.count("\n") == len(lines)
        self._problem = "" if is_whole else "the credentials hold a line break"
        """The reason why no request can be sent, or empty."""
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Connection] = []

    def close(self) -> None:
        """Close idle connections at once, and the others after their answer."""
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
        head = f"{start}{self._headers}{about}\r\n\r\n".encode()
        started = self._loop.time()
        known = self._reuse(started)
        connection = known or await self._connect(timeout)
        # No other task runs between this check and the write.
        if request.fence is not None and not request.fence():
            self._idle.append(connection)
            raise FencedError("not written: the lease may have passed to another scheduler")
        # One write, so that the whole request is sent before another task runs.
        answered = connection.send(head + body if body else head, started + timeout)
        try:
            answer = await answered
        except BaseException:
            # The rest of this answer must not be taken for the answer to another request.
            connection.abort()
            raise
        if known is None and self._context is not None:
            self._context.keep_session(connection.tls)
        if connection.is_reusable and not self._problem:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _reuse(self, now: float) -> "_Connection | None":
        """Return the connection used last; None if all have been idle for too long."""
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
                connected = await aiohappyeyeballs.start_connection(
                    await self._addresses(),
                    happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
                    loop=self._loop,
                )
                for level, option, value in SOCKET_OPTIONS:
                    connected.setsockopt(level, option, value)
                # The loop owns the socket from here on, also if the handshake fails.
                _, connection = await self._loop.create_connection(
                    lambda: _Connection(self._loop),
                    sock=connected,
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
        return connection

    async def _addresses(self) -> Sequence[aiohappyeyeballs.AddrInfoType]:
        """Return the addresses of the host; an IP address needs no thread that resolves it."""
        try:
            ipaddress.ip_address(self._host)
        except ValueError:
            return await self._loop.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
        return aiohappyeyeballs.addr_to_addr_infos((self._host, self._port)) or ()


class _Connection(asyncio.Protocol):
    """One connection, with at most one request at a time.

    Bytes after an answer, or before a request, would be taken for the answer to the next request.
    A connection that received such bytes is closed.

    Attributes:
        is_reusable: whether it can send another request after the answer to the present one.
        idle_since: the time of its last answer, on the loop's clock.
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
        """Runs for the present request or an earlier one; `_is_late` then starts it again."""
        self._transport: Any = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._received = 0
        self._has_headers = False

    @property
    def tls(self) -> ssl.SSLObject:
        """The TLS connection, where there is one."""
        made: ssl.SSLObject = self._transport.get_extra_info("ssl_object")
        return made

    def send(self, request: bytes, due: float) -> asyncio.Future[Response]:
        """Write a request; return a future of its answer, which fails at `due` (loop time).

        Cost: consecutive requests share one timer, since creating and cancelling timers is slow.
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
            # uvloop raises it if the server has closed the connection before the first request.
            self.fail(cut(f"connection lost: {problem}"), problem)
        return waiter

    def fail(self, problem: NoAnswerError | str, cause: Exception | None = None) -> None:
        """Raise an error in the waiting caller: no answer will arrive."""
        self.is_reusable = False
        if self._is_waited_for:
            error = problem if isinstance(problem, NoAnswerError) else NoAnswerError(problem)
            error.__cause__ = cause
            self._answer_with(error)

    def close(self) -> None:
        """Close the connection after all written bytes are sent."""
        self.is_reusable = False
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
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
        """Begin an answer, maybe an interim one; refuse reuse if no request waits for it."""
        self._headers = []
        self._has_headers = False
        if not self._is_waited_for:
            self.is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header of the answer."""
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Note that the headers are complete: the body follows."""
        self._has_headers = True

    def on_body(self, chunk: bytes) -> None:
        """Keep a part of the answer's body."""
        self._body += chunk

    def on_message_complete(self) -> None:
        """Complete the answer; after an interim one (below 200) another follows."""
        if self._is_waited_for and self._parser.get_status_code() >= _FIRST_FINAL:
            if not self._parser.should_keep_alive():
                self.is_reusable = False
            self._complete()

    # --- helpers --------------------------------------------------------------------------------

    def _is_late(self) -> None:
        """Handle the end of the timer: fail the request if it is due, or start a new timer."""
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
        """Whether the body ends with the connection (RFC 9112, 6.3)."""
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
            # Status 101 (switching protocols) is an error too: no request asks for it.
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

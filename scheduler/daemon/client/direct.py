"""Kept-alive connections to the API server without aiohttp, for requests with short answers.

aiohttp spends most of a small request's time on features that requests to an API server do not need
(cookies, redirects, form data, middleware, per-request objects). Each pod needs two requests. Here
a request is one write and one future; llhttp parses the answer. Lists, watches and all requests
through a proxy use aiohttp. `python -m bench --workload plain` compares their costs.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import aiohappyeyeballs
import msgspec
from typing_extensions import override
from yarl import URL

from scheduler.daemon.client.errors import FencedError, cause_of, cut
from scheduler.daemon.client.http_connection import HttpConnection, NoAnswerError, Response
from scheduler.daemon.client.tls import ResumingContext

JSON: Final = "application/json"
CONNECT_TIMEOUT_SECONDS: Final = 10.0
NEXT_ADDRESS_SECONDS: Final = 0.25
"""The next address of a name is tried as well after this time; as in aiohttp and RFC 8305."""
KEEPALIVE_SECONDS: Final = 60.0
"""Idle connections are closed before a server (90 s) or a load balancer would close them."""
UNACKNOWLEDGED_SECONDS: Final = 5
"""The kernel closes a connection whose peer has not acknowledged data for this time.

A bind that was written may be under way for this time. A leader without connection stops binding
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

Fence: TypeAlias = Callable[[], bool]
"""Called right before a request is written; returns whether this process may still write."""


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
        self._idle: list[HttpConnection] = []

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

    def _reuse(self, now: float) -> HttpConnection | None:
        """Return the connection used last; None if all have been idle for too long."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now - connection.idle_since < KEEPALIVE_SECONDS:
                return connection
            connection.close()
        return None

    async def _connect(self, timeout: float) -> HttpConnection:
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
                    lambda: HttpConnection(self._loop),
                    sock=connected,
                    ssl=self._context,
                    server_hostname=self._server_hostname,
                )
        except OSError as problem:
            if self._context is not None:
                self._context.forget_sessions()
            raise NoAnswerError(_why(problem, f"{self._host}:{self._port}")) from problem
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


def _why(problem: OSError, where: str) -> str:
    """Return a message for a failure to connect."""
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, ssl.CertificateError):
        return cut(f"cannot trust {where}: {problem}")
    return cut(f"cannot connect to {where}: {cause_of(problem)}")

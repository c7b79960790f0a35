"""Requests through a proxy, by aiohttp."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.payload import BytesPayload
from typing_extensions import override
from yarl import URL

from scheduler.daemon.client.direct import CONNECT_TIMEOUT_SECONDS, Request
from scheduler.daemon.client.errors import FencedError, cause_of, cut
from scheduler.daemon.client.http_connection import (
    MAX_ANSWER_BYTES,
    NoAnswerError,
    Response,
    TooLongError,
)

BROKEN: Final = (
    aiohttp.ClientError,
    HttpProcessingError,
    TimeoutError,
    OSError,
    ValueError,
    RuntimeError,  # a read right after the connection was closed for bytes that are not HTTP
)
"""Errors that aiohttp raises when a connection fails or its bytes are not HTTP."""


class ProxiedRequests:
    """The counterpart of `DirectConnections` for a server behind a proxy.

    Args:
        session: carries the requests.
        server: the URL of the API server, without a slash at its end.
        routing: proxy and TLS arguments of each request.
        max_answer_bytes: limit of the answer; a longer one is an error.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        routing: Mapping[str, Any],
        *,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._max_answer_bytes = max_answer_bytes
        self._session = session
        self._server = server
        self._routing = routing

    def close(self) -> None:
        """Do nothing: the connections belong to the session."""

    async def exchange(self, request: Request, timeout: float) -> Response:
        """See `DirectConnections.exchange`."""
        has_body = request.body is not None or request.fence is not None
        try:
            response = await self._session.request(
                request.method,
                URL(self._server + request.path, encoded=True),
                data=_FencedBytes(request.body or b"", request) if has_body else None,
                allow_redirects=False,
                timeout=_total_timeout(timeout),
                **self._routing,
            )
            async with response:
                body = await read_whole(response, self._max_answer_bytes)
            return Response(response.status, response.headers, body)
        except BROKEN as problem:
            if isinstance(problem.__cause__, FencedError):
                raise problem.__cause__ from None
            raise NoAnswerError(why(problem)) from problem


async def read_whole(response: aiohttp.ClientResponse, max_bytes: int = MAX_ANSWER_BYTES) -> bytes:
    """Read and return the body of an answer.

    Raises:
        TooLongError: the body is longer than the limit.
    """
    body = bytearray()
    with ending_with_connection(response):
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > max_bytes:
                raise TooLongError(f"the answer is longer than {max_bytes} bytes")
    return bytes(body)


@contextmanager
def ending_with_connection(response: aiohttp.ClientResponse) -> Iterator[None]:
    """Make reads of a body fail when its connection is lost.

    If bytes within a body are not HTTP, aiohttp closes the connection, but a read waits for ever.
    """
    content = response.content

    def lost(_: object = None) -> None:
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ServerDisconnectedError())

    protocol = None if response.connection is None else response.connection.protocol
    closed = None if protocol is None else protocol.closed
    if closed is None:
        lost()
        yield
        return
    # At most once: a kept-alive connection has many answers.
    closed.remove_done_callback(_noted)
    closed.add_done_callback(_noted)
    closed.add_done_callback(lost)
    try:
        yield
    finally:
        closed.remove_done_callback(lost)


def _noted(closed: asyncio.Future[None]) -> None:
    """Read the error of a lost connection: asyncio reports errors that are never read."""
    if not closed.cancelled():
        closed.exception()


def why(problem: Exception) -> str:
    """Return a message for an error of `BROKEN`; aiohttp's own messages show Python objects."""
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return cut(f"cannot trust {problem.host}:{problem.port}: {problem.certificate_error}")
    if isinstance(problem, aiohttp.ClientConnectorError):
        cause = cause_of(problem.os_error)
        return cut(f"cannot connect to {problem.host}:{problem.port}: {cause}")
    if isinstance(problem, aiohttp.ServerDisconnectedError):
        # After a part of the headers its text is what aiohttp has parsed of them.
        return "Server disconnected"
    if isinstance(problem, aiohttp.InvalidURL):
        return "the URL of the server or its proxy cannot be used"
    wrong = problem if isinstance(problem, HttpProcessingError) else problem.__cause__
    if isinstance(wrong, HttpProcessingError):
        # Its status is aiohttp's own, and its message has several lines.
        text = f"the answer cannot be read: {' '.join(wrong.message.split())}"
    elif isinstance(problem, aiohttp.ClientResponseError):
        # Its text has the URL of the proxy, maybe with a password, as that of an InvalidURL.
        text = f"{problem.status} {problem.message}"
    else:
        text = str(problem) or type(problem).__name__
    return cut(text)


class _FencedBytes(BytesPayload):
    """A body that checks its fence right before it is written, with no other task between.

    An earlier check is not enough: a process that is stopped between check and write would write
    after another instance has acquired the lease.
    """

    def __init__(self, body: bytes, request: Request) -> None:
        super().__init__(body, content_type=request.content_type)
        self._fence = request.fence

    @override
    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        if self._fence is not None and not self._fence():
            raise FencedError("not written: the lease may have passed to another scheduler")
        # aiohttp writes the headers, which it has buffered, together with the body.
        await writer.write(self._value)


@lru_cache(maxsize=64)
def _total_timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_TIMEOUT_SECONDS)

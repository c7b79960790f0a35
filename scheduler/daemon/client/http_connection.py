"""One HTTP/1.1 connection for requests with short answers, one after another."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

import httptools
import msgspec
from typing_extensions import override

from scheduler.daemon.client.errors import cut

MAX_ANSWER_BYTES: Final = 2**25
"""A longer answer is an error; lists are read in parts, by aiohttp."""

FIRST_FAILURE: Final = 300
_FIRST_FINAL: Final = 200
_BODILESS: Final = frozenset({204, 304})


class NoAnswerError(Exception):
    """A request had no answer; the message gives the reason."""


class TooLongError(NoAnswerError):
    """The answer to a request is longer than the limit."""


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


class HttpConnection(asyncio.Protocol):
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

"""Limits the number and the duration of connections to the secure port.

The port shares file descriptors and the event loop with binds. A client of the port must not
exhaust either.
"""

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from typing_extensions import override

HANDSHAKE_SECONDS: Final = 10.0
HEADER_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 90.0
_SHUTDOWN_SECONDS: Final = 5.0
_NO_DESCRIPTORS_PAUSE_SECONDS: Final = 1.0

_MOST: Final = 128
_LEAST: Final = 8
_SHARE: Final = 8
"""One in `_SHARE` file descriptors may be a connection to this port."""


def connections_allowed() -> int:
    """Return the number of connections that leaves enough file descriptors to the binds."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if descriptors < 0 else max(_LEAST, min(_MOST, descriptors // _SHARE))


class Connections:
    """Accepts connections to one listener, and closes those that last too long.

    At the limit, the newest connection is accepted. Of those without an admitted request, the one
    that has waited for longest is closed. So a client without rights keeps no others out,
    neither by connections that it holds open nor by requests that wait for a review.

    Args:
        make: builds the HTTP protocol of a connection.
        context: the TLS context of the handshakes.
        limit: open connections at most, handshakes included.
    """

    def __init__(
        self, make: Callable[[], asyncio.Protocol], context: ssl.SSLContext, limit: int
    ) -> None:
        self._make = make
        self._context = context
        self._limit = limit
        self._open: dict[_Guarded, None] = {}
        """Open connections, ordered by their last answer or their beginning, oldest first."""

    def __len__(self) -> int:
        return len(self._open)

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled. Run it as a task."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, _ = await loop.sock_accept(listener)
            except OSError:
                # No file descriptor is left: wait until others are closed.
                await asyncio.sleep(_NO_DESCRIPTORS_PAUSE_SECONDS)
                continue
            if len(self._open) < self._limit or self._make_room():
                self._take(connected)
            else:
                connected.close()

    async def close(self) -> None:
        """Close all connections."""
        shaking = [guarded.handshake for guarded in self._open if guarded.handshake]
        for guarded in list(self._open):
            guarded.abort()
        await asyncio.gather(*shaking, return_exceptions=True)

    @contextmanager
    def answering(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """Exempt a connection from time limits within the block, which answers its request."""
        guarded = self._guarded(transport)
        if guarded is None:
            yield
            return
        guarded.begin()
        try:
            yield
        finally:
            guarded.end()
            if guarded in self._open:
                # The connection was used last: move it to the end.
                del self._open[guarded]
                self._open[guarded] = None

    def admit(self, transport: asyncio.BaseTransport | None) -> None:
        """Keep a connection open, even at the limit, until its request is answered."""
        guarded = self._guarded(transport)
        if guarded is not None:
            guarded.is_admitted = True

    def forget(self, guarded: "_Guarded") -> None:
        """Forget a closed connection."""
        self._open.pop(guarded, None)

    def _guarded(self, transport: asyncio.BaseTransport | None) -> "_Guarded | None":
        return next((guarded for guarded in self._open if guarded.transport is transport), None)

    def _make_room(self) -> bool:
        idle = next((guarded for guarded in self._open if not guarded.is_admitted), None)
        if idle is None:
            return False
        self.forget(idle)
        idle.abort()
        return True

    def _take(self, connected: socket.socket) -> None:
        connected.setblocking(False)  # noqa: FBT003 - its only, positional argument
        guarded = _Guarded(self._make(), self)
        self._open[guarded] = None
        guarded.handshake = asyncio.ensure_future(self._shake_hands(guarded, connected))

    async def _shake_hands(self, guarded: "_Guarded", connected: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: guarded,
                connected,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except (OSError, asyncio.CancelledError):
            # No log entry for a failed handshake: any client may cause it.
            self.forget(guarded)
            connected.close()


class _Guarded(asyncio.Protocol):
    """A connection with a time limit for the headers of a request.

    Attributes:
        transport: the transport to the peer, after the handshake.
        handshake: the task of the TLS handshake.
        is_answering: whether a request was read and is being answered.
        is_admitted: whether its user has the rights for it.
    """

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self.transport: Any = None
        self.handshake: asyncio.Future[None] | None = None
        self.is_answering = False
        self.is_admitted = False
        self._inner = inner
        self._connections = connections
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Stop the time limit: the headers of a request are complete."""
        self.is_answering = True
        self._stop_timer()

    def end(self) -> None:
        """Note that the request is answered."""
        self.is_answering = self.is_admitted = False

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._inner.connection_made(transport)
        self._start_timer()

    @override
    def data_received(self, data: bytes) -> None:
        if not self.is_answering and self._timer is None:
            self._start_timer()
        self._inner.data_received(data)

    @override
    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    @override
    def pause_writing(self) -> None:
        self._inner.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._inner.resume_writing()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._connections.forget(self)
        self._inner.connection_lost(exc)

    def _start_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(HEADER_SECONDS, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

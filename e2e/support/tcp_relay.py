"""A TCP relay that simulates network failures below TLS.

It relays between clients and one local server. It can cut connections in the middle of data,
discard all bytes, throttle, answer with invalid TLS, or add latency.
"""

import asyncio
import time
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self

from e2e.support.loops import LoopThread

_CHUNK_BYTES = 64 * 1024
_NOT_TLS = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
_TIMER_SECONDS = 0.001
"""Clock tolerance: uvloop timers may fire this much too early."""


class Mode(Enum):
    """Handling of relayed bytes."""

    PASS = auto()
    TRUNCATE = auto()
    """Forward half of a chunk from the server, then reset the connection."""
    DISCARD = auto()
    """Discard all bytes and keep connections open, as when packets are dropped."""
    THROTTLE = auto()
    """Forward one byte per second."""
    NOT_TLS = auto()
    """Reset open connections; answer new ones with bytes that are not TLS."""


@dataclass(slots=True)
class TcpRelay:
    """A running relay; use it as a context manager.

    Attributes:
        server_port: port of the local server.
        port: port for clients; 0 chooses a free one.
        lag_seconds: latency in each direction.
        accepted: times of client connections, on the monotonic clock.
    """

    server_port: int
    port: int = 0
    lag_seconds: float = 0
    accepted: list[float] = field(default_factory=list, repr=False)
    _mode: Mode = Mode.PASS
    _damaged: set["_Connection"] = field(default_factory=set, repr=False)
    """Connections with discarded bytes; ``restore`` resets them."""
    _connections: set["_Connection"] = field(default_factory=set, repr=False)
    _loop: LoopThread | None = None
    _server: asyncio.Server | None = None

    @property
    def mode(self) -> Mode:
        return self._mode

    def disturb(self, mode: Mode) -> None:
        """Start to disturb traffic, including that of open connections."""
        self._mode = mode
        if mode in (Mode.NOT_TLS, Mode.THROTTLE):
            self.drop()

    def restore(self) -> None:
        """Forward everything again; reset connections that lost bytes."""
        self._mode = Mode.PASS
        self._running_loop().run(_abort(self._damaged))

    def drop(self) -> None:
        """Reset every open connection; accept new ones."""
        self._running_loop().run(_abort(self._connections))

    def __enter__(self) -> Self:
        self._loop = LoopThread("e2e-relay")
        self._loop.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        loop = self._running_loop()
        loop.run(self._stop())
        loop.close()

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await _abort(self._connections)
        # Transports report their abort before the loop ends.
        await asyncio.sleep(0.05)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.append(time.monotonic())
        if self._mode is Mode.NOT_TLS:
            writer.write(_NOT_TLS)
            writer.close()
            return
        try:
            there = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(writer, there[1])
        self._connections.add(connection)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(connection, reader, there[1], is_answer=False))
                group.create_task(self._pump(connection, there[0], writer, is_answer=True))
        except* (OSError, RuntimeError):
            # Either side closed the connection; uvloop raises RuntimeError for that.
            pass
        finally:
            connection.abort()
            self._connections.discard(connection)
            self._damaged.discard(connection)

    async def _pump(
        self,
        connection: "_Connection",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_answer: bool,
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            if self._mode is Mode.DISCARD:
                self._damaged.add(connection)
            elif self._mode is Mode.TRUNCATE and is_answer:
                writer.write(data[: len(data) // 2])
                # Let the written half leave before the reset.
                await asyncio.sleep(0.01)
                connection.abort()
            elif self._mode is Mode.THROTTLE:
                self._damaged.add(connection)
                await self._trickle(writer, data)
            elif self.lag_seconds:
                # Data in transit does not delay the next chunk.
                seconds = self.lag_seconds + _TIMER_SECONDS
                asyncio.get_running_loop().call_later(seconds, _write, writer, data)
            else:
                writer.write(data)
                await writer.drain()
        await asyncio.sleep(self.lag_seconds)
        writer.close()

    async def _trickle(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        for value in data:
            if self._mode is not Mode.THROTTLE:
                return
            writer.write(bytes((value,)))
            await asyncio.sleep(1)

    def _running_loop(self) -> LoopThread:
        assert self._loop is not None, "the relay is not running"
        return self._loop


@dataclass(frozen=True, slots=True, eq=False)
class _Connection:
    """One connection through the relay."""

    here: asyncio.StreamWriter
    there: asyncio.StreamWriter

    def abort(self) -> None:
        self.here.transport.abort()
        self.there.transport.abort()


async def _abort(connections: set[_Connection]) -> None:
    for connection in list(connections):
        connection.abort()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)

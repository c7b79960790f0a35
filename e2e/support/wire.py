"""A relay of bytes that knows nothing of what it relays: what a bad network does to TLS.

It stands between a client and one server on this machine, and can cut connections in the middle,
swallow everything, let bytes through one by one, answer with noise, or be long.
"""

import asyncio
import time
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self

from e2e.support.loops import LoopThread

_CHUNK_BYTES = 64 * 1024
_NOISE = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
_TIMER_SECONDS = 0.001
"""Timers of uvloop may fire early by as much as this."""
"""What somebody answers who does not speak TLS."""


class Mode(Enum):
    """What happens to bytes."""

    PASS = auto()
    CUT_MID_LINE = auto()
    """Of each part of an answer only a half arrives, then the connection is gone."""
    SWALLOW = auto()
    """Nothing arrives, nothing is closed: the other side is gone without a word."""
    TRICKLE = auto()
    """One byte a second."""
    NOISE = auto()
    """Old connections are gone, new ones are answered by something that is no TLS."""


@dataclass(slots=True)
class Wire:
    """A running relay; use it as a context manager.

    Attributes:
        server_port: where the server listens on this machine.
        port: where clients connect to; any that is free if none is given.
        lag_seconds: how long bytes are on their way, in each direction.
        accepted: when clients connected, on the monotonic clock.
    """

    server_port: int
    port: int = 0
    lag_seconds: float = 0
    accepted: list[float] = field(default_factory=list, repr=False)
    _mode: Mode = Mode.PASS
    _spoiled: set["_Line"] = field(default_factory=set, repr=False)
    """Connections that lost bytes: nothing sensible can pass there any more."""
    _lines: set["_Line"] = field(default_factory=set, repr=False)
    _loop: LoopThread | None = None
    _server: asyncio.Server | None = None

    @property
    def mode(self) -> Mode:
        return self._mode

    def spoil(self, mode: Mode) -> None:
        """Makes bytes go wrong from now on, also on connections that are open."""
        self._mode = mode
        if mode in (Mode.NOISE, Mode.TRICKLE):
            self.drop()

    def restore(self) -> None:
        """Lets everything pass again; connections that lost bytes are reset."""
        self._mode = Mode.PASS
        self._running_loop().run(_abort(self._spoiled))

    def drop(self) -> None:
        """Resets every open connection; new ones are welcome."""
        self._running_loop().run(_abort(self._lines))

    def __enter__(self) -> Self:
        self._loop = LoopThread("e2e-wire")
        self._loop.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        loop = self._running_loop()
        loop.run(self._stop())
        loop.close()

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await _abort(self._lines)
        # What was aborted is told so before the loop ends.
        await asyncio.sleep(0.05)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.append(time.monotonic())
        if self._mode is Mode.NOISE:
            writer.write(_NOISE)
            writer.close()
            return
        try:
            there = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            writer.transport.abort()
            return
        line = _Line(writer, there[1])
        self._lines.add(line)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(line, reader, there[1], is_answer=False))
                group.create_task(self._pump(line, there[0], writer, is_answer=True))
        except* (OSError, RuntimeError):
            # Either side went away; uvloop says so by a RuntimeError.
            pass
        finally:
            line.abort()
            self._lines.discard(line)
            self._spoiled.discard(line)

    async def _pump(
        self,
        line: "_Line",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_answer: bool,
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            if self._mode is Mode.SWALLOW:
                self._spoiled.add(line)
            elif self._mode is Mode.CUT_MID_LINE and is_answer:
                writer.write(data[: len(data) // 2])
                # What was written must leave before the connection goes.
                await asyncio.sleep(0.01)
                line.abort()
            elif self._mode is Mode.TRICKLE:
                self._spoiled.add(line)
                await self._trickle(writer, data)
            elif self.lag_seconds:
                # However much is on its way, the next part is not held up.
                seconds = self.lag_seconds + _TIMER_SECONDS
                asyncio.get_running_loop().call_later(seconds, _write, writer, data)
            else:
                writer.write(data)
                await writer.drain()
        await asyncio.sleep(self.lag_seconds)
        writer.close()

    async def _trickle(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        for value in data:
            if self._mode is not Mode.TRICKLE:
                return
            writer.write(bytes((value,)))
            await asyncio.sleep(1)

    def _running_loop(self) -> LoopThread:
        assert self._loop is not None, "the wire is not running"
        return self._loop


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """One connection through the relay."""

    here: asyncio.StreamWriter
    there: asyncio.StreamWriter

    def abort(self) -> None:
        self.here.transport.abort()
        self.there.transport.abort()


async def _abort(lines: set[_Line]) -> None:
    for line in list(lines):
        line.abort()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)

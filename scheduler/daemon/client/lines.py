"""Splits a body that arrives in chunks into lines of bounded length."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import aiohttp

from scheduler.daemon.client.errors import UnavailableError
from scheduler.daemon.client.proxied import BROKEN, why

MAX_LINE_BYTES: Final = 2**24
"""Longer lines are cut. etcd stores objects up to 1.5 MB; Go may escape each byte as six."""

KEPT_BYTES: Final = 2**16
"""Bytes kept of a line that is too long: enough to identify its object."""

LINE_SECONDS: Final = 30.0
"""Time limit for a line after its beginning: a server may send it byte by byte."""


class Lines(Protocol):
    """A body that arrives line by line."""

    async def read(self) -> Sequence[bytes]:
        """Return the next lines, without line breaks; none at the end of the body."""
        ...


class LineSplitter:
    """Cuts chunks into lines.

    Invariant: at most `max_bytes` are kept between two chunks.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES, kept_bytes: int = KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept_bytes = kept_bytes
        self._begun = bytearray()
        self._is_cut = False

    @property
    def is_within_line(self) -> bool:
        """Whether the last chunk ended within a line."""
        return bool(self._begun)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in the chunk; of a line that is too long, its beginning."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._begun:
            self._keep(lines[0])
            lines[0] = bytes(self._begun)
            self._begun.clear()
            self._is_cut = False
        if rest:
            self._keep(rest)
        return lines

    def _keep(self, part: bytes) -> None:
        if self._is_cut:
            return
        self._begun += part
        if len(self._begun) > self._max_bytes:
            self._is_cut = True
            del self._begun[self._kept_bytes :]


class StreamedLines:
    """The lines of an answer that aiohttp reads; raises this package's errors."""

    def __init__(self, request: str, content: aiohttp.StreamReader) -> None:
        self._request = request
        self._content = content
        self._splitter = LineSplitter()
        self._due: float | None = None
        """The deadline of the line that has begun and not ended."""

    async def read(self) -> Sequence[bytes]:
        """See `Lines.read`.

        Raises:
            UnavailableError: the body broke off, or a line does not end.
        """
        try:
            while True:
                async with asyncio.timeout_at(self._due):
                    chunk = await self._content.readany()
                if not chunk:
                    break
                if lines := self._take(chunk):
                    return lines
        except BROKEN as problem:
            raise UnavailableError(self._request, message=why(problem)) from problem
        if self._splitter.is_within_line:
            raise UnavailableError(self._request, message="the answer ended within a line")
        return ()

    def _take(self, chunk: bytes) -> list[bytes]:
        lines = self._splitter.feed(chunk)
        if not self._splitter.is_within_line:
            self._due = None
        elif lines or self._due is None:
            self._due = asyncio.get_running_loop().time() + LINE_SECONDS
        return lines

"""Reads and decompresses a long body as it arrives, with little of it in memory at a time."""

import zlib
from typing import Final, Protocol

import aiohttp

from scheduler.daemon.client.errors import UnavailableError
from scheduler.daemon.client.proxied import BROKEN, why

PART_BYTES: Final = 2**18
"""Bytes at most that one read decompresses."""

_GZIP: Final = 16 + zlib.MAX_WBITS


class Body(Protocol):
    """A body that arrives in parts."""

    async def read(self) -> bytes:
        """Return the next part; empty at the end of the body."""
        ...


class StreamedBody:
    """The body of an answer that aiohttp reads; raises this package's errors."""

    def __init__(self, request: str, response: aiohttp.ClientResponse) -> None:
        self._request = request
        self._content = response.content
        self._unzip = None
        if response.headers.get("Content-Encoding") == "gzip":
            self._unzip = zlib.decompressobj(_GZIP)

    async def read(self) -> bytes:
        """See `Body.read`.

        Raises:
            UnavailableError: the body broke off, or cannot be decompressed.
        """
        try:
            if self._unzip is None:
                return await self._content.readany()
            while not self._unzip.eof:
                packed = self._unzip.unconsumed_tail or await self._content.readany()
                if not packed:
                    raise ValueError("the compressed answer is not whole")
                if part := self._unzip.decompress(packed, PART_BYTES):
                    return part
            if self._unzip.unused_data or await self._content.readany():
                raise ValueError("bytes follow the compressed answer")
        except (*BROKEN, zlib.error) as problem:
            raise UnavailableError(self._request, message=why(problem)) from problem
        return b""

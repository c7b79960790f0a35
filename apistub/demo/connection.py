"""The demo's own conversation with the API server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import aiohttp
import msgspec

from apistub.demo.processes import DemoError
from apistub.storage.kinds import Object

_CONCURRENCY: Final = 16
_LONGEST_LINE: Final = 2**20
_JSON: Final = {"Content-Type": "application/json"}
_MERGE_PATCH: Final = {"Content-Type": "application/merge-patch+json"}

T = TypeVar("T")


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


class Connection:
    """Requests to the API server."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @classmethod
    def session(cls, url: str) -> aiohttp.ClientSession:
        """An HTTP session for a server."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        return aiohttp.ClientSession(url, timeout=timeout, read_bufsize=_LONGEST_LINE)

    async def create(self, path: str, content: Object) -> None:
        """Creates one object."""
        await self._send("POST", path, content, _JSON)

    async def create_all(self, path: str, contents: Iterable[Object]) -> None:
        """Creates many objects, some at the same time."""
        await _several_at_once(self.create(path, content) for content in contents)

    async def change_all(self, paths: Iterable[str], patch: Object) -> None:
        """Changes many objects alike, some at the same time."""
        await _several_at_once(self.change(path, patch) for path in paths)

    async def change(self, path: str, patch: Object) -> None:
        """Changes one object by a merge patch."""
        await self._send("PATCH", path, patch, _MERGE_PATCH)

    async def _send(self, method: str, path: str, content: Object, headers: dict[str, str]) -> None:
        body = msgspec.json.encode(content)
        async with self._session.request(method, path, data=body, headers=headers) as response:
            if not response.ok:
                text = await response.text()
                raise DemoError(f"{method} {path} was answered {response.status}: {text[:256]}")
            await response.read()

    async def follow(
        self, path: str, decoded_as: type[T], handle: Callable[[str, T], None]
    ) -> None:
        """Hands every object of a collection, and every change, to `handle`, for ever.

        Raises:
            DemoError: the server ends the watch with an error.
        """
        decode = msgspec.json.Decoder(_Event[decoded_as]).decode  # type: ignore[valid-type]
        envelope = msgspec.json.Decoder(_Event[Any]).decode
        query = "watch=true&timeoutSeconds=3600"
        async with self._session.get(f"{path}?{query}") as response:
            async for line in response.content:
                if line.startswith(b'{"type":"ERROR"'):
                    raise DemoError(f"the watch of {path} broke: {envelope(line).object}")
                event = decode(line)
                handle(event.type, event.object)
        raise DemoError(f"the API server ended the watch of {path}")


async def _several_at_once(requests: Iterable[Awaitable[None]]) -> None:
    following = iter(requests)

    async def work() -> None:
        for request in following:
            await request

    async with asyncio.TaskGroup() as group:
        for _ in range(_CONCURRENCY):
            group.create_task(work())

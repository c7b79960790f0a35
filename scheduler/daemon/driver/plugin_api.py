"""Sends plugins' requests to the API server, and passes some answers to the engine at once.

A plugin decides by the objects of the watch. Between the answer to a write and its watch event it
would decide by stale objects. A device that it has just allocated would look free.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import msgspec

from scheduler.daemon.client.errors import UnavailableError
from scheduler.daemon.client.wire import UNREADABLE
from scheduler.daemon.informers.kinds import Kind, MalformedObjectError
from scheduler.kernel.engine.events import Event, ObjectRead
from scheduler.kernel.framework.services import Wake

T = TypeVar("T")


class Requests(Protocol):
    """Sends plugins' requests; see `framework.services.Api`."""

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind a pod."""
        ...

    async def request(self, method: str, path: str, body: object = None) -> bytes:
        """Send a request; return the body of the answer."""
        ...

    def turn(self, uid: str) -> AbstractAsyncContextManager[None]:
        """Wait for the turn to write an object."""
        ...

    async def until(
        self, holds: Callable[[], bool], listen: Callable[[Wake], Wake], seconds: float
    ) -> bool:
        """Wait until a condition holds."""
        ...


class PluginApi:
    """See `framework.services.Api`."""

    def __init__(
        self, requests: Requests, kinds: Iterable[Kind[Any]], submit: Callable[[Event], None]
    ) -> None:
        """Pass answers about objects of some kinds to the engine.

        Args:
            requests: sends the requests.
            kinds: the kinds whose objects in answers go to the engine.
            submit: passes events to the engine.
        """
        self.bind = requests.bind
        self.turn = requests.turn
        self.until = requests.until
        self._requests = requests
        self._kinds = {(kind.declared.api_version, kind.declared.kind): kind for kind in kinds}
        self._submit = submit

    @staticmethod
    async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
        """See `framework.services.Api`."""
        task = asyncio.get_running_loop().create_task(work)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as error:
                cancelled = error
            except Exception:  # noqa: BLE001 - `result` raises it, unless the caller was cancelled
                break
        if cancelled is None or task.cancelled():
            return task.result()
        task.exception()  # read, because asyncio reports an exception that is never read
        raise cancelled

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """See `framework.services.Api`."""
        raw = await self._requests.request(method, path, body)
        try:
            answer = msgspec.json.decode(raw)
            if isinstance(answer, dict):
                kind = self._kinds.get((answer.get("apiVersion", ""), answer.get("kind", "")))
                if kind is not None:
                    self._submit(ObjectRead(kind.name, kind.decode(raw)))
        except MalformedObjectError as problem:
            raise UnavailableError(f"{method} {path}", message=str(problem)) from problem
        except UNREADABLE as problem:
            raise UnavailableError(f"{method} {path}", message=f"not JSON: {problem}") from problem
        return answer

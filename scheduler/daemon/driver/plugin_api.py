"""The API server as plugins have it; what it answers about some objects, the engine hears at once.

A plugin decides by what the watch has brought. Between the answer to its own write and the watch it
would decide by what is over: a device would be free that it has just given away.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from scheduler.daemon.informers.kinds import Kind
from scheduler.kernel.engine.events import Event, ObjectRead
from scheduler.kernel.framework.handle import Wake


class Requests(Protocol):
    """Sends what plugins ask for; see `framework.handle.Api`."""

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind a pod."""
        ...

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """Send a request."""
        ...

    async def until(
        self, holds: Callable[[], bool], listen: Callable[[Wake], Wake], seconds: float
    ) -> bool:
        """Wait until something holds."""
        ...


class PluginApi:
    """See `framework.handle.Api`."""

    def __init__(
        self, requests: Requests, told: Iterable[Kind[Any]], submit: Callable[[Event], None]
    ) -> None:
        """Tell of the objects of some kinds.

        Args:
            requests: sends.
            told: the kinds whose objects the engine hears of when they are answered.
            submit: tells the engine.
        """
        self.bind = requests.bind
        self.until = requests.until
        self._requests = requests
        self._told = {(kind.declared.api_version, kind.declared.kind): kind for kind in told}
        self._submit = submit

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """See `framework.handle.Api`."""
        answer = await self._requests.request(method, path, body)
        if isinstance(answer, Mapping):
            kind = self._told.get((answer.get("apiVersion", ""), answer.get("kind", "")))
            if kind is not None:
                self._submit(ObjectRead(kind.name, kind.convert(answer)))
        return answer

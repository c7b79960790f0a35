"""On SIGUSR2, compares cache and queue with the informers, and logs the contents of both.

The dump runs in steps, between which the daemon continues to schedule.

Source: kubernetes pkg/scheduler/backend/cache/debugger (CacheDebugger) v1.36.
Differs: a large cluster is dumped in many lines.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from scheduler.kernel.cache import CacheComparer
from scheduler.observability.dumps import REST
from scheduler.observability.logs import get_logger

T = TypeVar("T")

_LINE: Final = 100
"""Nodes or pods per line of the log."""

log = get_logger(__name__)


class Dumper:
    """Compares the cache with the informers, and logs cache and queue, on request."""

    def __init__(
        self, comparer: CacheComparer, queue_rows: Callable[[], Iterator[dict[str, object]]]
    ) -> None:
        self._comparer = comparer
        self._queue_rows = queue_rows
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Request a comparison and a dump."""
        self._asked.set()

    async def run(self) -> None:
        """Wait for requests and dump, until cancelled. Run it as a task."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._compare()
            await self._dump()

    async def _compare(self) -> None:
        log.info("Cache comparer started")
        found: dict[str, list[object]] = {}
        for what, names in self._comparer.differences().items():
            found[what] = []
            for name in names:
                if name is REST:
                    await asyncio.sleep(0)
                else:
                    found[what].append(name)
        if any(found.values()):
            log.warning("Cache mismatch", **found)
        log.info("Cache comparer finished")

    async def _dump(self) -> None:
        for nodes in _lines(self._comparer.nodes()):
            log.info("Dump of cached NodeInfo", nodes=dict(nodes))
            await asyncio.sleep(0)
        for pods in _lines(self._queue_rows()):
            log.info("Dump of scheduling queue", pods=pods)
            await asyncio.sleep(0)


def _lines(items: Iterable[T]) -> Iterator[list[T]]:
    """Split items into lines of the log; yield an empty line if there are no items."""
    rest = iter(items)
    line = list(islice(rest, _LINE))
    yield line
    while line := list(islice(rest, _LINE)):
        yield line

"""The workers for requests of pages: one thread for short ones, others for long ones.

The thread of short requests owns the scene and its engine. Long requests get immutable objects and
their own engine; they end early when the page is closed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Final, TypeVar

import msgspec

from scheduler.clock import MonotonicClock
from scheduler.tools.offline.progress import Progress

_T = TypeVar("_T")

_LONG_AT_ONCE: Final = 2
_PROGRESS_SECONDS: Final = 0.2
_FORESEEN_SECONDS: Final = 1.0
"""Time before which no remaining time is estimated."""


class Stopped(Exception):  # noqa: N818 - not an error: the page has gone
    """The page of a long request was closed."""


class ProgressUpdate(msgspec.Struct, frozen=True):
    """The progress of a long request: the share done, and the estimated seconds left, if known."""

    share: float
    left: float | None


class _ShortWorker:
    """Runs tasks one after another in a thread that does not outlive the program."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]]] = SimpleQueue()
        # No pool: the interpreter waits at its end for the tasks of pools.
        Thread(target=self._run, name="console-engine", daemon=True).start()

    async def run(self, task: Callable[[], _T]) -> _T:
        """Run a task, and return its result; a caller that is cancelled before it begins has none.

        Raises:
            Exception: the task has raised it.
        """
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._tasks.put((future, task))
        return await future

    def _run(self) -> None:
        while True:
            future, task = self._tasks.get()
            if future.cancelled():
                continue
            try:
                settle = partial(future.set_result, task())
            except Exception as problem:  # noqa: BLE001 - the caller raises it
                settle = partial(future.set_exception, problem)
            with suppress(RuntimeError):  # The loop is closed: the console has ended.
                future.get_loop().call_soon_threadsafe(_settled, future, settle)


def _settled(future: "asyncio.Future[Any]", settle: Callable[[], None]) -> None:
    if not future.done():
        settle()


class Work:
    """Both kinds of workers; `close` waits until the long tasks have ended."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._short = _ShortWorker()
        self._long = ThreadPoolExecutor(_LONG_AT_ONCE, "console-long")
        self._stops: set[Event] = set()

    async def short(self, task: Callable[[], _T]) -> _T:
        """Run a task that may use the scene, and return its result."""
        return await self._short.run(task)

    async def long(self, task: Callable[[Progress], _T]) -> AsyncIterator[ProgressUpdate | _T]:
        """Yield the progress of a task repeatedly, and finally its result.

        The task ends soon after the iterator is closed.
        """
        stop, share = Event(), 0.0

        def progress(done: float) -> None:
            nonlocal share
            share = done
            if stop.is_set():
                raise Stopped

        began = self._clock.monotonic()
        self._stops.add(stop)
        future = asyncio.get_running_loop().run_in_executor(self._long, task, progress)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            while not (await asyncio.wait([future], timeout=_PROGRESS_SECONDS))[0]:
                took = self._clock.monotonic() - began
                is_estimated = took >= _FORESEEN_SECONDS and share > 0
                left = round(took * (1 - share) / share, 1) if is_estimated else None
                yield ProgressUpdate(round(share, 4), left)
            yield future.result()
        finally:
            stop.set()
            self._stops.discard(stop)

    def close(self) -> None:
        """Stop the long tasks, and wait until they have ended."""
        for stop in self._stops:
            stop.set()
        self._long.shutdown(cancel_futures=True)

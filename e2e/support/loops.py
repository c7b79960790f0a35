"""Runs an event loop in a thread, so that synchronous tests can use asynchronous code."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from scheduler.daemon.client.event_loop import EventLoop

Result = TypeVar("Result")

_GOODBYE_SECONDS = 0.25


class LoopThread:
    """A running event loop; ``run`` runs a coroutine in it and returns the result."""

    def __init__(self, name: str) -> None:
        self._loop = EventLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C in the calling thread must cancel the coroutine too.
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel the running tasks, then stop the loop and its thread."""
        self.run(_cancel_others())
        # TLS connections complete their shutdown before the loop closes.
        self.run(asyncio.sleep(_GOODBYE_SECONDS))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

"""An event loop in a thread of its own, so that plain test functions can use asynchronous parts."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

import uvloop

Result = TypeVar("Result")

_GOODBYE_SECONDS = 0.25


class LoopThread:
    """A running event loop; ``run`` hands it a coroutine and waits for the result."""

    def __init__(self, name: str) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C in the waiting thread must end the work too.
            future.cancel()
            raise

    def close(self) -> None:
        """Ends what still runs, then the loop and its thread."""
        self.run(_cancel_others())
        # A loop cannot close while a TLS connection that was closed still says goodbye.
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

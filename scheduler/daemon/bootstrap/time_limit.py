"""How long a plugin may wait for I/O."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.errors import SchedulerError


class PluginTimeoutError(SchedulerError):
    """A plugin did not return in time, or was cancelled by its own code."""


@asynccontextmanager
async def plugin_time_limit(seconds: float) -> AsyncIterator[None]:
    """Ends what runs in it after some seconds.

    Raises:
        PluginTimeoutError: it took longer; or a task that it waits for was cancelled, which must
            not look as if the caller had been.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as problem:
        raise PluginTimeoutError(f"did not return within {seconds:g} s") from problem
    except asyncio.CancelledError as problem:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise PluginTimeoutError("was cancelled") from problem

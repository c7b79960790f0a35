"""A time limit on the I/O of plugins."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.errors import SchedulerError


class PluginTimeoutError(SchedulerError):
    """A plugin did not return in time, or was cancelled by its own code."""


@asynccontextmanager
async def plugin_time_limit(seconds: float) -> AsyncIterator[None]:
    """Cancel the body of the context after some seconds.

    Raises:
        PluginTimeoutError: the body took longer; or a task that it awaits was cancelled, which must
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

"""A time limit for PreBind, Bind and other calls of plugins that may wait."""

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
        PluginTimeoutError: the body took longer, or a task that it awaits was cancelled: the error
            must not look like a cancellation of the caller.
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

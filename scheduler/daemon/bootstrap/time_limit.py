"""A time limit for PreBind, Bind and other calls of plugins that may wait."""

import asyncio
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from typing_extensions import override

from scheduler.errors import SchedulerError


class PluginTimeoutError(SchedulerError):
    """A plugin did not return in time, or was cancelled by its own code."""


class PluginTimeLimit(AbstractAsyncContextManager[None]):
    """Cancels the body of the context after some seconds.

    Raises:
        PluginTimeoutError: the body took longer, or a task that it awaits was cancelled: the error
            must not look like a cancellation of the caller.
    """

    # A generator as context would cost three times as much, for each pod with claims.
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    @override
    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    @override
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, problem, trace)
        except TimeoutError as late:
            raise PluginTimeoutError(f"did not return within {self._seconds:g} s") from late
        if isinstance(problem, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                raise PluginTimeoutError("was cancelled") from problem

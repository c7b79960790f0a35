"""Runs the PreBind plugins of a pod at the same time."""

import asyncio
from collections.abc import Sequence

from scheduler.kernel.framework.runtime.pre_bind import Work
from scheduler.kernel.framework.status import SUCCESS, Status


class _FailedError(Exception):
    """Ends the works beside one that failed."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


async def at_the_same_time(works: Sequence[Work]) -> Status:
    """Run works at the same time; the first failure cancels the others, and is returned.

    Raises:
        PluginError: a work raised it; it ended the others.
        CancelledError: the caller was cancelled; all works have ended.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(_run(work))
    except BaseExceptionGroup as failures:
        first = failures.exceptions[0]
        if isinstance(first, _FailedError):
            return first.status
        raise first from None
    return SUCCESS


async def _run(work: Work) -> None:
    status = await work()
    if not status.is_success:
        raise _FailedError(status)

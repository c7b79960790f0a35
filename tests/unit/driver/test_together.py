"""PreBind plugins that run at the same time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from scheduler.daemon.driver.together import at_the_same_time
from scheduler.kernel.framework.status import SUCCESS, Status, error


class Meeting:
    """Works that need each other to be under way."""

    def __init__(self, count: int) -> None:
        self.begun = 0
        self.cancelled = 0
        self._count = count
        self._all_there = asyncio.Event()

    async def work(self) -> Status:
        self.begun += 1
        if self.begun == self._count:
            self._all_there.set()
        await self._all_there.wait()
        return SUCCESS

    async def endless(self) -> Status:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return SUCCESS


def test_works_run_at_the_same_time() -> None:
    """Each of them waits for the other."""

    async def story() -> Status:
        meeting = Meeting(2)
        return await at_the_same_time([meeting.work, meeting.work])

    assert asyncio.run(story()) == SUCCESS


def test_the_first_failure_ends_the_others() -> None:
    """It is returned once they have ended."""

    async def story() -> tuple[Status, int]:
        meeting = Meeting(2)

        async def fail() -> Status:
            await asyncio.sleep(0)
            return error("no disk")

        return await at_the_same_time([meeting.endless, fail]), meeting.cancelled

    assert asyncio.run(story()) == (error("no disk"), 1)


def test_an_exception_ends_the_others() -> None:
    """It is raised as it is."""

    async def story() -> None:
        meeting = Meeting(2)

        async def fail() -> Status:
            await asyncio.sleep(0)
            raise LookupError("gone")

        with pytest.raises(LookupError, match="gone"):
            await at_the_same_time([meeting.endless, fail])
        assert meeting.cancelled == 1

    asyncio.run(story())


def test_a_cancelled_caller_cancels_all() -> None:
    """And ends when they have."""

    async def story() -> int:
        meeting = Meeting(3)
        works: list[Callable[[], Awaitable[Status]]] = [meeting.endless, meeting.endless]
        task = asyncio.ensure_future(at_the_same_time(works))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return meeting.cancelled

    assert asyncio.run(story()) == 2

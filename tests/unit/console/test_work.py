"""Where questions are worked on: long ones tell how far they are, and end when they may."""

import asyncio
from collections.abc import AsyncGenerator
from threading import Event
from typing import Any, cast

import pytest

from scheduler.tools.console.work import ProgressUpdate, Work
from scheduler.tools.offline.progress import Progress
from tests.support.clock import FakeClock


def test_a_long_question_tells_how_far_it_is() -> None:
    """And then its answer."""
    may_end = Event()

    def task(progress: Progress) -> str:
        progress(0.25)
        may_end.wait(60)
        return "answer"

    async def ask() -> list[object]:
        work, found = Work(FakeClock()), []
        async for step in work.long(task):
            found.append(step)
            if step == ProgressUpdate(0.25, None):
                may_end.set()
        work.close()
        return found

    steps = asyncio.run(ask())
    assert ProgressUpdate(0.25, None) in steps
    assert steps[-1] == "answer"


def test_a_question_ends_when_the_page_goes() -> None:
    """At the next time it tells how far it is."""
    ended = Event()

    def task(progress: Progress) -> None:
        try:
            while True:
                progress(0.5)
        finally:
            ended.set()

    async def ask() -> bool:
        work = Work(FakeClock())
        steps = cast("AsyncGenerator[Any]", work.long(task))
        async for _ in steps:
            break
        await steps.aclose()
        has_ended = await asyncio.to_thread(ended.wait, 60)
        work.close()
        return has_ended

    assert asyncio.run(ask())


def test_a_short_question_is_answered_beside_a_long_one() -> None:
    """Pages stay alive while another one computes."""
    may_end = Event()

    async def ask() -> str:
        work = Work(FakeClock())

        async def wait() -> None:
            async for _ in work.long(lambda _: may_end.wait(60)):
                pass

        waiting = asyncio.create_task(wait())
        answer = await work.short(lambda: "short")
        is_waiting = not waiting.done()
        may_end.set()
        await waiting
        work.close()
        return answer if is_waiting else ""

    assert asyncio.run(ask()) == "short"


def test_the_end_waits_for_no_short_question() -> None:
    """A thread cannot be stopped; Ctrl-C ends the program all the same."""
    may_end, has_ended = Event(), Event()

    def task() -> None:
        may_end.wait(10)
        has_ended.set()

    async def ask() -> bool:
        work = Work(FakeClock())
        asking = asyncio.create_task(work.short(task))
        await asyncio.sleep(0.01)
        work.close()
        asking.cancel()
        return has_ended.is_set()

    assert not asyncio.run(ask())
    may_end.set()


def test_a_short_question_may_fail_and_the_next_one_is_answered() -> None:
    """Its error is that of the question; one whose page has gone is not begun."""
    begun: list[str] = []

    async def ask() -> str:
        work = Work(FakeClock())
        may_end = Event()
        first = asyncio.create_task(work.short(lambda: may_end.wait(10)))
        gone = asyncio.create_task(work.short(lambda: begun.append("gone")))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.sleep(0.01)
        may_end.set()
        await first
        with pytest.raises(ZeroDivisionError):
            await work.short(lambda: 1 // 0)
        return await work.short(lambda: "answer")

    assert asyncio.run(ask()) == "answer"
    assert begun == []

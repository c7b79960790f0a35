"""Doubts end with a list, or with time: bindings never wait for ever."""

import asyncio

from scheduler.daemon.informers.doubts import LIMIT_SECONDS, Doubts
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in


class Told:
    """Doubts, and how often all of them have ended."""

    def __init__(self) -> None:
        self.doubts = Doubts()
        self.cleared = 0
        self.doubts.on_cleared = self._count

    def _count(self) -> None:
        self.cleared += 1


def test_the_last_doubt_to_end_is_told() -> None:
    async def story() -> None:
        told = Told()
        for kind in ("pods", "nodes", "pods"):
            told.doubts.begin(kind)
        told.doubts.end("pods")
        told.doubts.end("claims")
        assert (told.doubts.are_open(), told.cleared) == (True, 0)
        told.doubts.end("nodes")
        told.doubts.end("nodes")
        assert (told.doubts.are_open(), told.cleared) == (False, 1)
        await asyncio.sleep(2 * LIMIT_SECONDS)
        assert told.cleared == 1
        told.doubts.begin("nodes")
        assert told.doubts.are_open(), "a doubt that has ended was tolerated"

    run_in(FakeClock(), story())


def test_a_doubt_that_nothing_ends_is_tolerated_until_it_ends() -> None:
    """Failures that follow do not begin it anew; an end does."""

    async def story() -> None:
        told = Told()
        told.doubts.begin("pods")
        await asyncio.sleep(LIMIT_SECONDS - 1)
        told.doubts.begin("pods")
        assert told.doubts.are_open()
        await asyncio.sleep(2)
        assert (told.doubts.are_open(), told.cleared) == (False, 1)
        told.doubts.begin("pods")
        assert not told.doubts.are_open()
        told.doubts.end("pods")
        told.doubts.begin("pods")
        assert told.doubts.are_open()

    run_in(FakeClock(), story())


def test_the_limit_is_for_a_kind_without_an_answer_where_others_have_one() -> None:
    """While the server is away nothing can be bound, and it may come back with an older state."""

    async def story() -> None:
        told = Told()
        told.doubts.is_away = lambda: is_away
        is_away = True
        told.doubts.begin("pods")
        await asyncio.sleep(10 * LIMIT_SECONDS + 1)
        assert (told.doubts.are_open(), told.cleared) == (True, 0)
        is_away = False
        await asyncio.sleep(LIMIT_SECONDS)
        assert (told.doubts.are_open(), told.cleared) == (False, 1)

    run_in(FakeClock(), story())

"""Turns of plugins' requests: the order, the limit, and what becomes of cancelled ones."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from time import process_time

import pytest

from scheduler.daemon.client.errors import NotSentError
from scheduler.daemon.client.turns import FIRST, Place, RequestTurns
from tests.support.growth import growth

FEW = 2
URGENT = -10


class World:
    """A line, and requests that end when they are told.

    Attributes:
        turns: what is tested.
        begun: names of the requests that had a turn, in order.
        under_way: those of them that have not ended.
    """

    def __init__(self) -> None:
        self.turns = RequestTurns(FEW)
        self.begun: list[str] = []
        self.under_way: dict[str, asyncio.Future[None]] = {}

    def ask(self, name: str, place: Place) -> asyncio.Task[None]:
        """Start a request at a place."""
        with place.taken():
            return asyncio.create_task(self._request(name))

    async def _request(self, name: str) -> None:
        async with self.turns.turn():
            self.begun.append(name)
            self.under_way[name] = asyncio.get_running_loop().create_future()
            try:
                await self.under_way[name]
            finally:
                del self.under_way[name]

    async def fill(self) -> None:
        """Take all turns."""
        for number in range(FEW):
            self.ask(f"filling{number}", FIRST)
        await settle()
        self.begun.clear()

    async def end(self, count: int = 1) -> None:
        """End the oldest requests under way, one after the other."""
        for _ in range(count):
            next(iter(self.under_way.values())).set_result(None)
            await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def play(story: Callable[[World], Awaitable[None]]) -> World:
    async def run() -> World:
        world = World()
        await world.fill()
        await story(world)
        assert await free_turns(world) == FEW, "turns were lost, or there are more than before"
        return world

    return asyncio.run(run())


async def free_turns(world: World) -> int:
    await world.end(len(world.under_way))
    tasks = [world.ask(f"free{number}", FIRST) for number in range(FEW + 1)]
    await settle()
    found = len(world.under_way)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found


def test_the_order_is_by_priority_and_then_by_attempt() -> None:
    """Requests without an attempt go first; those of one attempt in the order they came."""

    async def story(world: World) -> None:
        for name, priority, attempt in (("d", 0, 4), ("c", 0, 3), ("e", -5, 1), ("b", 10, 7)):
            place = Place.of(-priority, attempt)
            world.ask(name, place)
            world.ask(f"{name}2", place)
        world.ask("a", FIRST)
        await settle()
        assert world.begun == []
        await world.end(9)
        assert world.begun == ["a", "b", "b2", "c", "c2", "d", "d2", "e", "e2"]

    play(story)


def test_a_place_is_that_of_its_own_tasks_only() -> None:
    """A task that was made beside has none, and so it is first."""

    async def story(world: World) -> None:
        with Place.of(URGENT, 1).taken():
            pass
        world.ask("pod", Place.of(URGENT, 2))
        beside = asyncio.create_task(world._request("beside"))
        await settle()
        await world.end(2)
        assert world.begun == ["beside", "pod"]
        await world.end(2)
        await beside

    play(story)


def test_requests_of_a_cancelled_attempt_that_has_sent_nothing_are_refused() -> None:
    """At once, although no turn ever ends: it need not be found out what became of them."""

    async def story(world: World) -> None:
        place = Place.of(0, 1)
        tasks = [world.ask(name, place) for name in ("p", "q")]
        await settle()
        place.cancel()
        await settle()
        for task in tasks:
            assert task.done()
            problem = task.exception()
            assert isinstance(problem, NotSentError)
            assert problem.is_certain
        place.cancel()
        await world.end()
        assert world.begun == []

    play(story)


def test_what_a_cancelled_attempt_asks_for_later_goes_first() -> None:
    """A plugin that tries for ever gets its answer, and can end."""

    async def story(world: World) -> None:
        place = Place.of(0, 1)
        world.ask("urgent", Place.of(URGENT, 2))
        place.cancel()
        world.ask("again", place)
        await settle()
        await world.end(2)
        assert world.begun == ["again", "urgent"]

    play(story)


def test_requests_of_a_cancelled_attempt_that_has_sent_some_go_first() -> None:
    """Those in the line too: its reservations are kept until it has ended."""

    async def story(world: World) -> None:
        place = Place.of(0, 1)
        world.ask("first", place)
        await settle()
        await world.end()
        assert world.begun == ["first"]
        world.ask("second", place)
        world.ask("urgent", Place.of(URGENT, 2))
        await settle()

        place.cancel()

        await world.end(2)
        assert world.begun == ["first", "second", "urgent"]

    play(story)


@pytest.mark.parametrize("cancels_place", [False, True], ids=["task", "task and place"])
def test_a_turn_that_comes_as_its_task_is_cancelled_is_passed_on(*, cancels_place: bool) -> None:
    """Else there would be one less for ever."""

    async def story(world: World) -> None:
        place = Place.of(URGENT, 1)
        task = world.ask("gone", place)
        world.ask("next", Place.of(0, 2))
        await settle()
        next(iter(world.under_way.values())).set_result(None)
        await asyncio.sleep(0)
        assert len(world.turns._line) == 1, "the turn has not come"
        assert world.begun == []
        task.cancel()
        if cancels_place:
            place.cancel()
        await settle()
        assert task.cancelled()
        assert world.begun == ["next"]

    play(story)


def test_a_task_that_is_cancelled_after_its_place_takes_no_turn_and_gives_none() -> None:
    """As the driver does: the place first, then PreBind."""

    async def story(world: World) -> None:
        place = Place.of(0, 1)
        task = world.ask("p", place)
        await settle()
        place.cancel()
        task.cancel()
        await settle()
        assert task.cancelled()

    play(story)


def test_very_many_requests_that_are_cancelled_together_leave_the_line_quickly() -> None:
    """In any order, also those at one place."""

    async def cancel(count: int) -> float:
        world = World()
        await world.fill()
        tasks = [world.ask("", FIRST) for _ in range(count)]
        await settle()
        start = process_time()
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return process_time() - start

    assert growth(lambda count: asyncio.run(cancel(count)), 1_000, 10_000) < 30


@pytest.mark.parametrize("seed", range(20))
def test_turns_are_never_lost_and_never_more_than_the_limit(seed: int) -> None:
    """Whatever is asked for, ends and is cancelled, in any order."""
    random = Random(seed)

    async def story(world: World) -> None:
        places = [Place.of(random.randrange(3), number) for number in range(20)]
        tasks: list[asyncio.Task[None]] = []
        for number in range(200):
            match random.randrange(5):
                case 0 | 1:
                    tasks.append(world.ask(f"{number}", random.choice(places)))
                case 2 if world.under_way:
                    next(iter(world.under_way.values())).set_result(None)
                case 3 if tasks:
                    random.choice(tasks).cancel()
                case 4:
                    random.choice(places).cancel()
            for _ in range(random.randrange(3)):
                await asyncio.sleep(0)
            assert len(world.under_way) <= FEW
            for done in [each for each in world.under_way if world.under_way[each].done()]:
                await settle()
                assert done not in world.under_way
        await settle()
        while world.under_way:
            await world.end()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.done() for task in tasks)

    play(story)

"""Turns to write an object that many pods share: the order, and writers that are stuck or gone."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from scheduler.daemon.client.errors import NotSentError
from scheduler.daemon.client.session import Response
from scheduler.daemon.client.turns import TURN_SECONDS, Place
from scheduler.daemon.client.writes import PLUGIN_REQUESTS, PodWrites
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in

SECONDS = 0.05
"""Of a request."""
URGENT = -10
SHARED = "uid-of-shared"


class World:
    """Tasks that write a shared object, or others.

    Attributes:
        writes: what is tested.
        asked: the names of the requests that the server got, in order.
        begun: when each writer of the shared object had its turn, in order.
        writing: those that have not ended.
        most: the most of them at a time.
        stuck: names of writers whose requests are never answered.
    """

    def __init__(self) -> None:
        self.clock = FakeClock(0.0)
        self.writes = PodWrites(self)  # a fake of all that is asked of it
        self.asked: list[str] = []
        self.begun: dict[str, float] = {}
        self.writing: set[str] = set()
        self.most = 0
        self.stuck: set[str] = set()

    async def request(self, _method: str, path: str, _body: object, **_: object) -> Response:
        self.asked.append(path)
        await asyncio.sleep(3600 if path in self.stuck else SECONDS)
        return Response(200, {}, b"{}")

    def write(self, name: str, order: int = 0, place: Place | None = None) -> asyncio.Task[None]:
        """Start to write the shared object."""
        with (place or Place.of(order, 1)).taken():
            return asyncio.create_task(self._write(name))

    async def _write(self, name: str) -> None:
        async with self.writes.turn(SHARED):
            self.begun[name] = self.clock.now
            self.writing.add(name)
            self.most = max(self.most, len(self.writing))
            try:
                await self.writes.request("PATCH", name)
            finally:
                self.writing.remove(name)

    def ask(self, name: str, order: int = 0) -> asyncio.Task[None]:
        """Start a request about something else."""
        with Place.of(order, 1).taken():
            return asyncio.create_task(self.writes.request("PATCH", name))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def ended(task: asyncio.Task[None]) -> None:
    """Wait for a task's end, and no longer: others have not yet heard of it."""
    for _ in range(10):
        if task.done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not end")


def play(story: Callable[[World], Awaitable[None]]) -> World:
    async def run(world: World) -> World:
        await story(world)
        return world

    world = World()
    run_in(world.clock, run(world))
    assert not world.writing
    assert not len(world.writes.object_turns), "lines are left that no task waits in"
    return world


def test_a_late_urgent_writer_waits_for_the_one_under_way_and_no_other() -> None:
    """However many share the object; the others keep the order of their attempts."""

    async def story(world: World) -> None:
        tasks = [world.write(f"low-{n}", place=Place.of(0, 300 - n)) for n in range(100)]
        await asyncio.sleep(2.5 * SECONDS)
        tasks.append(world.write("urgent", URGENT))
        await asyncio.gather(*tasks)

    world = play(story)
    names = list(world.begun)
    assert names[:5] == ["low-0", "low-99", "low-98", "urgent", "low-97"]
    assert world.begun["urgent"] == pytest.approx(3 * SECONDS)
    assert world.most == 1
    assert len(names) == 101


def test_a_stream_of_urgent_writers_holds_others_back_as_long_as_it_lasts() -> None:
    """As in the scheduling queue. In the first pause the next one is served."""

    async def story(world: World) -> None:
        tasks = [world.write("first"), world.write("low", 1)]
        for number in range(100):
            tasks.append(world.write(f"urgent-{number}", URGENT))
            await asyncio.sleep(SECONDS / 2)
        await asyncio.gather(*tasks)

    world = play(story)
    assert list(world.begun)[-1] == "low"
    assert world.begun["low"] == pytest.approx(101 * SECONDS)


def test_stuck_writers_end_no_more_than_their_own_turns() -> None:
    """The next one begins after a minute, and they are not all let loose at once."""

    async def story(world: World) -> None:
        world.stuck = {"stuck", "stuck too"}
        stuck = [world.write("stuck"), world.write("stuck too", URGENT - 1)]
        tasks = [world.write(f"low-{number}") for number in range(50)]
        await asyncio.sleep(TURN_SECONDS / 2)
        tasks.append(world.write("urgent", URGENT))
        await asyncio.sleep(1.5 * TURN_SECONDS + 10 * SECONDS)
        for task in stuck:
            task.cancel()
        await settle()
        world.most = 0
        await asyncio.gather(*tasks)
        assert world.most == 1, "a turn was ended twice"

    world = play(story)
    assert list(world.begun)[:4] == ["stuck", "stuck too", "urgent", "low-0"]
    assert world.begun["stuck too"] == pytest.approx(TURN_SECONDS)
    assert world.begun["urgent"] == pytest.approx(2 * TURN_SECONDS)
    assert world.begun["low-49"] == pytest.approx(2 * TURN_SECONDS + 50 * SECONDS)


def test_a_stuck_writer_holds_up_none_that_comes_later() -> None:
    """Its turn has ended although nobody waited for it."""

    async def story(world: World) -> None:
        world.stuck = {"stuck"}
        stuck = world.write("stuck")
        await asyncio.sleep(TURN_SECONDS + 1.0)
        await world.write("late")
        later = [world.write("later")]
        await settle()
        stuck.cancel()
        await settle()
        world.most = 0
        later.append(world.write("last"))
        await asyncio.gather(*later)

    world = play(story)
    assert world.begun["late"] == pytest.approx(TURN_SECONDS + 1.0)
    assert world.most == 1


@pytest.mark.parametrize("when", ["waiting", "at its turn", "writing"])
def test_a_writer_that_is_cancelled_holds_up_no_other(when: str) -> None:
    """Nor is there a turn more afterwards."""

    async def story(world: World) -> None:
        first = world.write("first")
        gone = world.write("gone", URGENT)
        others = [world.write(f"other-{number}") for number in range(3)]
        await settle()
        if when == "at its turn":
            first.cancel()
            await ended(first)
        elif when == "writing":
            await first
            await settle()
            assert "gone" in world.begun
        gone.cancel()
        await asyncio.gather(gone, first, return_exceptions=True)
        assert gone.cancelled()
        assert when == "writing" or "gone" not in world.begun
        await asyncio.gather(*others)

    assert play(story).most == 1


def test_a_writer_is_as_urgent_as_those_that_wait_for_it() -> None:
    """Else the urgent one would wait for all requests that go before the writer's."""

    async def story(world: World) -> None:
        tasks = [world.ask(f"of-others-{number}", -1) for number in range(1000)]
        tasks.append(world.write("low"))
        await asyncio.sleep(SECONDS / 2)
        assert list(world.begun) == ["low"]
        tasks.append(world.write("urgent", URGENT))
        await asyncio.gather(*tasks)

    world = play(story)
    assert world.asked.index("low") == PLUGIN_REQUESTS
    # All 32 end at once, and pass their turns on before it asks.
    assert world.asked.index("urgent") == 3 * PLUGIN_REQUESTS
    assert world.begun["urgent"] == pytest.approx(2 * SECONDS)


def test_a_writer_is_urgent_also_if_that_one_comes_as_the_turn_begins() -> None:
    """The turn was given to the writer, which has not run since."""

    async def story(world: World) -> None:
        first = world.write("first", URGENT)
        low = world.write("low")
        tasks = [world.ask(f"of-others-{number}", -1) for number in range(1000)]
        await settle()
        first.cancel()
        urgent = world.write("urgent", URGENT)
        await ended(first)
        assert "low" not in world.begun
        await asyncio.gather(*tasks, low, urgent)

    assert play(story).asked.index("low") < 3 * PLUGIN_REQUESTS


def test_an_attempt_that_only_had_its_turn_has_sent_nothing() -> None:
    """So its waiting request is refused if it is cancelled, and the next one has the turn."""

    async def story(world: World) -> None:
        world.stuck = {f"stuck-{number}" for number in range(PLUGIN_REQUESTS)}
        stuck = [world.ask(name) for name in world.stuck]
        place = Place.of(0, 1)
        tasks = [world.write("writer", place=place), world.write("in line", place=place)]
        other = world.write("other", URGENT)
        await settle()
        assert list(world.begun) == ["writer"]
        place.cancel()
        for answer in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(answer, NotSentError)
        await settle()
        assert list(world.begun) == ["writer", "other"]
        for task in stuck:
            task.cancel()
        await other

    assert "writer" not in play(story).asked


@pytest.mark.parametrize("seed", range(20))
def test_one_writes_at_a_time_and_no_turn_is_lost(seed: int) -> None:
    """Whatever is written and cancelled, in any order."""
    random = Random(seed)

    async def story(world: World) -> None:
        places = [Place.of(random.randrange(3), number) for number in range(20)]
        tasks: list[asyncio.Task[None]] = []
        for number in range(200):
            match random.randrange(6):
                case 0 | 1 | 2:
                    tasks.append(world.write(f"{number}", place=random.choice(places)))
                case 3:
                    tasks.append(world.ask(f"beside-{number}", random.randrange(3)))
                case 4 if tasks:
                    random.choice(tasks).cancel()
                case 5:
                    random.choice(places).cancel()
            await asyncio.sleep(random.choice((0, 0, SECONDS / 3)))
        await asyncio.gather(*tasks, return_exceptions=True)

    world = play(story)
    assert world.most == 1
    assert len(world.begun) > 10

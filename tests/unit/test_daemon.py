"""The phases of the daemon: what runs when, and that nothing goes on after its end."""

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from scheduler.daemon import Cycles, Daemon, LeaseLostError

from scheduler.clock import SystemClock


async def forever() -> None:
    await asyncio.Event().wait()


class Campaign:
    """Leads at once, until it is told how the campaign ends."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()
        self.problem: Exception | None = None
        self.released = 0

    async def run(self) -> None:
        await self.is_over.wait()
        if self.problem is not None:
            raise self.problem

    async def wait_leading(self) -> None:
        pass

    async def release(self) -> None:
        self.released += 1


class World:
    """Everything around a daemon that never has a pod to schedule."""

    in_flight = 0
    unsynced = ()

    def __init__(self) -> None:
        self.leadership = Campaign()
        self.ready = asyncio.Event()
        self.attempted = asyncio.Event()
        self.attempts = 0
        cycles: Any = Cycles(self, self, self, self.ready)  # type: ignore[arg-type]
        informers: Any = self
        self.daemon = Daemon(
            cycles,
            informers=informers,
            leadership=self.leadership,
            clock=SystemClock(),
            on_stall=lambda _: None,
        )

    def schedule_one(self) -> bool:
        self.attempts += 1
        self.attempted.set()
        return False

    def catch_up(self) -> None:
        pass

    def ask_for_room(self) -> bool:
        return True

    async def run(self) -> None:
        await forever()

    async def drain(self) -> None:
        pass

    async def wait_synced(self) -> None:
        pass

    def start(self, *background: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def last_words() -> None:
            pass

        return asyncio.create_task(self.daemon.run(list(background), last_words))

    async def attempts_from_now_on(self) -> int:
        """How many attempts are made although nothing should go on."""
        before = self.attempts
        self.ready.set()
        for _ in range(3):
            await asyncio.sleep(0)
        return self.attempts - before


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def others() -> set[asyncio.Task[Any]]:
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}


def test_no_pod_is_tried_after_the_lease_is_lost() -> None:
    """Whoever loses the lease ends with an error, and all that was going on has ended before."""

    async def story() -> tuple[set[Any], int]:
        world = World()
        running = world.start()
        await world.attempted.wait()

        world.leadership.is_over.set()
        with pytest.raises(LeaseLostError):
            await running

        return others(), await world.attempts_from_now_on()

    assert asyncio.run(story()) == (set(), 0)


def test_a_cancelled_daemon_leaves_nothing_behind() -> None:
    """Cancelling the daemon ends each of its tasks, also those of its inner phases."""

    async def story() -> tuple[set[Any], int]:
        world = World()
        running = world.start(forever())
        await world.attempted.wait()

        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        return others(), await world.attempts_from_now_on()

    assert asyncio.run(story()) == (set(), 0)


def test_a_part_that_fails_ends_the_daemon_with_its_error() -> None:
    """A background part that raises takes the daemon with it, and nothing is tried any more."""

    async def failing(start: asyncio.Event) -> None:
        await start.wait()
        raise ZeroDivisionError("broken part")

    async def story() -> tuple[set[Any], int]:
        world = World()
        running = world.start(failing(world.attempted))

        with pytest.raises(ZeroDivisionError, match="broken part"):
            await running

        return others(), await world.attempts_from_now_on()

    assert asyncio.run(story()) == (set(), 0)


def test_a_campaign_that_fails_says_why() -> None:
    """An error inside leader election is told as such, not as a lease that was lost."""

    async def story() -> None:
        world = World()
        running = world.start()
        await world.attempted.wait()

        world.leadership.problem = ZeroDivisionError("broken campaign")
        world.leadership.is_over.set()
        await running

    with pytest.raises(ZeroDivisionError, match="broken campaign"):
        asyncio.run(story())


def test_a_daemon_that_is_told_to_stop_gives_the_lease_back() -> None:
    """After a drain the lease is released once, and the daemon ends without an error."""

    async def story() -> tuple[set[Any], int]:
        world = World()
        running = world.start()
        await world.attempted.wait()

        world.daemon.stop()
        await running

        return others(), world.leadership.released

    assert asyncio.run(story()) == (set(), 1)

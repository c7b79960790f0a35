"""The phases of the daemon: what runs when, and that nothing goes on after its end."""

import asyncio
import ctypes
import gc
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.daemon.driver.daemon import (
    DRAIN_SECONDS,
    LAST_WORDS_SECONDS,
    Daemon,
    LeaseLostError,
    NotDrainedError,
)
from scheduler.daemon.driver.driver import END_SECONDS
from scheduler.daemon.leader_election.elector import LeaderElector
from scheduler.errors import SchedulerError
from scheduler.kernel.engine.events import Event, Tick
from scheduler.observability.instruments import Instruments
from scheduler.observability.loop_shares import OTHER, LoopMetrics, LoopShares
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.driver.fake_writes import settle


async def forever() -> None:
    await asyncio.Event().wait()


class Campaign:
    """Leads at once, or when it is told to, until it is told how the campaign ends."""

    def __init__(self, diary: list[str]) -> None:
        self.leads = asyncio.Event()
        self.leads.set()
        self.is_over = asyncio.Event()
        self.problem: Exception | None = None
        self.is_observed = False
        self._diary = diary

    async def observe(self) -> None:
        self.is_observed = True
        await forever()

    async def run(self) -> None:
        await self.is_over.wait()
        if self.problem is not None:
            raise self.problem

    async def wait_leading(self) -> None:
        await self.leads.wait()

    async def release(self) -> None:
        self._diary.append("release")

    async def release_lost(self) -> None:
        self._diary.append("release lost")


class World:
    """Everything around a daemon that never has a pod to schedule.

    Attributes:
        diary: what the daemon did, in order.
        stuck_in: what never comes to an end: the drain, the last words.
    """

    in_flight = 0

    def __init__(
        self, clock: FakeClock, *, elects: bool = True, elector: LeaderElector | None = None
    ) -> None:
        self.diary: list[str] = []
        self.stuck_in: set[str] = set()
        self.loop = LoopMetrics(Instruments())
        self.leadership = Campaign(self.diary)
        self.synced = asyncio.Event()
        self.synced.set()
        self.unsynced = ["pods"]
        self.ready = asyncio.Event()
        self.deciding = False
        self.outbox = _Outbox(self.diary, self.stuck_in)
        this: Any = self
        self.daemon = Daemon(
            this,
            informers=this,
            leadership=(elector or self.leadership) if elects else None,
            clock=clock,
            shares=LoopShares(self.loop, clock.monotonic, clock.monotonic),
        )

    # the driver

    async def decide(self, is_stopping: Callable[[], bool]) -> None:
        self.diary.append("decide")
        self.deciding = True
        try:
            while not is_stopping():
                self.ready.clear()
                await self.ready.wait()
        finally:
            self.deciding = False

    def look_again(self) -> None:
        self.ready.set()

    def submit(self, event: Event) -> None:
        self.diary.append(type(event).__name__)

    async def tick(self) -> None:
        await forever()

    async def drain(self, timeout: float) -> None:
        self.diary.append(f"drain {timeout:g}")
        if "the drain" in self.stuck_in:
            await forever()

    async def stop(self) -> None:
        self.diary.append("stop")

    # the informers

    async def run(self) -> None:
        await forever()

    async def wait_synced(self) -> None:
        await self.synced.wait()

    def catch_up(self) -> None:
        self.diary.append("catch up")

    def start(self, *background: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(self.daemon.run(list(background)))


class _Outbox:
    awaits_answers = False

    def __init__(self, diary: list[str], stuck_in: set[str]) -> None:
        self._diary = diary
        self._stuck_in = stuck_in
        self.problem = asyncio.Event()

    async def run(self) -> None:
        await self.problem.wait()

    async def drain(self, timeout: float) -> None:
        self._diary.append(f"last words {timeout:g}")
        if "the last words" in self._stuck_in:
            await forever()


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    # What is frozen stays so: thawed, all that tests have imported would be looked through again in
    # every later round of the collector, here and in the tests that follow.
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


def play(story: Callable[[World], Awaitable[None]], *, elects: bool = True) -> list[str]:
    """Run a story, see that nothing is left of it, and give the daemon's diary."""
    clock = FakeClock()

    async def run() -> list[str]:
        world = World(clock, elects=elects)
        await story(world)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        assert not world.deciding
        return world.diary

    return run_in(clock, run())


def test_a_daemon_syncs_leads_decides_and_drains() -> None:
    """In this order; the lease is given back after the drain, events have the last word."""

    async def story(world: World) -> None:
        running = world.start()
        await settle()
        world.daemon.stop()
        await running

    assert play(story) == [
        Tick.__name__,
        "catch up",
        "decide",
        f"drain {DRAIN_SECONDS:g}",
        "release",
        f"last words {LAST_WORDS_SECONDS:g}",
        "stop",
    ]


def test_a_daemon_without_election_decides_at_once() -> None:
    """There is nothing to campaign for, and nothing to give back."""

    async def story(world: World) -> None:
        running = world.start()
        await settle()
        world.daemon.stop()
        await running

    diary = play(story, elects=False)
    assert "decide" in diary
    assert "release" not in diary


def test_nothing_is_decided_before_the_caches_are_complete() -> None:
    """However long it takes; a probe can tell."""

    async def story(world: World) -> None:
        world.synced.clear()
        running = world.start()
        await asyncio.sleep(25.0)
        assert world.diary == []
        assert world.leadership.is_observed
        assert not world.daemon.health.handlers_synced
        world.synced.set()
        await settle()
        assert world.deciding
        assert world.daemon.health.handlers_synced
        world.daemon.stop()
        assert world.daemon.health.shutting_down
        await running

    play(story)


def test_nothing_is_decided_before_the_lease_is_held() -> None:
    """A standby only watches."""

    async def story(world: World) -> None:
        world.leadership.leads.clear()
        running = world.start()
        await settle()
        assert not world.deciding
        world.leadership.leads.set()
        await settle()
        assert world.deciding
        world.daemon.stop()
        await running

    play(story)


@pytest.mark.parametrize("where", ["while it syncs", "while it stands by"])
def test_a_daemon_that_is_stopped_early_ends_at_once(where: str) -> None:
    """It has nothing to drain."""

    async def story(world: World) -> None:
        (world.synced if where == "while it syncs" else world.leadership.leads).clear()
        running = world.start()
        await settle()
        world.daemon.stop()
        await running

    assert "decide" not in play(story)


@pytest.mark.parametrize("during", ["the drain", "the last words"])
def test_whoever_is_told_to_stop_twice_does_not_wait(during: str) -> None:
    """Nor gives the lease back: binds may be under way, and another would decide beside them."""

    async def story(world: World) -> None:
        world.stuck_in.add(during)
        running = world.start()
        await settle()
        world.daemon.stop()
        await settle()
        assert not running.done()

        world.daemon.stop()
        with pytest.raises(NotDrainedError):
            await running

    diary = play(story)
    assert ("release" in diary) == (during == "the last words")
    assert diary[-1] == "stop"


def test_a_lease_runs_out_when_the_answer_to_a_bind_never_comes() -> None:
    """Given back, another would decide beside the bind: it may still be carried out."""

    async def story(world: World) -> None:
        running = world.start()
        await settle()
        world.outbox.awaits_answers = True
        world.daemon.stop()
        await running

    diary = play(story)
    assert f"drain {DRAIN_SECONDS:g}" in diary
    assert "release" not in diary


def test_a_lease_lost_in_the_drain_is_not_given_back() -> None:
    """It has run out for this process, and not yet for others: a bind is under way."""

    async def story(world: World) -> None:
        world.stuck_in.add("the drain")
        world.outbox.awaits_answers = True
        running = world.start()
        await settle()
        world.daemon.stop()
        await settle()
        world.leadership.is_over.set()
        with pytest.raises(LeaseLostError):
            await running

    assert not any(told.startswith("release") for told in play(story))


@pytest.mark.parametrize("awaits_answers", [False, True])
def test_no_pod_is_tried_after_the_lease_is_lost(awaits_answers: bool) -> None:
    """The daemon ends with an error. A lost lease is given back if no write is under way.

    The answer to such a write never comes here: another would decide beside it.
    """

    async def story(world: World) -> None:
        running = world.start()
        await settle()
        world.outbox.awaits_answers = awaits_answers
        world.leadership.is_over.set()
        with pytest.raises(LeaseLostError):
            await running

    diary = play(story)
    assert "release" not in diary
    assert ("release lost" in diary) is not awaits_answers
    assert diary[-1] == "stop"


def test_a_lease_lost_while_standing_by_ends_the_daemon() -> None:
    """A campaign that is over leads to nothing."""

    async def story(world: World) -> None:
        world.leadership.leads.clear()
        running = world.start()
        await settle()
        world.leadership.is_over.set()
        with pytest.raises(LeaseLostError):
            await running

    assert "decide" not in play(story)


def test_a_campaign_that_fails_says_why() -> None:
    """An error inside leader election is told as such, not as a lease that was lost."""

    async def story(world: World) -> None:
        running = world.start()
        await settle()
        world.leadership.problem = ZeroDivisionError("broken campaign")
        world.leadership.is_over.set()
        with pytest.raises(ZeroDivisionError, match="broken campaign"):
            await running

    play(story)


def test_a_cancelled_daemon_leaves_nothing_behind() -> None:
    """Cancelling the daemon ends each of its tasks, also those of its inner phases."""

    async def story(world: World) -> None:
        running = world.start(forever())
        await settle()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert play(story)[-1] == "stop"


def test_a_part_that_ignores_its_end_does_not_keep_the_daemon() -> None:
    """As a Bind plugin may that swallows its cancellation: without a lease the process must end."""
    clock = FakeClock()

    async def deaf() -> None:
        for _ in range(60):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60.0)

    async def story() -> None:
        world = World(clock)
        running = world.start(deaf())
        await settle()
        before = clock.now
        world.leadership.is_over.set()
        with pytest.raises(LeaseLostError):
            await running
        assert clock.now == pytest.approx(before + END_SECONDS)
        assert world.diary[-1] == "stop"

    run_in(clock, story())


def test_a_part_that_fails_ends_the_daemon_with_its_error() -> None:
    """A background part that raises takes the daemon with it, and nothing is tried any more."""

    async def failing() -> None:
        await settle()
        raise ZeroDivisionError("broken part")

    async def story(world: World) -> None:
        with pytest.raises(ZeroDivisionError, match="broken part"):
            await world.start(failing())

    play(story)


def test_a_part_that_ends_is_an_error_too() -> None:
    """A daemon whose outbox has ended binds nothing: it must not look alive."""

    async def story(world: World) -> None:
        running = world.start()
        await settle()
        world.outbox.problem.set()
        with pytest.raises(SchedulerError, match="ended unexpectedly"):
            await running

    play(story)


def test_how_long_the_loop_kept_others_waiting_is_told() -> None:
    """Beside the pause between two looks; a step of a second or more is worth a warning."""

    async def story(world: World) -> None:
        clock = world.daemon._clock
        assert isinstance(clock, FakeClock)
        running = world.start()
        await asyncio.sleep(0.25)
        with capture_logs() as logs:
            clock.advance(3.0)
            await asyncio.sleep(0.25)
            clock.advance(0.5)
            await asyncio.sleep(0.25)
        told = [log for log in logs if log["event"] == "Event loop stalled"]
        assert [log["log_level"] for log in told] == ["warning", "info"]
        assert told[0]["seconds"] == pytest.approx(3.0, abs=0.1)
        world.daemon.stop()
        await running
        stalls = world.loop.stalls[OTHER]
        assert stalls.sum == pytest.approx(3.5, abs=0.1)
        of_a_tenth_or_less = stalls.counts[:7]
        assert sum(stalls.counts) == sum(of_a_tenth_or_less) + 2

    play(story)


def test_pages_of_lists_go_back_to_the_system() -> None:
    """Freed blocks must not stay below what is kept: that is how a start would end up large."""
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("this C library decides by itself")
    program = """
from pathlib import Path
from scheduler.daemon.driver.daemon import return_large_blocks

def heap_kilobytes():
    lines = Path("/proc/self/smaps").read_text().split("[heap]")[1].splitlines()
    return int(next(line for line in lines if line.startswith("Size:")).split()[1])

return_large_blocks()
before, kept = heap_kilobytes(), []
for _ in range(4):
    page = bytes(2**23 - 4096)
    kept.append(bytearray(2000))
    del page
print(heap_kilobytes() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) < 2**11, "kB: a page was cut up for what stays"


def test_the_collector_walks_through_young_objects_only() -> None:
    """A walk through all objects stops the loop for 0.1 s, and finds nothing."""
    program = """
import gc
from scheduler.daemon.driver.daemon import spare_collector

def cycle():
    made = []
    made.append(made)

spare_collector()
before, kept = gc.get_stats(), []
for _ in range(500_000):
    kept.append([])
    cycle()
walks = [now["collections"] - then["collections"] for now, then in zip(gc.get_stats(), before)]
found = sum(now["collected"] - then["collected"] for now, then in zip(gc.get_stats(), before))
print(walks[2], found > 450_000)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["0", "True"]

"""The phases of the process: sync caches, acquire the lease, schedule, drain.

Source: kubernetes cmd/kube-scheduler/app/server.go (Run), pkg/scheduler/scheduler.go (Run) v1.36.
"""

import asyncio
import ctypes
import gc
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol

from scheduler.clock import Clock
from scheduler.daemon.driver.driver import LONG_SECONDS, Driver, end_in_time
from scheduler.daemon.informers.informers import Informers
from scheduler.errors import SchedulerError
from scheduler.kernel.engine.events import Tick
from scheduler.observability.logs import get_logger
from scheduler.observability.loop_shares import DECISIONS, START, TICKS, LoopShares

DRAIN_SECONDS: Final = 20.0
"""Time limit for binds in flight after the process is asked to end."""
LAST_WORDS_SECONDS: Final = 5.0
"""Time limit for events and status patches after the last bind."""
SYNC_NOTICE_SECONDS: Final = 10.0
STALL_PROBE_SECONDS: Final = 0.02
"""Much shorter than stalls that matter: nearly all work between two probes belongs to the stall."""
STALL_LOGGED_SECONDS: Final = 0.1
"""Each longer stall is logged."""
COLLECTOR_THRESHOLDS: Final = (2_000, 10, 1_000)
"""New objects before a collection, and collections of a generation before one of the next older.

New objects hardly ever form cycles. A full collection stops the loop: 0.1 s with a thousand pods in
PreBind. So it begins after some 20,000,000 new objects.
"""
LARGE_BLOCK_BYTES: Final = 2**20
"""Pages of lists are larger; columns of 50,000 nodes, which are made all the time, are not."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Source: glibc malloc.h."""

log = get_logger(__name__)


class LeaseLostError(SchedulerError):
    """This instance has lost the lease: another one may lead, so this one must end."""


class NotDrainedError(SchedulerError):
    """The process was asked to stop twice, and abandoned its binds in flight."""


class Leadership(Protocol):
    """The leader election, which decides whether this instance may bind."""

    async def observe(self) -> None:
        """Observe the lease until cancelled, without acquiring it."""
        ...

    async def run(self) -> None:
        """Acquire the lease, then renew it; return when the lease is lost."""
        ...

    async def wait_leading(self) -> None:
        """Wait until this instance leads."""
        ...

    async def release(self) -> None:
        """Release the lease."""
        ...

    async def release_lost(self) -> None:
        """Give up a lease whose time is over, unless a write left a moment ago."""
        ...


def spare_collector() -> None:
    """Exempt the present objects from garbage collection: nearly all are cached for long.

    Applies to the whole process; call it when the caches have synced.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def return_large_blocks() -> None:
    """Make the C library return freed pages of lists to the system at once, where possible.

    Applies to the whole process; call it before the first list. Otherwise glibc keeps as much as
    the largest block ever freed, and splits it for other objects.
    """
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 4 * LARGE_BLOCK_BYTES)


class DaemonHealth:
    """The state that health probes read.

    Attributes:
        handlers_synced: whether the caches have synced.
        shutting_down: whether the process was asked to end.
    """

    def __init__(self) -> None:
        self.handlers_synced = False
        self.shutting_down = False


class Daemon:
    """Runs the scheduler until it is asked to stop, or loses its lease.

    Attributes:
        health: the state that health probes read.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        informers: Informers,
        leadership: Leadership | None,
        clock: Clock,
        shares: LoopShares,
    ) -> None:
        self.health = DaemonHealth()
        self._driver = driver
        self._informers = informers
        self._leadership = leadership
        self._clock = clock
        self._shares = shares
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()

    def stop(self) -> None:
        """Begin to drain: take no more pods from the queue. The second call ends at once."""
        if self._stopping.is_set():
            self._hurried.set()
            return
        log.info("Shutting down", in_flight=self._driver.in_flight)
        self.health.shutting_down = True
        self._stopping.set()
        self._driver.look_again()

    async def run(self, background: list[Coroutine[Any, Any, None]]) -> None:
        """Run informers, election, scheduling and `background`; return after a drain.

        Args:
            background: further coroutines of the process, cancelled at the end.

        Raises:
            LeaseLostError: the lease was lost.
            NotDrainedError: the process was asked to stop twice.
        """
        tasks = [asyncio.create_task(part) for part in background]
        tasks.append(asyncio.create_task(self._informers.run()))
        tasks.append(asyncio.create_task(self._watch_loop()))
        tasks.append(asyncio.create_task(self._timed(TICKS, self._driver.tick())))
        tasks.append(asyncio.create_task(self._driver.outbox.run()))
        tasks.append(asyncio.create_task(self._hurry()))
        try:
            await _race(self._live(), tasks)
        finally:
            await end_in_time(tasks)
            await self._driver.stop()

    # --- phases ---------------------------------------------------------------------------------

    async def _live(self) -> None:
        await self._lead()
        await self._driver.outbox.drain(LAST_WORDS_SECONDS)

    async def _hurry(self) -> None:
        await self._hurried.wait()
        raise NotDrainedError("told to stop twice; binds in flight were not waited for")

    async def _lead(self) -> None:
        if not await self._unless_stopped(self._timed(START, self._sync())):
            return
        if self._leadership is None:
            await self._schedule_until_stopped()
            return
        campaign = asyncio.create_task(self._leadership.run())
        try:
            if await self._unless_stopped(_while(campaign, self._leadership.wait_leading())):
                self._informers.catch_up()
                await _while(campaign, self._schedule_until_stopped())
        except LeaseLostError:
            await self._give_back(self._leadership.release_lost)
            raise
        finally:
            await _end(campaign)
        if not self._hurried.is_set():
            await self._give_back(self._leadership.release)

    async def _give_back(self, release: Callable[[], Awaitable[None]]) -> None:
        """Let others lead at once, unless a write is under way: it may still be carried out."""
        if self._driver.outbox.awaits_answers:
            log.info("Lease not released; it will run out", reason="a write is under way")
        else:
            await release()

    async def _sync(self) -> None:
        """Wait until the caches have synced, and log the missing kinds every ten seconds."""
        waiting = asyncio.create_task(self._informers.wait_synced())
        beside = []
        if self._leadership is not None:
            # So the lease of a crashed holder expires during the sync, not later.
            beside.append(asyncio.create_task(self._leadership.observe()))
        try:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=SYNC_NOTICE_SECONDS)
                if not waiting.done():
                    log.info("Waiting for caches to sync", missing=self._informers.unsynced)
            await waiting
        finally:
            await _end(waiting, *beside)
        self._driver.submit(Tick())
        spare_collector()
        self.health.handlers_synced = True
        log.info("Caches are synced")

    async def _schedule_until_stopped(self) -> None:
        await self._timed(DECISIONS, self._driver.decide(self._stopping.is_set))
        await self._driver.drain(DRAIN_SECONDS)

    async def _watch_loop(self) -> None:
        """Measure and log the stalls of the event loop until cancelled."""
        while True:
            before = self._clock.monotonic()
            await asyncio.sleep(STALL_PROBE_SECONDS)
            late = max(0.0, self._clock.monotonic() - before - STALL_PROBE_SECONDS)
            spent = self._shares.stalled(late)
            if late > STALL_LOGGED_SECONDS:
                by_work = {work: round(seconds, 3) for work, seconds in spent.items() if seconds}
                tell = log.warning if late >= LONG_SECONDS else log.info
                tell("Event loop stalled", seconds=round(late, 3), **by_work)

    async def _timed(self, work: str, running: Coroutine[Any, Any, None]) -> None:
        await self._shares.timed(work, running)

    # --- helpers --------------------------------------------------------------------------------

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run a coroutine; return whether it ended before the process was asked to stop."""
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
            return task.done() and not self._stopping.is_set()
        finally:
            await _end(task, stopping)


async def _while(campaign: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
    """Run `work` while the task of the election runs, which ends when the lease is lost.

    Raises:
        LeaseLostError: the task of the election ended first.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task, campaign}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await campaign  # raises the error of a failed election
            raise LeaseLostError("Leaderelection lost")
        await task
    finally:
        await _end(task)


async def _race(main: Coroutine[Any, Any, None], parts: list[asyncio.Task[None]]) -> None:
    """Run `main`; raise if one of `parts` ends before `main`, since none may."""
    task = asyncio.create_task(main)
    try:
        await asyncio.wait({task, *parts}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            for part in parts:
                if part.done():
                    await part
            raise SchedulerError("a part of the daemon ended unexpectedly")
        await task
    finally:
        await _end(task)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have cleaned up."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

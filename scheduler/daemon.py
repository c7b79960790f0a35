"""The life of the process: sync, lead, schedule, bind, drain.

Source: kubernetes cmd/kube-scheduler/app/server.go (Run), pkg/scheduler/scheduler.go (Run) v1.36.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

import msgspec

from scheduler.clock import Clock
from scheduler.cycle.binding_cycle import BindingCycles
from scheduler.cycle.scheduling_cycle import Scheduler
from scheduler.errors import SchedulerError
from scheduler.informers.informers import Informers
from scheduler.observability.logs import get_logger
from scheduler.queue import SchedulingQueue

SLICE_SECONDS: Final = 0.001
"""How long cycles run before the loop serves others; see docs/architecture.md, one loop."""
BACKOFF_FLUSH_SECONDS: Final = 1.0
EARLY_SECONDS: Final = 0.005
UNSCHEDULABLE_FLUSH_SECONDS: Final = 30.0
"""Source: scheduling_queue.go (Run) v1.36."""
DRAIN_SECONDS: Final = 20.0
"""How long binds in flight may take once the process was asked to end."""
SYNC_NOTICE_SECONDS: Final = 10.0
STALL_PROBE_SECONDS: Final = 0.1
CATCH_UP_SECONDS: Final = 1.0
COLLECTOR_THRESHOLD: Final = 2_000
"""New objects before the collector looks for cycles among them: they hardly ever form any."""

log = get_logger(__name__)


class LeaseLostError(SchedulerError):
    """Another instance may be leading now: this one must end."""


class Leadership(Protocol):
    """Whether this instance may bind."""

    async def run(self) -> None:
        """Campaign, then renew; returns when the lease is lost."""
        ...

    async def wait_leading(self) -> None:
        """Wait until this instance leads."""
        ...

    async def release(self) -> None:
        """Give the lease up."""
        ...


class Cycles(msgspec.Struct, frozen=True):
    """What the daemon keeps going.

    Attributes:
        scheduler: decides.
        binding: carries decisions out.
        queue: who waits.
        ready: set when the queue may have a pod, or binding has caught up.
    """

    scheduler: Scheduler
    binding: BindingCycles
    queue: SchedulingQueue
    ready: asyncio.Event


class Health:
    """What probes ask.

    Attributes:
        handlers_synced: whether the caches are complete.
        shutting_down: whether the process was asked to end.
    """

    def __init__(self) -> None:
        self.handlers_synced = False
        self.shutting_down = False


class Daemon:
    """Runs until it is told to stop, or loses its lease.

    Attributes:
        health: what probes ask.
    """

    def __init__(
        self,
        cycles: Cycles,
        *,
        informers: Informers,
        leadership: Leadership | None,
        clock: Clock,
        on_stall: Callable[[float], None],
    ) -> None:
        self.health = Health()
        self._scheduler = cycles.scheduler
        self._binding = cycles.binding
        self._queue = cycles.queue
        self._ready = cycles.ready
        self._informers = informers
        self._leadership = leadership
        self._clock = clock
        self._on_stall = on_stall
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Begin to drain: no further pod is taken from the queue."""
        if not self._stopping.is_set():
            log.info("Shutting down", in_flight=self._binding.in_flight)
        self.health.shutting_down = True
        self._stopping.set()
        self._ready.set()

    async def run(
        self,
        background: list[Coroutine[Any, Any, None]],
        last_words: Callable[[], Awaitable[None]],
    ) -> None:
        """Run everything; returns after a drain.

        Args:
            background: the other parts, cancelled at the end.
            last_words: what is left to do before they are.

        Raises:
            LeaseLostError: another instance may lead now.
        """
        tasks = [asyncio.create_task(part) for part in background]
        tasks.append(asyncio.create_task(self._informers.run()))
        tasks.append(asyncio.create_task(self._watch_loop()))
        tasks.append(asyncio.create_task(self._catch_up()))
        try:
            await _race(self._lead(), tasks)
            await last_words()
        finally:
            await _end(*tasks)

    # --- phases ---------------------------------------------------------------------------------

    async def _lead(self) -> None:
        if not await self._unless_stopped(self._sync()):
            return
        if self._leadership is None:
            await self._schedule_until_stopped()
            return
        campaign = asyncio.create_task(self._leadership.run())
        try:
            if await self._unless_stopped(_while(campaign, self._leadership.wait_leading())):
                await _while(campaign, self._schedule_until_stopped())
        finally:
            await _end(campaign)
            if self._stopping.is_set():
                await self._leadership.release()

    async def _sync(self) -> None:
        """Wait until the caches are complete, and say what is missing while they are not."""
        waiting = asyncio.create_task(self._informers.wait_synced())
        try:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=SYNC_NOTICE_SECONDS)
                if not waiting.done():
                    log.info("Waiting for caches to sync", missing=self._informers.unsynced)
            await waiting
        finally:
            await _end(waiting)
        self._scheduler.catch_up()
        # What is in the caches now stays for long: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(COLLECTOR_THRESHOLD, *gc.get_threshold()[1:])
        self.health.handlers_synced = True
        log.info("Caches are synced")

    async def _schedule_until_stopped(self) -> None:
        flushing = asyncio.create_task(self._flush())
        binding = asyncio.create_task(self._binding.run())
        try:
            await _race(self._schedule(), [flushing, binding])
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._binding.drain()
        except TimeoutError:
            log.warning("Binds still in flight after the drain", count=self._binding.in_flight)
        finally:
            await _end(flushing, binding)

    # --- loops ----------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        """Run cycles in slices, so that requests and watches are served in between."""
        now = self._clock.monotonic
        while not self._stopping.is_set():
            self._ready.clear()
            deadline = now() + SLICE_SECONDS
            more = True
            while more and now() < deadline:
                more = self._binding.ask_for_room() and self._scheduler.schedule_one()
            if more:
                await asyncio.sleep(0)
            else:
                await self._ready.wait()

    async def _flush(self) -> None:
        """Let back-off end and nobody wait for ever."""
        next_leftover = self._clock.monotonic() + UNSCHEDULABLE_FLUSH_SECONDS
        while True:
            # Back-off ends at whole seconds of the clock, as upstream's does. A timer that fires
            # a little early must not make it last another second.
            now = self._clock.monotonic()
            await asyncio.sleep(BACKOFF_FLUSH_SECONDS - now % BACKOFF_FLUSH_SECONDS + EARLY_SECONDS)
            self._queue.flush_backoff_completed()
            if self._clock.monotonic() >= next_leftover:
                self._queue.flush_unschedulable_leftover()
                next_leftover += UNSCHEDULABLE_FLUSH_SECONDS

    async def _catch_up(self) -> None:
        """Take over changes while no attempt does: before the first, as a standby, when idle."""
        while True:
            await asyncio.sleep(CATCH_UP_SECONDS)
            self._scheduler.catch_up()

    async def _watch_loop(self) -> None:
        """Measure how long the loop keeps others waiting."""
        while True:
            before = self._clock.monotonic()
            await asyncio.sleep(STALL_PROBE_SECONDS)
            self._on_stall(max(0.0, self._clock.monotonic() - before - STALL_PROBE_SECONDS))

    # --- helpers --------------------------------------------------------------------------------

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether the work was done before the daemon was told to stop."""
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
    """Do the work as long as the campaign for the lease, or the lease, lasts.

    Raises:
        LeaseLostError: the campaign was over first.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task, campaign}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await campaign  # a campaign that failed says why
            raise LeaseLostError("Leaderelection lost")
        await task
    finally:
        await _end(task)


async def _race(main: Coroutine[Any, Any, None], parts: list[asyncio.Task[None]]) -> None:
    """Run `main`; a part that ends before it does has failed, and so has the daemon."""
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
    """Cancel tasks and wait until they have cleaned up: nothing may go on behind our back."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

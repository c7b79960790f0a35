"""Runs a campaign in its own thread: a stall of the main event loop does not lose the lease.

The thread acquires and renews the lease only while the main loop runs. If the loop has stalled for
longer than the renew deadline, the thread lets the lease expire, and another instance acquires it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from threading import Thread
from typing import Any, TypeAlias

from scheduler.clock import Clock
from scheduler.daemon.leader_election.lock import Lock


class MainLoop:
    """The main event loop, as seen by a campaign in another thread.

    Args:
        call_soon: schedules a callback in the loop, from any thread.
        clock: measures the stalls of the loop.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], clock: Clock) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._turned_at = clock.boot()
        self._is_asked = False

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Schedule a callback in the main loop; callbacks keep their order."""
        self._call_soon(callback)

    def silent_seconds(self) -> float:
        """Return the seconds since the loop last ran a probe; 0 if it ran the newest one.

        Then the caller waited, not the loop, and the next probe is scheduled.
        """
        if self._is_asked:
            return self._clock.boot() - self._turned_at
        self._is_asked = True
        self._call_soon(self._turned)
        return 0.0

    def _turned(self) -> None:
        self._turned_at = self._clock.boot()
        self._is_asked = False


Campaign: TypeAlias = Callable[[Lock, MainLoop], Coroutine[Any, Any, None]]
"""Acquires the lease and renews it until it is lost, by a lock of the loop that it runs in."""


class CampaignThread:
    """Runs a campaign in a thread with its own loop and connections.

    The connections are open when the lease is acquired: renewals of a new leader do not wait for
    the TLS handshakes of its first binds.

    Args:
        open_lock: makes a lock for the thread's loop; called there with the main loop.
        clock: measures the stalls of the main loop.
    """

    def __init__(
        self,
        open_lock: Callable[[asyncio.AbstractEventLoop], AbstractAsyncContextManager[Lock]],
        clock: Clock,
    ) -> None:
        self._open_lock = open_lock
        self._clock = clock

    async def __call__(self, campaign: Campaign) -> None:
        """Run a campaign to its end. If cancelled, return after the thread has ended."""
        home = asyncio.get_running_loop()
        loop = asyncio.new_event_loop()
        task = loop.create_task(self._work(campaign, home))
        ended = asyncio.Event()

        def run() -> None:
            try:
                # The task itself holds its result or error.
                loop.run_until_complete(asyncio.wait({task}))
            finally:
                loop.close()
                with suppress(RuntimeError):  # the main loop is closed already
                    home.call_soon_threadsafe(ended.set)

        # The end of the process must not wait for an API server that does not answer.
        Thread(target=run, name="lease", daemon=True).start()
        try:
            await ended.wait()
        except asyncio.CancelledError:
            with suppress(RuntimeError):  # the thread's loop is closed already
                loop.call_soon_threadsafe(task.cancel)
            await ended.wait()
            raise
        task.result()

    async def _work(self, campaign: Campaign, home: asyncio.AbstractEventLoop) -> None:
        async with self._open_lock(home) as lock:
            await campaign(lock, MainLoop(home.call_soon_threadsafe, self._clock))


async def in_this_loop(lock: Lock, clock: Clock, campaign: Campaign) -> None:
    """Run a campaign in the current loop; a stall of the loop may lose the lease."""
    await campaign(lock, MainLoop(lambda callback: callback(), clock))

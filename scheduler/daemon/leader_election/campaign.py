"""A campaign in a thread of its own: a long step of the main loop does not cost the lease.

The thread claims and renews only for a main loop that turns. For one that has stood still for
longer than the renew deadline it does neither, so that another instance takes over.
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
        call_soon: has the loop call something, from any thread.
        clock: the time.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], clock: Clock) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._turned_at = clock.boot()
        self._is_asked = False

    def tell(self, callback: Callable[[], None]) -> None:
        """Have a callback called in the main loop; callbacks keep their order."""
        self._call_soon(callback)

    def silent_seconds(self) -> float:
        """Return the seconds since the loop last answered a probe, and send the next probe."""
        if not self._is_asked:
            self._is_asked = True
            self._call_soon(self._turned)
        return self._clock.boot() - self._turned_at

    def _turned(self) -> None:
        self._turned_at = self._clock.boot()
        self._is_asked = False


Campaign: TypeAlias = Callable[[Lock, MainLoop], Coroutine[Any, Any, None]]
"""Waits for the lease and renews it until it is lost, with a lock of the loop that it runs in."""


class CampaignThread:
    """Runs a campaign in a thread with a loop and connections of its own.

    These are open when the lease is won: a new leader begins with many binds, and must not renew
    behind their handshakes.

    Args:
        open_lock: makes a lock for the thread's loop; called there with the main loop.
        clock: the time.
    """

    def __init__(
        self,
        open_lock: Callable[[asyncio.AbstractEventLoop], AbstractAsyncContextManager[Lock]],
        clock: Clock,
    ) -> None:
        self._open_lock = open_lock
        self._clock = clock

    async def __call__(self, campaign: Campaign) -> None:
        """Run a campaign to its end. Cancelled, it returns when the thread is done."""
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

        # A process that ends must not wait for an API server that does not answer.
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
    """Campaign beside everything else: a long step of the loop may cost the lease."""
    await campaign(lock, MainLoop(lambda callback: callback(), clock))

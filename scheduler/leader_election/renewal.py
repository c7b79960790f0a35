"""Renewals in a thread of their own: a long step of the main loop does not cost the lease.

The thread renews only for a main loop that turns. One that has stood still for longer than the
renew deadline is renewed for no more, so that another instance takes over.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from threading import Thread
from typing import Any, TypeAlias

from scheduler.clock import Clock
from scheduler.leader_election.lock import Lock

Renew: TypeAlias = Callable[[Lock, Callable[[], float]], Coroutine[Any, Any, None]]
"""Renews until the lease is lost.

It is given a lock of the loop that it runs in, and how long the main loop has stood still, in
seconds.
"""


class Heartbeat:
    """For how long a loop has stood still; asked from another thread.

    Args:
        call_soon: has the loop call something, from any thread.
        clock: the time.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], clock: Clock) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._turned_at = clock.boot()
        self._is_asked = False

    def silent_seconds(self) -> float:
        """Seconds since the loop last turned, as far as it was asked; it is asked once more."""
        if not self._is_asked:
            self._is_asked = True
            self._call_soon(self._turned)
        return self._clock.boot() - self._turned_at

    def _turned(self) -> None:
        self._turned_at = self._clock.boot()
        self._is_asked = False


class RenewalThread:
    """Runs renewals in a thread with a loop and connections of its own.

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

    async def __call__(self, renew: Renew) -> None:
        """Run renewals to their end. Cancelled, it returns when the thread is done."""
        home = asyncio.get_running_loop()
        loop = asyncio.new_event_loop()
        task = loop.create_task(self._work(renew, home))
        ended = asyncio.Event()

        def run() -> None:
            try:
                # How the task ended is told by the task.
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

    async def _work(self, renew: Renew, home: asyncio.AbstractEventLoop) -> None:
        heartbeat = Heartbeat(home.call_soon_threadsafe, self._clock)
        async with self._open_lock(home) as lock:
            await renew(lock, heartbeat.silent_seconds)


async def in_this_loop(lock: Lock, renew: Renew) -> None:
    """Renew beside everything else: a long step of the loop may cost the lease."""
    await renew(lock, lambda: 0.0)

"""An optional limit of the request rate: qps and burst of `clientConnection`."""

import asyncio

from scheduler.clock import Clock


class TokenBucket:
    """Lets `burst` requests through at once and `qps` per second after that.

    Callers are served in order: each reserves the next free moment.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._interval_seconds = 1.0 / qps
        self._burst = max(1, burst)
        self._clock = clock
        self._next_full = clock.monotonic()

    async def acquire(self) -> None:
        """Take one token, and wait until it may be used."""
        delay = self.reserve()
        if delay > 0:
            await asyncio.sleep(delay)

    def reserve(self) -> float:
        """Take one token, and return the seconds until it may be used."""
        now = self._clock.monotonic()
        # The bucket is full at `_next_full`; each taken token delays it by one interval.
        self._next_full = max(self._next_full, now) + self._interval_seconds
        return max(0.0, self._next_full - now - self._burst * self._interval_seconds)

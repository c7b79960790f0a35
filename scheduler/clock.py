"""The one place that reads the time."""

import time
from datetime import UTC, datetime
from typing import Final, Protocol


class MonotonicClock(Protocol):
    """Monotonic time, for durations and deadlines."""

    def monotonic(self) -> float:
        """Seconds that never go back; for durations and deadlines."""
        ...


class EventClock(Protocol):
    """A clock that stands still while an event is handled.

    Attributes:
        now: the time of the event in seconds; never goes back.
    """

    now: float


class Clock(MonotonicClock, Protocol):
    """The source of time; injected everywhere."""

    def wall(self) -> datetime:
        """The time of day in UTC; only for fields that the API requires as RFC 3339."""
        ...

    def boot(self) -> float:
        """Seconds that never go back and continue while the machine is suspended.

        For times that another machine measures as well (a lease); not comparable to `monotonic`.
        """
        ...

    def cpu(self) -> float:
        """Seconds of processor time that this thread has taken."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the thread, and with it the event loop."""
        ...


_SINCE_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Source: clock_gettime(2); Linux only, and elsewhere CLOCK_MONOTONIC is the nearest to it."""


class SystemClock:
    """The machine's clock."""

    monotonic = staticmethod(time.monotonic)
    """See `Clock.monotonic`; read some sixty times for each pod, so there is no step between."""
    cpu = staticmethod(time.thread_time)
    """See `Clock.cpu`."""
    sleep = staticmethod(time.sleep)
    """See `Clock.sleep`."""

    def boot(self) -> float:
        """See `Clock.boot`."""
        return time.clock_gettime(_SINCE_BOOT)

    def wall(self) -> datetime:
        """See `Clock.wall`."""
        return datetime.now(UTC)


class Throttle:
    """Lets one event through per so many seconds, and counts the others."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._next = float("-inf")
        self._held_back = 0

    def take(self) -> int | None:
        """Return the number held back since the last one let through; None to hold back."""
        now = self._clock.monotonic()
        if now < self._next:
            self._held_back += 1
            return None
        self._next = now + self._seconds
        held_back, self._held_back = self._held_back, 0
        return held_back

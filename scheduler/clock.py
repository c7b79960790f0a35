"""The one place that reads the time."""

import time
from datetime import UTC, datetime
from typing import Protocol


class MonotonicClock(Protocol):
    """Time for those to whom the time of day means nothing."""

    def monotonic(self) -> float:
        """Seconds that never go back; for durations and deadlines."""
        ...


class Clock(MonotonicClock, Protocol):
    """Where time comes from; injected everywhere."""

    def wall(self) -> datetime:
        """The time of day in UTC; only for what the API wants as RFC 3339."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()

    def wall(self) -> datetime:
        """See `Clock.wall`."""
        return datetime.now(UTC)

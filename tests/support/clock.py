"""A clock that stands still until it is told to move."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Stands in for `scheduler.clock.SystemClock`.

    Attributes:
        now: seconds of the monotonic clock.
        used: seconds of processor time.
        start: the time of day at which the monotonic clock showed 0.
        suspended: seconds for which the machine has been suspended.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.suspended = 0.0
        self.used = 0.0
        self.start = datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.now

    def boot(self) -> float:
        return self.now + self.suspended

    def wall(self) -> datetime:
        return self.start + timedelta(seconds=self.now)

    def cpu(self) -> float:
        return self.used

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not go back")
        self.now += seconds

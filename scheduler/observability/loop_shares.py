"""Measures the event loop's time by kind of work, and finds the kind of work that causes a stall.

It works with any event loop: each step of a coroutine is timed until it suspends.
"""

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final, TypeVar

from scheduler.observability.instruments import Instruments

T = TypeVar("T")

DECISIONS: Final = "decisions"
WATCHES: Final = "watches"
BINDS: Final = "binds"
EVENTS: Final = "events"
OTHER_WRITES: Final = "other_writes"
TICKS: Final = "ticks"
START: Final = "start"
OTHER: Final = "other"
"""A stall in which no timed work took half of the time."""
NOT_RUNNING: Final = "not_running"
"""The part of a stall in which the loop's thread did not run: other threads had the processor."""
WORK: Final = (DECISIONS, WATCHES, BINDS, EVENTS, OTHER_WRITES, TICKS, START)


class LoopMetrics:
    """The families of the event loop; indexed by kind of work."""

    def __init__(self, add: Instruments) -> None:
        self.busy_seconds = add.counter(
            "stowage_loop_busy_seconds_total",
            "Time of the event loop by what it was for: decisions, watches (lists included), "
            "binds, events, other_writes, ticks, start. Receiving and encryption are in none.",
            "work",
        )
        self.stalls = add.histogram(
            "stowage_loop_stall_seconds",
            "How much later than asked for the event loop ran a timer: for how long its thread ran "
            "meanwhile, by the work that took most (other where none took half of it), and for how "
            "long it did not (not_running: throttled, others had the processor; a rest is 3 ms).",
            "work",
            bounds=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
        )
        for work in WORK:
            self.busy_seconds[work].inc(0)


class LoopShares:
    """Adds up the time of steps by kind of work.

    Args:
        metrics: receives the sums.
        now: returns the monotonic time in seconds.
        ran: returns the processor time of the loop's thread in seconds.
    """

    def __init__(
        self, metrics: LoopMetrics, now: Callable[[], float], ran: Callable[[], float]
    ) -> None:
        self._metrics = metrics
        self._now = now
        self._ran, self._ran_before = ran, 0.0
        self._since = dict.fromkeys(WORK, 0.0)
        """Seconds by kind of work since the last call of `stalled`."""

    @coroutine
    def timed(self, work: str, running: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run a coroutine to its end, as `await` does, and time its steps."""
        now, spent, since = self._now, self._metrics.busy_seconds[work], self._since
        step: Callable[[Any], Any] = running.send
        told: Any = None
        while True:
            start = now()
            try:
                awaited = step(told)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                seconds = now() - start
                spent.inc(seconds)
                since[work] += seconds
            try:
                told = yield awaited
                step = running.send
            except BaseException as problem:  # noqa: BLE001 - whatever it is, it is not for us
                step, told = running.throw, problem

    def stalled(self, seconds: float) -> dict[str, float]:
        """Measure a stall: the loop was late by `seconds`.

        Returns:
            Seconds by kind of work since the last call.
        """
        since, before = self._since, self._ran_before
        self._ran_before = self._ran()
        ran = min(seconds, self._ran_before - before)
        most = max(since, key=since.__getitem__)
        self._metrics.stalls[most if 2 * since[most] >= ran else OTHER].observe(ran)
        if ran < seconds:
            self._metrics.stalls[NOT_RUNNING].observe(seconds - ran)
        told = {**since, NOT_RUNNING: seconds - ran}
        since.update(dict.fromkeys(since, 0.0))
        return told

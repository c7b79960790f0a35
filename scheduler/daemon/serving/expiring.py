"""A cache of answers that expire, of limited size."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from scheduler.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringAnswers(Generic[K, V]):
    """Caches answers by question; concurrent callers with the same question share one request.

    Invariant: at most `max_size` answers are kept; the oldest is dropped first. Failures are not
    kept.
    """

    def __init__(self, clock: Clock, seconds_for: Callable[[V], float], max_size: int) -> None:
        self._clock = clock
        self._seconds_for = seconds_for
        self._max_size = max_size
        self._answers: dict[K, tuple[float, V]] = {}
        self._asking: dict[K, asyncio.Future[V]] = {}

    async def get(self, question: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the cached answer if it is valid, else a new one from `ask`."""
        known = self._answers.get(question)
        if known is not None and self._clock.monotonic() < known[0]:
            return known[1]
        asking = self._asking.get(question)
        if asking is None:
            asking = asyncio.ensure_future(ask())
            self._asking[question] = asking
            asking.add_done_callback(lambda done: self._keep(question, done))
        # A cancelled caller must not cancel the request, for whose answer others may wait.
        return await asyncio.shield(asking)

    def _keep(self, question: K, done: asyncio.Future[V]) -> None:
        del self._asking[question]
        if done.cancelled() or done.exception() is not None:
            return
        answer = done.result()
        self._answers.pop(question, None)
        while len(self._answers) >= self._max_size:
            del self._answers[next(iter(self._answers))]
        expires = self._clock.monotonic() + self._seconds_for(answer)
        self._answers[question] = (expires, answer)

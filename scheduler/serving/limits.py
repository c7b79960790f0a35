"""How much strangers may make us ask and say."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from typing_extensions import override

from scheduler.client.errors import UnavailableError
from scheduler.client.reviews import User
from scheduler.clock import Clock
from scheduler.serving.authentication import Reviews

MAX_REVIEWS: Final = 20
"""Questions about callers that the API server is asked at a time."""

REVIEW_SECONDS: Final = 10.0
"""How long a caller waits for the answer about itself."""


class LimitedReviews(Reviews):
    """Asks about so many callers at a time; the others wait, and not for ever."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews
        self._slots = asyncio.Semaphore(MAX_REVIEWS)

    @override
    async def review_token(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        async with self._slot():
            return await self._reviews.review_token(token, audiences)

    @override
    async def review_access(self, user: User, path: str, verb: str) -> bool:
        async with self._slot():
            return await self._reviews.review_access(user, path, verb)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(REVIEW_SECONDS), self._slots:
                yield
        except TimeoutError as problem:
            raise UnavailableError("review", message="no answer in time") from problem


class Throttle:
    """Lets one through per so many seconds, and counts the others."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._next = float("-inf")
        self._held_back = 0

    def take(self) -> int | None:
        """How many were held back since the last one that was let through; None holds back."""
        now = self._clock.monotonic()
        if now < self._next:
            self._held_back += 1
            return None
        self._next = now + self._seconds
        held_back, self._held_back = self._held_back, 0
        return held_back

"""Limits the reviews that unauthenticated clients cause."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from typing_extensions import override

from scheduler.daemon.client.errors import UnavailableError
from scheduler.daemon.client.reviews import User
from scheduler.daemon.serving.authentication import Reviews

MAX_REVIEWS: Final = 20
"""Reviews under way at most."""

REVIEW_SECONDS: Final = 10.0
"""Time limit of a review, the wait for its turn included."""


class LimitedReviews(Reviews):
    """Limits the number of reviews under way; others wait, at most `REVIEW_SECONDS`."""

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

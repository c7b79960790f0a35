"""Suspends the event loop briefly while many requests are under way."""

import asyncio
from collections.abc import Callable
from typing import Final

from scheduler.clock import Clock

MANY: Final = 32
"""Least number of requests under way for a rest: each takes the server longer than a rest."""
REST_SECONDS: Final = 0.003
BUSY_SECONDS: Final = 0.002
"""No rest after this much work since the last one: two slices of decisions, many answers."""
LOOK_SECONDS: Final = 0.1


async def rest_for_ever(clock: Clock, under_way: Callable[[], int]) -> None:
    """Rest while many requests are under way, so that their answers are processed together.

    Between single answers, other work would fill the processor's caches. Beside an API server on
    the same cores the rests save up to a quarter of this process's processor time.

    Args:
        clock: suspends the loop.
        under_way: returns the number of requests under way.
    """
    now = clock.monotonic
    while True:
        start = now()
        # One iteration of the event loop receives the answers, the next one processes them.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if under_way() < MANY:
            await asyncio.sleep(LOOK_SECONDS)
        elif now() - start < BUSY_SECONDS:
            clock.sleep(REST_SECONDS)

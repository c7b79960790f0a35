"""The loop rests while many requests are under way."""

import asyncio
from collections.abc import Callable
from typing import Final

from scheduler.clock import Clock

MANY: Final = 32
"""Requests under way from which on the loop rests: each takes the server longer than a rest."""
REST_SECONDS: Final = 0.003
BUSY_SECONDS: Final = 0.002
"""No rest after this much work since the last one: two slices of decisions, many answers."""
LOOK_SECONDS: Final = 0.1


async def rest_for_ever(clock: Clock, under_way: Callable[[], int]) -> None:
    """Rest while many answers are on their way, so that several arrive before any is processed.

    One at a time, each would find the processor's caches full of other things.

    Args:
        clock: suspends the loop.
        under_way: returns the number of requests under way.
    """
    now = clock.monotonic
    while True:
        start = now()
        # One turn of the loop receives the answers, the next one processes them.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if under_way() < MANY:
            await asyncio.sleep(LOOK_SECONDS)
        elif now() - start < BUSY_SECONDS:
            clock.sleep(REST_SECONDS)

"""The loop rests while many requests are under way."""

import asyncio
from collections.abc import Callable
from typing import Final

from scheduler.clock import Clock

MANY: Final = 32
"""While so many requests are under way, the loop rests: each takes the server longer than that."""
REST_SECONDS: Final = 0.003
BUSY_SECONDS: Final = 0.002
"""No rest where this much was to do since the last one: two slices of decisions, many answers."""
LOOK_SECONDS: Final = 0.1


async def rest_for_ever(clock: Clock, under_way: Callable[[], int]) -> None:
    """While many answers are on their way, let several arrive before the loop processes any.

    One at a time, each would find the processor's caches full of other things.

    Args:
        clock: holds the loop up.
        under_way: returns the number of requests under way.
    """
    now = clock.monotonic
    while True:
        start = now()
        # One turn of the loop receives what has come, the next one works through it.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if under_way() < MANY:
            await asyncio.sleep(LOOK_SECONDS)
        elif now() - start < BUSY_SECONDS:
            clock.rest(REST_SECONDS)

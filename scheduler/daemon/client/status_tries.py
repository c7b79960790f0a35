"""Writes a status in several tries: its object may have no later attempt that would write it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from scheduler.errors import RequestError

TRIES: Final = 4
FIRST_PAUSE_SECONDS: Final = 0.01
LONGER: Final = 5
"""Source: client-go util/retry/util.go (DefaultBackoff) v0.36."""

QUICK_SECONDS: Final = 1.0
"""After a longer time no other try follows: other writes, such as a binding, wait for this one."""


async def in_tries(
    write: Callable[[], Awaitable[None]], *, within: float = QUICK_SECONDS
) -> RequestError | None:
    """Write a status; repeat a request that may succeed later.

    `within`: seconds since the first try after which no other try follows.

    Returns:
        The last problem; None if the status is written.

    Source: pkg/scheduler/util/utils.go (Retriable, PatchPodStatus, PatchPodGroupStatus) v1.36.
    """
    now = asyncio.get_running_loop().time
    start, pause = now(), FIRST_PAUSE_SECONDS
    for left in reversed(range(TRIES)):
        try:
            await write()
        except RequestError as problem:
            if not left or problem.is_certain or now() - start > within:
                return problem
        else:
            return None
        await asyncio.sleep(pause)
        pause *= LONGER
    raise AssertionError("the last try returns")

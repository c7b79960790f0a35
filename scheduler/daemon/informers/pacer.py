"""Keeps long work from holding up the loop."""

import asyncio
from typing import Final

from scheduler.clock import Clock

SLICE_SECONDS: Final = 0.001


class Pacer:
    """Tells when a slice of the loop's time is used up, and gives the loop to others then."""

    def __init__(self, clock: Clock, slice_seconds: float = SLICE_SECONDS) -> None:
        self._clock = clock
        self._slice_seconds = slice_seconds
        self._ends = clock.monotonic() + slice_seconds

    @property
    def is_due(self) -> bool:
        """Whether it is time to pause."""
        return self._clock.monotonic() >= self._ends

    async def pause(self) -> None:
        """Lets everything else that is ready run once; then a new slice begins."""
        await asyncio.sleep(0)
        self.restart()

    def restart(self) -> None:
        """Begins a new slice now, because the loop has just been elsewhere."""
        self._ends = self._clock.monotonic() + self._slice_seconds

"""Runs the daemon with a shifted time of day.

``python -m e2e.chaos.clocks FILE run ...`` reads the offset in seconds from FILE. The daemon reads
the time in one place, which this module replaces before anything else is imported; the product
needs no switch for it. The monotonic clock is not shifted, as when the system clock is set.
"""

import os
import runpy
import sys
from datetime import datetime, timedelta
from pathlib import Path
from struct import Struct

from typing_extensions import override

import scheduler.clock

_SECONDS = Struct("<d")


class MovedClock(scheduler.clock.SystemClock):
    """The system clock with an offset to the time of day."""

    descriptor: int
    """Descriptor of the offset file, opened once, since some faults leave no free descriptors."""

    @override
    def wall(self) -> datetime:
        (seconds,) = _SECONDS.unpack(os.pread(self.descriptor, _SECONDS.size, 0))
        return super().wall() + timedelta(seconds=seconds)


def move(offset_file: Path, seconds: float) -> None:
    """Set the offset in one write."""
    descriptor = os.open(offset_file, os.O_WRONLY | os.O_CREAT)
    os.pwrite(descriptor, _SECONDS.pack(seconds), 0)
    os.close(descriptor)


if __name__ == "__main__":
    MovedClock.descriptor = os.open(sys.argv.pop(1), os.O_RDONLY)
    scheduler.clock.SystemClock = MovedClock  # type: ignore[misc] # what this module is for
    runpy.run_module("scheduler", run_name="__main__", alter_sys=True)

"""The daemon on a clock whose time of day can be moved.

``python -m e2e.chaos.clocks FILE run ...``: FILE holds by how many seconds. The product has no
switch to pretend another time, and needs none: it reads the time in one place, which is exchanged
here before anything else is imported. What measures durations goes on evenly, as it does when
somebody sets a machine's clock.
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
    """The machine's clock, but for the time of day."""

    descriptor: int
    """Of the file, opened once: a daemon without file descriptors still knows the time."""

    @override
    def wall(self) -> datetime:
        (seconds,) = _SECONDS.unpack(os.pread(self.descriptor, _SECONDS.size, 0))
        return super().wall() + timedelta(seconds=seconds)


def move(offset_file: Path, seconds: float) -> None:
    """Sets the clocks that follow the file, in one write."""
    descriptor = os.open(offset_file, os.O_WRONLY | os.O_CREAT)
    os.pwrite(descriptor, _SECONDS.pack(seconds), 0)
    os.close(descriptor)


if __name__ == "__main__":
    MovedClock.descriptor = os.open(sys.argv.pop(1), os.O_RDONLY)
    scheduler.clock.SystemClock = MovedClock  # type: ignore[misc] # what this module is for
    runpy.run_module("scheduler", run_name="__main__", alter_sys=True)

"""The daemon on a clock whose time of day can be moved.

``python -m e2e.chaos.clocks FILE run ...``: FILE holds by how many seconds. The product has no
switch to pretend another time, and needs none: it reads the time in one place, which is exchanged
here before anything else is imported. What measures durations goes on evenly, as it does when
somebody sets a machine's clock.
"""

import runpy
import sys
from datetime import datetime, timedelta
from pathlib import Path

from typing_extensions import override

import scheduler.clock


class MovedClock(scheduler.clock.SystemClock):
    """The machine's clock, but for the time of day."""

    offset_file: Path

    @override
    def wall(self) -> datetime:
        return super().wall() + timedelta(seconds=float(self.offset_file.read_text()))


def move(offset_file: Path, seconds: float) -> None:
    """Sets the clocks that follow the file; never half a number."""
    fresh = offset_file.with_suffix(".new")
    fresh.write_text(f"{seconds:g}")
    fresh.replace(offset_file)


if __name__ == "__main__":
    MovedClock.offset_file = Path(sys.argv.pop(1))
    scheduler.clock.SystemClock = MovedClock  # type: ignore[misc] # what this module is for
    runpy.run_module("scheduler", run_name="__main__", alter_sys=True)

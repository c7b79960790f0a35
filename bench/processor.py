"""Measures CPU usage, and waits until programs are idle."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from e2e.support.processes import Program

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

_IDLE_SHARE = 0.05
"""Share of one core that an idle server uses."""


def wait_until_idle(programs: Sequence[Program], timeout_seconds: float = 60) -> None:
    """Wait until ``programs`` together are idle; return silently after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    every_seconds = 0.5
    before = _cpu_seconds(programs)
    while time.monotonic() < deadline:
        time.sleep(every_seconds)
        now = _cpu_seconds(programs)
        if now - before <= _IDLE_SHARE * every_seconds:
            return
        before = now


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds up to one time.

    Attributes:
        moment: on the monotonic clock.
        machine: of the whole machine, including stolen time.
        programs: by program name.
        own: of this process.
    """

    moment: float
    machine: float
    programs: dict[str, float]
    own: float

    @classmethod
    def now(cls, programs: Sequence[Program]) -> Self:
        """Read the current values."""
        return cls(
            time.monotonic(),
            _machine_seconds(),
            {program.name: program.cpu_seconds() for program in programs},
            time.process_time(),
        )

    def foreign_share(self, since: Self) -> float:
        """Return the share of the machine that other processes used since ``since``.

        A high share makes a measurement less reliable.
        """
        ours = sum(self.programs.values()) - sum(since.programs.values()) + self.own - since.own
        capacity = (self.moment - since.moment) * (os.cpu_count() or 1)
        return max(0.0, self.machine - since.machine - ours) / capacity if capacity else 0.0


def _cpu_seconds(programs: Sequence[Program]) -> float:
    return sum(program.cpu_seconds() for program in programs)


def _machine_seconds() -> float:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(each) for each in fields[:8])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_SECOND

"""Reads the number of pods that a running daemon has scheduled."""

from typing import Final

from e2e.support.processes import Program
from e2e.support.scraping import fetch

_SCHEDULED: Final = 'scheduler_schedule_attempts_total{profile="stowage",result="scheduled"}'


def scheduled(program: Program) -> float:
    """Return the number of pods scheduled since its start."""
    for line in fetch(f"{program.url}/metrics").splitlines():
        if line.startswith(_SCHEDULED):
            return float(line.rpartition(" ")[2])
    return 0.0

"""Ages as kubectl shows them.

Source: k8s.io/apimachinery pkg/util/duration (HumanDuration).
"""

from datetime import datetime
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def age(timestamp: str | None, now: datetime) -> str:
    """How long ago something was, given as the API writes times."""
    if not timestamp:
        return "<unknown>"
    then = datetime.fromisoformat(timestamp)
    return human_duration(int((now - then).total_seconds()))


def human_duration(seconds: int) -> str:
    """A duration in at most two units, the finer one only while it matters."""
    seconds = max(seconds, 0)
    steps = (
        (2 * _MINUTE, 1, "s", 0, ""),
        (10 * _MINUTE, _MINUTE, "m", 1, "s"),
        (3 * _HOUR, _MINUTE, "m", 0, ""),
        (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
        (2 * _DAY, _HOUR, "h", 0, ""),
        (8 * _DAY, _DAY, "d", _HOUR, "h"),
        (2 * _YEAR, _DAY, "d", 0, ""),
        (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    )
    for limit, unit, letter, fine_unit, fine_letter in steps:
        if seconds < limit:
            whole, rest = divmod(seconds, unit)
            fine = rest // fine_unit if fine_unit else 0
            return f"{whole}{letter}{fine}{fine_letter}" if fine else f"{whole}{letter}"
    return f"{seconds // _YEAR}y"

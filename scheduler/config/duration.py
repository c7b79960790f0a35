"""Durations as Kubernetes writes them: `15s`, `1m30s`, `1.5h`.

Source: Go time.ParseDuration and Duration.String.
"""

import re
from decimal import Decimal
from fractions import Fraction

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"[+-]?(?:0|(?:{_PART})+)", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)
_MAX_NANOSECONDS = 2**63 - 1
MAX_LENGTH = 128
"""Longer texts are no durations: annotations of pods can have 256 KiB."""

EXPECTED = 'a duration such as "15s", "1m30s" or "2h"'


def parse_duration(text: str) -> float | None:
    """Read a duration.

    Returns:
        Seconds, or None when the text is not a duration, or longer than `MAX_LENGTH`.
    """
    if len(text) > MAX_LENGTH or _DURATION.fullmatch(text) is None:
        return None
    nanoseconds = sum(
        (int(Decimal(number) * _NANOSECONDS[unit]) for number, unit in _PARTS.findall(text)), 0
    )
    if nanoseconds > _MAX_NANOSECONDS:
        return None
    seconds = nanoseconds / 10**9
    return -seconds if text.startswith("-") else seconds


def format_duration(seconds: float) -> str:
    """Write a duration as Go does: `1m30s`, `10m0s`, `250ms`, `0s`."""
    # An exact product: a float times 1e9 would be rounded twice.
    nanoseconds = round(abs(Fraction(seconds)) * 10**9)
    sign = "-" if seconds < 0 and nanoseconds else ""
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < _NANOSECONDS["s"]:
        for unit in ("ms", "us", "ns"):
            if nanoseconds >= _NANOSECONDS[unit]:
                return f"{sign}{_decimal(nanoseconds, _NANOSECONDS[unit])}{unit.replace('u', 'µ')}"
    minutes, rest = divmod(nanoseconds, _NANOSECONDS["m"])
    text = f"{_decimal(rest, _NANOSECONDS['s'])}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(nanoseconds: int, unit: int) -> str:
    """Return the number of units without trailing zeros."""
    whole, fraction = divmod(nanoseconds, unit)
    digits = str(fraction).zfill(len(str(unit)) - 1).rstrip("0") if fraction else ""
    return f"{whole}.{digits}" if digits else str(whole)

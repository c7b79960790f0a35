"""Timestamps and durations.

Source: github.com/google/cel-go v0.26.0 common/types (timestamp.go, duration.go), Go's time.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from scheduler.kernel.cel import effort
from scheduler.kernel.cel.declarations import Function, function
from scheduler.kernel.cel.errors import EvaluationError
from scheduler.kernel.cel.values import INT_MAX, INT_MIN, MAX_DIGITS, Duration, Timestamp, Value

_SECOND: Final = 10**9
_FIRST: Final = -62135596800
_LAST: Final = 253402300799
_MAX_OFFSET: Final = (24, 60)
"""Hours and minutes that Go reads in an offset, both included."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_CYCLE: Final = 146097
"""Days of 400 years."""
_UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MOMENT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII,
)


def checked_duration(nanoseconds: int) -> Duration:
    """Return a duration.

    Raises:
        EvaluationError: 64 bits do not hold it.
    """
    if not INT_MIN <= nanoseconds <= INT_MAX:
        raise EvaluationError("integer overflow")
    return Duration(nanoseconds)


def checked_timestamp(nanoseconds: int, offset: int) -> Timestamp:
    """Return a timestamp.

    Raises:
        EvaluationError: it is outside the years 1 to 9999.
    """
    if not _FIRST <= nanoseconds // _SECOND <= _LAST:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanoseconds, offset)


def parse_duration(text: str) -> Duration:
    """Read a duration as Go does: `1h30m`, `-1.5s`.

    Raises:
        EvaluationError: the text is none.
    """
    failed = EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    sign, rest = ("-", text[1:]) if text[:1] == "-" else ("", text.removeprefix("+"))
    if rest == "0":
        return Duration(0)
    effort.charge(len(text))
    total, position = 0, 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None or not (match[1] or match[2]):
            raise failed
        whole, unit = match[1].lstrip("0"), _UNITS[match[3]]
        if len(whole) > MAX_DIGITS:
            raise failed
        total += int(whole or "0") * unit + _part_of(unit, match[2] or "")
        position = match.end()
    total = -total if sign else total
    if not rest or not INT_MIN <= total <= INT_MAX:
        raise failed
    return Duration(total)


def _part_of(unit: int, digits: str) -> int:
    """A fraction of a unit, in nanoseconds: of the digits that 64 bits hold, as a double."""
    number, scale = 0, 1.0
    for digit in digits[:MAX_DIGITS]:
        longer = number * 10 + int(digit)
        if number > INT_MAX // 10 or longer > INT_MAX + 1:
            break
        number, scale = longer, scale * 10
    return int(float(number) * (float(unit) / scale))


def parse_timestamp(text: str) -> Timestamp:
    """Read a timestamp in the form of RFC 3339.

    Raises:
        EvaluationError: the text is none.
    """
    failed = EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise failed
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > _MAX_OFFSET[0] or minutes > _MAX_OFFSET[1]:
            raise failed
        offset = (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)
    if (hour, minute, second) != (hour % 24, minute % 60, second % 60):
        raise failed
    # No year 0 in Python's calendar; it is out of range, and as long as year 4.
    try:
        days = (date(year or 4, month, day) - date(1970, 1, 1)).days
    except ValueError:
        raise failed from None
    if not year:
        raise EvaluationError("timestamp overflow")
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset
    fraction = int((match[7] or "")[:9].ljust(9, "0"))
    return checked_timestamp(seconds * _SECOND + fraction, offset)


def duration_text(value: Duration) -> str:
    """A duration in seconds, as `string()` writes it."""
    whole, part = divmod(abs(value.nanoseconds), _SECOND)
    # Go prints the double next to it: seconds and rest are added as doubles.
    seconds = float(whole) + part / 1e9
    return ("-" if value.nanoseconds < 0 else "") + _plain(seconds) + "s"


def _plain(number: float) -> str:
    text = repr(number)
    if "e" in text:
        mantissa, _, power = text.partition("e")
        whole, _, part = mantissa.partition(".")
        places = -int(power)
        digits = whole + part
        text = "0." + "0" * (places - 1) + digits if places > 0 else digits.ljust(1 - places, "0")
    return text.removesuffix(".0")


@dataclass(frozen=True, slots=True)
class _Clock:
    """A moment as a calendar and a clock show it, without the bounds of Python's calendar."""

    year: int
    month: int
    day: int
    second: int
    """Second of the day."""
    days: int
    """Since 1970."""


def _clock(seconds: int) -> _Clock:
    days, second = divmod(seconds, 86400)
    # 400 years have always as many days; Python's calendar has only some of them.
    cycles, rest = divmod(days + _EPOCH_DAY - 1, _CYCLE)
    day = date.fromordinal(rest + 1)
    return _Clock(day.year + 400 * cycles, day.month, day.day, second, days)


def timestamp_text(value: Timestamp) -> str:
    """A timestamp in the form of RFC 3339, with as many decimals as it has."""
    seconds, part = divmod(value.nanoseconds, _SECOND)
    shown = _clock(seconds + value.offset)
    rest = shown.second
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    fraction = f".{part:09d}".rstrip("0") if part else ""
    if value.offset == 0:
        zone = "Z"
    else:
        minutes = abs(value.offset) // 60
        zone = f"{'-' if value.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{shown.year:04d}-{shown.month:02d}-{shown.day:02d}T{clock}{fraction}{zone}"


def _offset(name: str, seconds: int) -> int:
    """The offset of a zone from UTC at a moment, in seconds."""
    if ":" in name:
        hours, _, minutes = name.partition(":")
        parts = [_atoi(hours), _atoi(minutes)]
        return 60 * (parts[0] * 60 + (-parts[1] if name[:1] == "-" else parts[1]))
    # kube-scheduler's own image has no other local zone.
    if name in {"", "UTC", "Local"}:
        return 0
    try:
        zone = ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise EvaluationError(f"unknown time zone {name}") from None
    moment = _EPOCH + timedelta(seconds=min(max(seconds, _FIRST + 86400), _LAST - 86400))
    shift = moment.astimezone(zone).utcoffset()
    return 0 if shift is None else round(shift.total_seconds())


def _atoi(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
        raise EvaluationError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def _part(read: Callable[[_Clock], int]) -> Callable[..., Value]:
    def run(value: Timestamp, zone: str = "UTC") -> int:
        seconds = value.nanoseconds // _SECOND
        return read(_clock(seconds + _offset(zone, seconds)))

    return run


def _milliseconds(value: Timestamp, zone: str = "UTC") -> int:
    _offset(zone, 0)
    return value.nanoseconds // 10**6 % 1000


def _day_of_year(shown: _Clock) -> int:
    # A year of the calendar that is as long.
    year = (shown.year - 1) % 400 + 1
    return date(year, shown.month, shown.day).timetuple().tm_yday - 1


def _per(unit: int) -> Callable[[Duration], int]:
    def run(value: Duration) -> int:
        whole = abs(value.nanoseconds) // unit
        return whole if value.nanoseconds >= 0 else -whole

    return run


def _getter(name: str, run: Callable[..., Value], unit: int | None = None) -> Function:
    signatures: list[tuple[str, Callable[..., Value]]] = [
        (f"timestamp.{name}() int", run),
        (f"timestamp.{name}(string) int", run),
    ]
    if unit is not None:
        signatures.append((f"duration.{name}() int", _per(unit)))
    return function(*signatures)


FUNCTIONS: Final = (
    _getter("getFullYear", _part(lambda shown: shown.year)),
    _getter("getMonth", _part(lambda shown: shown.month - 1)),
    _getter("getDayOfYear", _part(_day_of_year)),
    _getter("getDayOfMonth", _part(lambda shown: shown.day - 1)),
    _getter("getDate", _part(lambda shown: shown.day)),
    # 1 January 1970 was a Thursday.
    _getter("getDayOfWeek", _part(lambda shown: (shown.days + 4) % 7)),
    _getter("getHours", _part(lambda shown: shown.second // 3600), 3600 * _SECOND),
    _getter("getMinutes", _part(lambda shown: shown.second // 60 % 60), 60 * _SECOND),
    _getter("getSeconds", _part(lambda shown: shown.second % 60), _SECOND),
    _getter("getMilliseconds", _milliseconds, 10**6),
)

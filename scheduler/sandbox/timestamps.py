"""Times as the API writes them.

Source: k8s.io/apimachinery pkg/apis/meta/v1 (Time, MicroTime).
"""

import math
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?P<fraction>\.\d+)?(?P<zone>[Zz]|[+-]\d\d:\d\d)"
)
_MICRO_DIGITS: Final = len(".000000")


def time_text(moment: datetime) -> str:
    """A `Time`: UTC, whole seconds."""
    return _second_text(math.floor(moment.timestamp()))


@lru_cache(maxsize=1024)
def _second_text(second: int) -> str:
    # Formatting takes 20 us, and thousands of objects are created within a second.
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}"


def micro_time_text(moment: datetime) -> str:
    """A `MicroTime`: UTC, six digits behind the second."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def canonical_time(text: str) -> str:
    """A client's `Time` as it is stored.

    Raises:
        ValueError: the text is not RFC 3339.
    """
    return time_text(_parsed(text))


def canonical_micro_time(text: str) -> str:
    """A client's `MicroTime` as it is stored; it must have six digits behind the second.

    Raises:
        ValueError: the text is not RFC 3339 with microseconds.
    """
    match = _RFC3339.fullmatch(text)
    if match is None or len(match["fraction"] or "") != _MICRO_DIGITS:
        raise ValueError(
            f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse'
        )
    return micro_time_text(_parsed(text))


def _parsed(text: str) -> datetime:
    if _RFC3339.fullmatch(text) is None:
        raise ValueError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse')
    return datetime.fromisoformat(text.upper())

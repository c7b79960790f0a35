"""Encodes values in requests."""

import re
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import msgspec

UNREADABLE: Final = (ValueError, RecursionError)
"""Errors of decoders for unexpected bytes: `msgspec.MsgspecError` and
`UnicodeDecodeError` are ValueErrors, deep nesting is a RecursionError."""

json_string: Final = msgspec.json.Encoder().encode
"""Encodes a value as JSON bytes; quotes and escapes a string."""


_PLAIN: Final = re.compile(r"[A-Za-z0-9._~-]*").fullmatch
"""Nearly all names of objects match; `quote` takes four times as long to check them."""


def well_formed(text: str) -> str:
    """Replace the characters that UTF-8 cannot encode: messages may quote any text."""
    return text.encode(errors="replace").decode()


def micro_time(moment: datetime) -> str:
    """Return a metav1.MicroTime: RFC 3339 in UTC, always with six digits of microseconds."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")[: -len("+00:00")] + "Z"


def seconds_time(moment: datetime) -> str:
    """Return a metav1.Time: RFC 3339 in UTC with whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def segment(name: str) -> str:
    """Return a name quoted as one segment of a path."""
    return name if _PLAIN(name) else quote(name, safe="")

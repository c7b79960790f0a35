"""The encoding of values in requests."""

import re
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import msgspec

UNREADABLE: Final = (ValueError, RecursionError)
"""Errors that decoding raises for unexpected bytes: `msgspec.MsgspecError` and
`UnicodeDecodeError` are ValueErrors, deep nesting is a RecursionError."""

json_string: Final = msgspec.json.Encoder().encode
"""A value as JSON bytes; for a string, quoted and escaped."""


_PLAIN: Final = re.compile(r"[A-Za-z0-9._~-]*").fullmatch
"""Names of objects hardly ever hold anything else; `quote` takes four times as long to check."""


def well_formed(text: str) -> str:
    """Replace the characters that UTF-8 cannot encode: messages may quote anything."""
    return text.encode(errors="replace").decode()


def micro_time(moment: datetime) -> str:
    """metav1.MicroTime: RFC 3339 in UTC with exactly six digits, whatever they are."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")[: -len("+00:00")] + "Z"


def seconds_time(moment: datetime) -> str:
    """metav1.Time: RFC 3339 in UTC with whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return name if _PLAIN(name) else quote(name, safe="")

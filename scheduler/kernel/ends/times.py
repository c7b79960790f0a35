"""Times as objects carry them (RFC 3339), in seconds since 1970."""

from datetime import UTC, datetime


def seconds_of(text: str | None) -> float | None:
    """A time in seconds since 1970; None for no text, and for a text that is no time."""
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, ValueError):
        return None


def text_of(seconds: float) -> str:
    """A time as objects carry it, in whole seconds; empty beyond the year 9999."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""

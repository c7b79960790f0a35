"""Keeps secrets out of logs, by the name of a key and by the form of a value."""

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

HIDDEN: Final = "[redacted]"

_SECRET_KEY: Final = re.compile(
    r"authorization|password|passwd|secret|token|credential|cookie|private.?key|client.?key|"
    r"key.?data|bearer|api.?key",
    re.IGNORECASE,
)
_HARMLESS_KEY: Final = re.compile(r"secrets?.?name|token.?(ttl|expir|file)|.*_path", re.IGNORECASE)
_SECRET_TEXT: Final = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), HIDDEN),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(-----END [A-Z ]*-----)?"), HIDDEN),
    (re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"), HIDDEN),
)
_MAX_DEPTH: Final = 6


def redact(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Hide secrets in every value of a log message; a structlog processor."""
    for key, value in event.items():
        event[key] = HIDDEN if _is_secret(key) else hidden(value)
    return event


def hidden(value: Any, depth: int = 0) -> Any:
    """Return the value with its secrets replaced."""
    if isinstance(value, str):
        return _hidden_text(value)
    if isinstance(value, Mapping):
        if depth == _MAX_DEPTH:
            return "..."
        return {
            key: HIDDEN if _is_secret(str(key)) else hidden(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return "..." if depth == _MAX_DEPTH else [hidden(item, depth + 1) for item in value]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return _hidden_text(str(value)) if isinstance(value, BaseException) else value


def _is_secret(key: str) -> bool:
    return bool(_SECRET_KEY.search(key)) and not _HARMLESS_KEY.fullmatch(key)


def _hidden_text(text: str) -> str:
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text

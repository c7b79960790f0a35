"""Requests the HTTP status of an endpoint, for readiness checks."""

import http.client
import ssl
from contextlib import suppress
from urllib.parse import urlsplit

_NO_ANSWER = 0


def unverified() -> ssl.SSLContext:
    """Return a TLS context that skips verification, for self-signed local servers."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def status_of(url: str, context: ssl.SSLContext | None = None, timeout_seconds: float = 5) -> int:
    """Send GET to ``url`` and return the HTTP status; 0 if the connection fails."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, parts.port, timeout=timeout_seconds, context=context)
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=timeout_seconds)
    )
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return _NO_ANSWER
    finally:
        # After an error the connection may have no socket left.
        with suppress(OSError):
            connection.close()

"""Asks an HTTP endpoint for its status, for readiness checks."""

import http.client
import ssl
from contextlib import suppress
from urllib.parse import urlsplit

_NO_ANSWER = 0


def unverified() -> ssl.SSLContext:
    """Makes a TLS context for servers with a self-signed certificate on this machine."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def status_of(url: str, context: ssl.SSLContext | None = None, timeout_seconds: float = 5) -> int:
    """Gets ``url`` and returns the HTTP status; 0 when nobody answers."""
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
        # A connection that ended with an error may have no socket to close any more.
        with suppress(OSError):
            connection.close()

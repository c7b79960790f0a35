"""Checks URLs of servers."""

from typing import Final
from urllib.parse import urlsplit

EXPECTED: Final = "expected an http or https URL such as https://10.0.0.1:6443"


def is_http_url(text: str) -> bool:
    """Return whether a text is an http or https URL with a valid host and port."""
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
        host.encode("idna")
    except ValueError:
        return False
    return text.startswith(("http://", "https://")) and bool(host) and port != 0

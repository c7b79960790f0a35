"""Finds the proxy for a server in HTTP_PROXY, HTTPS_PROXY and NO_PROXY.

aiohttp can read them (`trust_env`), but does so for each request, in a thread, and does not
understand address ranges in NO_PROXY, which clusters use.

Source: golang.org/x/net/http/httpproxy (what client-go uses).
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}
_WITH_PORT: Final = re.compile(r"(?:\[(.*)\]|([^:]*)):([^:]*)").fullmatch
"""A name, or an address, with a port; an IPv6 address is in brackets then."""


def proxy_for(server: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy URL for a server URL, or None for a direct connection."""
    url = urlsplit(server)
    host = url.hostname or ""
    proxy = _lookup(environ, f"{url.scheme}_proxy")
    if not proxy or host == "localhost" or _is_loopback(host):
        return None
    port = str(url.port or _PORTS[url.scheme])
    if any(_covers(entry, host, port) for entry in _lookup(environ, "no_proxy").split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _lookup(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper(), "") or environ.get(name, "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _covers(entry: str, host: str, port: str) -> bool:
    """Return whether an entry of NO_PROXY (domain, address, range, `*`) covers a host.

    A domain or an address may have a port. `.domain` and `*.domain` do not cover the domain itself.
    """
    entry = entry.strip().lower()
    if entry == "*":
        return True
    if found := _WITH_PORT(entry):
        if found[3] not in ("", port):
            return False
        entry = found[1] or found[2]
    if not entry:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        domain = entry[1:] if entry.startswith("*.") else entry
        return host == domain or host.endswith(f".{domain.removeprefix('.')}")
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False

"""Finds the proxy for a server in HTTP_PROXY, HTTPS_PROXY and NO_PROXY.

aiohttp can read them (`trust_env`), but does so for each request, in a thread, and does not
understand address ranges in NO_PROXY, which clusters use.

Source: golang.org/x/net/http/httpproxy (what client-go uses).
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(server: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy URL for a server URL, or None for a direct connection."""
    url = urlsplit(server)
    host = url.hostname or ""
    proxy = _lookup(environ, f"{url.scheme}_proxy")
    if not proxy or host == "localhost" or _is_loopback(host):
        return None
    if any(_covers(entry, host) for entry in _lookup(environ, "no_proxy").split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _lookup(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper(), "") or environ.get(name, "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _covers(entry: str, host: str) -> bool:
    """Return whether an entry of NO_PROXY (name, domain, address, range, `*`) covers a host."""
    entry = entry.strip().lower()
    host = host.lower()
    if not entry:
        return False
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        domain = entry.removeprefix("*").removeprefix(".")
        return host.endswith(f".{domain}") or (host == domain and not entry.startswith("."))

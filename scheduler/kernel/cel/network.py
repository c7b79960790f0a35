"""Functions on IP addresses, networks and URLs.

Source: k8s.io/apiserver v0.36.3 pkg/cel/library (ip.go, cidr.go, urls.go); Go's net/netip, net/url.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from scheduler.kernel.cel import costs
from scheduler.kernel.cel.declarations import Cost, Function, function
from scheduler.kernel.cel.errors import EvaluationError
from scheduler.kernel.cel.formatting import go_quote
from scheduler.kernel.cel.values import Address, Map, Network, Url, Value, size_of

_AddressLike = ipaddress.IPv4Address | ipaddress.IPv6Address
_IPV4: Final = 4
_MULTICAST: Final = 0xFF
_LINK: Final = 2
_BEYOND_ASCII: Final = 0x80
_HOST_SAFE: Final = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"\x80-\U0010ffff]*")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_PATH_SAFE: Final = "-_.~$&+,/:;=@"
_ENCODED_SAFE: Final = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]%]*", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")


def _address(text: str) -> _AddressLike:
    """Read an address as Kubernetes allows it: no zone, no IPv4 inside IPv6."""
    try:
        # No zones: a percent sign is in no address.
        found = ipaddress.ip_address(text.replace("%", "?"))
    except ValueError:
        raise EvaluationError(
            f"IP Address {go_quote(text)} parse error during conversion from string: "
            f"ParseAddr({go_quote(text)}): unable to parse IP"
        ) from None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise EvaluationError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return found


def _parse_network(text: str) -> Network:
    head, slash, bits = text.rpartition("/")
    problem = EvaluationError(
        "network address parse error during conversion from string: network address parse error "
        f"during conversion from string: netip.ParsePrefix({go_quote(text)}): bad prefix"
    )
    if not slash or not re.fullmatch(r"0|[1-9][0-9]{0,2}", bits, re.ASCII):
        raise problem
    try:
        found = ipaddress.ip_address(head.replace("%", "?"))
        interface = ipaddress.ip_interface(f"{head}/{bits}")
    except ValueError:
        raise problem from None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise EvaluationError(
            "network address parse error during conversion from string: "
            f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed"
        )
    return Network(interface)


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def run(text: str) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return run


def _contains_address(network: Network, address: Value) -> bool:
    found = _address(address) if isinstance(address, str) else address.address
    inside: bool = found in network.interface.network
    return inside


def _contains_network(network: Network, other: Value) -> bool:
    part = _parse_network(other) if isinstance(other, str) else other
    mine, others = network.interface.network, part.interface.network
    return (
        mine.version == others.version
        and mine.prefixlen <= others.prefixlen
        and bool(mine.overlaps(others))
    )


def _masked(network: Network) -> Network:
    mine = network.interface.network
    return Network(ipaddress.ip_interface(f"{mine.network_address}/{mine.prefixlen}"))


def _is_global_unicast(address: Address) -> bool:
    found = address.address
    if found.is_unspecified or found.is_multicast or found.is_loopback or _link_local(address):
        return False
    return found != ipaddress.IPv4Address("255.255.255.255")


def _link_local(address: Address) -> bool:
    return bool(address.address.is_link_local)


def _link_local_multicast(address: Address) -> bool:
    packed = address.address.packed
    if address.address.version == _IPV4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == _MULTICAST and packed[1] & 0x0F == _LINK


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a URL during parsing."""

    scheme: str
    host: str
    path: str
    query: str


def _bad_url(text: str, problem: str) -> EvaluationError:
    return EvaluationError(
        f"URL parse error during conversion from string: parse {go_quote(text)}: {problem}"
    )


def _parse_url(text: str) -> Url:
    """Read a URL as both `url.ParseRequestURI` and `url.Parse` do."""
    if any(letter < " " or letter == "\x7f" for letter in text):
        raise _bad_url(text, "net/url: invalid control character in URL")
    if not text:
        raise _bad_url(text, "empty url")
    if text == "*":
        return Url("", "", "*", "", "*")
    # A request may have a fragment in its path; the second reading splits it off.
    _split_url(text, text, request=True)
    body, _, fragment = text.partition("#")
    parts = _split_url(text, body, request=False)
    if _BAD_ESCAPE.search(fragment):
        raise _bad_url(text, "invalid URL escape")
    return Url(parts.scheme, parts.host, parts.path, parts.query, text)


def _split_url(text: str, body: str, *, request: bool) -> _Parts:
    scheme, rest = _scheme(text, body)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return _Parts(scheme, "", "", query)
        if request:
            raise _bad_url(text, "invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _bad_url(text, "first path segment in URL cannot contain colon")
    host = ""
    has_authority = bool(scheme) or (not request and not rest.startswith("///"))
    if has_authority and rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        host = _authority(text, scheme, authority)
    if _BAD_ESCAPE.search(rest):
        raise _bad_url(text, "invalid URL escape")
    return _Parts(scheme, host, rest, query)


def _scheme(text: str, body: str) -> tuple[str, str]:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.\-]*)?:", body, re.ASCII)
    if match is None:
        return "", body
    if match[1] is None:
        raise _bad_url(text, "missing protocol scheme")
    return match[1].lower(), body[match.end() :]


def _authority(text: str, scheme: str, authority: str) -> str:
    """The host of an authority whose user is valid."""
    user, at, host = authority.rpartition("@")
    if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
        raise _bad_url(text, "net/url: invalid userinfo")
    return _host(text, scheme, host)


def _host(text: str, scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise _bad_url(text, "invalid IP-literal")
    if bracket == 0:
        return _literal_host(text, host)
    first = host.find(":")
    if first >= 0:
        port = host[first if scheme in {"http", "https"} else host.rfind(":") :]
        _check_port(text, port)
    return _unescaped_host(text, host)


def _literal_host(text: str, host: str) -> str:
    end = host.rfind("]")
    if end < 0:
        raise _bad_url(text, "missing ']' in host")
    _check_port(text, host[end + 1 :])
    name, zone_sign, zone = host[1:end].partition("%25")
    unescaped = _unescaped_host(text, name)
    try:
        found = ipaddress.ip_address(unescaped)
    except ValueError:
        raise _bad_url(text, "invalid host") from None
    if found.version == _IPV4 or (zone_sign and not zone):
        raise _bad_url(text, "invalid IP-literal")
    written = unescaped + ("%" + unquote_to_bytes(zone).decode(errors="replace") if zone else "")
    return f"[{written}]{host[end + 1 :]}"


def _check_port(text: str, port: str) -> None:
    if port and not re.fullmatch(r":[0-9]*", port, re.ASCII):
        raise _bad_url(text, f'invalid port "{port}" after host')


def _unescaped_host(text: str, host: str) -> str:
    for match in re.finditer(r"%(.{0,2})", host):
        digits = match[1]
        valid = re.fullmatch(r"[0-9a-fA-F]{2}", digits) is not None
        # Only letters beyond ASCII may be escaped in a host.
        if not valid or (int(digits, 16) < _BEYOND_ASCII and digits != "25"):
            raise _bad_url(text, f'invalid URL escape "{match[0]}"')
    if not _HOST_SAFE.fullmatch(host.replace("%", "")):
        raise _bad_url(text, "invalid character in host name")
    return unquote_to_bytes(host).decode(errors="replace") if "%" in host else host


def _hostname(url: Url) -> str:
    host = url.host
    if host.startswith("["):
        return host[1 : host.rfind("]")]
    return host[: host.rfind(":")] if _has_port(host) else host


def _has_port(host: str) -> bool:
    return re.search(r":[0-9]*$", host, re.ASCII) is not None


def _port(url: Url) -> str:
    tail = url.host.rpartition("]")[2] if url.host.startswith("[") else url.host
    return tail.rpartition(":")[2] if ":" in tail else ""


def _escaped_path(url: Url) -> str:
    if url.path == "*" or _ENCODED_SAFE.fullmatch(url.path):
        return url.path
    return quote_from_bytes(unquote_to_bytes(url.path), safe=_PATH_SAFE)


def _query(url: Url) -> Map:
    found: dict[str, list[str]] = {}
    for part in url.query.split("&"):
        # A part with a semicolon or a bad escape is left out.
        if not part or ";" in part or _BAD_ESCAPE.search(part):
            continue
        key, _, value = part.replace("+", " ").partition("=")
        texts = [unquote_to_bytes(piece).decode(errors="replace") for piece in (key, value)]
        found.setdefault(texts[0], []).append(texts[1])
    return Map((key, tuple(values)) for key, values in found.items())


def _contains_cost(extra: int) -> Cost:
    def charged(arguments: Sequence[Value], _: Value) -> int:
        size = size_of(arguments[0])
        total = -(-2 * size // 10) + extra * (-(-size // 10) + 1)
        if type(arguments[1]) is str:
            total += -(-len(arguments[1]) // 10)
        return total

    return charged


def _ip_cost(arguments: Sequence[Value], _: Value) -> int:
    return costs.traversal()(arguments, _) if type(arguments[0]) is str else 1


def _test(name: str, run: Callable[[Address], bool]) -> Function:
    return function((f"ip.{name}() bool", run))


def _read(name: str, run: Callable[[Url], Value], result: str = "string") -> Function:
    return function((f"url.{name}() {result}", run))


def is_url(text: str) -> bool:
    """Tell whether `url.ParseRequestURI` accepts a text."""
    if not text or any(letter < " " or letter == "\x7f" for letter in text):
        return False
    if text == "*":
        return True
    try:
        _split_url(text, text, request=True)
    except EvaluationError:
        return False
    return True


FUNCTIONS: Final = (
    function(
        ("ip(string) ip", lambda text: Address(_address(text))),
        ("cidr.ip() ip", lambda network: Address(network.interface.ip)),
        cost=_ip_cost,
    ),
    function(("isIP(string) bool", _parses(_address)), cost=costs.traversal()),
    function(
        (".ip.isCanonical(string) bool", lambda text: str(_address(text)) == text),
        cost=costs.traversal(0.2),
    ),
    function(("ip.family() int", lambda address: address.address.version)),
    _test("isUnspecified", lambda address: bool(address.address.is_unspecified)),
    _test("isLoopback", lambda address: bool(address.address.is_loopback)),
    _test("isLinkLocalMulticast", _link_local_multicast),
    _test("isLinkLocalUnicast", _link_local),
    _test("isGlobalUnicast", _is_global_unicast),
    function(("cidr(string) cidr", _parse_network), cost=costs.traversal()),
    function(("isCIDR(string) bool", _parses(_parse_network)), cost=costs.traversal()),
    function(
        ("cidr.containsIP(string) bool", _contains_address),
        ("cidr.containsIP(ip) bool", _contains_address),
        cost=_contains_cost(0),
    ),
    function(
        ("cidr.containsCIDR(string) bool", _contains_network),
        ("cidr.containsCIDR(cidr) bool", _contains_network),
        cost=_contains_cost(1),
    ),
    function(("cidr.prefixLength() int", lambda network: network.interface.network.prefixlen)),
    function(("cidr.masked() cidr", _masked)),
    function(("url(string) url", _parse_url), cost=costs.traversal()),
    function(("isURL(string) bool", is_url)),
    _read("getScheme", lambda url: url.scheme),
    _read("getHost", lambda url: url.host),
    _read("getHostname", _hostname),
    _read("getPort", _port),
    _read("getEscapedPath", _escaped_path),
    _read("getQuery", _query, "map<string, list<string>>"),
)

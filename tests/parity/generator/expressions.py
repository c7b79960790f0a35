"""Random expressions over random devices.

Expressions are made by type, so that most of them compile, and then sometimes spoiled. Names and
values are few on purpose: an expression must meet attributes that are there, missing, or of another
type. Nothing is asked that depends on the order of a map's keys, which Go leaves to chance.
"""

from collections.abc import Callable
from typing import Any, Final

from tests.parity.generator.draw import Draw, Object

DRIVERS: Final = ("gpu.example.com", "nic.example.com")
DOMAINS: Final = (*DRIVERS, "numa.example.org", "nowhere.example.com")
NAMES: Final = ("model", "index", "healthy", "version", "serial")
DEVICES: Final = 8

TEXTS: Final = (
    "",
    "a",
    "h100",
    "H100",
    "A100-SXM4",
    "gpu-0",
    "1",
    "-7",
    "1.5",
    "v1.2",
    "1.2.3",
    "true",
    "aé日𝄞b",
    "\u017fK",
    " \\t x \\u2003",
    "a,b,,c",
    "10.0.0.1",
    "fe80::1",
    "10.0.0.0/8",
    "https://user@example.com:80/a%20b?x=1&y=2&x=3",
    "1Gi",
    "1500m",
    "2020-01-02T03:04:05.678Z",
    "1h30m",
    "%d and %s",
)
INTEGERS: Final = (
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "42",
    "0x1F",
    "9223372036854775807",
    "-9223372036854775808",
    "9007199254740993",
    "4611686018427387904",
)
UNSIGNED: Final = ("0u", "1u", "3u", "42u", "18446744073709551615u", "9223372036854775808u", "0xFu")
DOUBLES: Final = (
    "0.0",
    "-0.0",
    "1.0",
    "1.5",
    "3.0",
    "-2.25",
    "1e3",
    ".5",
    "9007199254740992.0",
    "9.223372036854775807e18",
    "1.8446744073709552e19",
    "1e308",
    "double('NaN')",
    "double('Infinity')",
    "1e21",
    "1234567.0",
    "0.00001",
)
QUANTITIES: Final = (
    "0",
    "1",
    "1.0",
    "80Gi",
    "80G",
    "1500m",
    "1.5",
    "0.5Gi",
    "1Ki",
    "1024",
    "-5",
    "12e6",
    "1E",
    "9Ei",
    "1n",
    "0.1n",
    "100000000000000000000",
    "+3k",
    "0001",
    ".5",
    "5.",
)
BEYOND: Final = ("0.5Gi", "9Ei", "0.1n", "100000000000000000000")
"""Quantities that upstream holds as decimals. Adding to one of a device changes the device, so no
device has these: docs/parity.md."""
BAD_QUANTITIES: Final = ("", "x", "1Q", "1.2.3", "Gi", "1 Gi", "--1", "1ki", "1e", "-", "1eG")
VERSIONS: Final = (
    "0.0.0",
    "1.2.3",
    "1.2.10",
    "1.10.0",
    "2.0.0-alpha",
    "2.0.0-alpha.1",
    "2.0.0-alpha.beta",
    "2.0.0-1",
    "2.0.0-10",
    "2.0.0-2",
    "2.0.0+build.1",
    "2.0.0",
    "1.2.3-rc-1+x",
)
BAD_VERSIONS: Final = ("", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3.4", "1.2.x", "1.2.3-", "1.2.3-01")
PATTERNS: Final = (
    "^h",
    "[0-9]+",
    "(?i)H1",
    "^[a-z]+-?[0-9]*$",
    "a|b",
    "^$",
    "",
    "(a+)+$",
    ".",
    "\\\\d{2,3}",
    "[^a]?sym",
    "(?P<x>a)",
    "\\\\bgpu\\\\b",
    "[[:alpha:]]+",
    "\\\\pL",
    "\\\\p{Lu}",
    "x*",
    "(?s).+",
    "(?U)a.*0",
    "a??",
    "[a-c-]",
    "\\\\x{e9}",
    "(?:ab|a)(?:c|bcd)",
    "\\\\Q.\\\\E",
    "é|日",
    "(?i)k",
)
BAD_PATTERNS: Final = (
    "(",
    ")",
    "[",
    "a**",
    "*a",
    "(?=a)",
    "\\\\1",
    "a{1001}",
    "[z-a]",
    "(?<!a)",
    "\\\\8",
    "(a{100}){11}",
    "\\\\",
    "(?P=x)",
    "[[:foo:]]",
    "\\\\pX",
    "a{2,1}",
    "(?i",
)
DURATIONS: Final = (
    "1h",
    "90m",
    "-1.5s",
    "0",
    "1h30m15s",
    "250ms",
    "1us",
    "3ns",
    "2540400h",
    "1.000000001s",
)
BAD_DURATIONS: Final = ("", "1", "x", "1d", "1h 2m", ".s", "-", "2562048h")
MOMENTS: Final = (
    "2020-01-02T03:04:05Z",
    "2020-01-02T03:04:05.678Z",
    "1999-12-31T23:59:59+05:30",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
    "2024-02-29T12:00:00-08:00",
)
BAD_MOMENTS: Final = ("", "2020-01-02", "2020-13-01T00:00:00Z", "2023-02-29T00:00:00Z", "x")
ADDRESSES: Final = (
    "10.0.0.1",
    "127.0.0.1",
    "fe80::1",
    "::1",
    "2001:db8::ff00:42",
    "224.0.0.1",
    "::",
)
BAD_ADDRESSES: Final = (
    "",
    "10.0.0",
    "256.1.1.1",
    "::ffff:1.2.3.4",
    "fe80::1%eth0",
    "01.2.3.4",
    "x",
)
NETWORKS: Final = ("10.0.0.0/8", "10.1.2.3/16", "fe80::/10", "::/0", "0.0.0.0/0", "192.168.1.1/32")
BAD_NETWORKS: Final = ("", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fe80::/129", "10.0.0.0/08")
URLS: Final = (
    "https://example.com/a",
    "http://user:pass@h:8080/p%20q/r?x=1&y=2#f",
    "/only/a/path",
    "mailto:someone@example.com",
    "https://[fe80::1]:443/",
    "HTTP://EXAMPLE.com",
    "file:///etc/hosts?",
)
BAD_URLS: Final = (
    "",
    "x",
    "://a",
    "http://a b/",
    "http://[::1",
    "http://h:port/",
    "/%zz",
    "a:b:c//",
)


def make_question(seed: int) -> Object:
    """Make an expression and the devices it is asked about."""
    draw = Draw(f"expressions:{seed}")
    maker = Maker(draw)
    expression = maker.make("bool" if draw.maybe(0.93) else "dyn", draw.pick((1, 2, 3, 3, 4, 5, 6)))
    if draw.maybe(0.04):
        expression = _spoiled(draw, expression)
    return {"expression": expression, "devices": [_device(draw) for _ in range(DEVICES)]}


def _spoiled(draw: Draw, expression: str) -> str:
    at = draw.randint(0, len(expression))
    match draw.randint(0, 3):
        case 0:
            return expression[:at] + expression[at + 1 :]
        case 1:
            return (
                expression[:at]
                + draw.pick("()[]{}.,?:!-+*/%<>=&|\"'\\ \nau0_`@#$;")
                + expression[at:]
            )
        case 2:
            other = draw.randint(0, len(expression))
            return expression[: min(at, other)] + expression[max(at, other) :]
        case _:
            return expression[:at]


def _device(draw: Draw) -> Object:
    driver = draw.pick(DRIVERS)
    device: Object = {"driver": driver}
    if draw.maybe(0.4):
        device["allowMultipleAllocations"] = draw.maybe(0.7)
    attributes: Object = {}
    for name in NAMES:
        if draw.maybe(0.7):
            attributes[name] = _attribute(draw, name)
        # A name with the driver's domain is the same attribute: which of two counts is chance.
        for domain in DOMAINS:
            if domain != driver and draw.maybe(0.12):
                attributes[f"{domain}/{name}"] = _attribute(draw, name)
    if draw.maybe(0.01):
        attributes["version"] = draw.pick(({"version": "1.2"}, {}, {"strings": ["a"]}))
    capacity = {
        name: {"value": draw.pick([it for it in QUANTITIES if it not in BEYOND])}
        for name in ("memory", "slices", "numa.example.org/bandwidth")
        if draw.maybe(0.7)
    }
    return {**device, "attributes": attributes, "capacity": capacity}


def _attribute(draw: Draw, name: str) -> Object:
    usual = {"model": "string", "index": "int", "healthy": "bool", "version": "version"}
    kind = usual.get(name, "string") if draw.maybe(0.75) else draw.pick(list(usual.values()))
    match kind:
        case "int":
            return {
                "int": draw.pick((0, 1, 2, 3, 7, 42, -1, 9223372036854775807, 9007199254740993))
            }
        case "bool":
            return {"bool": draw.maybe(0.6)}
        case "version":
            return {"version": draw.pick(VERSIONS)}
        case _:
            return {"string": draw.pick([text for text in TEXTS if "\\" not in text])}


class Maker:
    """Makes expressions of a wanted type."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._variables: list[tuple[str, str]] = []
        self._count = 0

    def make(self, kind: str, depth: int) -> str:
        """Make an expression of a type, with so many levels at most."""
        draw = self._draw
        if draw.maybe(0.012):
            kind = draw.pick(list(_LEAVES))
        known = [name for name, has in self._variables if has == kind]
        if known and draw.maybe(0.5):
            return draw.pick(known)
        if depth <= 0:
            return self._fill(draw.pick(_LEAVES[kind]), 0)
        if draw.maybe(0.05):
            return self._wrapped(kind, depth)
        options = _BRANCHES.get(kind, ()) + (_LEAVES[kind] if draw.maybe(0.2) else ())
        return self._fill(draw.pick(options or _LEAVES[kind]), depth)

    def _wrapped(self, kind: str, depth: int) -> str:
        draw = self._draw
        match draw.randint(0, 4):
            case 0:
                return f"({self.make(kind, depth - 1)})"
            case 1:
                condition = self.make("bool", depth - 1)
                return (
                    f"({condition} ? {self.make(kind, depth - 1)} : {self.make(kind, depth - 1)})"
                )
            case 2:
                return self._bound(kind, depth)
            case 3:
                one, two = self.make(kind, depth - 1), self.make(kind, depth - 1)
                return f"[{one}, {two}][{draw.randint(0, 2)}]"
            case _:
                key = draw.pick((".k", "['k']", ".x"))
                return f"{{'k': {self.make(kind, depth - 1)}}}{key}"

    def _bound(self, kind: str, depth: int) -> str:
        held = self._draw.pick(
            ("domain", "dyn", "string", "int", "quantity", "list_int", "optional")
        )
        name = self._name()
        value = self.make(held, depth - 1)
        self._variables.append((name, held))
        result = self.make(kind, depth - 1)
        self._variables.pop()
        return f"cel.bind({name}, {value}, {result})"

    def _name(self) -> str:
        self._count += 1
        return self._draw.pick(("x", "v", "k")) + str(self._count % 4)

    def _fill(self, template: Any, depth: int) -> str:
        """Put expressions into a template: `{int}` is one of that type, `{TEXTS}` one of a list."""
        if callable(template):
            return template(self, depth)
        written, rest = "", template
        while "<" in rest:
            before, _, rest = rest.partition("<")
            word, _, rest = rest.partition(">")
            written += before + self._part(word, depth)
        return written + rest

    def _part(self, word: str, depth: int) -> str:
        if word == "LT":
            return "<"
        if word == "GT":
            return ">"
        if word in _CHOICES:
            return self._draw.pick(_CHOICES[word])
        return self.make(word, depth - 1)

    def looped(self, source: str, element: str, body: str, macro: str, depth: int) -> str:
        """Make a macro over a source, with its variable in scope."""
        name = self._name()
        over = self.make(source, depth - 1)
        self._variables.append((name, element))
        inner = self.make(body, depth - 1)
        self._variables.pop()
        return f"{over}.{macro}({name}, {inner})"

    def looped_pairs(self, source: str, kinds: tuple[str, str], macro: str, depth: int) -> str:
        """Make a macro with two variables."""
        over = self.make(source, depth - 1)
        self._variables += [("i9", kinds[0]), ("v9", kinds[1])]
        inner = self.make("bool", depth - 1)
        del self._variables[-2:]
        return f"{over}.{macro}(i9, v9, {inner})"


def _quoted(texts: tuple[str, ...]) -> list[str]:
    return [f'"{text}"' if '"' not in text else f"'{text}'" for text in texts]


_CHOICES: Final[dict[str, list[str]]] = {
    "TEXT": _quoted(TEXTS),
    "INT": list(INTEGERS),
    "SMALL": ["0", "1", "2", "3", "-1", "5", "9"],
    "UINT": list(UNSIGNED),
    "DOUBLE": list(DOUBLES),
    "QUANTITY": _quoted(QUANTITIES * 3 + BAD_QUANTITIES),
    "VERSION": _quoted(VERSIONS * 3 + BAD_VERSIONS),
    "PATTERN": _quoted(PATTERNS * 4 + BAD_PATTERNS),
    "DURATION": _quoted(DURATIONS * 4 + BAD_DURATIONS),
    "MOMENT": _quoted(MOMENTS * 5 + BAD_MOMENTS),
    "IP": _quoted(ADDRESSES * 4 + BAD_ADDRESSES),
    "CIDR": _quoted(NETWORKS * 4 + BAD_NETWORKS),
    "URL": _quoted(URLS * 4 + BAD_URLS),
    "DOMAIN": _quoted(DOMAINS),
    "DRIVER": _quoted(DRIVERS),
    "NAME": list(NAMES),
    "CAPACITY": ["memory", "slices", "bandwidth"],
    "FORMAT": [
        "dns1123Label",
        "dns1123Subdomain",
        "dns1035Label",
        "qualifiedName",
        "dns1123LabelPrefix",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime",
    ],
    "COMPARE": ["==", "!=", "<", "<=", ">", ">="],
    "EQUAL": ["==", "==", "!="],
    "ARITHMETIC": ["+", "-", "*", "/", "%"],
    "TIME": [
        "getFullYear",
        "getMonth",
        "getDayOfYear",
        "getDayOfMonth",
        "getDate",
        "getDayOfWeek",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
    ],
    "ZONE": ['"UTC"', '"+05:30"', '"-08:00"', '"02:00"', '""', '"nowhere"'],
    "CLAUSES": _quoted(
        ("%s", "%s %d", "%.2f", "%x|%X", "%b", "%o", "%e", "%%", "%.3e", "%q", "%", "%5d", "%s%s")
    ),
    "TYPE": [
        "int",
        "string",
        "bool",
        "double",
        "uint",
        "bytes",
        "list",
        "map",
        "type",
        "null_type",
    ],
    "COUNT": ["all", "exists", "exists_one"],
}

_LEAVES: Final[dict[str, tuple[str, ...]]] = {
    "bool": (
        "true",
        "false",
        "device.allowMultipleAllocations",
        "device.driver == <DRIVER>",
        "device.attributes[<DRIVER>].healthy",
        "has(device.attributes[<DOMAIN>].<NAME>)",
        "<DOMAIN> in device.attributes",
        '"<NAME>" in device.attributes[<DOMAIN>]',
        '"<CAPACITY>" in device.capacity[<DOMAIN>]',
        "<DOMAIN> in device.capacity",
        "has(device.attributes.driver)",
    ),
    "int": ("<INT>", "<INT>", "<SMALL>", "<SMALL>"),
    "uint": ("<UINT>",),
    "double": ("<DOUBLE>",),
    "string": ("<TEXT>", "<TEXT>", "device.driver", "r'a\\\\d'", "'''a\"b'''"),
    "bytes": ("b'abc'", "b''", "b'\\\\xff'", "b'é'", "b'\\\\101'"),
    "quantity": ("quantity(<QUANTITY>)", "device.capacity[<DRIVER>].<CAPACITY>"),
    "semver": ("semver(<VERSION>)",),
    "duration": ("duration(<DURATION>)",),
    "timestamp": ("timestamp(<MOMENT>)",),
    "ip": ("ip(<IP>)",),
    "cidr": ("cidr(<CIDR>)",),
    "url": ("url(<URL>)",),
    "list_int": ("[]", "[<INT>]", "[<SMALL>, <SMALL>, <SMALL>]", "lists.range(<SMALL>)"),
    "list_string": ("[<TEXT>]", "[<TEXT>, <TEXT>, <TEXT>]", "['a', 'b', 'a']"),
    "map": ("{}", "{'a': 1, 'b': <SMALL>}", "{<TEXT>: <SMALL>}"),
    "domain": ("device.attributes[<DRIVER>]", "device.attributes[<DOMAIN>]"),
    "optional": (
        "optional.none()",
        "device.attributes[<DRIVER>].?<NAME>",
        "device.attributes[<DOMAIN>][?'<NAME>']",
        "optional.of(<SMALL>)",
        "optional.ofNonZeroValue(<SMALL>)",
    ),
    "dyn": (
        "device.attributes[<DRIVER>].<NAME>",
        "device.attributes[<DRIVER>].<NAME>",
        "device.attributes[<DRIVER>]['<NAME>']",
        "device.attributes[<DOMAIN>].<NAME>",
        "dyn(<INT>)",
        "dyn(<DOUBLE>)",
        "dyn(<TEXT>)",
        "dyn(<UINT>)",
    ),
}


def _over_integers(maker: Maker, depth: int) -> str:
    macro = maker._draw.pick(("all", "exists", "exists_one", "existsOne"))
    return maker.looped("list_int", "int", "bool", macro, depth)


def _over_strings(maker: Maker, depth: int) -> str:
    macro = maker._draw.pick(("all", "exists", "exists_one"))
    return maker.looped("list_string", "string", "bool", macro, depth)


def _over_domain(maker: Maker, depth: int) -> str:
    macro = maker._draw.pick(("all", "exists", "exists_one"))
    return maker.looped("domain", "string", "bool", macro, depth)


def _over_domains(maker: Maker, depth: int) -> str:
    source = maker._draw.pick(("device.attributes", "device.capacity"))
    macro = maker._draw.pick(("all", "exists", "exists_one"))
    maker._variables.append(("d8", "string"))
    inner = maker.make("bool", depth - 1)
    maker._variables.pop()
    return f"{source}.{macro}(d8, {inner})"


def _over_dyn(maker: Maker, depth: int) -> str:
    return maker.looped("dyn", "dyn", "bool", "exists", depth)


def _pairs(maker: Maker, depth: int) -> str:
    macro = maker._draw.pick(("all", "exists", "existsOne"))
    if maker._draw.maybe(0.5):
        return maker.looped_pairs("domain", ("string", "dyn"), macro, depth)
    return maker.looped_pairs("list_string", ("int", "string"), macro, depth)


def _mapped(kind: str, element: str, body: str, macro: str) -> Callable[[Maker, int], str]:
    return lambda maker, depth: maker.looped(kind, element, body, macro, depth)


def _counted(maker: Maker, depth: int) -> str:
    macro = maker._draw.pick(("filter", "map"))
    body = "bool" if macro == "filter" else "dyn"
    return maker.looped("domain", "string", body, macro, depth) + ".size()"


_BRANCHES: Final[dict[str, tuple[str | Callable[[Maker, int], str], ...]]] = {
    "bool": (
        "<bool> && <bool>",
        "<bool> || <bool>",
        "<list_string>.distinct().size() == <SMALL> || <bool>",
        "<dyn>.distinct() == [] || true",
        "<list_int>.sort()[0] == 1 || true",
        "<list_string>.sortBy(e1, <int>).size() == 1 || true",
        "<dyn> in [<INT>, <INT>] || true",
        "<bool> && <bool>",
        "<bool> || <bool>",
        "!<bool>",
        "!(<bool>)",
        "(<bool> || <bool>) && <bool>",
        "<dyn> && <dyn>",
        "<dyn> || <bool>",
        "<int> <COMPARE> <int>",
        "<uint> <COMPARE> <uint>",
        "<double> <COMPARE> <double>",
        "<int> <COMPARE> <double>",
        "<uint> <COMPARE> <int>",
        "<string> <COMPARE> <string>",
        "<bytes> <COMPARE> <bytes>",
        "<bool> <COMPARE> <bool>",
        "<timestamp> <COMPARE> <timestamp>",
        "<duration> <COMPARE> <duration>",
        "<dyn> <COMPARE> <int>",
        "<dyn> <COMPARE> <string>",
        "<dyn> <COMPARE> <dyn>",
        "<dyn> <COMPARE> <double>",
        "<quantity> <EQUAL> <quantity>",
        "<semver> <EQUAL> <semver>",
        "<list_int> <EQUAL> <list_int>",
        "<list_string> <EQUAL> <list_string>",
        "<map> <EQUAL> <map>",
        "<ip> <EQUAL> <ip>",
        "<cidr> <EQUAL> <cidr>",
        "<url> <EQUAL> <url>",
        "<dyn> <EQUAL> dyn(<quantity>)",
        "dyn(<quantity>) <EQUAL> <dyn>",
        "dyn(<semver>) <EQUAL> <dyn>",
        "<dyn> <EQUAL> null",
        "<optional> <EQUAL> <optional>",
        "<optional>.hasValue()",
        "<optional>.orValue(<dyn>)",
        "<optional>.optMap(o7, o7 == <dyn>).orValue(<bool>)",
        "<optional>.optFlatMap(o6, optional.of(o6 <COMPARE> <dyn>)).orValue(<bool>)",
        "optional.of(<quantity>).hasValue()",
        "<quantity>.isGreaterThan(<quantity>)",
        "<quantity>.isLessThan(<quantity>)",
        "<quantity>.isInteger()",
        "isQuantity(<string>)",
        "isQuantity(<QUANTITY>)",
        "<semver>.isGreaterThan(<semver>)",
        "<semver>.isLessThan(<semver>)",
        "<dyn>.isGreaterThan(<semver>)",
        "<dyn>.isLessThan(<dyn>)",
        "isSemver(<string>)",
        "isSemver(<VERSION>)",
        "isSemver(<VERSION>, true)",
        "semver(<VERSION>, true).isGreaterThan(<semver>)",
        "device.attributes[<DRIVER>].version.isGreaterThan(<semver>)",
        "<string>.contains(<string>)",
        "<string>.startsWith(<string>)",
        "<string>.endsWith(<string>)",
        "<dyn>.startsWith(<string>)",
        "<string>.matches(<PATTERN>)",
        "matches(<string>, <PATTERN>)",
        "<dyn>.matches(<PATTERN>)",
        "<string>.matches(<string>)",
        "<int> in <list_int>",
        "<string> in <list_string>",
        "<dyn> in <list_int>",
        "<dyn> in <list_string>",
        "<dyn> in []",
        "<string> in <map>",
        "<dyn> in <dyn>",
        "<string> in <domain>",
        "sets.contains(<list_int>, <list_int>)",
        "sets.intersects(<list_string>, <list_string>)",
        "sets.equivalent(<list_int>, <list_int>)",
        "<list_int>.isSorted()",
        "<list_string>.isSorted()",
        "bool(<string>)",
        "bool(<dyn>)",
        "<dyn>",
        "<dyn> == <dyn>",
        "type(<dyn>) == <TYPE>",
        "type(<dyn>) == type(<dyn>)",
        "isIP(<IP>)",
        "isIP(<string>)",
        "ip.isCanonical(<IP>)",
        "<ip>.isLoopback()",
        "<ip>.isGlobalUnicast()",
        "<ip>.isLinkLocalUnicast()",
        "<ip>.isLinkLocalMulticast()",
        "<ip>.isUnspecified()",
        "isCIDR(<CIDR>)",
        "<cidr>.containsIP(<IP>)",
        "<cidr>.containsIP(<ip>)",
        "<cidr>.containsCIDR(<cidr>)",
        "<cidr>.containsCIDR(<CIDR>)",
        "isURL(<URL>)",
        "isURL(<string>)",
        "!format.<FORMAT>().validate(<string>).hasValue()",
        "format.named(<TEXT>).hasValue()",
        "format.<FORMAT>().validate(<string>).orValue([]).size() == <SMALL>",
        "has(<domain>.<NAME>)",
        "has(<map>.a)",
        "has(<dyn>.<NAME>)",
        "device.attributes[<string>].size() <COMPARE> <SMALL>",
        "<domain> == <domain>",
        _over_integers,
        _over_strings,
        _over_domain,
        _over_domains,
        _over_dyn,
        _pairs,
    ),
    "int": (
        "<int> <ARITHMETIC> <int>",
        "<int> + <int>",
        "-<int>",
        "-(<int>)",
        "int(<dyn>)",
        "int(<string>)",
        "int(<double>)",
        "int(<uint>)",
        "int(<duration>)",
        "int(<timestamp>)",
        "<string>.size()",
        "size(<string>)",
        "size(<list_int>)",
        "<list_string>.size()",
        "<map>.size()",
        "<bytes>.size()",
        "size(<dyn>)",
        "<domain>.size()",
        "<quantity>.asInteger()",
        "<quantity>.sign()",
        "sign(<quantity>)",
        "<quantity>.compareTo(<quantity>)",
        "<semver>.compareTo(<semver>)",
        "<semver>.major()",
        "<semver>.minor()",
        "<semver>.patch()",
        "<dyn>.major()",
        "<string>.indexOf(<string>)",
        "<string>.indexOf(<string>, <SMALL>)",
        "<string>.lastIndexOf(<string>)",
        "<string>.lastIndexOf(<string>, <SMALL>)",
        "<list_int>.indexOf(<int>)",
        "<list_string>.lastIndexOf(<string>)",
        "<list_int>.sum()",
        "<list_int>.max()",
        "<list_int>.min()",
        "<list_int>[<SMALL>]",
        "<map>[<string>]",
        "<map>.a",
        "<timestamp>.<TIME>()",
        "<timestamp>.<TIME>(<ZONE>)",
        "<duration>.getHours()",
        "<duration>.getSeconds()",
        "<duration>.getMilliseconds()",
        "<ip>.family()",
        "<cidr>.prefixLength()",
        "<url>.getQuery().size()",
        "<bool> ? <int> : <int>",
        "<list_int>.first().orValue(<int>)",
        "<list_int>.last().value()",
        "<map>[?'a'].orValue(<int>)",
        "<map>.?b.orValue(<int>)",
        _counted,
    ),
    "uint": (
        "<uint> <ARITHMETIC> <uint>",
        "uint(<int>)",
        "uint(<double>)",
        "uint(<string>)",
        "uint(<dyn>)",
        "[<uint>, <uint>].max()",
    ),
    "double": (
        "<double> + <double>",
        "<double> - <double>",
        "<double> * <double>",
        "<double> / <double>",
        "-<double>",
        "double(<int>)",
        "double(<string>)",
        "double(<uint>)",
        "double(<dyn>)",
        "<quantity>.asApproximateFloat()",
        "[<double>, <double>].sum()",
    ),
    "string": (
        "<string> + <string>",
        "string(<int>)",
        "string(<double>)",
        "string(<uint>)",
        "string(<bool>)",
        "string(<bytes>)",
        "string(<duration>)",
        "string(<timestamp>)",
        "string(<dyn>)",
        "string(<ip>)",
        "string(<cidr>)",
        "<string>.charAt(<SMALL>)",
        "<string>.lowerAscii()",
        "<string>.upperAscii()",
        "<string>.trim()",
        "<dyn>.lowerAscii()",
        "<string>.replace(<string>, <string>)",
        "<string>.replace(<string>, <string>, <SMALL>)",
        "<string>.substring(<SMALL>)",
        "<string>.substring(<SMALL>, <SMALL>)",
        "<list_string>.join(<string>)",
        "<list_string>.join()",
        "<list_string>[<SMALL>]",
        "<string>.find(<PATTERN>)",
        "strings.quote(<string>)",
        "<CLAUSES>.format([<string>])",
        "<CLAUSES>.format([<int>])",
        "<CLAUSES>.format([<double>])",
        "'%s'.format([<list_int>])",
        "'%s|%s'.format([<map>, <map>])",
        "'%s'.format([dyn(<dyn>)])",
        "'%s'.format([<timestamp>])",
        "'%s'.format([<duration>])",
        "<TEXT>.format([<int>, <int>])",
        "<url>.getHost()",
        "<url>.getHostname()",
        "<url>.getPort()",
        "<url>.getScheme()",
        "<url>.getEscapedPath()",
        "<bool> ? <string> : <string>",
        "<list_string>.max()",
        "<optional>.orValue('none') == 'none' ? 'y' : 'n'",
    ),
    "bytes": ("bytes(<string>)", "<bytes> + <bytes>", "bytes(<dyn>)"),
    "quantity": (
        "quantity(<string>)",
        "<quantity>.add(<quantity>)",
        "<quantity>.sub(<quantity>)",
        "<quantity>.add(<int>)",
        "<quantity>.sub(<int>)",
        "device.capacity[<DOMAIN>]['<CAPACITY>']",
    ),
    "semver": ("semver(<string>)", "semver(<VERSION>, true)"),
    "duration": (
        "<duration> + <duration>",
        "<duration> - <duration>",
        "<timestamp> - <timestamp>",
        "duration(<string>)",
        "duration(<INT>)",
    ),
    "timestamp": (
        "<timestamp> + <duration>",
        "<timestamp> - <duration>",
        "<duration> + <timestamp>",
        "timestamp(<int>)",
        "timestamp(<string>)",
    ),
    "ip": ("ip(<string>)", "<cidr>.ip()"),
    "cidr": ("<cidr>.masked()", "cidr(<string>)"),
    "url": ("url(<string>)",),
    "list_int": (
        "[<int>, <int>]",
        "[<int>, ?optional.of(<int>)]",
        "<list_int> + <list_int>",
        "<list_int>.slice(<SMALL>, <SMALL>)",
        "<list_int>.sort()",
        "<list_int>.reverse()",
        "<list_int>.distinct()",
        "[<list_int>, <list_int>].flatten()",
        "[[<list_int>], [[1]]].flatten(<SMALL>)",
        "<list_string>.map(e5, e5.size())",
        "<list_string>.transformList(i4, e4, i4 + e4.size())",
        "<list_int>.sortBy(e3, -e3)",
        "<bool> ? <list_int> : <list_int>",
        _mapped("list_int", "int", "int", "map"),
        _mapped("list_int", "int", "bool", "filter"),
    ),
    "list_string": (
        "<string>.split(<string>)",
        "<string>.split(<string>, <SMALL>)",
        "<dyn>.split('-')",
        "<list_string> + <list_string>",
        "<string>.findAll(<PATTERN>)",
        "<string>.findAll(<PATTERN>, <SMALL>)",
        "<list_string>.sort()",
        "<list_string>.distinct()",
        "<list_string>.reverse()",
        _mapped("list_string", "string", "string", "map"),
        _mapped("list_string", "string", "bool", "filter"),
        "<url>.getQuery()[?'x'].orValue([])",
    ),
    "map": (
        "{'a': <int>}",
        "{<string>: <int>}",
        "{'a': <int>, ?'b': optional.of(<int>)}",
        "<map>.transformMap(k3, v3, v3 + <int>)",
        "<list_string>.transformMapEntry(i2, v2, {v2: i2})",
    ),
    "domain": ("device.attributes[<string>]", "<bool> ? <domain> : <domain>"),
    "optional": (
        "optional.of(<dyn>)",
        "optional.ofNonZeroValue(<dyn>)",
        "<optional>.or(<optional>)",
        "<domain>.?<NAME>",
        "<domain>[?<string>]",
        "device.?attributes[?<DRIVER>].?<NAME>",
        "<optional>.optMap(o2, o2)",
        "<bool> ? <optional> : <optional>",
    ),
    "dyn": (
        "<domain>.<NAME>",
        "<domain>[<string>]",
        "dyn(<list_int>)",
        "dyn(<map>)",
        "dyn(<bool>)",
        "dyn(<string>)",
        "dyn(<quantity>)",
        "dyn(<semver>)",
        "dyn(<duration>)",
        "dyn(<timestamp>)",
        "dyn(<bytes>)",
        "dyn(null)",
        "dyn(<ip>)",
        "<optional>.value()",
        "<optional>.orValue(<dyn>)",
        "<dyn>[<dyn>]",
        "<dyn>.<NAME>",
        "<dyn> + <dyn>",
        "<dyn> - <dyn>",
        "<dyn> * <int>",
        "<bool> ? <dyn> : <dyn>",
        "-<dyn>",
        "dyn(<list_string>)[<SMALL>]",
    ),
}

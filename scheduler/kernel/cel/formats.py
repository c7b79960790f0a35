"""Named formats of strings: `format.dns1123Label().validate(text)`.

Source: k8s.io/apiserver v0.36.3 pkg/cel/library/format.go; k8s.io/apimachinery pkg/util/validation;
k8s.io/kube-openapi pkg/validation/strfmt. The number of problems is upstream's, the texts are ours.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

from scheduler.kernel.cel.costs import REGEX_FACTOR, STRING_FACTOR
from scheduler.kernel.cel.declarations import function
from scheduler.kernel.cel.network import is_url
from scheduler.kernel.cel.values import NONE, Format, Optional, Value, size_of

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_UUID: Final = "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_BASE64: Final = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_CLOCK: Final = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII
)
_SHORT: Final = 63
_LONG: Final = 253
_PREFIX_AND_NAME: Final = 2


def _matching(pattern: str, most: int | None, what: str) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern, re.ASCII)

    def problems(text: str) -> list[str]:
        found = []
        if most is not None and len(text.encode()) > most:
            found.append(f"must be no more than {most} bytes")
        # A long text is refused whatever it is; reading it could take quadratic time.
        if len(text) > 4 * _LONG or compiled.fullmatch(text) is None:
            found.append(f"must be {what} (the regular expression is '{pattern}')")
        return found

    return problems


_label: Final = _matching(_LABEL, _SHORT, "a lowercase RFC 1123 label")
_subdomain: Final = _matching(_SUBDOMAIN, _LONG, "a lowercase RFC 1123 subdomain")
_label_1035: Final = _matching(_LABEL_1035, _SHORT, "a DNS-1035 label")
_name: Final = _matching(_NAME, _SHORT, "a name of letters, digits, '-', '_' and '.'")
_label_value: Final = _matching(f"({_NAME})?", _SHORT, "the value of a label")


def _as_prefix(problems: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    def run(text: str) -> list[str]:
        # The generated suffix after a trailing dash makes it valid.
        masked = text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text
        return problems(masked)

    return run


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > _PREFIX_AND_NAME:
        return ["must be a name with an optional DNS subdomain prefix and '/'"]
    found = []
    if len(parts) == _PREFIX_AND_NAME:
        empty = ["must be non-empty"]
        found += [
            f"prefix part {problem}" for problem in (_subdomain(parts[0]) if parts[0] else empty)
        ]
    if not parts[-1]:
        found.append("name part must be non-empty")
    return found + [f"name part {problem}" for problem in _name(parts[-1])]


def _one(problem: str, valid: Callable[[str], bool]) -> Callable[[str], list[str]]:
    return lambda text: [] if valid(text) else [problem]


def _is_date(text: str) -> bool:
    match = re.fullmatch(r"(\d{4})-(\d{2})-(\d{2})", text, re.ASCII)
    if match is None:
        return False
    try:
        # No year 0 in Python's calendar; it is as long as year 4.
        date(int(match[1]) or 4, int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) == 1 or not _is_date(parts[0]):
        return False
    match = _CLOCK.fullmatch(parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _full(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


_FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", _label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": Format("DNS1035Label", _label_1035, 30),
    "qualifiedName": Format("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _as_prefix(_label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _as_prefix(_subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _as_prefix(_label_1035), 30),
    "labelValue": Format("LabelValue", _label_value, 40),
    "uri": Format("URI", _one("must be a URI", is_url), 1103),
    "uuid": Format("uuid", _one("does not match the UUID format", _full(_UUID)), 72),
    "byte": Format("byte", _one("invalid base64", _full(_BASE64)), 84),
    "date": Format("date", _one("invalid date", _is_date), 72),
    "datetime": Format("datetime", _one("invalid datetime", _is_datetime), 72),
}


def _validate(named: Format, text: str) -> Optional:
    problems = named.validate(text)
    return Optional(tuple(problems), present=True) if problems else NONE


def _named(name: str) -> Optional:
    return Optional(_FORMATS[name], present=True) if name in _FORMATS else NONE


def _validate_cost(arguments: Sequence[Value], _: Value) -> int:
    named, text = arguments
    walked = -(-(1 + size_of(text)) * STRING_FACTOR // 1)
    return int(walked * -(-named.size * REGEX_FACTOR // 1))


def _constant(value: Format) -> Callable[[], Format]:
    return lambda: value


FUNCTIONS: Final = (
    *(function((f".format.{name}() format", _constant(it))) for name, it in _FORMATS.items()),
    function((".format.named(string) optional<format>", _named)),
    function(("format.validate(string) optional<list<string>>", _validate), cost=_validate_cost),
)

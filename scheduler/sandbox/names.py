"""Rules for names, labels and values, with the sentences an API server says about them.

Each rule takes a text and gives the complaints about it, none when it is fine.
Source: k8s.io/apimachinery pkg/util/validation.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

NameRule = Callable[[str], tuple[str, ...]]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_DNS_LABEL_MAX: Final = 63
_DNS_SUBDOMAIN_MAX: Final = 253
_QUALIFIED_MAX: Final = 63
_PORT_NAME_MAX: Final = 15
_PORT_MAX: Final = 65535

_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', and must start and end with an alphanumeric character"
)
_LABEL_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character"
)
_QUALIFIED_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)


def _regex_text(text: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def _checked(
    text: str, limit: int, pattern: str, complaint: str, *examples: str
) -> tuple[str, ...]:
    complaints = []
    if len(text) > limit:
        complaints.append(_too_long(limit))
    if re.fullmatch(pattern, text) is None:
        complaints.append(_regex_text(complaint, pattern, *examples))
    return tuple(complaints)


@lru_cache(maxsize=65536)
def is_dns_label(text: str) -> tuple[str, ...]:
    """The rule for namespaces and containers."""
    if "." in text and len(text) <= _DNS_LABEL_MAX and not is_dns_subdomain(text):
        return ("must not contain dots",)
    return _checked(text, _DNS_LABEL_MAX, _LABEL, _LABEL_TEXT, "my-name", "123-abc")


@lru_cache(maxsize=65536)
def is_dns_subdomain(text: str) -> tuple[str, ...]:
    """The rule for the names of most objects."""
    return _checked(text, _DNS_SUBDOMAIN_MAX, _SUBDOMAIN, _SUBDOMAIN_TEXT, "example.com")


@lru_cache(maxsize=1024)
def is_service_name(text: str) -> tuple[str, ...]:
    """The rule for services."""
    return _checked(text, _DNS_LABEL_MAX, _LABEL_1035, _LABEL_1035_TEXT, "my-name", "abc-123")


@lru_cache(maxsize=1024)
def is_path_segment(text: str) -> tuple[str, ...]:
    """The rule for names that may hold colons, as roles do."""
    if text in {".", ".."}:
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{bad}'" for bad in ("/", "%") if bad in text)


@lru_cache(maxsize=65536)
def is_qualified_name(text: str) -> tuple[str, ...]:
    """The rule for label keys, taint keys, resources and gates: prefix/name."""
    prefix, slash, name = text.rpartition("/")
    complaints = []
    if "/" in prefix:
        return (
            _regex_text(
                f"a valid label key {_QUALIFIED_TEXT}", _QUALIFIED, "MyName", "my.name", "123-abc"
            )
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    if slash and not prefix:
        complaints.append("prefix part must be non-empty")
    elif slash:
        complaints += [f"prefix part {complaint}" for complaint in is_dns_subdomain(prefix)]
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name) > _QUALIFIED_MAX:
        complaints.append(f"name part {_too_long(_QUALIFIED_MAX, 'bytes')}")
    if re.fullmatch(_QUALIFIED, name) is None:
        complaints.append(
            _regex_text(f"name part {_QUALIFIED_TEXT}", _QUALIFIED, "MyName", "my.name", "123-abc")
        )
    return tuple(complaints)


@lru_cache(maxsize=65536)
def is_label_value(text: str) -> tuple[str, ...]:
    """The rule for label values."""
    return _checked(
        text, _QUALIFIED_MAX, _LABEL_VALUE, _LABEL_VALUE_TEXT, "MyValue", "my_value", "12345"
    )


@lru_cache(maxsize=1024)
def is_port_name(text: str) -> tuple[str, ...]:
    """The rule for the names of container and service ports."""
    complaints = []
    if len(text) > _PORT_NAME_MAX:
        complaints.append(_too_long(_PORT_NAME_MAX))
    if re.fullmatch("[-a-z0-9]+", text) is None:
        complaints.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if re.search("[a-z]", text) is None:
        complaints.append("must contain at least one letter (a-z)")
    if "--" in text:
        complaints.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        complaints.append("must not begin or end with a hyphen")
    return tuple(complaints)


def is_port_number(number: int) -> tuple[str, ...]:
    """The rule for port numbers."""
    if 1 <= number <= _PORT_MAX:
        return ()
    return (f"must be between 1 and {_PORT_MAX}, inclusive",)

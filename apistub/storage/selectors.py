"""Label and field selectors.

Source: k8s.io/apimachinery pkg/labels (Parse, Requirement.Matches) and pkg/fields (ParseSelector).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from apistub.storage.kinds import Object
from apistub.storage.status import bad_request


class Selectable(Protocol):
    """What a selector looks at."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        ...

    @property
    def fields(self) -> Sequence[str]:
        """The values of the fields its kind is selected by, see `Kind.field_positions`."""
        ...


Predicate = Callable[[Selectable], bool]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One part of a label selector."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels fulfils the requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case _:
                return value is None


_KEY: Final = r"(?P<key>[^\s=!<>(),]+)"
_SET: Final = re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_PAIR: Final = re.compile(rf"{_KEY}\s*(?P<operator>==|!=|=)\s*(?P<values>[^\s=!<>(),]*)")
_PRESENCE: Final = re.compile(rf"(?P<operator>!?)\s*{_KEY}(?P<values>)")
_OPERATORS: Final = {
    "in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn", "": "Exists",
    "!": "DoesNotExist",
}  # fmt: skip
_OUTER_COMMA: Final = re.compile(r",(?![^(]*\))")
_UNESCAPED_COMMA: Final = re.compile(r"(?<!\\),")
_NAMESPACE_POSITION: Final = 1


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector.

    Raises:
        StatusError: 400, the text is not a label selector.
    """
    if not text.strip():
        return ()
    return tuple(_requirement(part.strip()) for part in _OUTER_COMMA.split(text))


def _requirement(text: str) -> Requirement:
    for form in (_SET, _PAIR, _PRESENCE):
        if found := form.fullmatch(text):
            values = frozenset(value.strip() for value in found["values"].split(","))
            return Requirement(found["key"], _OPERATORS[found["operator"]], values)
    raise bad_request(f"{text!r} is not part of a label selector")


def selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of an object, which selects nothing if absent, matches labels."""
    if selector is None:
        return False
    expressions = selector.get("matchExpressions") or ()
    return (selector.get("matchLabels") or {}).items() <= labels.items() and all(
        Requirement(one["key"], one["operator"], frozenset(one.get("values") or ())).matches(labels)
        for one in expressions
    )


def parse_fields(text: str, positions: Mapping[str, int]) -> list[tuple[int, str, bool]]:
    """The terms of a field selector: position of the field, value, whether it is wanted.

    Args:
        text: such as `spec.nodeName=,status.phase!=Failed`.
        positions: where each of the kind's fields stands among an entry's values.

    Raises:
        StatusError: 400, the text does not parse, or names another field.
    """
    terms = []
    for part in filter(None, _UNESCAPED_COMMA.split(text)):
        wanted = "!=" not in part
        name, equals, value = part.partition("!=" if not wanted else "==" if "==" in part else "=")
        if not equals or name not in positions:
            raise bad_request(f"{part!r} is not part of a field selector of this resource")
        terms.append((positions[name], re.sub(r"\\([,=\\])", r"\1", value), wanted))
    return terms


def predicate(
    labels: Sequence[Requirement], fields: Sequence[tuple[int, str, bool]], namespace: str = ""
) -> Predicate | None:
    """One function for all parts of a selection; None when everything is selected.

    Args:
        labels: requirements on labels.
        fields: terms on fields.
        namespace: the only namespace wanted, empty for all.
    """
    terms = [*fields]
    if namespace:
        terms.append((_NAMESPACE_POSITION, namespace, True))
    if not terms and not labels:
        return None

    def matches(entry: Selectable) -> bool:
        values = entry.fields
        for position, value, wanted in terms:
            if (values[position] == value) is not wanted:
                return False
        held = entry.labels
        return all(requirement.matches(held) for requirement in labels)

    return matches

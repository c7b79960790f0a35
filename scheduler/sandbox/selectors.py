"""Label and field selectors of list and watch requests.

Source: k8s.io/apimachinery pkg/labels (Parse, Requirement.Matches) and pkg/fields (ParseSelector).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from scheduler.sandbox.errors import SandboxError
from scheduler.sandbox.names import is_label_value, is_qualified_name


class SelectorError(SandboxError, ValueError):
    """A text that is not a selector, or names a field that cannot be selected by."""


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


class Operator(Enum):
    """How a requirement compares."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = ">"
    LESS = "<"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One comma-separated part of a label selector."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels fulfils the requirement."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or _INTEGER.fullmatch(value) is None:
            return False
        (bound,) = self.values
        if self.operator is Operator.GREATER:
            return int(value) > int(bound)
        return int(value) < int(bound)


_INTEGER: Final = re.compile(r"[+-]?\d+")
_KEY: Final = r"(?P<key>[^\s=!<>(),]+)"
_SET: Final = re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_PAIR: Final = re.compile(rf"{_KEY}\s*(?P<operator>==|!=|=|>|<)\s*(?P<value>[^\s=!<>(),]*)")
_PRESENCE: Final = re.compile(rf"(?P<operator>!?)\s*{_KEY}")
_OUTER_COMMA: Final = re.compile(r",(?![^(]*\))")


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector.

    Raises:
        SelectorError: the text is not a label selector.
    """
    if not text.strip():
        return ()
    return tuple(_requirement(part.strip()) for part in _OUTER_COMMA.split(text))


def _requirement(text: str) -> Requirement:
    if match := _SET.fullmatch(text):
        operator = Operator.IN if match["operator"] == "in" else Operator.NOT_IN
        values = frozenset(value.strip() for value in match["values"].split(","))
        return _checked(Requirement(match["key"], operator, values))
    if match := _PAIR.fullmatch(text):
        operator = _PAIR_OPERATORS[match["operator"]]
        return _checked(Requirement(match["key"], operator, frozenset((match["value"],))))
    if match := _PRESENCE.fullmatch(text):
        operator = Operator.DOES_NOT_EXIST if match["operator"] else Operator.EXISTS
        return _checked(Requirement(match["key"], operator))
    raise SelectorError(
        f'unable to parse requirement: found "{text}", expected a key, key=value, key!=value, '
        "key in (a,b), key notin (a,b) or !key"
    )


_PAIR_OPERATORS: Final = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}


def _checked(requirement: Requirement) -> Requirement:
    for complaint in is_qualified_name(requirement.key):
        raise SelectorError(
            f'unable to parse requirement: <nil>: Invalid value: "{requirement.key}": {complaint}'
        )
    compares = requirement.operator in {Operator.GREATER, Operator.LESS}
    for value in sorted(requirement.values):
        if compares and _INTEGER.fullmatch(value) is None:
            raise SelectorError(
                f"unable to parse requirement: values[0][{requirement.key}]: Invalid value: "
                f"\"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        for complaint in is_label_value(value):
            raise SelectorError(
                f"unable to parse requirement: values[0][{requirement.key}]: Invalid value: "
                f'"{value}": {complaint}'
            )
    return requirement


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One comma-separated part of a field selector."""

    position: int
    """Where the field stands in the kind's table."""
    value: str
    wanted: bool
    """True for `=`, false for `!=`."""


_UNESCAPED_COMMA: Final = re.compile(r"(?<!\\),")


def parse_fields(text: str, positions: Mapping[str, int]) -> tuple[FieldTerm, ...]:
    """The terms of a field selector.

    Args:
        text: such as `spec.nodeName=,status.phase!=Failed`.
        positions: where each of the kind's fields stands among an entry's values.

    Raises:
        SelectorError: the text does not parse, or names another field.
    """
    terms = []
    for part in _UNESCAPED_COMMA.split(text):
        if not part:
            continue
        wanted = "!=" not in part
        name, equals, value = part.partition("!=" if not wanted else "==" if "==" in part else "=")
        if not equals:
            raise SelectorError(f"invalid selector: '{part}'; can't understand '{part}'")
        if name not in positions:
            raise SelectorError(f"field label not supported: {name}")
        value = re.sub(r"\\([,=\\])", r"\1", value)
        terms.append(FieldTerm(positions[name], value, wanted))
    return tuple(terms)


def predicate(
    labels: Sequence[Requirement], fields: Sequence[FieldTerm], namespace: str = ""
) -> Predicate | None:
    """One function for all parts of a selection; None when everything is selected.

    Args:
        labels: requirements on labels.
        fields: terms on fields.
        namespace: the only namespace wanted, empty for all; fields must hold it at position 1.
    """
    terms = [*fields]
    if namespace:
        terms.append(FieldTerm(_NAMESPACE_POSITION, namespace, wanted=True))
    if not terms and not labels:
        return None
    pairs = [(term.position, term.value, term.wanted) for term in terms]

    def selects(entry: Selectable) -> bool:
        values = entry.fields
        for position, value, wanted in pairs:
            if (values[position] == value) is not wanted:
                return False
        held = entry.labels
        return all(requirement.matches(held) for requirement in labels)

    return selects


_NAMESPACE_POSITION: Final = 1

"""Label and field selectors.

Source: k8s.io/apimachinery pkg/labels (Parse, Requirement.Matches) and pkg/fields (ParseSelector).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from apistub.storage.kinds import Object
from apistub.storage.status import bad_request
from apistub.storage.store import Entry
from scheduler.api.selectors import Operator, Requirement

Predicate = Callable[[Entry], bool]


_KEY: Final = r"(?P<key>[^\s=!<>(),]+)"
_SET: Final = re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_PAIR: Final = re.compile(rf"{_KEY}\s*(?P<operator>==|!=|=)\s*(?P<values>[^\s=!<>(),]*)")
_PRESENCE: Final = re.compile(rf"(?P<operator>!?)\s*{_KEY}(?P<values>)")
_OPERATORS: Final = {
    "in": Operator.IN, "=": Operator.IN, "==": Operator.IN, "notin": Operator.NOT_IN,
    "!=": Operator.NOT_IN, "": Operator.EXISTS, "!": Operator.DOES_NOT_EXIST,
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
    requirements = [
        Requirement(one["key"], Operator(one["operator"]), frozenset(one.get("values") or ()))
        for one in selector.get("matchExpressions") or ()
    ]
    demanded = selector.get("matchLabels") or {}
    return demanded.items() <= labels.items() and _hold(requirements, labels)


def _hold(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(one.matches_value(labels.get(one.key)) for one in requirements)


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
    """One function for all parts of a selection; None when everything is selected."""
    terms = [*fields]
    if namespace:
        terms.append((_NAMESPACE_POSITION, namespace, True))
    if not terms and not labels:
        return None

    def matches(entry: Entry) -> bool:
        values = entry.fields
        for position, value, wanted in terms:
            if (values[position] == value) is not wanted:
                return False
        return _hold(labels, entry.labels)

    return matches

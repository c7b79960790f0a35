"""Selectors over labels, in a canonical form.

A `Selector` is canonical: two spellings of the same requirements are equal and hash alike. So pods
with equal selectors share one class of counts.

Source: k8s.io/apimachinery pkg/labels (Requirement.Matches), pkg/apis/meta/v1
LabelSelectorAsSelector; k8s.io/component-helpers scheduling/corev1/nodeaffinity (v0.36).
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

import msgspec

from scheduler.api.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelectorRequirement,
)


class Operator(Enum):
    """The comparison that a requirement makes with the value of its key."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"

    # Members are singletons; the hash of their names would be computed in Python each time.
    __hash__ = object.__hash__


class SelectorError(ValueError):
    """A selector that cannot be read."""


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One requirement: a key, an operator, and the values it compares with."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches_value(self, value: str | None) -> bool:
        """Whether a label value (None: the label is absent) satisfies the requirement."""
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                return self._compares(value)

    @property
    def text(self) -> str:
        """The requirement as kubectl writes it."""
        values = sorted(self.values)
        match self.operator:
            case Operator.IN | Operator.NOT_IN if len(values) == 1:
                return f"{self.key}{'=' if self.operator is Operator.IN else '!='}{values[0]}"
            case Operator.IN | Operator.NOT_IN:
                word = "in" if self.operator is Operator.IN else "notin"
                return f"{self.key} {word} ({','.join(values)})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.GT | Operator.LT:
                return f"{self.key}{'>' if self.operator is Operator.GT else '<'}{','.join(values)}"

    def _compares(self, value: str | None) -> bool:
        have, want = parse_int64(value), parse_int64(next(iter(self.values), None))
        if have is None or want is None or len(self.values) != 1:
            return False
        return have > want if self.operator is Operator.GT else have < want


class Selector(msgspec.Struct, frozen=True, gc=False):
    """Requirements that must all hold; without any it matches everything."""

    requirements: tuple[Requirement, ...] = ()
    """Each requirement once, sorted; a tuple, as a set takes 200 bytes for each of many terms."""
    nothing: bool = False
    """True for the selector that matches no labels at all (a missing LabelSelector)."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy every requirement."""
        if self.nothing:
            return False
        for requirement in self.requirements:  # all() takes twice as long
            if not requirement.matches_value(labels.get(requirement.key)):
                return False
        return True

    def with_requirements(self, more: Iterable[Requirement]) -> "Selector":
        """The selector that also demands the given requirements."""
        return Selector(_in_order({*self.requirements, *more}), self.nothing)

    @property
    def text(self) -> str:
        """The selector as kubectl writes it; `<none>` and `<all>` for those without a text."""
        if self.nothing:
            return "<none>"
        return ",".join(sorted(r.text for r in self.requirements)) or "<all>"

    @property
    def is_everything(self) -> bool:
        """Whether every object matches."""
        return not self.nothing and not self.requirements


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)

_LABEL_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_NODE_OPERATORS: Final = frozenset(op.value for op in Operator)
_INT64: Final = 2**63
_WHOLE: Final = re.compile(r"([-+]?)0*([0-9]{1,19})").fullmatch
"""Longer numbers are no int64, and Python refuses to read those of thousands of digits."""
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?").fullmatch
_EXPECTED: Final = {
    Operator.IN: "values of labels",
    Operator.NOT_IN: "values of labels",
    Operator.GT: "one number without a sign",
    Operator.LT: "one number without a sign",
    Operator.EXISTS: "no values",
    Operator.DOES_NOT_EXIST: "no values",
}


def is_label_value(text: str) -> bool:
    """Whether a label may have this value. Source: validation.IsValidLabelValue."""
    return _LABEL_VALUE(text) is not None


def parse_int64(text: str | None) -> int | None:
    """Parse a decimal number; None if the text is no signed 64-bit integer."""
    found = _WHOLE(text or "")
    if found is None:
        return None
    number = int("".join(found.groups()))
    return number if -_INT64 <= number < _INT64 else None


def selector_from_label_selector(selector: LabelSelector | None) -> Selector:
    """Parse a LabelSelector; a missing one matches nothing, an empty one everything.

    Raises:
        SelectorError: an operator is unknown.
    """
    if selector is None:
        return NOTHING
    return selector_from_labels(selector.match_labels).with_requirements(
        _requirement(r, _LABEL_OPERATORS) for r in selector.match_expressions
    )


def selector_from_labels(labels: Mapping[str, str]) -> Selector:
    """The selector that demands each of the labels."""
    return Selector(
        _in_order({Requirement(k, Operator.IN, frozenset((v,))) for k, v in labels.items()})
    )


def node_requirement(requirement: NodeSelectorRequirement) -> Requirement:
    """A requirement over node labels, which may also compare numbers.

    The API server lets preferred terms have values that no label has, and a Gt or Lt without a
    number everywhere; upstream's `labels.NewRequirement` refuses both.

    Raises:
        SelectorError: the operator is unknown, or the values do not go with it.
    """
    return _checked(requirement, _NODE_OPERATORS)


def check_label_selector(selector: LabelSelector) -> None:
    """Check the expressions of a selector that no API server has checked, as of a custom resource.

    Source: k8s.io/apimachinery pkg/apis/meta/v1 helpers.go (LabelSelectorAsSelector) v0.36.

    Raises:
        SelectorError: an operator is unknown, or the values do not go with it.
    """
    for requirement in selector.match_expressions:
        _checked(requirement, _LABEL_OPERATORS)


def _checked(
    requirement: LabelSelectorRequirement | NodeSelectorRequirement, known: frozenset[str]
) -> Requirement:
    parsed = _requirement(requirement, known)
    values = requirement.values
    fits = False
    match parsed.operator:
        case Operator.IN | Operator.NOT_IN:
            fits = bool(values)
        case Operator.GT | Operator.LT:
            fits = len(values) == 1 and parse_int64(values[0]) is not None
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            fits = not values
    if not (fits and all(map(is_label_value, values))):
        raise SelectorError(
            f"operator {requirement.operator} of key {requirement.key!r} expects "
            f"{_EXPECTED[parsed.operator]}, got {list(values)}"
        )
    return parsed


def field_requirement(requirement: NodeSelectorRequirement) -> Requirement:
    """A requirement over a node's fields.

    Raises:
        SelectorError: it is not In or NotIn with one value.
    """
    if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        raise SelectorError(
            f"field {requirement.key!r} expects In or NotIn with one value, got "
            f"{requirement.operator} with {len(requirement.values)}"
        )
    return _requirement(requirement, _NODE_OPERATORS)


def _in_order(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda r: (r.key, r.operator.value, sorted(r.values))))


def _requirement(
    requirement: LabelSelectorRequirement | NodeSelectorRequirement, known: frozenset[str]
) -> Requirement:
    if requirement.operator not in known:
        raise SelectorError(
            f"operator {requirement.operator!r} of key {requirement.key!r} is not one of "
            f"{', '.join(sorted(known))}"
        )
    return Requirement(
        requirement.key, Operator(requirement.operator), frozenset(requirement.values)
    )

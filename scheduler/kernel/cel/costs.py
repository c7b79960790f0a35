"""The costs of calls.

Source: `CostEstimator.CallCost` in k8s.io/apiserver v0.36.3 pkg/cel/library/cost.go, `costCall` in
github.com/google/cel-go v0.26.0 interpreter/runtimecost.go, ext/lists.go and ext/sets.go.
"""

import math
from collections.abc import Sequence
from typing import Final

from scheduler.kernel.cel import effort
from scheduler.kernel.cel.declarations import Cost
from scheduler.kernel.cel.values import LISTS, Address, Map, Network, Value, size_of

LIMIT: Final = 1_000_000
"""Cost limit of one evaluation (`CELSelectorExpressionMaxCost` in k8s.io/api resource/v1)."""
LIST: Final = 10
MAP: Final = 30
STRING_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25


def traversal(factor: float = STRING_FACTOR) -> Cost:
    """A walk over the first argument's characters."""
    return lambda arguments, _: math.ceil(size_of(arguments[0]) * factor)


def result_traversal(factor: float) -> Cost:
    """The cost of a walk over the result."""
    return lambda _, result: math.ceil(size_of(result) * factor)


def elements(arguments: Sequence[Value], _: Value) -> int:
    """A walk over all there is in the first argument."""
    return _walked(arguments[0])


def _walked(value: Value) -> int:
    if type(value) is str:
        return int(len(value.encode()) * STRING_FACTOR)
    if type(value) is bytes:
        return int(len(value) * STRING_FACTOR)
    if type(value) in LISTS or type(value) is Map:
        effort.charge(len(value))
    if type(value) in LISTS:
        return sum(map(_walked, value))
    if type(value) is Map:
        return sum(_walked(key) + _walked(held) for key, held in value.items())
    return 1


def regex(arguments: Sequence[Value], _: Value) -> int:
    """A search for the second argument in the first."""
    text = math.ceil((1 + size_of(arguments[0])) * STRING_FACTOR)
    return text * math.ceil(size_of(arguments[1]) * REGEX_FACTOR)


def substring_search(arguments: Sequence[Value], _: Value) -> int:
    """`contains`: both texts count."""
    one, two = (math.ceil(size_of(argument) * STRING_FACTOR) for argument in arguments)
    return one * two


def shorter(arguments: Sequence[Value], _: Value) -> int:
    """A comparison, which ends where the shorter side does."""
    return math.ceil(min(map(size_of, arguments)) * STRING_FACTOR)


def equality(arguments: Sequence[Value], _: Value) -> int:
    """`==`: a comparison in which addresses have no length, unlike in `!=`."""
    return 1 if type(arguments[0]) in {Address, Network} else shorter(arguments, _)


def both(arguments: Sequence[Value], _: Value) -> int:
    """A copy of both sides."""
    return math.ceil(sum(map(size_of, arguments)) * STRING_FACTOR)


def new_list(_: Sequence[Value], result: Value) -> int:
    """A list of the result's size."""
    return size_of(result) + 1 + LIST


def each_with_each(index: int) -> Cost:
    """Every element of an argument held against every other."""

    def charged(arguments: Sequence[Value], _: Value) -> int:
        values = arguments[index]
        texts = bool(values) and type(values[0]) in {str, bytes}
        return int(len(values) ** 2 * (2 + STRING_FACTOR * texts)) + 1 + LIST

    return charged


def sets(factor: int) -> Cost:
    """The cost of comparing every element of one list with every element of the other."""
    return lambda arguments, _: 1 + size_of(arguments[0]) * size_of(arguments[1]) * factor

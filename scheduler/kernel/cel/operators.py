"""Operators and conversions.

Source: github.com/google/cel-go v0.26.0 common/stdlib, common/types, common/types/overflow.go.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.kernel.cel import costs, effort
from scheduler.kernel.cel.comparing import COMPARABLE, compare, contains
from scheduler.kernel.cel.conversions import CONVERSIONS, checked_int, checked_uint
from scheduler.kernel.cel.declarations import Function, function
from scheduler.kernel.cel.errors import EvaluationError, no_such_overload
from scheduler.kernel.cel.times import (
    checked_duration,
    checked_timestamp,
)
from scheduler.kernel.cel.values import (
    INT_MIN,
    LISTS,
    Duration,
    GrowingList,
    Map,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    kind_of,
)


def _whole(
    name: str, whole: Callable[[int, int], int], double: Callable[[float, float], float] | None
) -> Callable[[Value, Value], Value]:
    """Return an operator that needs two numbers of the same kind."""

    def run(one: Value, two: Value) -> Value:
        kind = type(one)
        if kind is int or kind is Uint:
            if type(two) is not kind:
                raise no_such_overload()
            result = whole(int(one), int(two))
            return checked_int(result) if kind is int else checked_uint(result)
        if kind is float and double is not None:
            if type(two) is not float:
                raise no_such_overload()
            return double(one, two)
        raise no_such_overload(name)

    return run


def _quotient(one: int, two: int) -> int:
    if two == 0:
        raise EvaluationError("division by zero")
    result = abs(one) // abs(two)
    return result if (one < 0) == (two < 0) else -result


def _remainder(one: int, two: int) -> int:
    if two == 0:
        raise EvaluationError("modulus by zero")
    if one == INT_MIN and two == -1:
        raise EvaluationError("integer overflow")
    return one - two * _quotient(one, two)


def _divide_doubles(one: float, two: float) -> float:
    if two != 0:
        return one / two
    if one == 0 or math.isnan(one) or math.isnan(two):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, two)


_plus_numbers: Final = _whole("_+_", lambda one, two: one + two, lambda one, two: one + two)
_minus_numbers: Final = _whole("_-_", lambda one, two: one - two, lambda one, two: one - two)


def add(one: Value, two: Value) -> Value:
    """`+`."""
    kind, other = type(one), type(two)
    if (kind is str or kind is bytes) and other is kind:
        return one + two
    if kind is GrowingList and other in LISTS:
        one.extend(two)
        return one
    if kind is tuple and other in LISTS:
        # Upstream shares the halves, and counts nothing for it.
        effort.charge(len(one) + len(two))
        return (*one, *two)
    if kind is Duration and other is Duration:
        return checked_duration(one.nanoseconds + two.nanoseconds)
    if {kind, other} == {Duration, Timestamp}:
        moment = one if kind is Timestamp else two
        return checked_timestamp(one.nanoseconds + two.nanoseconds, moment.offset)
    if kind in {str, bytes, tuple, GrowingList, Duration, Timestamp}:
        raise no_such_overload()
    return _plus_numbers(one, two)


def subtract(one: Value, two: Value) -> Value:
    """`-` between two values."""
    kind, other = type(one), type(two)
    if kind is Duration and other is Duration:
        return checked_duration(one.nanoseconds - two.nanoseconds)
    if kind is Timestamp and other is Timestamp:
        return checked_duration(one.nanoseconds - two.nanoseconds)
    if kind is Timestamp and other is Duration:
        return checked_timestamp(one.nanoseconds - two.nanoseconds, one.offset)
    if kind is Duration or kind is Timestamp:
        raise no_such_overload()
    return _minus_numbers(one, two)


def _negate(value: Value) -> Value:
    if type(value) is int:
        return checked_int(-value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return checked_duration(-value.nanoseconds)
    raise no_such_overload() if type(value) is bool else no_such_overload("-_")


def _not(value: Value) -> bool:
    if type(value) is not bool:
        raise no_such_overload()
    return not value


def _ordered(name: str, holds: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    def run(one: Value, two: Value) -> bool:
        if type(one) not in COMPARABLE:
            raise no_such_overload(name)
        return holds(compare(one, two))

    return run


def _in(value: Value, container: Value) -> bool:
    if type(container) in LISTS:
        return contains(container, value)
    if type(container) is Map:
        return container.contains(value)
    raise no_such_overload()


def _size(value: Value) -> int:
    if type(value) in {str, bytes, tuple, GrowingList, Map}:
        return len(value)
    raise no_such_overload("size")


_ORDERED_PAIRS: Final = (
    "bool, bool",
    "int, int",
    "int, double",
    "int, uint",
    "uint, uint",
    "uint, double",
    "uint, int",
    "double, double",
    "double, int",
    "double, uint",
    "string, string",
    "bytes, bytes",
    "timestamp, timestamp",
    "duration, duration",
)


def _ordering(name: str, holds: Callable[[int], bool]) -> Function:
    pairs = [f"{name}({pair}) bool" for pair in _ORDERED_PAIRS]
    return function(*pairs, body=_ordered(name, holds), cost=_ordering_cost)


def _ordering_cost(arguments: Sequence[Value], result: Value) -> int:
    return costs.shorter(arguments, result) if type(arguments[0]) in {str, bytes} else 1


def _add_cost(arguments: Sequence[Value], result: Value) -> int:
    return costs.both(arguments, result) if type(arguments[0]) in {str, bytes} else 1


def _in_cost(arguments: Sequence[Value], _: Value) -> int:
    return len(arguments[1]) if type(arguments[1]) in LISTS else 1


FUNCTIONS: Final = (
    # In the order of upstream: the first overload that fits decides what an unknown type is.
    function("_?_:_(bool, A, A) A"),
    function("_&&_(bool, bool) bool"),
    function("_||_(bool, bool) bool"),
    function("@not_strictly_false(bool) bool"),
    function("!_(bool) bool", body=_not),
    function("_==_(A, A) bool"),
    function("_!=_(A, A) bool"),
    function(
        "_+_(bytes, bytes) bytes",
        "_+_(double, double) double",
        "_+_(duration, duration) duration",
        "_+_(duration, timestamp) timestamp",
        "_+_(timestamp, duration) timestamp",
        "_+_(int, int) int",
        "_+_(list<A>, list<A>) list<A>",
        "_+_(string, string) string",
        "_+_(uint, uint) uint",
        body=add,
        cost=_add_cost,
    ),
    function(
        "_-_(double, double) double",
        "_-_(duration, duration) duration",
        "_-_(int, int) int",
        "_-_(timestamp, duration) timestamp",
        "_-_(timestamp, timestamp) duration",
        "_-_(uint, uint) uint",
        body=subtract,
    ),
    function(
        *(f"_*_({kind}, {kind}) {kind}" for kind in ("double", "int", "uint")),
        body=_whole("_*_", lambda one, two: one * two, lambda one, two: one * two),
    ),
    function(
        *(f"_/_({kind}, {kind}) {kind}" for kind in ("double", "int", "uint")),
        body=_whole("_/_", _quotient, _divide_doubles),
    ),
    function("_%_(int, int) int", "_%_(uint, uint) uint", body=_whole("_%_", _remainder, None)),
    function("-_(double) double", "-_(int) int", body=_negate),
    _ordering("_<_", lambda order: order < 0),
    _ordering("_<=_", lambda order: order <= 0),
    _ordering("_>_", lambda order: order > 0),
    _ordering("_>=_", lambda order: order >= 0),
    function(
        "_[_](list<A>, int) A",
        "_[_](map<A, B>, A) B",
        "_[_](optional<list<V>>, int) optional<V>",
        "_[_](optional<map<K, V>>, K) optional<V>",
    ),
    function(
        "_[?_](list<V>, int) optional<V>",
        "_[?_](optional<list<V>>, int) optional<V>",
        "_[?_](map<K, V>, K) optional<V>",
        "_[?_](optional<map<K, V>>, K) optional<V>",
    ),
    function("@in(A, list<A>) bool", "@in(A, map<A, B>) bool", body=_in, cost=_in_cost),
    function(
        "size(bytes) int",
        "bytes.size() int",
        "size(list<A>) int",
        "list<A>.size() int",
        "size(map<A, B>) int",
        "map<A, B>.size() int",
        "size(string) int",
        "string.size() int",
        body=_size,
    ),
    function("type(A) type<A>", body=lambda value: TypeValue(kind_of(value))),
    *CONVERSIONS,
)

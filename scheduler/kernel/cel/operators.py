"""Operators and conversions.

Source: github.com/google/cel-go v0.26.0 common/stdlib, common/types, common/types/overflow.go.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.kernel.cel import costs
from scheduler.kernel.cel.declarations import Function, function
from scheduler.kernel.cel.errors import CostLimitError, EvaluationError, no_such_overload
from scheduler.kernel.cel.numbers import double_text
from scheduler.kernel.cel.times import (
    checked_duration,
    checked_timestamp,
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp_text,
)
from scheduler.kernel.cel.values import (
    COMPARABLE,
    INT_MAX,
    INT_MIN,
    LISTS,
    MAX_DIGITS,
    UINT_MAX,
    Address,
    Duration,
    GrowingList,
    Map,
    Network,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    compare,
    contains,
    kind_of,
)

_MAX_ELEMENTS: Final = costs.LIMIT
"""Longer lists are not made: upstream shares their halves, and counts nothing for it."""
_FLOAT: Final = re.compile(
    r"[+-]?(?:inf|infinity)|nan"
    r"|[+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:e[+-]?[0-9][0-9_]*)?",
    re.ASCII | re.IGNORECASE,
)
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?[0-9]{1,9}", re.ASCII | re.IGNORECASE
)
_BOOLS: Final = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


def _int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def _uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def _whole(
    name: str, whole: Callable[[int, int], int], double: Callable[[float, float], float] | None
) -> Callable[[Value, Value], Value]:
    """Return the operator that needs two numbers of one kind."""

    def run(one: Value, two: Value) -> Value:
        kind = type(one)
        if kind is int or kind is Uint:
            if type(two) is not kind:
                raise no_such_overload()
            result = whole(int(one), int(two))
            return _int(result) if kind is int else _uint(result)
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
        if len(one) + len(two) > _MAX_ELEMENTS:
            raise CostLimitError
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
        return _int(-value)
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


def _identity(value: Value) -> Value:
    return value


def _failed(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


def _digits(text: str, low: int, high: int, pattern: str) -> int | None:
    if not re.fullmatch(pattern, text, re.ASCII) or len(text.lstrip("+-0")) > MAX_DIGITS:
        return None
    sign = -1 if text.startswith("-") else 1
    number = sign * int(text.lstrip("+-0") or "0")
    return number if low <= number <= high else None


def _string_to_int(text: str) -> int:
    number = _digits(text, INT_MIN, INT_MAX, r"[+-]?[0-9]+")
    if number is None:
        raise _failed("string", "int")
    return number


def _string_to_uint(text: str) -> Uint:
    number = _digits(text, 0, UINT_MAX, r"[0-9]+")
    if number is None:
        raise _failed("string", "uint")
    return Uint(number)


def _string_to_double(text: str) -> float:
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            raise _failed("string", "double") from None
    # Underscores must be between digits.
    if not _FLOAT.fullmatch(text) or re.search(r"_(?![0-9])|(?<![0-9])_", text):
        raise _failed("string", "double")
    number = float(text)
    if math.isinf(number) and text.lstrip("+-")[0] not in "iI":
        raise _failed("string", "double")
    return number


def _string_to_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise _failed("string", "bool")
    return _BOOLS[text]


def _bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _double_to_int(value: float) -> int:
    # Upstream leaves both ends out: the nearest doubles are not 64 bits.
    if not float(INT_MIN) < value < float(2**63):
        raise EvaluationError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if not 0 <= value < float(2**64):
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _int_to_duration(_: int) -> Duration:
    # Upstream declares this, and has no code for it.
    raise _failed("int", "google.protobuf.Duration")


def _int_to_timestamp(seconds: int) -> Timestamp:
    return checked_timestamp(seconds * 10**9, 0)


def address_text(value: Address) -> str:
    """An address in its canonical form."""
    return str(value.address)


def network_text(value: Network) -> str:
    """A network with its own address and the length of its prefix."""
    return f"{value.interface.ip}/{value.interface.network.prefixlen}"


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
    function("dyn(A) dyn", body=_identity),
    function(("bool(bool) bool", _identity), ("bool(string) bool", _string_to_bool)),
    function(
        ("bytes(bytes) bytes", _identity),
        ("bytes(string) bytes", str.encode),
        cost=lambda arguments, _: (
            costs.traversal()(arguments, _) if type(arguments[0]) is str else 1
        ),
    ),
    function(
        ("double(double) double", _identity),
        ("double(int) double", float),
        ("double(string) double", _string_to_double),
        ("double(uint) double", float),
    ),
    function(
        ("duration(duration) duration", _identity),
        ("duration(int) duration", _int_to_duration),
        ("duration(string) duration", parse_duration),
    ),
    function(
        ("int(int) int", _identity),
        ("int(double) int", _double_to_int),
        ("int(duration) int", lambda value: value.nanoseconds),
        ("int(string) int", _string_to_int),
        ("int(timestamp) int", lambda value: value.nanoseconds // 10**9),
        ("int(uint) int", lambda value: _int(int(value))),
    ),
    function(
        ("string(string) string", _identity),
        ("string(bool) string", lambda value: "true" if value else "false"),
        ("string(bytes) string", _bytes_to_string),
        ("string(double) string", double_text),
        ("string(duration) string", duration_text),
        ("string(int) string", str),
        ("string(timestamp) string", timestamp_text),
        ("string(uint) string", str),
        ("string(ip) string", address_text),
        ("string(cidr) string", network_text),
        cost=lambda arguments, _: (
            costs.traversal()(arguments, _) if type(arguments[0]) is bytes else 1
        ),
    ),
    function(
        ("timestamp(timestamp) timestamp", _identity),
        ("timestamp(int) timestamp", _int_to_timestamp),
        ("timestamp(string) timestamp", parse_timestamp),
    ),
    function(
        ("uint(uint) uint", _identity),
        ("uint(double) uint", _double_to_uint),
        ("uint(int) uint", _uint),
        ("uint(string) uint", _string_to_uint),
    ),
)

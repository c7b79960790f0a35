"""Equality and order of the values of expressions.

Source: github.com/google/cel-go v0.26.0 common/types, k8s.io/apiserver v0.36.3 pkg/cel.
"""

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

from scheduler.kernel.cel import effort
from scheduler.kernel.cel.errors import EvaluationError, no_such_overload
from scheduler.kernel.cel.quantity import Quantity
from scheduler.kernel.cel.semver import SemVer
from scheduler.kernel.cel.values import (
    INT_MIN,
    LISTS,
    NUMBERS,
    Address,
    Duration,
    Format,
    GrowingList,
    Map,
    Network,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    Url,
    Value,
)

_FLOAT_INT_MAX: Final = float(2**63)
_FLOAT_UINT_MAX: Final = float(2**64)


def equal(one: Value, two: Value) -> bool | EvaluationError:
    """Compare for equality. Values of different kinds are different; some kinds return an error.

    The error is returned, not raised: inside lists and maps it counts as "not different".
    """
    if one is None or two is None:
        return one is two
    return _method_equal(one, two)


def _method_equal(one: Value, two: Value) -> bool | EvaluationError:
    kind = type(one)
    if kind is str or kind is bool or kind is bytes or one is None:
        return kind is type(two) and bool(one == two)
    return _EQUALITIES[kind](one, two)


def _lists_equal(one: Value, two: Value) -> bool:
    if type(two) not in LISTS or len(one) != len(two):
        return False
    # Lists share their elements: a short expression can make one with endless ones in it.
    effort.charge(len(one))
    return not any(equal(mine, other) is False for mine, other in zip(one, two, strict=True))


def _maps_equal(one: Map, two: Value) -> bool:
    if type(two) is not Map or len(one) != len(two):
        return False
    effort.charge(len(one))
    for key, value in one.items():
        found, other = two.find(key)
        if not found or equal(value, other) is False:
            return False
    return True


def _optionals_equal(one: Optional, two: Value) -> bool | EvaluationError:
    if type(two) is not Optional or one.present != two.present:
        return False
    if not one.present:
        return True
    if isinstance(one.value, EvaluationError):
        return one.value
    # Null is like anything else here.
    return _method_equal(one.value, two.value)


def _quantities_equal(one: Quantity, two: Value) -> bool | EvaluationError:
    if type(two) is not Quantity or two.computed:
        return no_such_overload()
    return one.compare(two) == 0


def _same_kind(same: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool]:
    return lambda one, two: type(one) is type(two) and same(one, two)


def _or_refused(same: Callable[[Any, Any], bool]) -> Callable[[Value, Value], Any]:
    return lambda one, two: same(one, two) if type(one) is type(two) else no_such_overload()


def contains(values: Iterable[Value], wanted: Value) -> bool:
    """Tell whether a list holds an equal value."""
    return any(equal(wanted, value) is True for value in values)


def _numbers_equal(one: Value, two: Value) -> bool:
    if type(two) not in NUMBERS:
        return False
    if type(one) is not float and type(two) is not float:
        return int(one) == int(two)
    if math.isnan(one) or math.isnan(two):
        return False
    return compare_numbers(one, two) == 0


def compare_numbers(one: Value, two: Value) -> int:
    """Compare two numbers that are not NaN, of any kinds.

    An integer is rounded to a double before comparison with a double, as upstream does.
    """
    if type(one) is float and type(two) is not float:
        return _compare_double(one, two)
    if type(two) is float and type(one) is not float:
        return -_compare_double(two, one)
    return int(one > two) - int(one < two)


def _compare_double(double: float, whole: int) -> int:
    low, high = (0.0, _FLOAT_UINT_MAX) if type(whole) is Uint else (float(INT_MIN), _FLOAT_INT_MAX)
    if double < low:
        return -1
    if double > high:
        return 1
    rounded = float(whole)
    return (double > rounded) - (double < rounded)


def compare(one: Value, two: Value) -> int:
    """Order two values: -1, 0 or 1.

    Raises:
        EvaluationError: they have no order.
    """
    kind, other = type(one), type(two)
    if kind in NUMBERS:
        if kind is float and math.isnan(one):
            raise EvaluationError("NaN values cannot be ordered")
        if other not in NUMBERS:
            raise no_such_overload()
        if other is float and math.isnan(two):
            raise EvaluationError("NaN values cannot be ordered")
        return compare_numbers(one, two)
    if kind is not other:
        raise no_such_overload()
    if kind is Timestamp or kind is Duration:
        one, two = one.nanoseconds, two.nanoseconds
    return int(one > two) - int(one < two)


_EQUALITIES: Final[dict[type, Callable[[Value, Value], bool | EvaluationError]]] = {
    int: _numbers_equal,
    Uint: _numbers_equal,
    float: _numbers_equal,
    tuple: _lists_equal,
    GrowingList: _lists_equal,
    Map: _maps_equal,
    Optional: _optionals_equal,
    TypeValue: _same_kind(operator.eq),
    Timestamp: _same_kind(lambda one, two: one.nanoseconds == two.nanoseconds),
    Duration: _same_kind(operator.eq),
    Quantity: _quantities_equal,
    SemVer: _or_refused(lambda one, two: one.compare(two) == 0),
    Url: _or_refused(lambda one, two: one.text == two.text),
    Format: _or_refused(lambda one, two: one.name == two.name),
    Address: _or_refused(operator.eq),
    Network: _or_refused(operator.eq),
}
COMPARABLE: Final = frozenset({bool, int, Uint, float, str, bytes, Timestamp, Duration})

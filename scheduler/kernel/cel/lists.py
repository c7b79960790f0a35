"""Functions on lists, sets and optionals.

Source: k8s.io/apiserver v0.36.3 pkg/cel/library/lists.go; github.com/google/cel-go v0.26.0
ext/lists.go (version 3), ext/sets.go, ext/comprehensions.go, cel/library.go (`OptionalTypes`).
"""

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Final

from scheduler.kernel.cel import costs, effort
from scheduler.kernel.cel.comparing import COMPARABLE, compare, contains, equal
from scheduler.kernel.cel.declarations import Function, function
from scheduler.kernel.cel.errors import (
    AbortedError,
    CostLimitError,
    EvaluationError,
    no_such_overload,
)
from scheduler.kernel.cel.operators import add
from scheduler.kernel.cel.values import (
    LISTS,
    NONE,
    Duration,
    GrowingList,
    Map,
    Optional,
    Timestamp,
    Uint,
    Value,
    shown,
    size_of,
)

_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: Final[dict[str, Value]] = {
    "int": 0,
    "uint": Uint(0),
    "double": 0.0,
    "duration": Duration(0),
}
_ADDABLE: Final = frozenset({int, Uint, float, str, bytes, Timestamp, Duration, *LISTS})


def _checked(values: Sequence[Value]) -> Sequence[Value]:
    for value in values:
        if type(value) not in COMPARABLE:
            raise no_such_overload()
    return values


def _is_sorted(values: Sequence[Value]) -> bool:
    before: Value = None
    for index, value in enumerate(values):
        if type(value) not in COMPARABLE:
            raise no_such_overload()
        if index and _order(before, value) == 1:
            return False
        before = value
    return True


def _order(one: Value, two: Value) -> int | None:
    """Compare; values without an order count as neither above nor below."""
    try:
        return compare(one, two)
    except EvaluationError:
        return None


def _sum(zero: Value) -> Callable[[Sequence[Value]], Value]:
    def run(values: Sequence[Value]) -> Value:
        total = zero
        for value in values:
            if type(value) not in _ADDABLE:
                raise no_such_overload()
            total = add(total, value)
        return total

    return run


def _extreme(name: str, worse: int) -> Callable[[Sequence[Value]], Value]:
    def run(values: Sequence[Value]) -> Value:
        best: Value = None
        for index, value in enumerate(_checked(values)):
            if not index or _order(best, value) == worse:
                best = value
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        return best

    return run


def _index_of(values: Sequence[Value], wanted: Value) -> int:
    for index, value in enumerate(values):
        if equal(value, wanted) is True:
            return index
    return -1


def _last_index_of(values: Sequence[Value], wanted: Value) -> int:
    for index in range(len(values) - 1, -1, -1):
        if equal(values[index], wanted) is True:
            return index
    return -1


def _slice(values: Sequence[Value], start: int, end: int) -> tuple[Value, ...]:
    what = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{what}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{what}, start index must be less than or equal to end index")
    if len(values) < end:
        raise EvaluationError(f"{what}, list is length {len(values)}")
    return tuple(values[start:end])


def _flatten(values: Value, depth: Value = 1) -> tuple[Value, ...]:
    if type(values) not in LISTS or type(depth) is not int:
        raise no_such_overload()
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: Sequence[Value] = values
    while depth and any(type(value) in LISTS for value in flat):
        wider: list[Value] = []
        for value in flat:
            effort.charge(len(value) if type(value) in LISTS else 1)
            wider.extend(value if type(value) in LISTS else (value,))
        flat, depth = wider, depth - 1
    return tuple(flat)


def _flatten_cost(arguments: Sequence[Value], _: Value) -> int:
    depth = arguments[1] if len(arguments) > 1 else 1
    if type(depth) is not int:
        # Upstream's cost tracker takes it for an int, whatever it is.
        found = _GO_TYPES.get(type(depth), "*types.Err")
        raise AbortedError(
            f"internal error: interface conversion: ref.Val is {found}, not types.Int"
        )
    return int(size_of(arguments[0]) * depth) + 1 + costs.LIST


_GO_TYPES: Final[dict[type, str]] = {
    bool: "types.Bool",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
}


def _sort(values: Value) -> tuple[Value, ...]:
    if type(values) not in LISTS:
        raise no_such_overload("sort")
    return _sort_by(values, values)


def _sort_by(values: Value, keys: Value) -> tuple[Value, ...]:
    if type(values) not in LISTS:
        raise no_such_overload("@sortByAssociatedKeys")
    if not values:
        return ()
    _affordable(keys, keys)
    if type(keys[0]) not in COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    # A list of one is never compared, so nothing is wrong with it.
    if len(keys) > 1 and len({type(key) for key in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    pairs: list[tuple[Value, Value]] = [*zip(keys, values, strict=True)]
    pairs.sort(key=cmp_to_key(_by_key))
    return tuple(value for _, value in pairs)


def _by_key(one: tuple[Value, Value], two: tuple[Value, Value]) -> int:
    return _order(one[0], two[0]) or 0


def _range(count: int) -> tuple[int, ...]:
    if count > costs.LIMIT:
        raise CostLimitError
    return tuple(range(count))


def _affordable(one: Sequence[Value], two: Sequence[Value]) -> None:
    """End the evaluation before each value of two lists is compared with each, not after."""
    if len(one) * len(two) > costs.LIMIT:
        raise CostLimitError


def _distinct(values: Sequence[Value]) -> tuple[Value, ...]:
    _affordable(values, values)
    kept: list[Value] = []
    for value in values:
        if not any(equal(value, other) is True for other in kept):
            kept.append(value)
    return tuple(kept)


def _sets_contain(values: Sequence[Value], part: Sequence[Value]) -> bool:
    _affordable(values, part)
    return all(contains(values, value) for value in part)


def _sets_intersect(one: Sequence[Value], two: Sequence[Value]) -> bool:
    _affordable(one, two)
    return any(contains(two, value) for value in one)


def _sets_equivalent(one: Sequence[Value], two: Sequence[Value]) -> bool:
    return _sets_contain(one, two) and _sets_contain(two, one)


def _insert_all(target: Map, more: Map) -> Map:
    for key, value in more.items():
        target = target.with_entry(key, value)
    return target


def held(optional: Optional) -> Value:
    """The value of an optional.

    Raises:
        EvaluationError: the optional is empty, or its value is an error.
    """
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    if isinstance(optional.value, EvaluationError):
        raise optional.value
    return optional.value


def _of_non_zero(value: Value) -> Optional:
    kind = type(value)
    if value is None:
        return NONE
    if kind in {bool, int, Uint, float}:
        return Optional(value, present=True) if value != 0 else NONE
    if kind in {str, bytes, tuple, GrowingList, Map}:
        return Optional(value, present=True) if len(value) else NONE
    if kind is Duration:
        return Optional(value, present=True) if value.nanoseconds else NONE
    if kind is Timestamp and value.nanoseconds == _YEAR_ONE:
        return NONE
    return Optional(value, present=True)


_YEAR_ONE: Final = -62135596800 * 10**9


def _unwrap(values: Sequence[Value]) -> tuple[Value, ...]:
    for value in values:
        if type(value) is not Optional:
            raise EvaluationError(f"value {shown(value)} is not optional")
    return tuple(held(value) for value in values if value.present)


def _first(values: Sequence[Value]) -> Optional:
    return Optional(values[0], present=True) if values else NONE


def _last(values: Sequence[Value]) -> Optional:
    return Optional(values[-1], present=True) if values else NONE


def _extremes(name: str, worse: int) -> Function:
    run = _extreme(name, worse)
    entries = [(f"list<{kind}>.{name}() {kind}", run) for kind in _COMPARABLE]
    return function(*entries, cost=costs.elements)


FUNCTIONS: Final = (
    function(
        *((f"list<{kind}>.isSorted() bool", _is_sorted) for kind in _COMPARABLE),
        cost=costs.elements,
    ),
    function(
        *((f"list<{kind}>.sum() {kind}", _sum(zero)) for kind, zero in _ZEROS.items()),
        cost=costs.elements,
    ),
    _extremes("max", -1),
    _extremes("min", 1),
    function(("list<A>.indexOf(A) int", _index_of), cost=costs.elements),
    function(("list<A>.lastIndexOf(A) int", _last_index_of), cost=costs.elements),
    function(("list<T>.slice(int, int) list<T>", _slice), cost=costs.new_list),
    function(
        ("list<list<T>>.flatten() list<T>", _flatten),
        ("list<dyn>.flatten(int) list<dyn>", _flatten),
        cost=_flatten_cost,
        guarded=False,
    ),
    function(
        *(f"list<{kind}>.sort() list<{kind}>" for kind in _COMPARABLE),
        body=_sort,
        cost=costs.each_with_each(0),
        fragile=0,
    ),
    function(
        *(f"list<T>.@sortByAssociatedKeys(list<{kind}>) list<T>" for kind in _COMPARABLE),
        body=_sort_by,
        cost=costs.each_with_each(1),
        fragile=1,
    ),
    function((".lists.range(int) list<int>", _range), cost=costs.new_list),
    function(
        ("list<T>.reverse() list<T>", lambda values: tuple(reversed(values))), cost=costs.new_list
    ),
    function(("list<T>.distinct() list<T>", _distinct), cost=costs.each_with_each(0), fragile=0),
    function((".sets.contains(list<T>, list<T>) bool", _sets_contain), cost=costs.sets(1)),
    function((".sets.equivalent(list<T>, list<T>) bool", _sets_equivalent), cost=costs.sets(2)),
    function((".sets.intersects(list<T>, list<T>) bool", _sets_intersect), cost=costs.sets(1)),
    function(
        (".cel.@mapInsert(map<K, V>, K, V) map<K, V>", Map.with_entry),
        (".cel.@mapInsert(map<K, V>, map<K, V>) map<K, V>", _insert_all),
    ),
    function((".optional.of(V) optional<V>", lambda value: Optional(value, present=True))),
    function((".optional.ofNonZeroValue(V) optional<V>", _of_non_zero)),
    function((".optional.none() optional<V>", lambda: NONE)),
    function(("optional<V>.value() V", held)),
    function(("optional<V>.hasValue() bool", lambda value: value.present)),
    function("optional<V>.or(optional<V>) optional<V>"),
    function("optional<V>.orValue(V) V"),
    function(("list<V>.first() optional<V>", _first)),
    function(("list<V>.last() optional<V>", _last)),
    function((".optional.unwrap(list<optional<V>>) list<V>", _unwrap)),
    function(("list<optional<V>>.unwrapOpt() list<V>", _unwrap)),
)

"""Values of expressions, what kind they are, when they are equal and how they are ordered.

bool, str, bytes, float and None are themselves; an int is a CEL int; `Uint` is a uint; a list is a
tuple, or a `GrowingList` inside the comprehension that makes it. The rest has a class here or in
the module that computes with it.

Source: github.com/google/cel-go v0.26.0 common/types, k8s.io/apiserver v0.36.3 pkg/cel.
"""

import ipaddress
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from scheduler.kernel.cel.errors import EvaluationError, UnhashableError, no_such_overload
from scheduler.kernel.cel.quantity import Quantity
from scheduler.kernel.cel.semver import SemVer

Value: TypeAlias = Any
"""Whatever an expression can be worth; `kind_of` tells which."""

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
MAX_DIGITS: Final = 20
"""Decimal digits of the longest integer; Python takes quadratic time to read longer ones."""
_FLOAT_INT_MAX: Final = float(2**63)
_FLOAT_UINT_MAX: Final = float(2**64)


@final
class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


@final
@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time in nanoseconds, within 64 bits."""

    nanoseconds: int


@final
@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment in nanoseconds since 1970, and the offset in seconds its text is written in."""

    nanoseconds: int
    offset: int = 0


@final
@dataclass(frozen=True, slots=True)
class Optional:
    """A value or none."""

    value: Value = None
    present: bool = False


NONE: Final = Optional()


@final
@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: `type(1)`, `int`."""

    name: str


@final
@dataclass(frozen=True, slots=True)
class Address:
    """An IP address (`net.IP`)."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address


@final
@dataclass(frozen=True, slots=True)
class Network:
    """A network with an address in it (`net.CIDR`)."""

    interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface


@final
@dataclass(frozen=True, slots=True)
class Format:
    """A named format of strings."""

    name: str
    validate: Callable[[str], list[str]]
    size: int
    """The length of its regular expression, which is what a check is charged for."""


@final
@dataclass(frozen=True, slots=True)
class Url:
    """A parsed URL, in Go's parts."""

    scheme: str
    host: str
    path: str
    query: str
    text: str


@final
class GrowingList(list[Value]):
    """The list a comprehension is making. Adding to it changes it, as upstream's mutable list."""

    __slots__ = ()


class Map:
    """A map. Keys keep their kind; a numeric key is also found by an equal number of another kind.

    Keys that Go compares by address are found by nothing; keys that it cannot compare end the
    evaluation, but not in the maps of a device.
    """

    __slots__ = ("_default", "_growing", "_items", "_of_device")

    def __init__(
        self,
        items: Iterable[tuple[Value, Value]],
        *,
        growing: bool = False,
        of_device: bool = False,
        default: Value = None,
    ) -> None:
        """Make a map.

        Args:
            items: keys with values.
            growing: a comprehension is making the map, so that adding changes it.
            of_device: the map is one of the device's, whose keys are texts.
            default: what is found for every key that is not there, though it is not contained: so
                is an unknown domain of a device (`newStringInterfaceMapWithDefault`).
        """
        self._items = {_key(key): (key, value) for key, value in items}
        self._default = default
        self._growing = growing
        self._of_device = of_device

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Value]:
        return (key for key, _ in self._items.values())

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Return keys with their values."""
        return iter(self._items.values())

    def contains(self, key: Value) -> bool:
        """Tell whether the key, or an equal number, is there."""
        return self._entry(key) is not None

    def find(self, key: Value) -> tuple[bool, Value]:
        """Return whether there is a value for the key, and the value."""
        entry = self._entry(key)
        if entry is not None:
            return True, entry[1]
        return self._default is not None, self._default

    def with_entry(self, key: Value, value: Value) -> "Map":
        """Return the map with one more entry; the map a comprehension is making is changed.

        Raises:
            EvaluationError: the key is there already.
        """
        if self.contains(key):
            raise EvaluationError(f"insert failed: key {shown(key)} already exists")
        if not self._growing:
            return Map([*self._items.values(), (key, value)])
        self._items[_key(key)] = (key, value)
        return self

    def _entry(self, key: Value) -> tuple[Value, Value] | None:
        if self._of_device or not self._items:
            return self._items.get(key) if type(key) is str else None
        found = self._items.get(_key(key))
        if found is not None or not isinstance(key, int | float) or isinstance(key, bool):
            return found
        if isinstance(key, float) and not key.is_integer():
            return None
        number = int(key)
        kinds: tuple[type, ...] = (int, Uint) if isinstance(key, float) else (Uint, int)
        for kind in kinds:
            low, high = (0, UINT_MAX) if kind is Uint else (INT_MIN, INT_MAX)
            if low <= number <= high and (found := self._items.get((kind, number))) is not None:
                return found
        return None


def _key(key: Value) -> Value:
    if type(key) is str:
        return key
    check_hashable(key)
    return type(key), id(key) if type(key) in _BY_ADDRESS else key


def check_hashable(value: Value) -> None:
    """Refuse a value that Go cannot look up.

    Raises:
        UnhashableError: it is one.
    """
    if type(value) in _UNHASHABLE:
        raise UnhashableError(_UNHASHABLE[type(value)])


_KINDS: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    tuple: "list",
    GrowingList: "list",
    Map: "map",
    TypeValue: "type",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    SemVer: "kubernetes.Semver",
    Url: "kubernetes.URL",
    Format: "kubernetes.NamedFormat",
    Address: "net.IP",
    Network: "net.CIDR",
}
_UNHASHABLE: Final[dict[type, str]] = {
    SemVer: "cel.Semver",
    bytes: "types.Bytes",
    Format: "cel.Format",
}
_BY_ADDRESS: Final = frozenset({tuple, GrowingList, Map, Quantity, Url, Optional})
NUMBERS: Final = (int, Uint, float)
LISTS: Final = (tuple, GrowingList)


def kind_of(value: Value) -> str:
    """The name of a value's runtime type."""
    return _KINDS[type(value)]


def equal(one: Value, two: Value) -> bool | EvaluationError:
    """Compare for equality. Values of different kinds are different; some kinds refuse to say.

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
    return (
        type(two) in LISTS
        and len(one) == len(two)
        and not any(equal(mine, other) is False for mine, other in zip(one, two, strict=True))
    )


def _maps_equal(one: Map, two: Value) -> bool:
    if type(two) is not Map or len(one) != len(two):
        return False
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
    """Compare two numbers that are not NaN, of whatever kinds.

    An integer beside a double is rounded to one first, as upstream does.
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


def size_of(value: Value) -> int:
    """What a value counts for in costs: its length, or 1."""
    kind = type(value)
    if kind is str or kind is bytes or kind in LISTS or kind is Map:
        return len(value)
    if kind is Address:
        return len(value.address.packed)
    if kind is Network:
        return -(-int(value.interface.network.prefixlen) // 8)
    if kind is Optional and value.present:
        return size_of(value.value)
    return 1


def shown(value: Value) -> str:
    """A value inside an error text, as Go's `%v` prints it."""
    if type(value) is bool:
        return "true" if value else "false"
    if value is None:
        return "NULL_VALUE"
    return str(value)

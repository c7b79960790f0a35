"""Values of expressions, and their kinds.

bool, str, bytes, float and None are themselves. An int is a CEL int, and `Uint` a uint. A list is a
tuple, or a `GrowingList` inside the comprehension that makes it. The rest has a class here or in
the module that computes with it.

Source: github.com/google/cel-go v0.26.0 common/types, k8s.io/apiserver v0.36.3 pkg/cel.
"""

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from scheduler.kernel.cel.errors import EvaluationError, UnhashableError
from scheduler.kernel.cel.numbers import double_text
from scheduler.kernel.cel.quantity import Quantity
from scheduler.kernel.cel.semver import SemVer

Value: TypeAlias = Any
"""Any value of an expression; `kind_of` returns its kind."""

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
MAX_DIGITS: Final = 20
"""Decimal digits of the longest integer; Python takes quadratic time to read longer ones."""


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
    """The length of its regular expression, which determines the cost of a check."""


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

    Keys that Go compares by address are found by nothing. Keys that it cannot compare end the
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
            default: the value of every absent key, which still is not contained: for unknown
                domains of a device (`newStringInterfaceMapWithDefault`).
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
        """Tell whether the key, or an equal number, is in the map."""
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
            EvaluationError: the key is in the map already.
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
        UnhashableError: the value cannot be a key.
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


def size_of(value: Value) -> int:
    """The size of a value in costs: its length, or 1."""
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
    if type(value) is float:
        return double_text(value)
    if value is None:
        return "NULL_VALUE"
    return str(value)

"""One row per device, one column per property, as CEL programs and the allocator read them.

Rows of removed devices are reused. A value keeps its code as long as its column keeps its list of
values, so that verdicts per value stay valid.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, Generic, NamedTuple, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.devices import Device, DeviceCapacity, DeviceTaint
from scheduler.api.quantity import parse
from scheduler.api.taints import NO_EXECUTE, NO_SCHEDULE
from scheduler.kernel.cel.table import (
    ABSENT,
    AttributeValue,
    Column,
    Columns,
    UnreadableAttributeError,
    attribute_value,
)
from scheduler.kernel.snapshot.interning import InternedColumn

T = TypeVar("T")

_MIN_CAPACITY: Final = 64
_SPARE_VALUES: Final = 64
"""Up to this many unused values are kept."""
_ARRAYS: Final = ("alive", "multiple")
_EFFECTIVE: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""Effects of taints that exclude devices; others, such as None, are informational."""
_decode_capacities = msgspec.json.Decoder(dict[str, DeviceCapacity]).decode


class Consumed(NamedTuple):
    """The amount that a device consumes of one counter."""

    counter_set: str
    counter: str
    amount: Decimal


class _GrowingColumn(Generic[T]):
    """The codes and values of one property. `True` and `1` are two values.

    Once more than half of the values are unused, the rest get new codes, in a new list of `view`.
    Verdicts per value are valid as long as the list is the same object.
    """

    def __init__(self, capacity: int) -> None:
        self._codes: dict[tuple[type, T], int] = {}
        self._rows_of: list[int] = []
        self._unused = 0
        self.view: Column[T] = Column(np.full(capacity, ABSENT, np.int32), [])

    @property
    def has_rows(self) -> bool:
        """Whether any row has a value."""
        return self._unused < len(self._rows_of)

    def set(self, row: int, value: T) -> None:
        code = self._codes.setdefault((type(value), value), len(self._rows_of))
        if code == len(self._rows_of):
            self._values.append(value)
            self._rows_of.append(0)
            self._unused += 1
        old = int(self.view.codes[row])
        self.view.codes[row] = code
        self._count(code, 1)
        self._count(old, -1)
        if self._unused > max(_SPARE_VALUES, len(self._rows_of) // 2):
            self._drop_unused_values()

    def clear(self, row: int) -> None:
        self._count(int(self.view.codes[row]), -1)
        self.view.codes[row] = ABSENT

    def grow(self, capacity: int) -> None:
        codes = np.full(capacity, ABSENT, np.int32)
        codes[: len(self.view.codes)] = self.view.codes
        self.view = Column(codes, self.view.values)

    def copy(self) -> "_GrowingColumn[T]":
        copy: _GrowingColumn[T] = _GrowingColumn(0)
        copy._codes = self._codes.copy()
        copy._rows_of, copy._unused = self._rows_of.copy(), self._unused
        copy.view = Column(self.view.codes.copy(), [*self.view.values])
        return copy

    @property
    def _values(self) -> list[T]:
        return cast(list[T], self.view.values)

    def _count(self, code: int, sign: int) -> None:
        if code == ABSENT:
            return
        before = self._rows_of[code]
        self._rows_of[code] = before + sign
        self._unused += (before + sign == 0) - (before == 0)

    def _drop_unused_values(self) -> None:
        used = [code for code, rows in enumerate(self._rows_of) if rows]
        # The last entry is that of absent values, whose code is -1.
        new_code = np.full(len(self._rows_of) + 1, ABSENT, np.int32)
        new_code[used] = np.arange(len(used))
        values = [self.view.values[code] for code in used]
        self._codes = {(type(value), value): code for code, value in enumerate(values)}
        self._rows_of, self._unused = [self._rows_of[code] for code in used], 0
        self.view = Column(new_code[self.view.codes], values)


class _NamedColumns(Generic[T]):
    """Columns by domain and id; only properties that some device has are columns."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str], _GrowingColumn[T]] = {}
        self.view: dict[str, dict[str, Column[T]]] = {}

    def set(self, row: int, name: tuple[str, str], value: T, capacity: int) -> None:
        column = self._columns.get(name) or _GrowingColumn(capacity)
        before = column.view
        column.set(row, value)
        if column.view is not before or name not in self._columns:
            self._add(name, column)

    def clear(self, row: int, name: tuple[str, str]) -> None:
        column = self._columns.get(name)
        if column is None:
            return
        column.clear(row)
        if not column.has_rows:
            domain, identifier = name
            del self._columns[name], self.view[domain][identifier]
            if not self.view[domain]:
                del self.view[domain]

    def grow(self, capacity: int) -> None:
        for name, column in self._columns.items():
            column.grow(capacity)
            self._add(name, column)

    def copy(self) -> "_NamedColumns[T]":
        copy: _NamedColumns[T] = _NamedColumns()
        for name, column in self._columns.items():
            copy._add(name, column.copy())
        return copy

    def _add(self, name: tuple[str, str], column: _GrowingColumn[T]) -> None:
        self._columns[name] = column
        domain, identifier = name
        self.view.setdefault(domain, {})[identifier] = column.view


class DeviceColumns:
    """The columns of all devices; the `scheduler.kernel.cel.table.DeviceTable` of CEL programs.

    Attributes:
        size: rows in use, free rows below the highest used one included.
        capacity: allocated length of the columns, in rows.
        devices: by row, the device, or None.
        alive: by row, whether there is a device.
        multiple: by row, whether the device is shared.
        taints: by row, the taints that repel claims.
        capacity_sets: by row, the capacities as JSON; see `capacities_of`.
        consumption: by row, the counters that the device consumes.
    """

    def __init__(self) -> None:
        self.size = 0
        self.capacity = _MIN_CAPACITY
        self.devices: list[Device | None] = []
        self.taints = InternedColumn[tuple[DeviceTaint, ...]]((), self.capacity)
        self.capacity_sets = InternedColumn(b"{}", self.capacity)
        self.consumption = InternedColumn[tuple[Consumed, ...]]((), self.capacity)
        self._free: list[int] = []
        self._drivers: _GrowingColumn[str] = _GrowingColumn(self.capacity)
        self._attributes: _NamedColumns[AttributeValue] = _NamedColumns()
        self._capacities: _NamedColumns[str] = _NamedColumns()
        self._unreadable: dict[int, str] = {}
        self.alive = np.zeros(self.capacity, np.bool_)
        self.multiple = np.zeros(self.capacity, np.bool_)

    def capacities_of(self, number: int) -> Mapping[str, DeviceCapacity]:
        """The capacities with a number of `capacity_sets`."""
        return _decode_capacities(self.capacity_sets.values.values[number])

    # --- for CEL programs -----------------------------------------------------------------------

    def __len__(self) -> int:
        return self.size

    @property
    def drivers(self) -> Column[str]:
        """The driver of each row."""
        return self._drivers.view

    @property
    def allow_multiple_allocations(self) -> NDArray[np.bool_]:
        """By row, whether the device is shared."""
        return self.multiple

    @property
    def attributes(self) -> Columns[AttributeValue]:
        """Attributes by domain and id."""
        return self._attributes.view

    @property
    def capacities(self) -> Columns[str]:
        """Capacities by domain and id, as they are written."""
        return self._capacities.view

    @property
    def unreadable(self) -> Mapping[int, str]:
        """By row, why no expression can be evaluated on it."""
        return self._unreadable

    # --- changes --------------------------------------------------------------------------------

    def add(self, driver: str, device: Device) -> int:
        """Add a device and return its row.

        Raises:
            QuantityError: an amount does not parse; nothing has changed.
        """
        for capacity in device.capacity.values():
            parse(capacity.value)
        consumption = _consumption_of(device)
        row = self._new_row()
        self.devices[row] = device
        self.alive[row] = True
        self._drivers.set(row, driver)
        self.multiple[row] = device.allow_multiple_allocations
        self.taints.set(row, _taints_of(device), self.capacity)
        self.capacity_sets.set(row, msgspec.json.encode(device.capacity), self.capacity)
        self.consumption.set(row, consumption, self.capacity)
        for name, capacity in device.capacity.items():
            key = _split(name, driver)
            self._capacities.set(row, key, str(capacity.value), self.capacity)
        # A full name overrides the bare one, which is short for it.
        for name in sorted(device.attributes, key=lambda name: "/" in name):
            self._add_attribute(row, driver, name, device)
        return row

    def remove(self, row: int) -> None:
        """Free a row."""
        device = self.devices[row]
        if device is None:
            return
        driver = self._drivers.view.values[self._drivers.view.codes[row]]
        for name in device.attributes:
            self._attributes.clear(row, _split(name, driver))
        for name in device.capacity:
            self._capacities.clear(row, _split(name, driver))
        self._unreadable.pop(row, None)
        self.taints.set(row, (), self.capacity)
        self.capacity_sets.set(row, b"{}", self.capacity)
        self.consumption.set(row, (), self.capacity)
        self.devices[row] = None
        self.alive[row] = False
        self._free.append(row)

    def copy(self) -> "DeviceColumns":
        """An independent copy that numbers rows and values alike."""
        copy = object.__new__(DeviceColumns)
        copy.__dict__.update(self.__dict__)
        copy.devices = self.devices.copy()
        copy.taints, copy.capacity_sets = self.taints.copy(), self.capacity_sets.copy()
        copy.consumption = self.consumption.copy()
        copy._free = self._free.copy()
        copy._drivers = self._drivers.copy()
        copy._attributes = self._attributes.copy()
        copy._capacities = self._capacities.copy()
        copy._unreadable = self._unreadable.copy()
        for name in _ARRAYS:
            setattr(copy, name, getattr(self, name).copy())
        return copy

    def _add_attribute(self, row: int, driver: str, name: str, device: Device) -> None:
        attribute = device.attributes[name]
        try:
            value = attribute_value(
                integer=attribute.int_value,
                boolean=attribute.bool_value,
                string=attribute.string_value,
                version=attribute.version_value,
            )
        except UnreadableAttributeError as problem:
            self._unreadable[row] = f"attribute {name}: {problem}"
        else:
            self._attributes.set(row, _split(name, driver), value, self.capacity)

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        row = self.size
        if row == self.capacity:
            self._grow()
        self.size += 1
        self.devices.append(None)
        return row

    def _grow(self) -> None:
        self.capacity *= 2
        self._drivers.grow(self.capacity)
        self._attributes.grow(self.capacity)
        self._capacities.grow(self.capacity)
        for name in _ARRAYS:
            old = getattr(self, name)
            new = np.zeros(self.capacity, old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)


def _taints_of(device: Device) -> tuple[DeviceTaint, ...]:
    # Without `timeAdded`, which the allocator does not read.
    taints = (t for t in device.taints if t.effect in _EFFECTIVE)
    return tuple(DeviceTaint(t.key, t.value, t.effect) for t in taints)


def _split(name: str, driver: str) -> tuple[str, str]:
    """The domain and the id of a name; one without a domain belongs to the driver."""
    domain, separator, identifier = name.partition("/")
    return (domain, identifier) if separator else (driver, name)


def _consumption_of(device: Device) -> tuple[Consumed, ...]:
    return tuple(
        Consumed(consumption.counter_set, name, parse(counter.value))
        for consumption in device.consumes_counters
        for name, counter in consumption.counters.items()
    )

"""Constraints of a claim: attributes that its devices must have in common, or must not.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(matchAttributeConstraint, lookupAttribute), constraint.go (distinctAttributeConstraint, v0.36.3).
"""

from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.devices import Device, DeviceConstraint
from scheduler.api.limits import MAX_ATTRIBUTES
from scheduler.kernel.devices.plan import RequestData
from scheduler.kernel.devices.table import SliceTable
from scheduler.kernel.snapshot.interning import Interner

MISSING: Final = -1
"""Stands for the value of an attribute that a device does not have."""

_Value: TypeAlias = tuple[str, bool | int | str]
_SPARE_VALUES: Final = 64
"""Up to this many unused values are kept."""


class ValueColumn(NamedTuple):
    """The values of one attribute, as numbers.

    Attributes:
        numbering: only numbers of the same numbering are comparable.
        numbers: by row, the number of the value, or `MISSING`. Read-only.
    """

    numbering: int
    numbers: NDArray[np.intp]


class Attributes:
    """The values of the attributes that constraints name, in columns.

    The columns for one pod are kept together: the least recently used is dropped first.
    """

    def __init__(self, table: SliceTable) -> None:
        self._table = table
        self._columns: dict[str, _AttributeColumn] = {}
        self._numberings = count()

    def column(self, name: str) -> ValueColumn:
        """The values of an attribute."""
        found = self._columns.pop(name, None)
        if found is None or found.is_mostly_unused:
            found = _AttributeColumn(name, next(self._numberings))
        self._columns[name] = found
        if len(self._columns) > MAX_ATTRIBUTES:
            del self._columns[next(iter(self._columns))]
        return ValueColumn(found.numbering, found.caught_up(self._table))


class _AttributeColumn:
    """The values of one attribute, by its full name."""

    def __init__(self, name: str, numbering: int) -> None:
        self.numbering = numbering
        self._name = name
        self._values = Interner[_Value]()
        self._numbers = np.zeros(0, np.intp)
        self._position = -1

    @property
    def is_mostly_unused(self) -> bool:
        """Whether more than half of the values are certainly unused."""
        return len(self._values) > 2 * max(_SPARE_VALUES, len(self._numbers))

    def caught_up(self, table: SliceTable) -> NDArray[np.intp]:
        log, size = table.device_log, table.columns.size
        if self._position == log.position:
            return self._numbers
        changed = log.since(self._position) if self._position >= 0 else None
        numbers = np.full(size, MISSING, np.intp)
        if changed is None:
            changed = np.arange(size)
        else:
            numbers[: len(self._numbers)] = self._numbers
        numbers[changed] = [self._number(table, row) for row in changed.tolist()]
        self._numbers, self._position = numbers, log.position
        return numbers

    def _number(self, table: SliceTable, row: int) -> int:
        device, placed = table.columns.devices[row], table.placed[row]
        if device is None or placed is None:
            return MISSING
        value = attribute_of(device, placed.spec.driver, self._name)
        return MISSING if value is None else self._values.intern(value)


def attribute_of(device: Device, driver: str, name: str) -> _Value | None:
    """The value of an attribute by its full name; versions compare as they are written."""
    attribute = device.attributes.get(name)
    if attribute is None:
        domain, separator, identifier = name.partition("/")
        attribute = device.attributes.get(identifier) if separator and domain == driver else None
    if attribute is None:
        return None
    for kind, value in (
        ("string", attribute.string_value),
        ("int", attribute.int_value),
        ("bool", attribute.bool_value),
        ("version", attribute.version_value),
    ):
        if value is not None:
            return kind, value
    return None


class Constraint(Protocol):
    """A constraint of a claim, with the devices that are taken so far."""

    def add(self, ask: RequestData, device: int) -> bool:
        """Take a device; False, and nothing is taken, when the constraint does not allow it."""
        ...

    def remove(self, ask: RequestData, device: int) -> None:
        """Remove a device that was taken."""
        ...


class _Concerned:
    def __init__(self, requests: tuple[str, ...]) -> None:
        self._requests = frozenset(requests)

    def concerns(self, ask: RequestData) -> bool:
        """Whether the constraint applies to the devices of a request."""
        names = self._requests
        return not names or ask.base_name in names or ask.full_name in names


class MatchAttribute(_Concerned):
    """All devices have the same value."""

    def __init__(self, requests: tuple[str, ...], values: Callable[[int], int]) -> None:
        super().__init__(requests)
        self._values = values
        self._value = MISSING
        self._count = 0

    def add(self, ask: RequestData, device: int) -> bool:
        """See `Constraint.add`."""
        if not self.concerns(ask):
            return True
        value = self._values(device)
        if value == MISSING or (self._count and value != self._value):
            return False
        self._value = value
        self._count += 1
        return True

    def remove(self, ask: RequestData, device: int) -> None:
        """See `Constraint.remove`."""
        del device
        self._count -= self.concerns(ask)


class DistinctAttribute(_Concerned):
    """No two devices have the same value.

    Upstream keeps one value per request, the last. So a device is not compared with those before
    the last of its request; and when one is removed, the earlier ones are lost too.
    """

    def __init__(self, requests: tuple[str, ...], values: Callable[[int], int]) -> None:
        super().__init__(requests)
        self._values = values
        self._last: dict[str, int] = {}
        self._count = 0

    def add(self, ask: RequestData, device: int) -> bool:
        """See `Constraint.add`."""
        if not self.concerns(ask):
            return True
        value = self._values(device)
        if value == MISSING or (self._count and value in self._last.values()):
            return False
        self._last[ask.base_name] = value
        self._count += 1
        return True

    def remove(self, ask: RequestData, device: int) -> None:
        """See `Constraint.remove`."""
        del device
        if self.concerns(ask):
            self._last.pop(ask.base_name, None)
            self._count -= 1


def constraint_of(
    written: DeviceConstraint, values: Callable[[str], Callable[[int], int]]
) -> Constraint | None:
    """Build the constraint of a claim; None for a kind that this version does not know.

    Args:
        written: the constraint in the claim.
        values: by the name of an attribute, the function from a device to its value's number.
    """
    if written.match_attribute is not None:
        return MatchAttribute(written.requests, values(written.match_attribute))
    if written.distinct_attribute is not None:
        return DistinctAttribute(written.requests, values(written.distinct_attribute))
    return None

"""The properties of a device that programs read, and their sources.

A read names one property: the driver, an attribute, whether a domain has any. A frame holds the
values of one device for the reads of a program, or of one combination of values that devices share.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.cel.errors import EvaluationError
from scheduler.kernel.cel.quantity import parse_quantity
from scheduler.kernel.cel.table import ABSENT, Column, Columns, DeviceTable
from scheduler.kernel.cel.values import Map, Value

Read: TypeAlias = tuple[str, ...]
"""(`driver`), (`allowMultipleAllocations`), (`attributes` or `capacity`, domain, id), or
(`attributes` or `capacity`, domain) for whether the domain has anything."""
Run: TypeAlias = Callable[["Frame"], Value]


@final
class _Missing:
    """Stands for a property that the device does not have."""


MISSING: Final = _Missing()
_DOMAIN: Final = 2
_BOOLS: Final = (False, True)
_NO_ENTRIES: Final = Map((), of_device=True)


@dataclass(slots=True)
class Frame:
    """One evaluation: its input values, its variables, the cost so far."""

    inputs: list[Value]
    slots: list[Value]
    cost: int = 0
    table: DeviceTable | None = None
    row: int = 0

    def inner(self, kind: str, domain: str) -> Map:
        """Attributes or capacities of one domain of the device, as a map."""
        columns = self._columns(kind).get(domain, {})
        return Map(self._entries(kind, columns), of_device=True)

    def whole(self, kind: str) -> Map:
        """Attributes or capacities of all domains. A domain without any is found empty."""
        found = ((domain, self.inner(kind, domain)) for domain in self._columns(kind))
        entries = ((domain, inner) for domain, inner in found if len(inner))
        return Map(entries, of_device=True, default=_NO_ENTRIES)

    def device(self) -> Map:
        """The device as a map of its fields."""
        table = self._table()
        driver = table.drivers.values[table.drivers.codes[self.row]]
        shared = bool(table.allow_multiple_allocations[self.row])
        return Map(
            [
                ("driver", driver),
                ("allowMultipleAllocations", shared),
                ("attributes", self.whole("attributes")),
                ("capacity", self.whole("capacity")),
            ],
            of_device=True,
        )

    def _table(self) -> DeviceTable:
        if self.table is None:
            raise EvaluationError("no such attribute(s): device")
        return self.table

    def _columns(self, kind: str) -> Columns[Value]:
        table = self._table()
        return table.attributes if kind == "attributes" else table.capacities

    def _entries(
        self, kind: str, columns: Mapping[str, Column[Value]]
    ) -> Iterator[tuple[str, Value]]:
        for name, column in columns.items():
            code = column.codes[self.row]
            if code != ABSENT:
                yield name, held(kind, column.values[code])


def held(kind: str, value: Value) -> Value:
    """A value of a column as expressions see it."""
    return parse_quantity(value) if kind == "capacity" else value


@dataclass(slots=True)
class Source:
    """A read's column: the codes of all rows, and their values."""

    codes: NDArray[np.int32]
    values: Sequence[Value]
    """The values that the codes stand for. Only ever appended to, so that it can be recognized."""
    value: Callable[[int], Value]
    """Returns the value of a code; `ABSENT` is a code."""


@dataclass(slots=True)
class Sources:
    """The columns of a table that a program reads, found once an evaluation."""

    table: DeviceTable
    reads: list[Read]
    _found: dict[int, Source] = field(default_factory=dict)

    def of(self, index: int) -> Source:
        """The column of a read."""
        if index not in self._found:
            self._found[index] = self._find(self.reads[index])
        return self._found[index]

    def inputs(self, row: int) -> list[Value]:
        """The values of one row for all reads."""
        found = []
        for index in range(len(self.reads)):
            source = self.of(index)
            found.append(source.value(int(source.codes[row])))
        return found

    def _find(self, read: Read) -> Source:
        rows, table = len(self.table), self.table
        if read[0] == "driver":
            return _column(read[0], table.drivers)
        if read[0] == "allowMultipleAllocations":
            shared = table.allow_multiple_allocations.astype(np.int32)
            return Source(shared, _BOOLS, bool)
        columns = table.attributes if read[0] == "attributes" else table.capacities
        domain = columns.get(read[1], {})
        if len(read) == _DOMAIN:
            there = np.zeros(rows, np.bool_)
            for column in domain.values():
                there |= column.codes[:rows] != ABSENT
            return Source(there.astype(np.int32), _BOOLS, bool)
        column_ = domain.get(read[2])
        if column_ is None:
            return Source(np.full(rows, ABSENT, np.int32), (), _missing)
        return _column(read[0], column_)


def _missing(_: int) -> Value:
    return MISSING


def _column(kind: str, column: Column[Value]) -> Source:
    values = column.values

    def value(code: int) -> Value:
        return MISSING if code == ABSENT else held(kind, values[code])

    return Source(column.codes, values, value)

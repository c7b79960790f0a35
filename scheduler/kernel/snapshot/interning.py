"""Small integers for values, so that columns can hold them."""

from collections.abc import Hashable, Iterable
from typing import Final, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=Hashable)

_SPARE_VALUES: Final = 64
"""The most unused values before the column is compacted."""


class Interner(Generic[T]):
    """Assigns the next whole number to every distinct value; numbers never change.

    Attributes:
        values: the values by number.
    """

    __slots__ = ("_ids", "values")

    def __init__(self, values: Iterable[T] = ()) -> None:
        self.values: list[T] = []
        self._ids: dict[T, int] = {}
        for value in values:
            self.intern(value)

    def intern(self, value: T) -> int:
        """The number of the value, assigned now when it is new."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self.values)
            self.values.append(value)
        return found

    def get(self, value: T) -> int | None:
        """The number of the value, or None when it has none."""
        return self._ids.get(value)

    def __len__(self) -> int:
        return len(self.values)


class InternedColumn(Generic[T]):
    """One value per row, kept as its number.

    Once no row has more than half of the values any more, another `Interner` renumbers the others.
    So numbers are valid until the next node change, or as long as `values` is the same object.

    Attributes:
        values: distinct values by number; 0 is the value of rows before they are set.
        numbering: number of times that values were renumbered.
    """

    def __init__(self, default: T, capacity: int) -> None:
        self.values = Interner((default,))
        self.numbering = 0
        # The index type of numpy: any other is converted on every use.
        self._ids = np.zeros(capacity, np.intp)
        self._rows_of = [0]
        self._unused = 0

    def ids(self, size: int) -> NDArray[np.intp]:
        """The value numbers of the first `size` rows. Read-only."""
        if len(self._ids) < size:
            self._grow(size)
        return self._ids[:size]

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The value numbers of rows that were set."""
        return self._ids[rows]

    def number_of(self, row: int) -> int:
        """The value number of a row that was set."""
        return self._ids.item(row)

    def value_of(self, row: int) -> T:
        """The value of a row that was set."""
        value: T = self.values.values[self._ids[row]]
        return value

    def set(self, row: int, value: T, capacity: int) -> None:
        """Set the value of a row."""
        if row >= len(self._ids):
            self._grow(capacity)
        old = int(self._ids[row])
        new = self.values.intern(value)
        if new == old:
            return
        self._ids[row] = new
        rows_of = self._rows_of
        if new == len(rows_of):
            rows_of.append(0)
            self._unused += 1
        self._count(new, 1)
        self._count(old, -1)
        if self._unused > max(_SPARE_VALUES, len(rows_of) // 2):
            self._drop_unused_values()

    def fill(self, values: Iterable[T]) -> None:
        """Set the values of all rows at once, in a new column."""
        numbers = list(map(self.values.intern, values))
        self._ids[: len(numbers)] = numbers
        counts = np.bincount(self._ids, minlength=len(self.values))
        self._rows_of = [0, *counts[1:].tolist()]

    def copy(self) -> Self:
        """An independent copy that numbers values alike."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.values = Interner(self.values.values)
        copy._ids = self._ids.copy()
        copy._rows_of = self._rows_of.copy()
        return copy

    def _count(self, number: int, sign: int) -> None:
        if not number:
            return
        before = self._rows_of[number]
        self._rows_of[number] = before + sign
        self._unused += (before + sign == 0) - (before == 0)

    def _grow(self, capacity: int) -> None:
        ids = np.zeros(capacity, np.intp)
        ids[: len(self._ids)] = self._ids
        self._ids = ids

    def _drop_unused_values(self) -> None:
        used = [i for i, rows in enumerate(self._rows_of) if rows or not i]
        new_number = np.zeros(len(self.values), np.intp)
        new_number[used] = np.arange(len(used))
        self.values = Interner(self.values.values[old] for old in used)
        self.numbering += 1
        self._rows_of = [self._rows_of[old] for old in used]
        self._ids = new_number[self._ids]
        self._unused = 0

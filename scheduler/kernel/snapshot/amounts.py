"""Whole numbers per resource and row, as fast as float64 and exact at any size."""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

_EXACT_BELOW: Final = 2**53
"""float64 holds every whole number below this."""


class Amounts(msgspec.Struct, eq=False):
    """A matrix of whole numbers, one line per resource.

    Invariant: a number of less than 2**53 is exact in `floats`; a larger one is rounded there, and
    exact in `oversized`.

    Attributes:
        floats: shape (lines, capacity).
        oversized: numbers that float64 does not hold exactly, by line and row. Rare.
    """

    floats: NDArray[np.float64]
    oversized: dict[tuple[int, int], int] = {}

    def at(self, line: int, row: int) -> int:
        """The exact number."""
        rounded = self.floats.item(line, row)
        if -_EXACT_BELOW < rounded < _EXACT_BELOW:
            return int(rounded)
        return self.oversized[line, row]

    def set(self, line: int, row: int, amount: int) -> None:
        """Replace a number."""
        self.oversized.pop((line, row), None)
        if not -_EXACT_BELOW < amount < _EXACT_BELOW:
            self.oversized[line, row] = amount
        self.floats[line, row] = amount

    def add(self, line: int, row: int, amount: int) -> None:
        """Add to a number."""
        before = self.floats.item(line, row)
        if -_EXACT_BELOW < before < _EXACT_BELOW:
            now = int(before) + amount
            if -_EXACT_BELOW < now < _EXACT_BELOW:
                self.floats[line, row] = now
                return
        self.set(line, row, self.at(line, row) + amount)

    def add_all(
        self, line: int, rows: NDArray[np.intp], kinds: NDArray[np.intp], amounts: Sequence[int]
    ) -> None:
        """Add to many numbers of a line: to each row the amount of its kind; rows may be repeated.

        `kinds` has the index in `amounts` for each of `rows`.
        """
        there = self.floats[line]
        most = max(map(abs, amounts)) * int(np.bincount(rows).max())
        if most + int(np.abs(there).max()) < _EXACT_BELOW:
            np.add.at(there, rows, np.array(amounts, np.float64)[kinds])
            return
        for row, kind in zip(rows.tolist(), kinds.tolist(), strict=True):
            self.add(line, row, amounts[kind])

    def picked(
        self, rows: NDArray[np.intp], amounts: Sequence[int], times: NDArray[np.float64]
    ) -> "Amounts | None":
        """Copy some rows, with amounts added; None where float64 does not hold the result.

        Rows may be repeated. `amounts` are by line, empty for none; `times` has their factor for
        each of `rows`.
        """
        most = max(amounts, default=0)
        if self.oversized or most >= _EXACT_BELOW:
            return None
        copy = Amounts(self.floats.take(rows, axis=1))
        if not most:
            return copy
        copy.floats[: len(amounts)] += np.multiply.outer(amounts, times)
        return copy if copy.floats.max() < _EXACT_BELOW else None

    def content(self, row: int, more: NDArray[np.float64] | None = None) -> bytes:
        """The floats of a row as bytes in memory, with `more` numbers added, by line."""
        there = self.floats[:, row]
        return (there if more is None else there + more).tobytes()

    def contents(self) -> list[bytes]:
        """`content` of every row."""
        by_row = np.ascontiguousarray(self.floats.T)
        # The strides of numpy are not defined for a single row.
        size = by_row.itemsize * len(self.floats)
        contents: list[bytes] = by_row.view(f"V{size}").ravel().tolist()
        return contents

    def fit(self, lines: int, capacity: int) -> None:
        """Make room for this many lines and rows."""
        if self.floats.shape != (lines, capacity):
            floats = np.zeros((lines, capacity))
            floats[: len(self.floats), : self.floats.shape[1]] = self.floats
            self.floats = floats

    def keep_lines(self, kept: Sequence[int], lines: int) -> None:
        """Renumber the lines: the kept ones come first, in order; there will be `lines` of them."""
        floats = np.zeros((lines, self.floats.shape[1]))
        floats[: len(kept)] = self.floats[list(kept)]
        new_line = {old: new for new, old in enumerate(kept)}
        self.oversized = {
            (new_line[line], row): amount
            for (line, row), amount in self.oversized.items()
            if line in new_line
        }
        self.floats = floats

    def copy(self) -> "Amounts":
        """An independent copy."""
        return Amounts(self.floats.copy(), self.oversized.copy())

"""The changed rows, in order: each reader continues from the position that it has read to."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_MIN_KEPT: Final = 4096
"""The fewest changes that stay readable."""
_NOTHING: Final = np.zeros(0, np.intp)


class RowLog:
    """An append-only list of changed rows with positions that stay valid when it is trimmed.

    Attributes:
        position: the position of the next change.
    """

    __slots__ = ("_rows", "position")

    def __init__(self, first: int = 0) -> None:
        """Begin without changes; positions before the first one count as too long ago."""
        self._rows: list[int] = []
        self.position = first

    def append(self, row: int, keep: int) -> None:
        """Note a changed row; at least the last `keep` changes stay readable."""
        rows = self._rows
        rows.append(row)
        self.position += 1
        size = len(rows)
        if size > 2 * keep and size > 2 * _MIN_KEPT:
            self._trim(keep)

    def extend(self, rows: Sequence[int], keep: int) -> None:
        """Note changed rows, in order."""
        self._rows.extend(rows)
        self.position += len(rows)
        self._trim(keep)

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The distinct rows changed since a position; None when that is too long ago."""
        start = position - self.position + len(self._rows)
        if start < 0:
            return None
        if start == len(self._rows):
            return _NOTHING
        rows = self._rows[start:]
        if len(rows) > 1:
            rows = list(dict.fromkeys(rows))
        return np.array(rows, np.intp)

    def _trim(self, keep: int) -> None:
        rows, kept = self._rows, max(_MIN_KEPT, keep)
        if len(rows) > 2 * kept:
            del rows[: len(rows) - kept]

"""Foresight: the columns of a class for some rows, as if more pods of its size ran there.

Where many such pods wait, each decision changes one row by one pod. One pass judges ahead all
rows that may be chosen next. When one of them is chosen, the class need not judge it again. If
another row is chosen, it is judged for several pods to come. The answers come from the same plugins
and the same numbers; the class only asks earlier.
"""

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.framework.interface import Scores
from scheduler.kernel.framework.runtime.verdicts import First

MIN_ROWS: Final = 64
"""At least so many of the best rows are looked at: one more hardly costs more."""
WORTH_IT: Final = 4
"""A pass that spared fewer judgements than this was in vain."""
STEPS: Final = 16
"""So many pods are foreseen on a row that was chosen unforeseen: pods that want company come again,
and a few numbers more cost nothing."""
MAX_PAUSE: Final = 1024
"""After a pass in vain, twice as many chances are skipped as before, but at most so many."""

_FORESEEN: Final = np.dtype(
    [("is_known", np.bool_), ("first", np.int16), ("bits", np.uint64), ("total", np.float64)],
    align=True,
)
"""All about a row in one place: one row is read at a time."""
_NOTHING: Final = np.zeros(0, _FORESEEN)


class Columns(Protocol):
    """What is known about rows."""

    def become(self, row: int, first: int, bits: int, total: float) -> None:
        """Take over what a row is now."""
        ...


class Foresight:
    """What is foreseen, until it is used or the rows have changed otherwise.

    Attributes:
        used: how often a row was as foreseen.
    """

    __slots__ = ("_coming", "_foreseen", "_is_known", "_pause", "_since", "_since_pass", "used")

    def __init__(self) -> None:
        self.used = 0
        self._since_pass = 0
        self._pause = self._since = 0
        self.forget()

    def is_worth_it(self) -> bool:
        """Whether to look ahead now: less and less often while that is in vain."""
        self._since += 1
        if self._since <= self._pause:
            return False
        in_vain = self._since_pass < WORTH_IT
        self._pause = min(MAX_PAUSE, 2 * self._pause + 1) if in_vain else 0
        self._since = self._since_pass = 0
        return True

    def forget(self) -> None:
        """Something else has changed than what was foreseen."""
        self._foreseen, self._is_known = _NOTHING, _NOTHING["is_known"]
        self._coming: dict[int, list[tuple[int, int, float]]] = {}

    def keep(
        self,
        rows: NDArray[np.intp],
        first: First,
        bits: NDArray[np.uint64],
        total: Scores,
        capacity: int,
    ) -> None:
        """Keep what was worked out for some rows with one pod more, and for no others."""
        self._foreseen = foreseen = np.zeros(capacity, _FORESEEN)
        self._is_known = foreseen["is_known"]
        self._is_known[rows] = True
        foreseen["first"][rows] = first
        foreseen["bits"][rows] = bits
        foreseen["total"][rows] = total

    def keep_coming(self, row: int, first: First, bits: NDArray[np.uint64], total: Scores) -> None:
        """Keep for one row what it will be with each further pod."""
        coming = zip(first.tolist(), bits.tolist(), total.tolist(), strict=True)
        self._coming[row] = [*coming][::-1]

    def use(self, row: int, columns: Columns) -> bool:
        """Tell the columns what a row is now, if that was foreseen."""
        is_known, coming = self._is_known, self._coming.get(row)
        if coming:
            first, bits, total = coming.pop()
            is_known[row : row + 1] = False
        elif row < len(is_known) and is_known[row]:
            _, first, bits, total = self._foreseen.item(row)
            is_known[row] = False
            self._since_pass += 1
        else:
            return False
        self.used += 1
        columns.become(row, first, bits, total)
        return True


def candidates(best: NDArray[np.intp], total: Scores) -> NDArray[np.intp]:
    """The rows with the best total, and some more where these are few."""
    if len(best) >= MIN_ROWS or len(total) <= MIN_ROWS:
        return best
    return np.argpartition(total, -MIN_ROWS)[-MIN_ROWS:]

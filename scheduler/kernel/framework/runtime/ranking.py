"""Which rows have the best total, followed from one changed row to the next."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.framework.interface import Scores

INFEASIBLE_TOTAL: Final = -1.0
"""The total of rows that are rejected; all others have 0 or more."""

_FEW: Final = 4
"""So many changed rows are followed; to look anew takes no longer than to follow more."""
NO_ROWS: Final = np.zeros(0, np.intp)


class Ranking:
    """The best rows of a column of totals.

    Attributes:
        rows: those with the best total, in order; good until the next change.
        feasible: how many rows are not rejected.
        is_known: whether these hold; else it is time to `look`.
    """

    __slots__ = ("_best", "feasible", "is_known", "rows")

    def __init__(self) -> None:
        self.is_known = False
        self._best = INFEASIBLE_TOTAL
        self.rows: NDArray[np.intp] = NO_ROWS
        self.feasible = 0

    def forget(self) -> None:
        """Rows have changed; which ones is not worth following."""
        self.is_known = False

    def follow(self, row: int, before: float, now: float) -> None:
        """One row has another total."""
        if not self.is_known or before == now:
            return
        self.feasible += (now != INFEASIBLE_TOTAL) - (before != INFEASIBLE_TOTAL)
        if before == self._best:
            self.rows = without(self.rows, row)
        if now > self._best:
            self._best, self.rows = now, np.array([row], np.intp)
        elif now == self._best:
            self.rows = np.sort(np.append(self.rows, row))
        self.is_known = len(self.rows) > 0

    def follow_all(self, rows: NDArray[np.intp], before: Scores, now: Scores) -> None:
        """Some rows, each named once, have other totals.

        Args:
            rows: which.
            before: the totals of all rows as they were.
            now: the new totals of these.
        """
        if len(rows) > _FEW:
            self.forget()
            return
        for row, new in zip(rows.tolist(), now.tolist(), strict=True):
            self.follow(row, before.item(row), new)

    def look(self, total: Scores, rows: NDArray[np.intp] | None = None) -> None:
        """Find out.

        Args:
            total: of the rows.
            rows: which these are, in order; all when None.
        """
        self._best = total.max(initial=INFEASIBLE_TOTAL)
        self.is_known = self._best != INFEASIBLE_TOTAL
        self.rows = (total == self._best).nonzero()[0] if self.is_known else NO_ROWS
        if rows is not None:
            self.rows = rows[self.rows]
        self.feasible = int(np.count_nonzero(total != INFEASIBLE_TOTAL))


def without(rows: NDArray[np.intp], row: int) -> NDArray[np.intp]:
    """Some rows, in order, without one of them; what is given is not to be used any more."""
    # In place: most rows may be equal, and only one of them goes.
    at = rows.searchsorted(row)
    rows[at:-1] = rows[at + 1 :]
    return rows[:-1]

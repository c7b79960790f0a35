"""The best rows of a class where scores by domain are added to its totals.

Within a domain all rows get the same on top, so the best of them are the best of the class there.
What those are is followed from one changed row to the next, whatever is added to them.
"""

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.framework.interface import Scores
from scheduler.kernel.framework.runtime.ranking import INFEASIBLE_TOTAL, NO_ROWS, Ranking, without
from scheduler.kernel.snapshot.row_log import RowLog
from scheduler.kernel.snapshot.topology import Topology

BYTES_PER_ROW: Final = 56
_MAX_MERGED: Final = 4
"""So many sets of domains whose best rows are kept together."""
_FEW: Final = 4
"""So many changed rows are followed; to look anew takes no longer than to follow more."""


class Ranked(Protocol):
    """What has totals by row, and says which of them have changed."""

    changed: RowLog
    total: Scores


class DomainRanking:
    """The best rows of a class in each domain.

    Attributes:
        feasible: how many rows are not rejected.
    """

    __slots__ = (
        "_best",
        "_ids",
        "_merged",
        "_order",
        "_position",
        "_rankings",
        "_sizes",
        "_starts",
        "_total",
        "feasible",
    )

    def __init__(self, topology: Topology) -> None:
        self._ids = ids = topology.ids
        self._order = ids.argsort(kind="stable")
        self._sizes = np.bincount(ids, minlength=topology.count)
        self._starts = self._sizes.cumsum() - self._sizes
        self._rankings: dict[int, Ranking] = {}
        """Of those domains that had the best rows."""
        self._merged: dict[tuple[int, ...], NDArray[np.intp]] = {}
        """The best rows of domains together, as pods that are spread find them again and again."""
        self._best: Scores = np.zeros(0)
        """The best total of each domain."""
        self._total: Scores = np.zeros(0)
        self._position = -1
        self.feasible = 0

    def refresh(self, pod_class: Ranked) -> None:
        """Take over what has changed in the class."""
        rows = pod_class.changed.since(self._position)
        if rows is None or len(rows) > _FEW:
            self._look(pod_class.total[: len(self._ids)].copy())
        else:
            for row in rows.tolist():
                self._follow(row, pod_class.total.item(row))
        self._position = pod_class.changed.position

    def best(self, by_domain: Scores) -> NDArray[np.intp]:
        """The best rows, in order, with so much added in each domain."""
        if not self.feasible:
            return NO_ROWS
        sums = self._best + by_domain
        sums[self._best == INFEASIBLE_TOTAL] = INFEASIBLE_TOTAL
        tied = (sums == sums.max()).nonzero()[0].tolist()
        return self._rows(tied[0]) if len(tied) == 1 else self._together(tuple(tied))

    def _together(self, domains: tuple[int, ...]) -> NDArray[np.intp]:
        """The best rows of several domains."""
        rows = self._merged.get(domains)
        if rows is None:
            if len(self._merged) >= _MAX_MERGED:
                self._merged.clear()
            rows = np.sort(np.concatenate([*map(self._rows, domains)]), kind="stable")
            self._merged[domains] = rows
        return rows

    def _rows(self, domain: int) -> NDArray[np.intp]:
        """The best rows of a domain."""
        ranking = self._rankings.get(domain)
        if ranking is None:
            ranking = self._rankings[domain] = Ranking()
        if not ranking.is_known:
            members = self._members(domain)
            ranking.look(self._total[members], members)
        return ranking.rows

    def _members(self, domain: int) -> NDArray[np.intp]:
        start = self._starts.item(domain)
        return self._order[start : start + self._sizes.item(domain)]

    def _look(self, total: Scores) -> None:
        self._total = total
        self.feasible = int(np.count_nonzero(total != INFEASIBLE_TOTAL))
        self._rankings.clear()
        self._merged.clear()
        # `reduceat` takes an empty domain for the row after it, which the last one must have, too.
        in_order = np.append(total[self._order], INFEASIBLE_TOTAL)
        self._best = np.maximum.reduceat(in_order, self._starts)
        self._best[self._sizes == 0] = INFEASIBLE_TOTAL

    def _follow(self, row: int, now: float) -> None:
        before, domain = self._total.item(row), self._ids.item(row)
        if before == now:
            return
        self._total[row] = now
        self.feasible += (now != INFEASIBLE_TOTAL) - (before != INFEASIBLE_TOTAL)
        ranking, best = self._rankings.get(domain), self._best.item(domain)
        if before != best and now < best:
            if ranking is not None:
                ranking.follow(row, before, now)
            return
        goes = False
        if ranking is not None:
            ranking.follow(row, before, now)
            goes = ranking.is_known and now < best
        if not goes:
            self._best[domain] = self._total[self._members(domain)].max()
        for domains in [each for each in self._merged if domain in each]:
            rows = self._merged.pop(domains)
            if goes:
                self._merged[domains] = without(rows, row)

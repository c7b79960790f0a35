"""The rows with the best total, in each domain of a topology, updated as rows change.

A score by domain adds the same number to all rows of a domain, so it does not change which of them
are best. Without a topology all rows are one domain.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.framework.interface import Scores
from scheduler.kernel.snapshot.label_columns import Topology

INFEASIBLE_TOTAL: Final = -1.0
"""The total of rows that are rejected; all others have 0 or more."""

BYTES_PER_ROW: Final = 48
NO_ROWS: Final = np.zeros(0, np.intp)
_FEW: Final = 4
"""The most changed rows that are followed; for more rows, a new pass takes no longer."""
_MAX_MERGED: Final = 4
"""The most sets of domains whose merged best rows are kept."""


class Ranking:
    """The best rows of a column of totals.

    Attributes:
        topology: the domains; None for one domain of all rows.
        feasible: number of rows that are not rejected, as of the last `_look`.
    """

    def __init__(self, topology: Topology | None = None) -> None:
        self.topology = topology
        self.feasible = 0
        self._is_known = False
        self._best: Scores = np.full(1 if topology is None else topology.count, INFEASIBLE_TOTAL)
        """The best total of each domain."""
        self._rows: dict[int, NDArray[np.intp]] = {}
        """The best rows of domains, in order, where they are known."""
        self._lost: set[int] = set()
        """Domains whose best total is no longer known."""
        self._merged: dict[tuple[int, ...], NDArray[np.intp]] = {}
        """The merged best rows of several domains, which spread pods need again and again."""
        if topology is not None:
            self._order = topology.ids.argsort(kind="stable")
            self._sizes = np.bincount(topology.ids, minlength=topology.count)
            self._starts = self._sizes.cumsum() - self._sizes

    def forget(self) -> None:
        """Drop all results, when too many rows have changed to follow them."""
        self._is_known = False

    def follow(self, row: int, before: float, now: float) -> None:
        """Update the results for the new total of one row."""
        if not self._is_known or before == now:
            return
        self.feasible += (now != INFEASIBLE_TOTAL) - (before != INFEASIBLE_TOTAL)
        domain = 0 if self.topology is None else self.topology.ids.item(row)
        best = self._best.item(domain)
        if domain in self._lost or max(before, now) < best:
            return
        if now < best:
            self._leave(domain, row)
        elif now > best:
            self._best[domain], self._rows[domain] = now, np.array([row], np.intp)
            self._part(domain)
        else:
            rows = self._rows.get(domain)
            if rows is not None:
                self._rows[domain] = np.sort(np.append(rows, row))
            self._part(domain)

    def follow_all(self, rows: NDArray[np.intp], before: Scores, now: Scores) -> None:
        """Update the results for the new totals of some rows, each named once.

        `before` has the former totals of all rows.
        """
        if len(rows) > _FEW:
            self.forget()
            return
        for row, new in zip(rows.tolist(), now.tolist(), strict=True):
            self.follow(row, before.item(row), new)

    def best_rows(
        self, total: Scores, by_domain: Scores | None = None
    ) -> tuple[NDArray[np.intp], int]:
        """The best rows, in order, until the next change, and the number of rows not rejected.

        `by_domain` is the score added to each row of a domain; whole numbers.
        """
        if not self._is_known or self._lost:
            self._look(total)
        if not self.feasible:
            return NO_ROWS, 0
        if by_domain is None:
            return self._rows_of(0, total), self.feasible
        sums = self._best + by_domain
        sums[self._best == INFEASIBLE_TOTAL] = INFEASIBLE_TOTAL
        tied = (sums == sums.max()).nonzero()[0].tolist()
        if len(tied) == 1:
            return self._rows_of(tied[0], total), self.feasible
        return self._together(tuple(tied), total), self.feasible

    def fitting_domains(self, total: Scores) -> NDArray[np.bool_]:
        """The domains that have rows which are not rejected, as a mask."""
        self._look(total)
        fits: NDArray[np.bool_] = self._best != INFEASIBLE_TOTAL
        return fits

    def _leave(self, domain: int, row: int) -> None:
        """Remove a row from the best of its domain."""
        rows = self._rows.get(domain)
        if rows is None or len(rows) == 1:
            self._lost.add(domain)
            self._rows.pop(domain, None)
            self._part(domain)
            return
        self._rows[domain] = _without(rows, row)
        for domains in [each for each in self._merged if domain in each]:
            self._merged[domains] = _without(self._merged[domains], row)

    def _part(self, domain: int) -> None:
        """Drop the merged rows of sets that contain a domain."""
        for domains in [each for each in self._merged if domain in each]:
            del self._merged[domains]

    def _look(self, total: Scores) -> None:
        """Compute the best total of each domain where it is not known."""
        if not self._is_known:
            self._is_known = True
            self.feasible = int(np.count_nonzero(total != INFEASIBLE_TOTAL))
            self._rows.clear()
            self._merged.clear()
            self._lost.clear()
            if self.topology is None:
                self._best[0] = total.max(initial=INFEASIBLE_TOTAL)
                return
            # `reduceat` takes an empty domain for the row after it, which the last one must have.
            in_order = np.append(total[self._order], INFEASIBLE_TOTAL)
            self._best = np.maximum.reduceat(in_order, self._starts)
            self._best[self._sizes == 0] = INFEASIBLE_TOTAL
        elif self._lost:
            for domain in self._lost:
                there = total if self.topology is None else total[self._members(domain)]
                self._best[domain] = there.max()
            self._lost.clear()

    def _rows_of(self, domain: int, total: Scores) -> NDArray[np.intp]:
        """The best rows of a domain."""
        rows = self._rows.get(domain)
        if rows is None:
            best = self._best.item(domain)
            if self.topology is None:
                rows = (total == best).nonzero()[0]
            else:
                members = self._members(domain)
                rows = members[total[members] == best]
            self._rows[domain] = rows
        return rows

    def _together(self, domains: tuple[int, ...], total: Scores) -> NDArray[np.intp]:
        """The best rows of several domains."""
        rows = self._merged.get(domains)
        if rows is None:
            if len(self._merged) >= _MAX_MERGED:
                self._merged.clear()
            every = [self._rows_of(domain, total) for domain in domains]
            rows = self._merged[domains] = np.sort(np.concatenate(every), kind="stable")
        return rows

    def _members(self, domain: int) -> NDArray[np.intp]:
        """The rows of a domain of the topology."""
        start = self._starts.item(domain)
        return self._order[start : start + self._sizes.item(domain)]


def _without(rows: NDArray[np.intp], row: int) -> NDArray[np.intp]:
    """Sorted rows without one of them; the array passed in must not be used afterwards."""
    # In place: a copy without one row would cost as much as all rows.
    at = rows.searchsorted(row)
    rows[at:-1] = rows[at + 1 :]
    return rows[:-1]

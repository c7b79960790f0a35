"""The extenders' results for nodes, applied to rows of the cluster as it is now."""

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.framework.status import Status
from scheduler.kernel.snapshot.node_table import NodeTable

SCALE: Final = 10
"""Extenders score up to 10, plugins up to 100. Source: MaxExtenderPriority, MaxNodeScore."""


class Advice(msgspec.Struct, frozen=True):
    """The extenders' results for nodes.

    Attributes:
        nodes: the nodes that passed every filter.
        sent: the nodes sent to the extenders.
        rejected: the reasons against rejected nodes, where an extender gave one.
        scores: by extender and node, the unweighted scores.
        totals: by node, the sum of all weighted scores.
        problem: the error of an extender that is not ignorable; the pod fails if any node fits.
    """

    nodes: tuple[str, ...]
    sent: frozenset[str]
    rejected: Mapping[str, Status]
    scores: Mapping[int, Mapping[str, int]]
    totals: Mapping[str, int]
    problem: str = ""

    def refused(self) -> dict[str, Status | None]:
        """The rejected nodes with the reason, if an extender gave one."""
        left_out = sorted(self.sent.difference(self.nodes))
        return {name: self.rejected.get(name) for name in left_out}

    def allowed(self, rows: NDArray[np.intp], table: NodeTable) -> NDArray[np.intp]:
        """The rows whose nodes passed, in ascending order."""
        row_of = table.row_of
        passed = np.array([row_of[name] for name in self.nodes if name in row_of], np.intp)
        return np.intersect1d(rows, passed)

    def bonus(self, rows: NDArray[np.intp], table: NodeTable) -> NDArray[np.int64]:
        """The amount added to the total of each row."""
        names = table.names
        return np.array([self.totals.get(names[row], 0) for row in rows.tolist()], np.int64)

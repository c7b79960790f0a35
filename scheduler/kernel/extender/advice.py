"""What extenders have said about nodes, and what it means for rows of the cluster as it is now."""

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
    """What extenders have said about nodes.

    Attributes:
        nodes: where the pod may go.
        asked: the nodes they were asked about.
        rejected: why not to the others, as far as they said it.
        scores: by extender and node, what they said, unweighted.
        totals: by node, all weighted scores together.
        problem: how one that cannot be ignored has failed; the pod fails if any node fits.
    """

    nodes: tuple[str, ...]
    asked: frozenset[str]
    rejected: Mapping[str, Status]
    scores: Mapping[int, Mapping[str, int]]
    totals: Mapping[str, int]
    problem: str = ""

    def refused(self) -> dict[str, Status | None]:
        """By node, what they have against it; they need not say why."""
        left_out = sorted(self.asked.difference(self.nodes))
        return {name: self.rejected.get(name) for name in left_out}

    def allowed(self, rows: NDArray[np.intp], table: NodeTable) -> NDArray[np.intp]:
        """Those of some rows that they let pass, in ascending order."""
        row_of = table.row_of
        passed = np.array([row_of[name] for name in self.nodes if name in row_of], np.intp)
        return np.intersect1d(rows, passed)

    def bonus(self, rows: NDArray[np.intp], table: NodeTable) -> NDArray[np.int64]:
        """What is added to the total of each row."""
        names = table.names
        return np.array([self.totals.get(names[row], 0) for row in rows.tolist()], np.int64)

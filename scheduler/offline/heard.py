"""What extenders have said, in the words of an explanation."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.extender import Advice, KnownExtender
from scheduler.extender.consultation import SCALE
from scheduler.framework.runtime import Feasibility
from scheduler.framework.status import EXTENDER, Code, Status
from scheduler.offline.answers import FeasibleNode, PluginScore, RejectedNode
from scheduler.snapshot import Snapshot

_SILENT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), EXTENDER)
"""Of a node that was left out without a word."""


class Heard:
    """The advice of extenders about one pod, or none.

    Args:
        advice: what they said; None when nobody was asked.
        extenders: all of them.
    """

    def __init__(self, advice: Advice | None, extenders: Sequence[KnownExtender]) -> None:
        self._advice = advice
        self._extenders = extenders

    def refused(self) -> dict[str, Status | None]:
        """By node, what they have against it."""
        if self._advice is None:
            return {}
        left_out = sorted(self._advice.asked.difference(self._advice.nodes))
        return {name: self._advice.rejected.get(name) for name in left_out}

    def rows_of(self, found: Feasibility, snapshot: Snapshot) -> NDArray[np.intp]:
        """The rows on which the pod fits, and that they let pass."""
        rows = found.feasible_rows()
        if self._advice is None:
            return rows
        row_of = snapshot.table.row_of
        return np.intersect1d(rows, [row_of[name] for name in self._advice.nodes]).astype(np.intp)

    def rejected(self, found: Feasibility, snapshot: Snapshot) -> Iterator[RejectedNode]:
        """The nodes that only they reject."""
        names = {snapshot.table.names[row] for row in found.feasible_rows().tolist()}
        for name, status in self.refused().items():
            if name in names:
                told = status or _SILENT
                yield RejectedNode(name, told.plugin, told.code.upstream_name, told.reasons)

    def scored(self, node: FeasibleNode) -> FeasibleNode:
        """A node with their scores beside those of plugins: up to 100, as those."""
        if self._advice is None:
            return node
        scores = dict(node.scores)
        for number, by_node in self._advice.scores.items():
            score = by_node.get(node.node, 0) * SCALE
            extender = self._extenders[number]
            scores[extender.name] = PluginScore(score, score * extender.config.weight)
        total = node.total + self._advice.totals.get(node.node, 0)
        return msgspec.structs.replace(node, scores=scores, total=total)

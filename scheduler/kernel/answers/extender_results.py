"""Converts the extenders' verdicts and scores of nodes to the types of an answer."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.judgement import Scored
from scheduler.kernel.extender import Advice, Extenders, KnownExtender
from scheduler.kernel.extender.advice import SCALE
from scheduler.kernel.framework.results import Candidate
from scheduler.kernel.framework.runtime import Feasibility
from scheduler.kernel.framework.runtime.diagnosis import Reviewed
from scheduler.kernel.framework.status import EXTENDER, Code, Status
from scheduler.kernel.snapshot import Snapshot

_SILENT: Final = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), EXTENDER)
"""The status of a node that an extender left out without a reason."""


class BlockingExtenders(Protocol):
    """Calls extenders synchronously."""

    @property
    def extenders(self) -> Extenders:
        """All extenders of the configuration."""
        ...

    def about_nodes(self, pod: PodInfo, names: tuple[str, ...]) -> Advice | None:
        """Return the extenders' advice on feasible nodes; None if no extender handles the pod.

        Raises:
            ExtenderError: an extender that is not ignorable has failed.
        """
        ...

    def about_candidates(
        self, pod: PodInfo, candidates: tuple[Candidate, ...], snapshot: Snapshot
    ) -> Reviewed | None:
        """Return the candidates that extenders keep; None if no extender handles preemption."""
        ...


class ExtenderResults:
    """The advice of extenders about one pod, or none.

    Attributes:
        refused: by node, the status of its rejection.
    """

    def __init__(self, advice: Advice | None, extenders: Sequence[KnownExtender]) -> None:
        self._advice = advice
        self._extenders = extenders
        self.refused = {} if advice is None else advice.refused()

    def rows_of(self, found: Feasibility, snapshot: Snapshot) -> NDArray[np.intp]:
        """Return the rows that passed the filters and the extenders."""
        rows = found.feasible_rows()
        return rows if self._advice is None else self._advice.allowed(rows, snapshot.table)

    def rejections(self, snapshot: Snapshot) -> list[tuple[Status, NDArray[np.intp]]]:
        """Return the extenders' distinct rejections, each with its rows."""
        rows_of: dict[Status, list[int]] = {}
        for name, status in self.refused.items():
            rows_of.setdefault(status or _SILENT, []).append(snapshot.table.row_of[name])
        return [(status, np.array(rows, np.intp)) for status, rows in rows_of.items()]

    def scored(self, scored: Scored, snapshot: Snapshot) -> Scored:
        """Return scores with those of extenders beside those of plugins, both up to 100."""
        advice = self._advice
        if advice is None or not len(scored.rows):
            return scored
        names = [snapshot.table.names[row] for row in scored.rows.tolist()]
        columns = [
            (
                self._extenders[number].label,
                self._extenders[number].config.weight,
                np.array([by_node.get(name, 0) * SCALE for name in names]),
            )
            for number, by_node in advice.scores.items()
        ]
        totals = scored.totals + advice.bonus(scored.rows, snapshot.table)
        return msgspec.structs.replace(scored, columns=(*scored.columns, *columns), totals=totals)

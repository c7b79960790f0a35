"""The columns of a class with more of its pods on some rows, judged before they run there.

The pods of a batch are equal, and nothing else happens between them. So one pass judges the rows
that may be chosen, with one more pod on each and with several. The answers come from the same
plugins and the same numbers; the class only asks earlier.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodShape
from scheduler.kernel.framework.runtime.pod_class import Judged, PodClass
from scheduler.kernel.snapshot import Snapshot

_MIN_ROWS: Final = 64
"""At least so many of the best rows are judged: one more hardly costs more."""
_STEPS: Final = 16
"""Pods that are foreseen on one row: pods that attract each other come again."""
_MAX_JUDGED: Final = 256
"""Rows times steps of the first pass, unless more rows are equally good."""

_Answers: TypeAlias = list[tuple[int, int, float]]
"""`first`, `bits` and `total` of a row with each further pod; the next one is the last."""


class Lookahead:
    """Follows the pods of one batch in the columns of their class.

    Attributes:
        pod_class: the class.
    """

    def __init__(self, pod_class: PodClass, shape: PodShape, limit: int) -> None:
        """Begin.

        Args:
            pod_class: the class; its columns are up to date.
            shape: of the pods.
            limit: how many pods may follow.
        """
        self.pod_class = pod_class
        self._shape = shape
        self._limit = limit
        self._first_pass: Judged | None = None
        self._steps = 0
        """Answers of the first pass for each of its rows."""
        self._start_of = np.zeros(0, np.intp)
        """By row, where they begin; -1 for other rows."""
        self._to_come: dict[int, _Answers] = {}
        self._uncounted: dict[int, int] = {}
        """Pods of the batch by row that the snapshot does not have yet."""

    def place(self, row: int, snapshot: Snapshot) -> bool:
        """Take one more pod on a row into the columns, before the snapshot has it.

        Returns:
            False if that cannot be foreseen: then the snapshot must say what the row is.
        """
        if not self._steps:
            self._judge_best(snapshot)
        to_come = self._to_come.get(row)
        if to_come is None:
            to_come = self._of_first_pass(row)
        if not to_come:
            to_come = self._judge_one(row, snapshot)
            if not to_come:
                return False
        self._to_come[row] = to_come
        self._uncounted[row] = self._uncounted.get(row, 0) + 1
        self.pod_class.become(row, *to_come.pop())
        return True

    def counted(self, snapshot: Snapshot) -> None:
        """Note that the snapshot has all these pods now."""
        self.pod_class.counted(snapshot, sum(self._uncounted.values()))
        self._uncounted.clear()

    def _judge_best(self, snapshot: Snapshot) -> None:
        """Judge the rows that may be chosen next."""
        size, wanted = snapshot.table.size, min(_MIN_ROWS, self._limit)
        rows = self.pod_class.best_rows(size).rows
        if len(rows) < wanted < size:
            rows = np.argpartition(self.pod_class.total[:size], -wanted)[-wanted:]
        steps = self._steps = max(1, min(_STEPS, self._limit, _MAX_JUDGED // max(1, len(rows))))
        self._first_pass = self._judge(rows, steps, snapshot)
        self._start_of = np.full(size, -1)
        self._start_of[rows] = np.arange(0, steps * len(rows), steps)

    def _of_first_pass(self, row: int) -> _Answers:
        start = self._start_of.item(row)
        if start < 0 or self._first_pass is None:
            return []
        first, bits, total = self._first_pass
        end = start + self._steps
        return _listed((first[start:end], bits[start:end], total[start:end]))

    def _judge_one(self, row: int, snapshot: Snapshot) -> _Answers:
        judged = self._judge(np.array([row]), min(_STEPS, self._limit), snapshot)
        return [] if judged is None else _listed(judged)

    def _judge(self, rows: NDArray[np.intp], steps: int, snapshot: Snapshot) -> Judged | None:
        """Judge each of some rows with one pod more than now, with two, and so on."""
        if not len(rows):
            return None
        times = np.tile(np.arange(1.0, steps + 1), len(rows))
        if self._uncounted:
            there = [self._uncounted.get(row, 0) for row in rows.tolist()]
            times += np.repeat(there, steps)
        return self.pod_class.with_more(snapshot, self._shape, rows.repeat(steps), times)


def _listed(judged: Judged) -> _Answers:
    first, bits, total = judged
    return [*zip(first.tolist(), bits.tolist(), total.tolist(), strict=True)][::-1]

"""The columns of a class with more of its pods on some rows, before the snapshot has them.

The pods of a batch are equal, and nothing else happens between them. What the class has said of a
row that holds as much is known (`row_answers.py`). Where it is not, one pass judges the rows that
may be chosen next, with one more pod on each and with several: few rows first, and more each time.
The answers come from the same plugins and the same numbers; the class only asks earlier.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod_shape import PodShape
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.framework.runtime.row_answers import Answer
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.resource_sums import Load

_ROWS: Final = (16, 64, 256)
"""How many of the best rows a pass judges, one pass after the other; those that follow judge one
row each, as the best rows were no help."""
_STEPS: Final = 16
"""Pods that are foreseen on one row: pods that attract each other come again."""
_MAX_JUDGED: Final = 256
"""Rows times steps of a pass."""


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
        self._loads: dict[int, Load] = {}
        """What so many of the pods add to a row: no node changes within a batch."""
        self._passes = 0
        self._uncounted: dict[int, int] = {}
        """Pods of the batch by row that the snapshot does not have yet."""

    def place(self, row: int, snapshot: Snapshot) -> bool:
        """Take one more pod on a row into the columns, before the snapshot has it.

        Returns:
            False if that cannot be foreseen: then the snapshot must say what the row is.
        """
        more = self._uncounted.get(row, 0) + 1
        answer = self._answer(row, more, snapshot)
        if answer is None:
            self._judge(self._rows_with(row, more, snapshot), snapshot)
            answer = self._answer(row, more, snapshot)
            if answer is None:
                return False
        self._uncounted[row] = more
        self.pod_class.become(row, *answer)
        return True

    def counted(self, snapshot: Snapshot) -> None:
        """Note that the snapshot has all these pods now."""
        self.pod_class.counted(snapshot, sum(self._uncounted.values()))
        self._uncounted.clear()

    def _answer(self, row: int, more: int, snapshot: Snapshot) -> Answer | None:
        sums, load = snapshot.table.sums, self._loads.get(more)
        if load is None:
            load = self._loads[more] = sums.load_of(self._shape, more)
        return self.pod_class.answer(sums, row, load)

    def _rows_with(self, row: int, more: int, snapshot: Snapshot) -> NDArray[np.intp]:
        """A row, and others that may be chosen next."""
        one = np.array([row])
        if more > 1 or self._passes == len(_ROWS):
            return one
        wanted = min(_ROWS[self._passes], self._limit)
        self._passes += 1
        size = snapshot.table.size
        rows, _ = self.pod_class.best_rows(size)
        if len(rows) < wanted < size:
            rows = np.argpartition(self.pod_class.total[:size], -wanted)[-wanted:]
        return np.union1d(rows[:wanted], one)

    def _judge(self, rows: NDArray[np.intp], snapshot: Snapshot) -> None:
        """Judge each of some rows with one pod more than now, with two, and so on."""
        steps = max(1, min(_STEPS, self._limit, _MAX_JUDGED // len(rows)))
        times = np.tile(np.arange(1.0, steps + 1), len(rows))
        if self._uncounted:
            there = [self._uncounted.get(row, 0) for row in rows.tolist()]
            times += np.repeat(there, steps)
        self.pod_class.judge_with_more(snapshot, self._shape, rows.repeat(steps), times)

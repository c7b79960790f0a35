"""What is foreseen of rows is told once, in order."""

import numpy as np

from scheduler.kernel.framework.runtime.foresight import Foresight

ROW = 3


class Told:
    """Columns that remember what they are told."""

    def __init__(self) -> None:
        self.totals: list[float] = []

    def become(self, row: int, first: int, bits: int, total: float) -> None:
        """Take over what a row is now."""
        assert (row, first, bits) == (ROW, 7, 1)
        self.totals.append(total)


def test_what_is_foreseen_of_a_row_twice_is_told_once() -> None:
    """A row of which pods to come are foreseen may be among those looked at together."""
    foresight, told = Foresight(), Told()
    first, bits = np.full(2, 7, np.int16), np.ones(2, np.uint64)
    foresight.keep_coming(ROW, first, bits, np.array([90.0, 80.0]))
    foresight.keep(np.array([ROW]), first[:1], bits[:1], np.array([90.0]), 8)

    used = [foresight.use(ROW, told) for _ in range(3)]

    assert used == [True, True, False]
    assert told.totals == [90.0, 80.0]

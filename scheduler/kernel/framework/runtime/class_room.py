"""How many pods of a class each row takes; what is known of a row stays until the row changes."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod_shape import PodShape

Fits: TypeAlias = Callable[[NDArray[np.intp], NDArray[np.float64]], NDArray[np.bool_] | None]
"""Which of some rows take a pod more with so many more pods on each; None where it is unknown."""


class ClassRoom:
    """The room of a class as far as row-local filters say, for the pods that were asked about last.

    Attributes:
        column: by row, the number; 0 where it is not known or no pod fits. The class clears it
            where it judges a row anew.
    """

    __slots__ = ("_asked", "column")

    def __init__(self) -> None:
        self.column = np.zeros(0)
        self._asked: tuple[object, ...] = ()

    def find(
        self, feasible: NDArray[np.bool_], shape: PodShape, most: int, fits: Fits
    ) -> NDArray[np.float64] | None:
        """How many pods of a shape each row takes, `most` at most.

        A row that is full of them stays full when more come. So the number is found by halving.
        Most rows take as many as are asked for, so that is tried first.

        Args:
            feasible: by row, whether it takes one.
            shape: of the pods.
            most: more than so many are not counted on a row; 1 or more.
            fits: asked about rows.

        Returns:
            None where that is unknown. Not to be written to, and good until the next change.

        Cost: one pass over the rows that fit for each time that `most` can be halved. After the
        first time that this was asked, only over those that have changed.
        """
        asked = shape.occupied, shape.non_zero_occupied, most
        if asked != self._asked:
            self._asked = asked
            self.column[:] = 0
        room = self.column[: len(feasible)]
        rows = np.flatnonzero(feasible & (room == 0))
        low, high = np.ones(len(rows), np.intp), np.full(len(rows), most, np.intp)
        is_open, middle = np.flatnonzero(low < high), high
        while len(is_open):
            found = fits(rows[is_open], (middle[is_open] - 1).astype(np.float64))
            if found is None:
                return None
            low[is_open] = np.where(found, middle[is_open], low[is_open])
            high[is_open] = np.where(found, high[is_open], middle[is_open] - 1)
            is_open = np.flatnonzero(low < high)
            middle = (low + high + 1) >> 1
        room[rows] = low
        return room

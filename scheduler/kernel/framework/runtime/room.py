"""How many pods of a class each row can take, one after the other."""

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod_shape import PodShape
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE
from scheduler.kernel.snapshot import Snapshot


def room_for(
    pod_class: PodClass, shape: PodShape, snapshot: Snapshot, most: int
) -> tuple[NDArray[np.intp], bool]:
    """How many pods of a class each row can take, as far as row-local filters say.

    A row that is full of them stays full when more come. So the number is found by halving.

    Args:
        pod_class: the class, as of the last `refresh`.
        shape: of the pods.
        snapshot: the cluster.
        most: more than so many are not counted on a row; 1 or more.

    Returns:
        By row the number, and whether it is exact. If it is not, it is never too small.

    Cost: one pass over the rows that fit for each time that `most` can be halved.
    """
    first = pod_class.first[: snapshot.table.size]
    rows = np.flatnonzero(first == FEASIBLE)
    low, high = np.ones(len(rows), np.intp), np.full(len(rows), most, np.intp)
    found = np.zeros(len(first), np.intp)
    while len(rows) and (low < high).any():
        middle = (low + high + 1) >> 1
        more = (middle - 1).astype(np.float64)
        fits = pod_class.fits_with_more(snapshot, shape, rows, more)
        if fits is None:
            found[rows] = most
            return found, False
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    found[rows] = low
    return found, True

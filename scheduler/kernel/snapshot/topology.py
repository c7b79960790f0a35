"""The domains that nodes form by a label; valid until a node changes."""

import msgspec
import numpy as np
from numpy.typing import NDArray


class Topology(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """The domains of one label key.

    It is another object once any node has changed, so that results for it can be kept by
    identity.

    Attributes:
        ids: the domain of each row; ABSENT (0) for rows without the label.
        count: number of ids, ABSENT included.
        eligible: rows whose pods count; all when None.
        is_complete: whether every node has the label.
    """

    ids: NDArray[np.intp]
    count: int
    eligible: NDArray[np.bool_] | None = None
    is_complete: bool = False

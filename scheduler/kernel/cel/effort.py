"""Work that upstream's cost leaves out, or counts only after it is done.

Upstream counts a search by the lengths of text and pattern, and a value by its own length, not by
what is in it. Here both can take far longer than that. So the work of one evaluation on one device
is counted too, and ends where the cost ends.
"""

import threading
from typing import Final

from scheduler.kernel.cel.errors import CostLimitError

LIMIT: Final = 1_000_000
"""Units of one evaluation; a unit takes about as long as one of upstream's cost."""


class _Effort(threading.local):
    """The work of the evaluation that runs. Some tools evaluate in a thread of their own."""

    counted = 0
    spared = 0


_EFFORT: Final = _Effort()


def begin() -> None:
    """Begin an evaluation."""
    _EFFORT.counted = _EFFORT.spared = 0


def charge(units: int) -> None:
    """Count work, before it is done where possible.

    Raises:
        CostLimitError: it is more than an evaluation may take.
    """
    _EFFORT.counted += units
    if _EFFORT.counted > LIMIT:
        raise CostLimitError


def spare(units: int) -> None:
    """Take note that counted work was done before, so that it took no time."""
    _EFFORT.spared += units


def counted() -> int:
    """Units counted since the evaluation began: the same for the same values, always."""
    return _EFFORT.counted


def done() -> int:
    """Units of work really done since then."""
    return _EFFORT.counted - _EFFORT.spared

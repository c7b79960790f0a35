"""What plugins must not answer."""

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, Bits, Scores


def check_size(answer: Bits | Scores, count: int) -> None:
    """Refuse a column that is not about the rows asked for.

    Raises:
        ValueError: the size is wrong.
    """
    if answer.shape != (count,):
        raise ValueError(f"returned an array of shape {answer.shape}, expected ({count},)")


def check_range(scores: Scores, count: int, alive: NDArray[np.bool_] | None = None) -> None:
    """Refuse scores that cannot be added up.

    Args:
        scores: the scores.
        count: how many there must be.
        alive: the places that count; all when None.

    Raises:
        ValueError: a score is not a whole number from 0 to 100.
    """
    check_size(scores, count)
    good = (scores >= MIN_NODE_SCORE) & (scores <= MAX_NODE_SCORE) & (scores == np.floor(scores))
    if alive is not None:
        good |= ~alive
    if not good.all():
        raise ValueError(
            f"returned an invalid score {scores[~good][0]:g}, "
            f"expected a whole number from {MIN_NODE_SCORE} to {MAX_NODE_SCORE}"
        )

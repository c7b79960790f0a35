"""How processor time grows with size, on a machine that does other things meanwhile."""

import gc
from collections.abc import Callable
from typing import Final

TRIES: Final = 3
"""Measurements of each size; the least is the one that was disturbed least."""


def growth(seconds: Callable[[int], float], few: int, many: int) -> float:
    """How many times as long the larger size takes as the smaller one.

    Args:
        seconds: measures one size: processor time, in seconds.
        few: the smaller size, large enough for a millisecond and more.
        many: the larger size.
    """
    # A collection visits every object of the tests before, which may cost more than what is
    # measured. The sizes take turns, so that a slow minute is one of both.
    gc.disable()
    try:
        pairs = [(seconds(few), seconds(many)) for _ in range(TRIES)]
    finally:
        gc.enable()
    return min(large for _, large in pairs) / min(small for small, _ in pairs)

"""Column operations that several plugins share."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.framework.interface import MAX_NODE_SCORE, Scores
from scheduler.kernel.snapshot import Rows
from scheduler.kernel.snapshot.interning import Interner
from scheduler.kernel.snapshot.label_columns import Topology

V = TypeVar("V")
N = TypeVar("N", bound=np.generic)

_ROOM_TO_GROW: Final = 16
_ROWS_PER_DOMAIN: Final = 8
"""With fewer rows per domain, a pass over domains is no faster than a pass over rows."""


def count_of(rows: Rows, size: int) -> int:
    """Number of rows."""
    if isinstance(rows, slice):
        return len(range(*rows.indices(size)))
    return len(rows)


def has_few_domains(topology: Topology) -> bool:
    """Whether there are so few domains that computing answers by domain is faster than by row."""
    return _ROWS_PER_DOMAIN * topology.count <= len(topology.ids)


class Judged(Generic[V, N]):
    """An answer per interned value, found once per distinct value and gathered for rows."""

    __slots__ = ("_answers", "_judge", "_known", "_values")

    def __init__(self, judge: Callable[[V], Any], dtype: type[N]) -> None:
        """Store the function to apply.

        Args:
            judge: computes the answer for one value; must be a pure function.
            dtype: of the answers.
        """
        self._judge = judge
        self._answers: NDArray[N] = np.zeros(0, dtype)
        self._known = 0
        self._values: Interner[Any] | None = None

    def of(self, values: Interner[Any], ids: NDArray[np.integer[Any]]) -> NDArray[N]:
        """The answers for values given by their ids."""
        if values is not self._values:
            self._values, self._known = values, 0
        if self._known < len(values):
            self._learn(values.values)
        answers: NDArray[N] = self._answers[ids]
        return answers

    def _learn(self, values: list[V]) -> None:
        """Judge the new values; the values of an interner never change."""
        if len(values) > len(self._answers):
            grown = np.zeros(2 * len(values) + _ROOM_TO_GROW, self._answers.dtype)
            grown[: self._known] = self._answers[: self._known]
            self._answers = grown
        for i in range(self._known, len(values)):
            self._answers[i] = self._judge(values[i])
        self._known = len(values)


def share_of_highest(scores: Scores) -> Scores:
    """Scores as percentages of the highest one, rounded down; all 0 while the highest is 0.

    Source: pkg/scheduler/framework/plugins/helper/normalize_score.go DefaultNormalizeScore.
    """
    highest = scores.max(initial=0.0)
    if not highest:
        return scores
    shares: Scores = np.floor(scores * MAX_NODE_SCORE / highest)
    return shares


def distance_from_highest(scores: Scores) -> Scores:
    """Invert `share_of_highest` within 100: the lowest score becomes the best.

    Source: pkg/scheduler/framework/plugins/helper/normalize_score.go DefaultNormalizeScore.
    """
    return MAX_NODE_SCORE - share_of_highest(scores)

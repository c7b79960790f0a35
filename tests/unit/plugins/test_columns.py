"""What the plugins share: answers per interned value, normalisation."""

import numpy as np
import pytest

from scheduler.kernel.plugins.columns import (
    Judged,
    count_of,
    distance_from_highest,
    share_of_highest,
)
from scheduler.kernel.snapshot.interning import Interner


def test_every_distinct_value_is_judged_once() -> None:
    """However often it is asked for, and also when more values have come."""
    asked: list[str] = []

    def judge(value: str) -> int:
        asked.append(value)
        return len(value)

    judged: Judged[str, np.float64] = Judged(judge, np.float64)
    values = Interner(["a", "bb"])

    first = judged.of(values, np.array([1, 0, 1]))
    for n in range(3, 40):
        values.intern("x" * n)
    second = judged.of(values, np.array([39 - 1, 0]))

    assert first.tolist() == [2, 1, 2]
    assert second.tolist() == [39, 1]
    assert asked == values.values


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(slice(0, 5), 5, id="all rows"),
        pytest.param(slice(2, 3), 1, id="one row"),
        pytest.param(np.array([4, 1]), 2, id="some rows"),
    ],
)
def test_rows_can_be_counted(rows: slice | np.ndarray, expected: int) -> None:
    """Slices are cut off at the size of the table."""
    assert count_of(rows, 5) == expected


def test_shares_are_rounded_down_and_distances_are_what_is_left() -> None:
    """The highest score is 100 in one, 0 in the other."""
    scores = np.array([3.0, 1.0, 0.0])

    assert share_of_highest(scores).tolist() == [100, 33, 0]
    assert distance_from_highest(scores).tolist() == [0, 67, 100]
    assert share_of_highest(np.zeros(2)).tolist() == [0, 0]
    assert distance_from_highest(np.zeros(2)).tolist() == [100, 100]

"""What filters are asked with."""

import numpy as np

from scheduler.kernel.framework.runtime.verdicts import as_view


def test_one_row_becomes_a_view() -> None:
    """Other choices of rows stay as they are."""
    many = np.array([3, 1])
    column = np.arange(5)

    assert as_view(np.array([3])) == slice(3, 4)
    assert np.shares_memory(column[as_view(np.array([3]))], column)
    assert as_view(many) is many
    assert as_view(slice(0, 5)) == slice(0, 5)

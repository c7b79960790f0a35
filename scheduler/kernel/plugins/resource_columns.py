"""The columns of chosen resources, as matrices with one line per resource.

Units: as in `NodeTable`: thousandths of a core, bytes, whole units.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar_resource
from scheduler.kernel.snapshot import Rows
from scheduler.kernel.snapshot.node_table import NodeTable
from scheduler.kernel.snapshot.resource_sums import CPU_COLUMN, MEMORY_COLUMN

Amounts: TypeAlias = NDArray[np.float64]
"""Shape (resources, rows) or (resources, 1)."""

_CORE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_NON_ZERO: Final = (CPU_COLUMN, MEMORY_COLUMN)


def is_counted(name: str) -> bool:
    """Whether nodes have a column for the resource; the number of pods has its own column."""
    return name in _CORE or is_scalar_resource(name)


def amounts_of(names: Sequence[str], asked: Mapping[str, int]) -> Amounts:
    """The requested amounts of some resources, shape (resources, 1)."""
    return np.array([asked.get(name, 0) for name in names], np.float64).reshape(-1, 1)


class ResourceColumns:
    """Some resources of the node table, in a given order, without those that no node offers.

    Attributes:
        names: the resources that some node offers.
        amounts: the pod's request of each, shape (resources, 1).
        layout: the layout of the table for which the columns are valid.
    """

    __slots__ = ("_defaulted", "_lines", "_numbers", "amounts", "layout", "names")

    def __init__(self, table: NodeTable, names: Sequence[str], asked: Mapping[str, int]) -> None:
        """Find the columns.

        Args:
            table: the node table.
            names: the resources, all of them counted ones.
            asked: the requests of the pod.
        """
        self.layout = table.sums.layout
        found = [(name, table.resources.get(name)) for name in names]
        self.names = [name for name, number in found if number is not None]
        self._numbers = [number for _, number in found if number is not None]
        self._lines = _run_or_list(self._numbers)
        self._defaulted = [
            (line, number) for line, number in enumerate(self._numbers) if number in _NON_ZERO
        ]
        self.amounts = amounts_of(self.names, asked)

    def allocatable(self, table: NodeTable, rows: Rows) -> Amounts:
        """The allocatable amounts of the nodes. Read-only."""
        return self._pick(table.sums.allocatable, rows)

    def requested(self, table: NodeTable, rows: Rows) -> Amounts:
        """The amounts requested by the pods on the nodes. Read-only."""
        return self._pick(table.sums.requested, rows)

    def non_zero_requested(self, table: NodeTable, rows: Rows) -> Amounts:
        """The requested amounts, with defaults for cpu and memory. Read-only."""
        non_zero = table.sums.non_zero_requested
        if len(self._defaulted) == len(self._numbers) and isinstance(self._lines, slice):
            return non_zero[self._lines, rows]
        requested = self._pick(table.sums.requested, rows).copy()
        for line, number in self._defaulted:
            requested[line] = non_zero[number, rows]
        return requested

    def spread(self, names: Sequence[str], matrix: Amounts) -> Amounts:
        """Expand a matrix to a line for each of more resources, in their order; new lines are 0.

        Args:
            names: the resources, which include those of the columns in the same order.
            matrix: a line for each column.
        """
        if len(names) == len(self.names):
            return matrix
        found = np.zeros((len(names), matrix.shape[1]))
        found[[place for place, name in enumerate(names) if name in self.names]] = matrix
        return found

    def oversized_cells(self, table: NodeTable, rows: Rows) -> Iterator[tuple[int, int, int, int]]:
        """The cells whose allocatable or requested amount float64 does not hold exactly.

        Yields:
            The line, the position among the rows, and the exact allocatable and requested amounts.
        """
        position_of = {row: i for i, row in enumerate(np.arange(table.size)[rows].tolist())}
        for number, row in table.sums.oversized_cells():
            if row in position_of and number in self._numbers:
                yield (
                    self._numbers.index(number),
                    position_of[row],
                    table.sums.exact_allocatable(number, row),
                    table.sums.exact_requested(number, row),
                )

    def _pick(self, matrix: Amounts, rows: Rows) -> Amounts:
        if isinstance(self._lines, slice):
            return matrix[self._lines, rows]
        return matrix[:, rows][self._lines]


def _run_or_list(numbers: list[int]) -> slice | list[int]:
    """Consecutive numbers as a slice, which makes a view; any others unchanged."""
    first = numbers[0] if numbers else 0
    end = first + len(numbers)
    return slice(first, end) if numbers == list(range(first, end)) else numbers

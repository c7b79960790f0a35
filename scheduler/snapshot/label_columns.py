"""Node labels as columns: one per key that a selector or a topology key has asked for."""

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from scheduler.api.selectors import Operator, Requirement
from scheduler.snapshot.interning import Interner

ABSENT: Final = 0
"""The id of "the node has no such label"."""

_MAX_VERDICTS: Final = 512
"""Remembered verdict tables per key; more are worked out again."""

_SPARE_VALUES: Final = 64


class LabelColumn:
    """The values of one label key by row.

    Values that no node has any more are dropped once they outnumber the rows, so the ids of a key
    whose values come and go with nodes (the hostname) stay small. Ids are therefore good only until
    the next node change.

    Attributes:
        values: distinct values; `values.values[id]` is the text, id 0 stands for absence.
    """

    def __init__(self, capacity: int) -> None:
        self.values: Interner[str | None] = Interner((None,))
        # Of the type that numpy indexes with: any other is converted on every use.
        self._ids = np.zeros(capacity, np.intp)
        self._verdicts: dict[Requirement, NDArray[np.bool_]] = {}

    def ids(self, size: int) -> NDArray[np.intp]:
        """The value id of the first `size` rows."""
        if len(self._ids) < size:
            self._grow(size)
        return self._ids[:size]

    def set(self, row: int, value: str | None, capacity: int) -> None:
        """Note the label value of a row."""
        if row >= len(self._ids):
            self._grow(capacity)
        self._ids[row] = ABSENT if value is None else self.values.intern(value)
        if len(self.values) > 2 * len(self._ids) + _SPARE_VALUES:
            self._drop_unused_values()

    def domain_count(self) -> int:
        """How many ids there are, absence included."""
        return len(self.values)

    def verdicts(self, requirement: Requirement) -> NDArray[np.bool_]:
        """Per value id, whether the value satisfies the requirement."""
        table = self._verdicts.get(requirement)
        if table is None or len(table) < len(self.values):
            if len(self._verdicts) >= _MAX_VERDICTS:
                self._verdicts.clear()
            table = self._verdicts[requirement] = self._judge(requirement)
        return table

    def _judge(self, requirement: Requirement) -> NDArray[np.bool_]:
        ids = len(self.values)
        match requirement.operator:
            case Operator.EXISTS | Operator.DOES_NOT_EXIST:
                table = np.full(ids, requirement.operator is Operator.EXISTS)
                table[ABSENT] = not table[ABSENT]
                return table
            case Operator.IN | Operator.NOT_IN:
                table = np.full(ids, requirement.operator is Operator.NOT_IN)
                for value in requirement.values:
                    found = self.values.get(value)
                    if found is not None:
                        table[found] = requirement.operator is Operator.IN
                return table
            case Operator.GT | Operator.LT:
                judged = (requirement.matches_value(v) for v in self.values.values)
                return np.fromiter(judged, np.bool_, ids)
            case _ as unreachable:
                assert_never(unreachable)

    def _grow(self, capacity: int) -> None:
        ids = np.zeros(capacity, np.intp)
        ids[: len(self._ids)] = self._ids
        self._ids = ids

    def _drop_unused_values(self) -> None:
        used = np.union1d(ABSENT, self._ids)
        new_id = np.zeros(len(self.values), np.intp)
        new_id[used] = np.arange(len(used))
        self.values = Interner(self.values.values[old] for old in used)
        self._ids = new_id[self._ids]
        self._verdicts.clear()


class LabelColumns:
    """The label columns of all nodes, made when first asked for."""

    def __init__(self) -> None:
        self._columns: dict[str, LabelColumn] = {}

    def column(
        self, key: str, labels_by_row: Iterable[tuple[int, Mapping[str, str]]], capacity: int
    ) -> LabelColumn:
        """The column of a key; `labels_by_row` (all nodes) is read when it is new."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(capacity)
            for row, labels in labels_by_row:
                column.set(row, labels.get(key), capacity)
        return column

    def existing(self, key: str) -> LabelColumn | None:
        """The column of a key if somebody has asked for it before."""
        return self._columns.get(key)

    def set_row(self, row: int, labels: Mapping[str, str], capacity: int) -> None:
        """Take over the labels of a node."""
        for key, column in self._columns.items():
            column.set(row, labels.get(key), capacity)

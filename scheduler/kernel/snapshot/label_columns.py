"""Node labels as columns: one per key that nodes have and a caller reads."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, assert_never

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.selectors import Operator, Requirement
from scheduler.kernel.snapshot.interning import InternedColumn

ABSENT: Final = 0
"""The id of "the node has no such label"."""

_MAX_BYTES: Final = 64 * 2**20
"""The most memory of columns; the least recently used are dropped, and rebuilt on the next read."""
_MIN_COLUMNS: Final = 16
_MAX_VERDICT_BYTES: Final = 2**20
"""Memory of the kept verdict tables of a key; more are computed again."""
_BYTES_PER_VALUE: Final = 64
"""Memory of a kept requirement for each value it names."""

_NO_LABELS: Final[Mapping[str, str]] = {}


class LabelColumn(InternedColumn[str | None]):
    """The values of one label key by row; ids are valid until the next node change.

    Attributes:
        values: distinct values; `values.values[id]` is the text, id 0 stands for absence.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(None, capacity)
        self._verdicts: dict[Requirement, NDArray[np.bool_]] = {}
        self._verdict_bytes = 0
        self._judged = self.values

    def verdicts(self, requirement: Requirement) -> NDArray[np.bool_]:
        """Per value id, whether the value satisfies the requirement."""
        if self._judged is not self.values:
            # The values were renumbered, or this column is a copy.
            self._judged, self._verdicts, self._verdict_bytes = self.values, {}, 0
        table = self._verdicts.get(requirement)
        if table is not None and len(table) == len(self.values):
            return table
        table = self._judge(requirement)
        cost = len(table) + _BYTES_PER_VALUE * (1 + len(requirement.values))
        if self._verdict_bytes + cost > _MAX_VERDICT_BYTES:
            self._verdicts, self._verdict_bytes = {}, 0
        if len(table) > 1 and cost <= _MAX_VERDICT_BYTES:
            self._verdicts[requirement] = table
            self._verdict_bytes += cost
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


class LabelColumns:
    """The labels of all nodes, and a column for each key that a caller reads.

    A column is derived from the labels, so reading one changes no result. Columns are dropped when
    nodes change, never during an attempt: ids stay valid while a plugin reads them.

    Attributes:
        nodes_with: number of nodes that have a label of each key.
    """

    def __init__(self) -> None:
        self._labels: list[Mapping[str, str]] = []
        self.nodes_with: dict[str, int] = {}
        self._columns: OrderedDict[str, LabelColumn] = OrderedDict()
        self._absent = LabelColumn(0)

    def column(self, key: str, capacity: int) -> LabelColumn:
        """The column of a key; for a key that no node has, always the same column of absence."""
        if key not in self.nodes_with:
            return self._absent
        column = self._columns.get(key)
        if column is not None:
            self._columns.move_to_end(key)
            return column
        column = self._columns[key] = LabelColumn(capacity)
        column.fill(labels.get(key) for labels in self._labels)
        return column

    def __contains__(self, key: str) -> bool:
        return key in self.nodes_with

    def set_row(self, row: int, labels: Mapping[str, str], capacity: int) -> bool:  # noqa: C901 - labels before and after, key by key
        """Set the labels of a row, none for a row without a node.

        Returns:
            Whether the first node got a label of a key, or the last one lost it.
        """
        while row >= len(self._labels):
            self._labels.append(_NO_LABELS)
        known, self._labels[row] = self._labels[row], labels
        if known == labels:
            return False
        has_other_keys = False
        for key in labels:
            if key not in known:
                has_other_keys |= self._count(key, 1)
        for key in known:
            if key not in labels:
                has_other_keys |= self._count(key, -1)
        for key, column in self._columns.items():
            column.set(row, labels.get(key), capacity)
        most = max(_MIN_COLUMNS, _MAX_BYTES // (self._absent.ids(0).itemsize * capacity))
        while len(self._columns) > most:
            self._columns.popitem(last=False)
        return has_other_keys

    def copy(self) -> "LabelColumns":
        """An independent copy that numbers values alike."""
        copy = LabelColumns()
        copy._labels = self._labels.copy()
        copy.nodes_with = self.nodes_with.copy()
        copy._columns = OrderedDict((key, c.copy()) for key, c in self._columns.items())
        return copy

    def _count(self, key: str, sign: int) -> bool:
        """Count a node's label; return whether it is the first one of its key, or was the last."""
        nodes = self.nodes_with.get(key, 0) + sign
        if nodes:
            self.nodes_with[key] = nodes
        else:
            del self.nodes_with[key]
            self._columns.pop(key, None)
        return nodes == (sign > 0)


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

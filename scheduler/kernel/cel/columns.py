"""Programs over all devices at once.

Logical operators work on columns of verdicts. Their operands are evaluated once per value, or
combination of values, that devices have, and then only gathered: the same code that evaluates one
device, so both cannot differ. Parts that need a device as a whole run once per undecided device.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.cel import costs
from scheduler.kernel.cel.errors import CostLimitError, EvaluationError
from scheduler.kernel.cel.plan import Interpretable
from scheduler.kernel.cel.reads import MISSING, Frame, Source, Sources
from scheduler.kernel.cel.table import DeviceTable
from scheduler.kernel.cel.values import Value

FALSE: Final = 0
ERROR: Final = 1
TRUE: Final = 2
"""Verdicts, ordered so that the smaller of two is their `&&`, the larger their `||`."""
Codes = NDArray[np.uint8]
Rows = NDArray[np.intp]

_UNKNOWN: Final = 3
"""The placeholder of a verdict that has not been computed yet."""


@dataclass(slots=True)
class Known:
    """The verdicts of a part of a program on a column's values, by code; of absent ones at the end.

    It stays valid as long as the column's values are the same list: they are only appended to.
    """

    values: Sequence[Value]
    verdicts: Codes
    dearest: int = 0
    """The highest cost charged for one of the values."""

    def grown(self) -> Codes:
        """The verdicts, with room for all values."""
        size = len(self.values) + 1
        if self.verdicts.size < size:
            wider = np.full(max(size, 2 * self.verdicts.size), _UNKNOWN, np.uint8)
            wider[: self.verdicts.size - 1] = self.verdicts[:-1]
            wider[-1] = self.verdicts[-1]
            self.verdicts = wider
        return self.verdicts


@dataclass(slots=True)
class Evaluation:
    """One pass of a program over rows of a table."""

    sources: Sources
    slots: int
    table: DeviceTable
    known: dict[int, Known]
    """By the identity of a plan, its verdicts so far."""
    spent: int = 0
    """Units charged so far, all evaluations together."""
    dearest: int = 0
    """An upper bound of the cost charged for any row."""

    def verdicts(self, plan: Interpretable, rows: Rows | None) -> Codes:
        """Work out a plan for rows; None stands for all.

        Raises:
            AbortedError: a part of it ended early on some row that may not need it.
        """
        match plan.logic:
            case "&&" | "||":
                return self._logical(plan, rows)
            case "!":
                inner: Codes = TRUE - self.verdicts(plan.parts[0], rows)
                return inner
            case "?:":
                return self._conditional(plan, rows)
            case _:
                return self._leaf(plan, rows)

    def one(self, plan: Interpretable, row: int) -> int:
        """Evaluate a plan for one row, as one evaluation."""
        frame = Frame(self.sources.inputs(row), [None] * self.slots, 0, self.table, row)
        verdict = _verdict(plan, frame)
        self.spent += frame.cost
        return verdict

    def _logical(self, plan: Interpretable, rows: Rows | None) -> Codes:
        decisive = FALSE if plan.logic == "&&" else TRUE
        combine = np.minimum if plan.logic == "&&" else np.maximum
        result = self.verdicts(plan.parts[0], rows)
        for part in plan.parts[1:]:
            if not part.heavy:
                result = combine(result, self.verdicts(part, rows))
                continue
            open_at = np.flatnonzero(result != decisive)
            if open_at.size:
                still = open_at if rows is None else rows[open_at]
                result = result.copy()
                result[open_at] = combine(result[open_at], self.verdicts(part, still))
        return result

    def _conditional(self, plan: Interpretable, rows: Rows | None) -> Codes:
        condition = self.verdicts(plan.parts[0], rows)
        result = np.full(condition.size, ERROR, np.uint8)
        for verdict, part in ((TRUE, plan.parts[1]), (FALSE, plan.parts[2])):
            at = np.flatnonzero(condition == verdict)
            if at.size:
                result[at] = self.verdicts(part, at if rows is None else rows[at])
        return result

    def _leaf(self, plan: Interpretable, rows: Rows | None) -> Codes:
        count = len(self.table) if rows is None else rows.size
        if -1 in plan.reads:
            self.dearest += costs.LIMIT if plan.has_loop else _WHOLE
            each = range(count) if rows is None else rows.tolist()
            return np.fromiter((self.one(plan, row) for row in each), np.uint8, count)
        frame = Frame([MISSING] * len(self.sources.reads), [None] * self.slots)
        reads = sorted(plan.reads)
        if not reads:
            verdict = self._charged(plan, frame)
            self.dearest += frame.cost
            return np.full(count, verdict, np.uint8)
        if len(reads) == 1:
            return self._by_value(plan, frame, reads[0], rows)
        return self._by_combination(plan, frame, reads, rows)

    def _codes(self, source: Source, rows: Rows | None) -> NDArray[np.int32]:
        return source.codes[: len(self.table)] if rows is None else source.codes[rows]

    def _by_value(self, plan: Interpretable, frame: Frame, read: int, rows: Rows | None) -> Codes:
        source = self.sources.of(read)
        codes = self._codes(source, rows)
        known = self.known.get(id(plan))
        if known is None or known.values is not source.values:
            known = self.known[id(plan)] = Known(source.values, np.full(1, _UNKNOWN, np.uint8))
        results = known.grown()
        # The entry of absent rows is the last, where their code, -1, points.
        found = results.take(codes)
        if found.size and found.max() == _UNKNOWN:
            for code in np.unique(codes[found == _UNKNOWN]).tolist():
                frame.inputs[read] = source.value(code)
                results[code] = self._charged(plan, frame)
                known.dearest = max(known.dearest, frame.cost)
            found = results.take(codes)
        self.dearest += known.dearest
        return found

    def _by_combination(
        self, plan: Interpretable, frame: Frame, reads: list[int], rows: Rows | None
    ) -> Codes:
        sources = [self.sources.of(read) for read in reads]
        codes = [self._codes(source, rows) for source in sources]
        distinct, place = _combined(codes, [len(source.values) + 1 for source in sources])
        verdicts = np.empty(distinct.size, np.uint8)
        dearest = 0
        for index, row in enumerate(distinct.tolist()):
            for read, source, column in zip(reads, sources, codes, strict=True):
                frame.inputs[read] = source.value(int(column[row]))
            verdicts[index] = self._charged(plan, frame)
            dearest = max(dearest, frame.cost)
        self.dearest += dearest
        return verdicts.take(place)

    def _charged(self, plan: Interpretable, frame: Frame) -> int:
        frame.cost = 0
        verdict = _verdict(plan, frame)
        self.spent += frame.cost
        return verdict


_WHOLE: Final = 1000
"""An upper bound of the cost of an expression on the device's maps, without loops."""


def _verdict(plan: Interpretable, frame: Frame) -> int:
    try:
        value = plan.run(frame)
    except EvaluationError:
        return ERROR
    if frame.cost > costs.LIMIT:
        raise CostLimitError
    if value is True:
        return TRUE
    return FALSE if value is False else ERROR


def _combined(columns: list[NDArray[np.int32]], sizes: list[int]) -> tuple[Rows, Rows]:
    """Return a row for each distinct combination, and for each row which combination it has."""
    keys = columns[0].astype(np.int64) + 1
    span = sizes[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if span * size >= 2**62:
            # Numbered anew, combinations are never more than rows.
            _, keys = np.unique(keys, return_inverse=True)
            span = int(keys.max(initial=0)) + 1
        keys = keys * size + column + 1
        span *= size
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return first, place

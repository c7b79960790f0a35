"""Programs over all devices at once.

Logical operators work on columns of verdicts. Their operands are evaluated once per value, or
combination of values, that devices have, and then only gathered. The same code evaluates one
device, so both cannot differ. Parts that need a device as a whole run once per undecided device.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.cel import costs, effort
from scheduler.kernel.cel.errors import AbortedError, CostLimitError, EvaluationError
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

PENDING: Final = 3
"""The verdict of a row, or of a value, that the budget did not reach."""
_ABORTED: Final = 4
"""Inside columns, the verdict of an evaluation that ended early; `ERROR` at the end."""


@dataclass(slots=True)
class Known:
    """The verdicts of a part of a program on a column's values, by code; of absent ones at the end.

    It stays valid as long as the column's values are the same list: they are only appended to.
    A constant part has the verdict on absent ones only.
    """

    values: Sequence[Value]
    verdicts: Codes
    dearest: int = 0
    """The highest cost charged for one of the values."""

    def grown(self) -> Codes:
        """The verdicts, with room for all values."""
        size = len(self.values) + 1
        if self.verdicts.size < size:
            wider = np.full(max(size, 2 * self.verdicts.size), PENDING, np.uint8)
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
    budget: int | None = None
    """Units after which no more values and rows are evaluated."""
    spent: int = 0
    """Units charged so far, all evaluations together."""
    dearest: int = 0
    """An upper bound of the cost charged for any row."""
    is_partial: bool = False
    """Whether some part has no verdict on some row: the budget was spent, or it ended early."""

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent."""
        return self.budget is not None and self.spent >= self.budget

    def columns(self, plan: Interpretable, rows: Rows | None) -> Codes:
        """Work out a plan for rows, column by column; None stands for all."""
        self.dearest, self.is_partial = 0, False
        found = self._verdicts(plan, rows)
        return np.where(found == _ABORTED, np.uint8(ERROR), found) if self.is_partial else found

    def one(self, plan: Interpretable, row: int) -> int:
        """Evaluate a plan for one row, as one evaluation."""
        verdict, _ = self._charged(plan, self._frame(row))
        return ERROR if verdict == _ABORTED else verdict

    def _verdicts(self, plan: Interpretable, rows: Rows | None) -> Codes:
        match plan.logic:
            case "&&" | "||":
                return self._logical(plan, rows)
            case "!":
                inner = self._verdicts(plan.parts[0], rows)
                self.dearest += 1
                # What has no verdict has none negated.
                return (
                    np.where(inner < PENDING, TRUE - inner, inner)
                    if self.is_partial
                    else TRUE - inner
                )
            case "?:":
                return self._conditional(plan, rows)
            case _:
                return self._leaf(plan, rows)

    def _logical(self, plan: Interpretable, rows: Rows | None) -> Codes:
        decisive = FALSE if plan.logic == "&&" else TRUE
        result = self._verdicts(plan.parts[0], rows)
        for part in plan.parts[1:]:
            if not part.heavy:
                result = self._combined(result, self._verdicts(part, rows), decisive)
                continue
            open_at = np.flatnonzero((result != decisive) & (result < PENDING))
            if open_at.size:
                still = open_at if rows is None else rows[open_at]
                more = self._verdicts(part, still)
                result = result.copy()
                result[open_at] = self._combined(result[open_at], more, decisive)
        return result

    def _combined(self, one: Codes, two: Codes, decisive: int) -> Codes:
        """The verdicts of two operands. The second is not needed where the first decides."""
        both: Codes = np.minimum(one, two) if decisive == FALSE else np.maximum(one, two)
        if not self.is_partial:
            return both
        both = np.where(two < PENDING, both, two)
        return np.where((one == decisive) | (one >= PENDING), one, both)

    def _conditional(self, plan: Interpretable, rows: Rows | None) -> Codes:
        condition = self._verdicts(plan.parts[0], rows)
        result: Codes = np.where(condition < PENDING, np.uint8(ERROR), condition)
        for verdict, part in ((TRUE, plan.parts[1]), (FALSE, plan.parts[2])):
            at = np.flatnonzero(condition == verdict)
            if at.size:
                result[at] = self._verdicts(part, at if rows is None else rows[at])
        return result

    def _leaf(self, plan: Interpretable, rows: Rows | None) -> Codes:
        if -1 in plan.reads:
            found = self._by_row(plan, rows)
        else:
            frame = Frame([MISSING] * len(self.sources.reads), [None] * self.slots)
            reads = sorted(plan.reads)
            if not reads:
                found = self._constant(plan, frame, len(self.table) if rows is None else rows.size)
            elif len(reads) == 1:
                found = self._by_value(plan, frame, reads[0], rows)
            else:
                found = self._by_combination(plan, frame, reads, rows)
        return found

    def _codes(self, source: Source, rows: Rows | None) -> NDArray[np.int32]:
        return source.codes[: len(self.table)] if rows is None else source.codes[rows]

    def _noted(self, found: Codes) -> Codes:
        self.is_partial = self.is_partial or bool(found.size and found.max() >= PENDING)
        return found

    def _by_row(self, plan: Interpretable, rows: Rows | None) -> Codes:
        each = range(len(self.table)) if rows is None else rows.tolist()
        found = np.full(len(each), PENDING, np.uint8)
        dearest = 0
        for index, row in enumerate(each):
            if self.is_over:
                break
            found[index], cost = self._charged(plan, self._frame(row))
            dearest = max(dearest, cost)
        self.dearest += dearest
        return self._noted(found)

    def _constant(self, plan: Interpretable, frame: Frame, count: int) -> Codes:
        known = self._known(plan, ())
        if known.verdicts[-1] == PENDING and not self.is_over:
            known.verdicts[-1], known.dearest = self._charged(plan, frame)
        self.dearest += known.dearest
        return self._noted(np.full(count, known.verdicts[-1], np.uint8))

    def _by_value(self, plan: Interpretable, frame: Frame, read: int, rows: Rows | None) -> Codes:
        source = self.sources.of(read)
        codes = self._codes(source, rows)
        known = self._known(plan, source.values)
        results = known.grown()
        # The entry of absent rows is the last, where their code, -1, points.
        found: Codes = results.take(codes)
        if found.size and found.max() >= PENDING:
            for code in np.unique(codes[found == PENDING]).tolist():
                if self.is_over:
                    break
                frame.inputs[read] = source.value(code)
                results[code], cost = self._charged(plan, frame)
                known.dearest = max(known.dearest, cost)
            found = self._noted(results.take(codes))
        self.dearest += known.dearest
        return found

    def _known(self, plan: Interpretable, values: Sequence[Value]) -> Known:
        known = self.known.get(id(plan))
        if known is None or known.values is not values:
            known = self.known[id(plan)] = Known(values, np.full(1, PENDING, np.uint8))
        return known

    def _by_combination(
        self, plan: Interpretable, frame: Frame, reads: list[int], rows: Rows | None
    ) -> Codes:
        sources = [self.sources.of(read) for read in reads]
        codes = [self._codes(source, rows) for source in sources]
        distinct, place = _combined(codes, [len(source.values) + 1 for source in sources])
        verdicts = np.full(distinct.size, PENDING, np.uint8)
        dearest = 0
        for index, row in enumerate(distinct.tolist()):
            if self.is_over:
                break
            for read, source, column in zip(reads, sources, codes, strict=True):
                frame.inputs[read] = source.value(int(column[row]))
            verdicts[index], cost = self._charged(plan, frame)
            dearest = max(dearest, cost)
        self.dearest += dearest
        return self._noted(verdicts).take(place)

    def _frame(self, row: int) -> Frame:
        return Frame(self.sources.inputs(row), [None] * self.slots, 0, self.table, row)

    def _charged(self, plan: Interpretable, frame: Frame) -> tuple[int, int]:
        """Evaluate a plan; return its verdict and what counts against the limit."""
        frame.cost = 0
        effort.begin()
        try:
            verdict = _verdict(plan, frame)
        except (CostLimitError, RecursionError):
            # What it took is not known: it may have ended before a call that is too expensive.
            self.spent += costs.LIMIT
            return _ABORTED, 0
        except AbortedError:
            self.spent += frame.cost + effort.done()
            return _ABORTED, 0
        self.spent += frame.cost + effort.done()
        return verdict, max(frame.cost, effort.counted())


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

"""Compiled expressions and their verdicts on devices."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.cel import costs, effort, types
from scheduler.kernel.cel.checker import check
from scheduler.kernel.cel.columns import ERROR, FALSE, PENDING, TRUE, Codes, Evaluation, Known, Rows
from scheduler.kernel.cel.errors import (
    TOO_DEEP,
    AbortedError,
    CompileError,
    CostLimitError,
    EvaluationError,
)
from scheduler.kernel.cel.parser import parse
from scheduler.kernel.cel.plan import Interpretable
from scheduler.kernel.cel.planner import Planner
from scheduler.kernel.cel.qualifiers import usable
from scheduler.kernel.cel.reads import Frame, Read, Sources
from scheduler.kernel.cel.table import DeviceTable
from scheduler.kernel.cel.validators import validate
from scheduler.kernel.cel.values import Optional, kind_of

_NO_BOOL: Final = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "kubernetes.Quantity": "type conversion error from 'Quantity' to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
}
"""Upstream's error texts for results that are no bool, by kind."""
_FIRST: Final = 256
"""Rows that are evaluated together at first, if all are cheap."""


@dataclass(frozen=True, slots=True)
class DeviceMatches:
    """The verdicts of a program on rows of a table."""

    codes: NDArray[np.uint8]
    """By requested row: `FALSE`, `TRUE`, `ERROR` or `PENDING`."""
    cost: int
    """Units charged for all of it."""
    _program: "Program"
    _table: DeviceTable
    _rows: Rows | None

    @property
    def matches(self) -> NDArray[np.bool_]:
        """By requested row, whether the device matches."""
        return np.equal(self.codes, TRUE)

    def error(self, index: int) -> str:
        """Return the reason why a row has no verdict. The text is built on demand.

        Args:
            index: the index of the row among the requested ones.
        """
        row = index if self._rows is None else int(self._rows[index])
        return self._program.error(self._table, row)


class Program:
    """An expression, ready to be evaluated on devices.

    It caches the verdicts on values of columns, so that a pass costs only the new values. A
    program serves any number of tables, one after the other.
    """

    def __init__(self, expression: str, plan: Interpretable, reads: list[Read], slots: int) -> None:
        self.expression = expression
        self._plan = plan
        self._reads = reads
        self._slots = slots
        self._known: dict[int, Known] = {}
        self._first = 1 if plan.heavy else _FIRST

    def evaluate(
        self, table: DeviceTable, rows: Rows | None = None, *, budget: int | None = None
    ) -> DeviceMatches:
        """Evaluate the expression on devices.

        Args:
            table: the devices.
            rows: the rows to evaluate; None for all.
            budget: cost units after which the rest is left `PENDING`; None for no bound. A unit is
                about a node visited (`costs.py`); one device can take `costs.LIMIT` of them.
        """
        evaluation = self._evaluation(table, budget)
        if budget is None:
            codes = self._codes(evaluation, rows)
        else:
            codes = self._within(evaluation, rows, budget)
        self._mark_unreadable(codes, table, rows)
        return DeviceMatches(codes, evaluation.spent, self, table, rows)

    def error(self, table: DeviceTable, row: int) -> str:
        """Return the reason why the expression has no verdict on a device; empty if it has one."""
        if row in table.unreadable:
            return table.unreadable[row]
        sources = Sources(table, self._reads)
        frame = Frame(sources.inputs(row), [None] * self._slots, 0, table, row)
        effort.begin()
        try:
            self._plan.run(frame)
        except (EvaluationError, AbortedError) as problem:
            return str(problem)
        except RecursionError:
            return TOO_DEEP
        return str(CostLimitError()) if frame.cost > costs.LIMIT else ""

    def _evaluation(self, table: DeviceTable, budget: int | None = None) -> Evaluation:
        return Evaluation(Sources(table, self._reads), self._slots, table, self._known, budget)

    def _codes(self, evaluation: Evaluation, rows: Rows | None) -> Codes:
        codes = evaluation.columns(self._plan, rows)
        if evaluation.dearest > costs.LIMIT and self._plan.logic:
            # Column by column no row is known to stay below the limit: ask one by one.
            return self._one_by_one(evaluation, rows)
        if evaluation.is_partial and codes.min() == PENDING:
            # The parts of the first row were more than the budget: no row would ever be ready.
            codes[:1] = self._one_by_one(evaluation, np.arange(1) if rows is None else rows[:1])
        return codes

    def _one_by_one(self, evaluation: Evaluation, rows: Rows | None) -> Codes:
        """Evaluate rows until the budget is spent, but at least one."""
        each = range(len(evaluation.table)) if rows is None else rows.tolist()
        codes = np.full(len(each), PENDING, np.uint8)
        for index, row in enumerate(each):
            if index and evaluation.is_over:
                break
            codes[index] = evaluation.one(self._plan, row)
        return codes

    def _within(self, evaluation: Evaluation, rows: Rows | None, budget: int) -> Codes:
        asked = np.arange(len(evaluation.table)) if rows is None else rows
        codes = np.full(asked.size, PENDING, np.uint8)
        start, size = 0, self._first
        while start < asked.size and not evaluation.is_over:
            chunk = asked[start : start + size]
            codes[start : start + chunk.size] = found = self._codes(evaluation, chunk)
            start += chunk.size
            # As many more as what is left pays for, if they cost what those so far did.
            left = budget - evaluation.spent
            size = max(1, min(2 * size, left * start // max(evaluation.spent, 1)))
            if (found == PENDING).any():
                self._first = 1
        return codes

    def _mark_unreadable(self, codes: Codes, table: DeviceTable, rows: Rows | None) -> None:
        if not table.unreadable:
            return
        bad = np.fromiter(table.unreadable, np.intp, len(table.unreadable))
        at = bad[bad < codes.size] if rows is None else np.flatnonzero(np.isin(rows, bad))
        codes[at[codes[at] != PENDING]] = ERROR


def compile_expression(expression: str) -> Program:
    """Compile an expression about a device.

    Raises:
        CompileError: it is invalid; the error has the position and the reason.
    """
    try:
        return _compiled(expression)
    except RecursionError:
        raise CompileError(TOO_DEEP) from None


def _compiled(expression: str) -> Program:
    effort.begin()
    root = parse(expression)
    checked = check(root)
    validate(root, checked)
    planner = Planner(checked)
    plan = _as_condition(planner.plan(root), is_bool=checked.type_of(root) == types.BOOL)
    return Program(expression, plan, planner.reads, planner.slots)


def _as_condition(plan: Interpretable, *, is_bool: bool) -> Interpretable:
    """Return the plan with its value converted to a bool, if possible: an optional may hold one."""
    run = plan.run

    def condition(frame: Frame) -> bool:
        value = run(frame)
        if type(value) is bool:
            return value
        kind, problem = kind_of(value), "optional.none() dereference"
        while type(value) is Optional and value.present:
            value = usable(value.value)
            if type(value) is bool:
                return value
        if type(value) is not Optional:
            inner = kind_of(value)
            problem = _NO_BOOL.get(inner, f"type conversion error from '{inner}' to 'bool'")
        raise EvaluationError(
            f"CEL result of type {kind} could not be converted to bool: {problem}"
        )

    # Branches of `?:` that are no conditions must not be evaluated as such.
    logic = plan.logic if is_bool or plan.logic != "?:" else ""
    return replace(plan, run=condition, logic=logic)


__all__ = [
    "ERROR",
    "FALSE",
    "PENDING",
    "TRUE",
    "DeviceMatches",
    "Program",
    "compile_expression",
]

"""Verdicts of CEL selectors on devices, per expression and row, kept until the device changes.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(selectorsMatch, isSelectable, v0.36.3).
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.limits import MAX_SELECTORS
from scheduler.errors import SchedulerError
from scheduler.kernel.cel import ERROR, FALSE, PENDING, TRUE, Program
from scheduler.kernel.devices.pools import Rows
from scheduler.kernel.devices.table import SliceTable

Codes: TypeAlias = NDArray[np.uint8]
"""Per device `FALSE`, `TRUE`, `ERROR`, or `PENDING`: not evaluated yet."""

Compile: TypeAlias = Callable[[str], Program]
"""Makes a program of an expression.

Raises:
    SchedulerError: the expression cannot be used.
"""


class SelectorExpression(NamedTuple):
    """An expression and where it is written.

    Attributes:
        expression: the CEL expression.
        position: its index in its list, from 0.
        device_class: the class that has the list; None when the claim itself has it.
    """

    expression: str
    position: int
    device_class: str | None = None


class _Judged:
    """The verdicts on one expression so far."""

    def __init__(self, program: Program | None, problem: str) -> None:
        self.program = program
        self.problem = problem
        self.codes: Codes = np.zeros(0, np.uint8)
        self.position = -1
        self.is_pending = True


class Selectors:
    """Verdicts by expression, for one table of devices.

    Those for one pod are kept together: the least recently used is evicted first.

    Attributes:
        compile_expression: the compiler.
    """

    def __init__(self, compile_expression: Compile, table: SliceTable) -> None:
        self.compile_expression = compile_expression
        self._table = table
        self._judged: OrderedDict[str, _Judged] = OrderedDict()

    def select(
        self, selectors: Sequence[SelectorExpression], rows: Rows, budget: int | None = None
    ) -> Codes:
        """By given row, whether its device satisfies all selectors.

        The first selector that is false, fails or is pending decides.

        Args:
            selectors: in the order of their evaluation.
            rows: the rows of devices.
            budget: cost limit of one expression, in units of CEL's cost.
        """
        if not selectors:
            return np.full(len(rows), TRUE, np.uint8)
        codes: Codes = self.verdicts(selectors[0].expression, budget)[rows]
        for selector in selectors[1:]:
            verdicts = self.verdicts(selector.expression, budget)[rows]
            codes = np.where(codes == TRUE, verdicts, codes)
        return codes

    def verdicts(self, expression: str, budget: int | None = None) -> Codes:
        """By row of the table, the verdict on its device. Read-only."""
        judged = self._judged.get(expression)
        if judged is None:
            judged = self._judged[expression] = self._compiled(expression)
            if len(self._judged) > MAX_SELECTORS:
                self._judged.popitem(last=False)
        else:
            self._judged.move_to_end(expression)
        if judged.is_pending or judged.position != self._table.device_log.position:
            self._catch_up(judged, budget)
        return judged.codes

    def error(self, selectors: Sequence[SelectorExpression], row: int, claim: str) -> str:
        """The text of the error that `select` has found on a device.

        Args:
            selectors: the selectors that were evaluated.
            row: the row of the device.
            claim: `namespace/name` of the claim.
        """
        # On this device only: all devices may take seconds, if the verdicts were evicted.
        rows = np.array([row], np.intp)
        for selector in selectors:
            judged = self._judged.get(selector.expression) or self._compiled(selector.expression)
            problem = f"CEL compile error: {judged.problem}"
            if judged.program is not None:
                found = judged.program.evaluate(self._table.columns, rows)
                if found.codes[0] == TRUE:
                    continue
                problem = f"CEL runtime error: {found.error(0)}"
            owner = f"class {selector.device_class}" if selector.device_class else f"claim {claim}"
            return f"{owner}: selector #{selector.position}: {problem}"
        raise LookupError(row)

    def _compiled(self, expression: str) -> _Judged:
        try:
            return _Judged(self.compile_expression(expression), "")
        except SchedulerError as problem:
            return _Judged(None, str(problem))

    def _catch_up(self, judged: _Judged, budget: int | None) -> None:
        columns, log = self._table.columns, self._table.device_log
        codes = np.full(columns.size, PENDING, np.uint8)
        changed = log.since(judged.position) if judged.position >= 0 else None
        if changed is not None:
            codes[: len(judged.codes)] = judged.codes
            codes[changed] = PENDING
        codes[~columns.alive[: columns.size]] = FALSE
        rows = np.flatnonzero(codes == PENDING)
        if judged.program is None:
            codes[rows] = ERROR
        elif len(rows):
            codes[rows] = judged.program.evaluate(columns, rows, budget=budget).codes
        judged.codes = codes
        judged.position = log.position
        judged.is_pending = bool((codes == PENDING).any())

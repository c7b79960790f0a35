"""Calls of functions: the dispatch by values, and the cost of a call.

Source: github.com/google/cel-go v0.26.0 interpreter (planner.go, interpretable.go), common/decls.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from scheduler.kernel.cel import costs
from scheduler.kernel.cel.checker import Resolved
from scheduler.kernel.cel.comparing import equal
from scheduler.kernel.cel.declarations import Cost
from scheduler.kernel.cel.errors import (
    AbortedError,
    CostLimitError,
    EvaluationError,
    no_such_overload,
)
from scheduler.kernel.cel.reads import Frame, Run
from scheduler.kernel.cel.values import LISTS, Value, kind_of

_BINARY: Final = 2


def strict(resolved: Resolved, runs: Sequence[Run]) -> Run:
    """Return the call of a function whose arguments all have values."""
    function = resolved.function
    call = function.body if function.body is not None else _dispatch(resolved)
    cost: Cost | None = function.cost
    if function.fragile is not None and len(resolved.overloads) == 1:
        # Earlier operands are of the same origin: where they fail, it fails too.
        last = function.fragile
        runs = [_unbroken(one, is_list=index == last) for index, one in enumerate(runs)]
    two = len(runs) == _BINARY and (function.body is not None or len(resolved.overloads) == 1)
    if two and function.name != "format":
        left, right = runs
        runs = [_with_other(left, right), right]
    if cost is not None:
        return _costly(call, runs, cost)
    if len(runs) == 1:
        only = runs[0]

        def unary(frame: Frame) -> Value:
            value = call(only(frame))
            frame.cost += 1
            return value

        return unary
    return _costly(call, runs, lambda _arguments, _result: 1)


def _with_other(left: Run, right: Run) -> Run:
    """Return the left of two operands. If it fails, the right one is evaluated nevertheless.

    That has no visible effect unless the right one ends the evaluation.
    """

    def run(frame: Frame) -> Value:
        try:
            return left(frame)
        except EvaluationError:
            with suppress(EvaluationError):
                right(frame)
            raise

    return run


def _unbroken(run: Run, *, is_list: bool) -> Run:
    """Return a run that ends the evaluation if an argument is not of the cost tracker's type."""

    def checked(frame: Frame) -> Value:
        try:
            value = run(frame)
        except EvaluationError as error:
            raise AbortedError(_BROKEN.format("*types.Err")) from error
        if is_list and type(value) not in LISTS:
            raise AbortedError(_BROKEN.format(kind_of(value)))
        return value

    return checked


_BROKEN: Final = "internal error: interface conversion: {} is not traits.Lister: missing method Add"


def _costly(call: Callable[..., Value], runs: Sequence[Run], cost: Cost) -> Run:
    def run(frame: Frame) -> Value:
        arguments = [one(frame) for one in runs]
        value = call(*arguments)
        frame.cost += cost(arguments, value)
        if frame.cost > costs.LIMIT:
            raise CostLimitError
        return value

    return run


def _dispatch(resolved: Resolved) -> Callable[..., Value]:
    """Return the function that selects the overload by its arguments."""
    function = resolved.function
    single = len(resolved.overloads) == 1
    candidates = resolved.overloads if single else function.overloads

    def call(*values: Value) -> Value:
        for overload in candidates:
            if overload.run is None or len(values) != len(overload.arguments):
                continue
            if not function.guarded or overload.accepts(values):
                return overload.run(*values)
        kinds = ", ".join(map(kind_of, values))
        raise no_such_overload(f"{function.name}({kinds})")

    return call


def _equality(_: Resolved, runs: Sequence[Run]) -> Run:
    left, right = _with_other(*runs), runs[1]

    def run(frame: Frame) -> bool:
        one, two = left(frame), right(frame)
        same = equal(one, two)
        frame.cost += costs.shorter((one, two), None)
        if isinstance(same, EvaluationError):
            raise same
        return same

    return run


def _difference(_: Resolved, runs: Sequence[Run]) -> Run:
    left, right = _with_other(*runs), runs[1]

    def run(frame: Frame) -> bool:
        one, two = left(frame), right(frame)
        frame.cost += costs.shorter((one, two), None)
        # Values that cannot be compared are different.
        return equal(one, two) is not True

    return run


def _not_strictly_false(_: Resolved, runs: Sequence[Run]) -> Run:
    only = runs[0]

    def run(frame: Frame) -> bool:
        frame.cost += 1
        try:
            value = only(frame)
        except EvaluationError:
            return True
        return value is not False

    return run


RUNS: Final[dict[str, Callable[[Resolved, Sequence[Run]], Run]]] = {
    "_==_": _equality,
    "_!=_": _difference,
    "@not_strictly_false": _not_strictly_false,
}

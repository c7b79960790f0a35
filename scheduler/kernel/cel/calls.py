"""Calls of functions: the dispatch by values, and the cost of a call.

Source: github.com/google/cel-go v0.26.0 interpreter (planner.go, interpretable.go), common/decls.
"""

from collections.abc import Callable, Sequence
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
    if function.name == "matches" and not resolved.is_method:
        # Upstream's cost knows only the method.
        cost = None
    if function.fragile is not None and len(resolved.overloads) == 1:
        # Earlier operands are of the same origin: where they fail, it fails too.
        last = function.fragile
        runs = [_unbroken(one, is_list=index == last) for index, one in enumerate(runs)]
    both = len(runs) == _BINARY and (function.body is not None or len(resolved.overloads) == 1)
    if len(runs) == 1 and cost is None:
        return _unary(call, runs[0])
    return _costly(call, runs, cost or _one, both=both and function.name != "format")


def _one(_arguments: Sequence[Value], _result: Value) -> int:
    return 1


def _unary(call: Callable[..., Value], only: Run) -> Run:
    def run(frame: Frame) -> Value:
        try:
            return call(only(frame))
        finally:
            frame.cost += 1

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


def _costly(call: Callable[..., Value], runs: Sequence[Run], cost: Cost, *, both: bool) -> Run:
    """Return the run of a call.

    Args:
        call: the function.
        runs: of its arguments.
        cost: its cost.
        both: whether the second of two arguments is evaluated even if the first fails. That has no
            visible effect but its cost, unless the second ends the evaluation.
    """

    def run(frame: Frame) -> Value:
        arguments: list[Value] = []
        try:
            for one in runs:
                arguments.append(one(frame))  # noqa: PERF401 - the loop may end early
            value = call(*arguments)
        except EvaluationError as error:
            if len(arguments) < len(runs):
                arguments.append(error)
            if both and len(arguments) < len(runs):
                arguments.append(_value_or_error(runs[1], frame))
            if len(arguments) == len(runs):
                frame.cost += _of_failure(cost, arguments, error)
            raise
        frame.cost += cost(arguments, value)
        if frame.cost > costs.LIMIT:
            raise CostLimitError
        return value

    return run


def _value_or_error(run: Run, frame: Frame) -> Value:
    try:
        return run(frame)
    except EvaluationError as error:
        return error


def _of_failure(cost: Cost, arguments: Sequence[Value], error: EvaluationError) -> int:
    """The cost of a call that fails, or whose arguments do: an error has the size 1."""
    try:
        return cost(arguments, error)
    except (AttributeError, TypeError):
        # The arguments are not of the types that the cost depends on.
        return 1


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
    def call(one: Value, two: Value) -> bool:
        same = equal(one, two)
        if isinstance(same, EvaluationError):
            raise same
        return same

    return _costly(call, runs, costs.equality, both=True)


def _difference(_: Resolved, runs: Sequence[Run]) -> Run:
    # Values that cannot be compared are different.
    return _costly(lambda one, two: equal(one, two) is not True, runs, costs.shorter, both=True)


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

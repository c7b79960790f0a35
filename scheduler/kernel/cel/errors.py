"""Errors of expressions: at compilation, and at evaluation on one device."""

from typing import Final, final

from scheduler.errors import SchedulerError


@final
class CompileError(SchedulerError):
    """An expression that cannot be used at all.

    Attributes:
        position: in the expression, in characters from 0; None for an error without a position.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class EvaluationError(Exception):
    """An expression has no value on this device. `||`, `&&` and `?:` can absorb it."""


class AbortedError(Exception):
    """Evaluation ended before its end. Nothing absorbs it, not even `||`."""


@final
class UnhashableError(AbortedError):
    """A value was looked up that Go cannot look up: upstream's evaluator panics."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"internal error: runtime error: hash of unhashable type {kind}")


@final
class CostLimitError(AbortedError):
    """Evaluation took more than upstream allows."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


TOO_DEEP: Final = "expression is nested too deeply"
"""The error where Python's limit on recursion ends what the bounds of the parser let through."""


def no_such_overload(function: str | None = None) -> EvaluationError:
    """Return the error for operands that an operator or function has no meaning for."""
    return EvaluationError(
        "no such overload" if function is None else f"no such overload: {function}"
    )

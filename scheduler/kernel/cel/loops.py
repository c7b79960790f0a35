"""Comprehensions: loops over the elements of a list or the keys of a map.

Source: github.com/google/cel-go v0.26.0 interpreter/interpretable.go (`evalFold`, `folder`).
"""

from collections.abc import Sequence
from typing import Final

from scheduler.kernel.cel import costs
from scheduler.kernel.cel.errors import CostLimitError, EvaluationError
from scheduler.kernel.cel.qualifiers import round_trip
from scheduler.kernel.cel.reads import Frame, Run
from scheduler.kernel.cel.values import LISTS, GrowingList, Map, Optional, Value, kind_of

LAZY: Final = object()
"""The placeholder in the slot of an accumulator that has not been read yet."""


def variable_at(slot: int, initial: Run | None) -> Run:
    """Return a run that reads the variable of a slot.

    Args:
        slot: the number of the slot.
        initial: the initial value of an accumulator; None for a variable that a loop sets.
    """

    def run(frame: Frame) -> Value:
        value = frame.slots[slot]
        if value is LAZY and initial is not None:
            value = frame.slots[slot] = _begun(initial, frame)
        frame.cost += 1
        if isinstance(value, EvaluationError):
            raise value
        if type(value) is Optional and value.present:
            return Optional(round_trip(value.value), present=True)
        return value

    return run


def _begun(initial: Run, frame: Frame) -> Value:
    # An error is a value too.
    try:
        value = initial(frame)
    except EvaluationError as error:
        return error
    if type(value) is tuple and not value:
        return GrowingList()
    if type(value) is Map and not len(value):
        return Map((), growing=True)
    return value


def loop(
    source: Run,
    accumulator: int,
    variables: Sequence[int],
    body: tuple[Run, Run],
    result: Run,
) -> Run:
    """Return a comprehension over slots: its accumulator and one or two variables."""
    condition, step = body
    one = variables[0]
    two = variables[1] if len(variables) > 1 else None

    def run(frame: Frame) -> Value:
        over = source(frame)
        slots = frame.slots
        slots[accumulator] = LAZY
        for first, second in _pairs(over, both=two is not None):
            slots[one] = first
            if two is not None:
                slots[two] = second
            try:
                going = condition(frame)
            except EvaluationError:
                going = None
            if going is False:
                break
            try:
                slots[accumulator] = step(frame)
            except EvaluationError as error:
                slots[accumulator] = error
            if frame.cost > costs.LIMIT:
                raise CostLimitError
        value = result(frame)
        return tuple(value) if type(value) is GrowingList else value

    return run


def lazily(slot: int, result: Run) -> Run:
    """Return a run of a result whose variable is evaluated on first use."""

    def run(frame: Frame) -> Value:
        frame.slots[slot] = LAZY
        value = result(frame)
        return tuple(value) if type(value) is GrowingList else value

    return run


def _pairs(over: Value, *, both: bool) -> list[tuple[Value, Value]]:
    if type(over) in LISTS:
        return list(enumerate(over)) if both else [(value, None) for value in over]
    if type(over) is Map:
        return list(over.items())
    if both:
        raise EvaluationError(f"unsupported comprehension range type: {kind_of(over)}")
    raise EvaluationError(f"got '{kind_of(over)}', expected iterable type")

"""Logical operators, and literals of lists and maps: nodes with several operands.

Source: github.com/google/cel-go v0.26.0 interpreter/interpretable.go, cel/library.go.
"""

from collections.abc import Sequence
from typing import NoReturn

from scheduler.kernel.cel.errors import EvaluationError, no_such_overload
from scheduler.kernel.cel.qualifiers import round_trip, usable
from scheduler.kernel.cel.reads import Frame, Run
from scheduler.kernel.cel.values import Map, Optional, Value, shown


def negated(operand: Run) -> Run:
    """`!`."""

    def run(frame: Frame) -> bool:
        frame.cost += 1
        value = operand(frame)
        if type(value) is not bool:
            raise no_such_overload()
        return not value

    return run


def logical(terms: Sequence[Run], *, decisive: bool) -> Run:
    """`&&` and `||`: the first term that decides does, whatever fails before it."""

    def run(frame: Frame) -> bool:
        problem: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except EvaluationError as error:
                problem = problem or error
                continue
            if type(value) is not bool:
                problem = problem or no_such_overload()
            elif value == decisive:
                return decisive
        if problem is not None:
            raise problem
        return not decisive

    return run


def cheaper(attribute: Run) -> Run:
    """An attribute inside another: upstream counts its steps, not the attribute itself."""

    def run(frame: Frame) -> Value:
        frame.cost -= 1
        return attribute(frame)

    return run


def conditional(condition: Run, branches: dict[bool, Run], *, wrapped: frozenset[bool]) -> Run:
    """`?:`. Upstream unwraps and wraps again an optional that is no attribute."""

    def run(frame: Frame) -> Value:
        chosen = condition(frame)
        if type(chosen) is not bool:
            raise no_such_overload()
        value = branches[chosen](frame)
        if type(value) is Optional and value.present and chosen in wrapped:
            return Optional(round_trip(value.value), present=True)
        return value

    return run


def otherwise(first: Run, second: Run, *, unwraps: bool) -> Run:
    """`or` and `orValue`: the second where the first is none."""

    def run(frame: Frame) -> Value:
        value = first(frame)
        if type(value) is not Optional:
            return value
        if not value.present:
            return second(frame)
        return usable(value.value) if unwraps else value

    return run


def list_of(elements: Sequence[tuple[Run, bool]], cost: int) -> Run:
    """A list of the elements' values; optional elements only if present."""

    def run(frame: Frame) -> tuple[Value, ...]:
        frame.cost += cost
        found = []
        for element, optional in elements:
            value = element(frame)
            if optional:
                if type(value) is not Optional:
                    _refuse("list element", value)
                if not value.present:
                    continue
                value = usable(value.value)
            found.append(value)
        return tuple(found)

    return run


def map_of(entries: Sequence[tuple[Run, Run, bool]], cost: int) -> Run:
    """A map; an absent optional entry removes an earlier entry of its key."""

    def run(frame: Frame) -> Map:
        frame.cost += cost
        found: list[tuple[Value, Value]] = []
        for key_run, value_run, optional in entries:
            key, value = key_run(frame), value_run(frame)
            if optional:
                if type(value) is not Optional:
                    _refuse(f"entry '{shown(key)}'", value)
                if not value.present:
                    found = [entry for entry in found if entry[0] != key]
                    continue
                value = usable(value.value)
            found.append((key, value))
        return Map(found)

    return run


def _refuse(what: str, value: Value) -> NoReturn:
    raise EvaluationError(
        f"cannot initialize optional {what} from non-optional value {shown(value)}"
    )

"""The table of transitions, cell by cell."""

import itertools

import pytest

from scheduler.daemon.informers.states import (
    TRANSITIONS,
    IllegalTransitionError,
    State,
    StepResult,
    next_state,
)

# What each state becomes by each outcome; "-" cannot happen.
EXPECTED = """
            PAGE     LIST_COMPLETE  OPENED     ENDED    EXPIRED  FAILED
EMPTY       PAGING   LISTED         -          -        EMPTY    EMPTY
PAGING      PAGING   LISTED         -          -        EMPTY    PAGING
LISTED      -        -              WATCHING   -        EMPTY    LISTED
WATCHING    -        -              -          LISTED   EMPTY    LISTED
"""


def _cells() -> dict[tuple[State, StepResult], State | None]:
    header, *rows = [line.split() for line in EXPECTED.strip().splitlines()]
    return {
        (State[row[0]], StepResult[outcome]): None if cell == "-" else State[cell]
        for row in rows
        for outcome, cell in zip(header, row[1:], strict=True)
    }


def test_every_cell_is_expected() -> None:
    """No state and no outcome is forgotten, here or in the table."""
    cells = _cells()

    assert set(cells) == set(itertools.product(State, StepResult))
    assert set(TRANSITIONS) == {cell for cell, after in cells.items() if after is not None}


@pytest.mark.parametrize(("cell", "after"), _cells().items(), ids=str)
def test_transition(cell: tuple[State, StepResult], after: State | None) -> None:
    """Each legal cell leads where it should, each illegal one is refused."""
    if after is not None:
        assert next_state(*cell) is after
        return
    with pytest.raises(IllegalTransitionError, match=f"{cell[1].name} cannot happen in state"):
        next_state(*cell)


def test_a_watch_is_reached_from_everywhere() -> None:
    """No state is a dead end."""
    for start in State:
        reached = {start}
        while True:
            more = {after for (state, _), after in TRANSITIONS.items() if state in reached}
            if more <= reached:
                break
            reached |= more
        assert State.WATCHING in reached

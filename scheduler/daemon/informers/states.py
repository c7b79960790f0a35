"""The transitions of a list+watch, as one table.

    EMPTY ──page──> PAGING ──page…──> PAGING ──list complete──> LISTED ──opened──> WATCHING
      ^  ──list complete (one page)────────────────────────────> ^  ^                │
      └──────────── expired, from anywhere ──────────────────────┘  └── ended/failed ┘

This file depends on no kind, request or clock.
"""

from enum import Enum, auto
from typing import Final

from scheduler.errors import SchedulerError


class State(Enum):
    """The state of an informer.

    Source of the idea: kube-rs kube-runtime/src/watcher.rs (State).
    """

    EMPTY = auto()
    """No version is known: a list must begin. The store may hold objects of an earlier list."""
    PAGING = auto()
    """Some pages of a list have been taken; a continue token leads to the next one."""
    LISTED = auto()
    """The store is a complete list of a known version; no watch is open."""
    WATCHING = auto()
    """A watch is open; the store has the state of the version last seen."""


class StepResult(Enum):
    """The result of an informer's step."""

    PAGE = auto()
    """A page of a list was taken and more follow."""
    LIST_COMPLETE = auto()
    """The last page of a list was taken: the version of the list is known."""
    OPENED = auto()
    """The server has accepted a watch."""
    ENDED = auto()
    """The server has ended the watch without an error."""
    EXPIRED = auto()
    """The version or the continue token is too old (410, as status or as an event)."""
    FAILED = auto()
    """The request was refused or broke off."""


class IllegalTransitionError(SchedulerError):
    """An informer's step had a result that its state does not allow: a bug."""


TRANSITIONS: Final[dict[tuple[State, StepResult], State]] = {
    (State.EMPTY, StepResult.PAGE): State.PAGING,
    (State.EMPTY, StepResult.LIST_COMPLETE): State.LISTED,
    (State.EMPTY, StepResult.EXPIRED): State.EMPTY,
    (State.EMPTY, StepResult.FAILED): State.EMPTY,
    (State.PAGING, StepResult.PAGE): State.PAGING,
    (State.PAGING, StepResult.LIST_COMPLETE): State.LISTED,
    (State.PAGING, StepResult.EXPIRED): State.EMPTY,
    (State.PAGING, StepResult.FAILED): State.PAGING,
    (State.LISTED, StepResult.OPENED): State.WATCHING,
    (State.LISTED, StepResult.EXPIRED): State.EMPTY,
    (State.LISTED, StepResult.FAILED): State.LISTED,
    (State.WATCHING, StepResult.ENDED): State.LISTED,
    (State.WATCHING, StepResult.EXPIRED): State.EMPTY,
    (State.WATCHING, StepResult.FAILED): State.LISTED,
}


def next_state(state: State, outcome: StepResult) -> State:
    """Return the state after a step with this result.

    Raises:
        IllegalTransitionError: `TRANSITIONS` has no such result for the state.
    """
    try:
        return TRANSITIONS[state, outcome]
    except KeyError:
        raise IllegalTransitionError(
            f"informer: {outcome.name} cannot happen in state {state.name}"
        ) from None

"""Every pair of state and event of an attempt, those that must not happen included."""

import pytest

from scheduler.kernel.engine.attempt import (
    ACQUIRED,
    TRANSITIONS,
    UNDECIDED,
    Acquired,
    Attempt,
    AttemptError,
    AttemptEvent,
    Attempts,
    AttemptState,
    Entry,
)
from tests.support.builders import make_queued_pod_info
from tests.support.clock import FakeClock
from tests.support.fake_plugins import make_framework

S, E = AttemptState, AttemptEvent

ALLOWED: dict[AttemptState, dict[AttemptEvent, AttemptState]] = {
    S.POPPED: {E.ASK: S.ASKING, E.FIT: S.ASSUMED, E.FAIL: S.FAILED, E.ABANDON: S.GONE},
    S.ASKING: {E.ASK: S.ASKING, E.FIT: S.ASSUMED, E.FAIL: S.FAILED, E.ABANDON: S.GONE},
    S.ASSUMED: {E.RESERVE: S.RESERVED, E.FAIL: S.FAILED},
    S.RESERVED: {
        E.WAIT: S.HELD,
        E.PREPARE: S.PREBINDING,
        E.BIND: S.BINDING,
        E.FAIL: S.FAILED,
        E.ABANDON: S.GONE,
    },
    S.HELD: {E.PREPARE: S.PREBINDING, E.BIND: S.BINDING, E.FAIL: S.FAILED, E.ABANDON: S.GONE},
    S.PREBINDING: {E.BIND: S.BINDING, E.CANCEL: S.CANCELLED, E.FAIL: S.FAILED},
    S.CANCELLED: {E.FAIL: S.FAILED, E.ABANDON: S.GONE},
    S.BINDING: {
        E.ACCEPT: S.BOUND,
        E.DOUBT: S.UNSURE,
        E.CONFIRM: S.CONFIRMED,
        E.FAIL: S.FAILED,
        E.ABANDON: S.GONE,
    },
    S.UNSURE: {E.ACCEPT: S.BOUND, E.CONFIRM: S.CONFIRMED, E.FAIL: S.FAILED, E.ABANDON: S.GONE},
    S.BOUND: {E.CONFIRM: S.CONFIRMED, E.ABANDON: S.GONE},
    S.CONFIRMED: {},
    S.FAILED: {},
    S.GONE: {},
}

GIVES_BACK = {
    S.POPPED: (),
    S.ASKING: (Acquired.WORK,),
    S.ASSUMED: (Acquired.ROOM,),
    S.RESERVED: (Acquired.RESERVATIONS, Acquired.ROOM),
    S.HELD: (Acquired.HOLD, Acquired.RESERVATIONS, Acquired.ROOM),
    S.PREBINDING: (Acquired.RESERVATIONS, Acquired.ROOM),
    S.CANCELLED: (Acquired.RESERVATIONS, Acquired.ROOM),
    S.BINDING: (Acquired.WORK, Acquired.RESERVATIONS, Acquired.ROOM),
    S.UNSURE: (Acquired.RESERVATIONS, Acquired.ROOM),
    S.BOUND: (Acquired.RESERVATIONS, Acquired.ROOM),
}

ENDS = {S.CONFIRMED, S.FAILED, S.GONE}


def attempt_in(state: AttemptState) -> Attempt:
    return Attempt(7, make_framework(), make_queued_pod_info("p"), 0.0, state)


def test_the_table_is_the_one_agreed_on() -> None:
    """Written down twice, so that nobody changes it by accident."""
    expected = {
        (state, event): following
        for state, events in ALLOWED.items()
        for event, following in events.items()
    }

    assert expected == TRANSITIONS


@pytest.mark.parametrize("event", AttemptEvent, ids=lambda e: e.value)
@pytest.mark.parametrize("state", AttemptState, ids=lambda s: s.value)
def test_what_an_event_does_to_an_attempt(state: AttemptState, event: AttemptEvent) -> None:
    """The state that follows, or an error that names attempt, pod, state and event."""
    attempt, attempts = attempt_in(state), Attempts(FakeClock(5.0))
    expected = ALLOWED[state].get(event)

    if expected is None:
        words = f"attempt 7 of pod default/p is {state.value}: cannot {event.value}"
        with pytest.raises(AttemptError, match=words):
            attempts.advance(attempt, event)
    else:
        attempts.advance(attempt, event, "why")
        assert [*attempts.story] == [Entry(5.0, attempt.pod.uid, 7, expected.value, "why")]
        assert attempt.since == 5.0
    assert attempt.state is (expected or state)


def test_what_each_state_gives_back() -> None:
    """Holds first, the room last: reservations end while the pod still has its place."""
    assert GIVES_BACK == ACQUIRED


def test_every_state_that_can_fail_or_leave_gives_back_what_it_took() -> None:
    """And no other state has anything: an end keeps nothing."""
    can_end = {state for state, events in ALLOWED.items() if {E.FAIL, E.ABANDON} & events.keys()}

    assert set(ACQUIRED) == can_end == set(AttemptState) - ENDS


def test_a_bound_pod_never_fails() -> None:
    """Whatever happens after the API server's word, the pod is not put back."""
    assert E.FAIL not in ALLOWED[S.BOUND]
    assert (S.BOUND, E.FAIL) not in TRANSITIONS


def test_undecided_states_are_those_before_anybody_was_told() -> None:
    """They end within one step, so nothing of the room they took needs to be announced."""
    assert {S.POPPED, S.ASSUMED, S.RESERVED} == UNDECIDED


def test_an_attempt_knows_its_pod() -> None:
    """As it was popped, and on its node as soon as it has one."""
    attempt = attempt_in(S.POPPED)
    assert attempt.pod is attempt.queued.pod_info

    attempt.placed = attempt.pod.on_node("n")

    assert attempt.pod.node_name == "n"

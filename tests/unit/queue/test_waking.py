"""Waking in parts: no step is longer than it may be, and nobody is missed or woken for nothing."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings, strategies as st

from scheduler.api.pods import PodInfo
from scheduler.framework.events import (
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    EventResource,
    QueueingHint,
)
from scheduler.queue import QueueSettings
from scheduler.queue.backoff import BackoffSettings
from scheduler.queue.scheduling_queue import MAX_COMPLETED
from scheduler.queue.waking import MAX_ASKED, MAX_WAVES
from tests.support.builders import make_node, make_pod_info
from tests.support.queueing import QueueUnderTest, registered

NODE, POD = EventResource.NODE, EventResource.POD
MANY = 2 * MAX_ASKED + 50


class Hint:
    """Wakes the pods that are labelled for the node; counts who was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, pod: PodInfo, old: object, new: object) -> QueueingHint:
        self.asked.append(pod.name)
        name = new.metadata.name  # type: ignore[attr-defined]
        wanted = pod.pod.metadata.labels.get("wants")
        return QueueingHint.QUEUE if wanted in (name, "any") else QueueingHint.SKIP


def waiting(hint: Hint, wants: Callable[[int], str] = lambda _: "any") -> QueueUnderTest:
    """Many pods, of as many workloads, that one plugin rejected."""
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD, hint),)})
    for number in range(MANY):
        labels = {"app": f"app-{number}", "wants": wants(number)}
        under_test.add_rejected(make_pod_info(f"p-{number}", labels=labels), "Fit")
    return under_test


def steps(under_test: QueueUnderTest, hint: Hint) -> Iterator[int]:
    """Goes on until nobody is left; how many were asked in each step."""
    while under_test.queue.is_waking:
        before = len(hint.asked)
        under_test.queue.wake_more()
        under_test.queue.validate()
        yield len(hint.asked) - before


def node_comes(under_test: QueueUnderTest, name: str = "n") -> None:
    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node(name))


def woken(under_test: QueueUnderTest) -> set[str]:
    return {name for name, place in under_test.places().items() if place != "unschedulable"}


@pytest.mark.parametrize("wants", ["any", "nothing"])
def test_no_step_asks_more_than_it_may(wants: str) -> None:
    """Whether the answer is yes or no; everybody is asked once."""
    hint = Hint()
    under_test = waiting(hint, lambda _: wants)

    node_comes(under_test)
    first = len(hint.asked)
    later = list(steps(under_test, hint))

    assert max(first, *later) <= MAX_ASKED
    assert sorted(hint.asked) == sorted(f"p-{number}" for number in range(MANY))
    assert len(woken(under_test)) == (MANY if wants == "any" else 0)


def test_moving_the_pods_of_one_workload_counts_too() -> None:
    """They are asked about once, but each must be moved."""
    hint = Hint()
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD, hint),)})
    for number in range(MANY):
        under_test.add_rejected(make_pod_info(f"p-{number}", labels={"wants": "any"}), "Fit")

    node_comes(under_test)

    assert len(woken(under_test)) == MAX_ASKED
    under_test.queue.wake_more()
    assert len(woken(under_test)) == 2 * MAX_ASKED
    assert len(hint.asked) <= 2


def test_it_is_said_that_there_is_more_to_do() -> None:
    """Whoever drives the engine goes on."""
    hint = Hint()
    under_test = waiting(hint, lambda _: "nothing")
    said = [under_test.queue.has_ready]

    node_comes(under_test)
    said.append(under_test.queue.has_ready)
    list(steps(under_test, hint))

    assert [*said, under_test.queue.has_ready] == [False, True, False]


def test_a_pod_that_changes_meanwhile_is_not_missed() -> None:
    """It is somewhere else by the time its turn would have come."""
    hint = Hint()
    under_test = waiting(hint, lambda number: "n" if number == MANY - 1 else "nothing")
    node_comes(under_test)
    name = f"p-{MANY - 1}"
    old = make_pod_info(name, labels={"app": f"app-{MANY - 1}", "wants": "n"})
    new = make_pod_info(name, labels={"app": "other", "wants": "n"})

    under_test.queue.update(old, new)

    assert woken(under_test) == {name}
    assert sum(steps(under_test, hint)) < MANY


def test_a_pod_that_comes_meanwhile_is_not_asked() -> None:
    """What happened before it was rejected was told to its attempt."""
    hint = Hint()
    under_test = waiting(hint, lambda _: "nothing")
    node_comes(under_test)
    under_test.clock.advance(1)
    late = make_pod_info("late", labels={"app": "app-0", "wants": "any"})
    under_test.add_rejected(late, "Fit")

    list(steps(under_test, hint))

    assert under_test.places()["late"] == "unschedulable"


def test_a_pod_that_leaves_meanwhile_is_no_trouble() -> None:
    """Deleted, or tried again for another reason."""
    hint = Hint()
    under_test = waiting(hint)
    node_comes(under_test)
    for number in range(MAX_ASKED, MANY):
        under_test.queue.delete(make_pod_info(f"p-{number}"))

    list(steps(under_test, hint))

    assert woken(under_test) == {f"p-{number}" for number in range(MAX_ASKED)}


def test_a_second_change_waits_for_the_first() -> None:
    """And then everybody is asked about it as well."""
    hint = Hint()
    under_test = waiting(hint, lambda number: ("n", "m")[number % 2])
    node_comes(under_test, "n")
    before = len(hint.asked)
    node_comes(under_test, "m")

    assert len(hint.asked) == before
    list(steps(under_test, hint))
    assert len(woken(under_test)) == MANY


def test_too_many_changes_at_once_wake_everybody() -> None:
    """What is remembered is bounded, and nobody is missed; even those no change would help."""
    hint = Hint()
    under_test = waiting(hint, lambda _: "nothing")
    for _ in range(MAX_WAVES):
        node_comes(under_test)
    before = len(hint.asked)

    node_comes(under_test)
    list(steps(under_test, hint))

    assert len(hint.asked) == before
    assert len(woken(under_test)) == MANY


def test_pods_that_waited_too_long_are_flushed_in_parts() -> None:
    """All of them in the end, marked as flushed."""
    hint = Hint()
    under_test = waiting(hint)
    under_test.clock.advance(400)

    under_test.queue.flush_unschedulable_leftover()
    first = len(woken(under_test))
    list(steps(under_test, hint))

    assert (first, len(woken(under_test)), hint.asked) == (MAX_ASKED, MANY, [])
    moved = {event: count for (_, event), count in under_test.incoming.items() if count == MANY}
    assert UNSCHEDULABLE_TIMEOUT.label in moved


def test_back_off_that_ends_for_very_many_ends_in_parts() -> None:
    """The first become active at once, the others with the next steps."""
    under_test = QueueUnderTest(
        {"Fit": ()}, settings=QueueSettings(backoff=BackoffSettings(10.0, 10.0))
    )
    for number in range(MAX_COMPLETED + 10):
        under_test.add_rejected(make_pod_info(f"p-{number}"), "Fit")
    under_test.queue.move_all_to_active_or_backoff_queue(UNSCHEDULABLE_TIMEOUT)
    list(steps(under_test, Hint()))
    under_test.clock.advance(60)

    under_test.queue.flush_backoff_completed()
    first = under_test.queue.counts()
    under_test.queue.wake_more()

    assert (first.active, first.backoff) == (MAX_COMPLETED, 10)
    assert under_test.queue.counts().backoff == 0
    assert not under_test.queue.is_waking


@settings(max_examples=8, deadline=None)
@given(changes=st.lists(st.sampled_from("nmox"), max_size=6), pauses=st.integers(0, 3))
def test_in_parts_as_at_once(changes: list[str], pauses: int) -> None:
    """Who is woken does not depend on when the steps are made."""

    def outcome(*, at_once: bool) -> set[str]:
        hint = Hint()
        under_test = waiting(hint, lambda number: "nmopq"[number % 5])
        for name in changes:
            node_comes(under_test, name)
            for _ in range(99 if at_once else pauses):
                under_test.queue.wake_more()
        list(steps(under_test, hint))
        return woken(under_test)

    assert outcome(at_once=True) == outcome(at_once=False)

"""Pods that are being scheduled, and the events that they must not miss."""

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    ASSIGNED_POD_ADD,
    NODE_ADD,
    ActionType,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.queue.active import MAX_EVENTS
from tests.support.builders import make_node, make_pod_info
from tests.support.queueing import QueueUnderTest, own_update, registered

NODE, POD = EventResource.NODE, EventResource.POD


def test_a_pod_comes_back_in_its_newest_version() -> None:
    """An update during the attempt is neither lost nor a second entry."""
    under_test = QueueUnderTest()
    old, new = make_pod_info("p"), make_pod_info("p", labels={"a": "1"})
    under_test.queue.add(old)
    queued = under_test.pop()

    under_test.queue.update(old, new)
    during = under_test.places()
    under_test.fail(queued)

    assert (during, under_test.places()) == ({"p": "inFlight"}, {"p": "backoff"})
    assert under_test.queue.get(new.uid) is new


@pytest.mark.parametrize("after_permit", [False, True], ids=["scheduling", "binding"])
def test_a_deleted_pod_does_not_come_back(*, after_permit: bool) -> None:
    """A pod deleted during its attempt is forgotten when the attempt fails."""
    under_test = QueueUnderTest()
    pod = make_pod_info("p", nominated_node_name="n")
    under_test.queue.add(pod)
    queued = under_test.pop()
    if after_permit:
        under_test.queue.in_flight.stop_collecting(pod.uid)

    under_test.queue.delete(pod)
    latest = under_test.queue.get(pod.uid)
    under_test.queue.add_nominated_pod(pod, "n")
    put_back = under_test.queue.add_unschedulable_if_not_present(queued, Failure(""))

    assert (latest, put_back, under_test.places()) == (None, False, {})
    assert len(under_test.queue.nominator) == 0


def test_a_pod_that_was_reported_deleted_by_mistake_comes_back() -> None:
    """A watch that loses and finds a pod during its attempt does no harm."""
    under_test = QueueUnderTest()
    pod = make_pod_info("p")
    under_test.queue.add(pod)
    queued = under_test.pop()

    under_test.queue.delete(pod)
    under_test.queue.add(pod)
    during = under_test.places()
    under_test.fail(queued)

    assert (during, under_test.places()) == ({"p": "inFlight"}, {"p": "backoff"})


def test_updates_during_the_attempt_are_events() -> None:
    """An update that would have woken the pod while it waited does so after the attempt."""
    event = registered(POD, ActionType.UPDATE_POD_LABEL, own_update)
    under_test = QueueUnderTest({"Fit": (event,)})
    other_old, other_new = make_pod_info("other"), make_pod_info("other", labels={"a": "1"})
    for pod in (make_pod_info("p"), other_old):
        under_test.queue.add(pod)
    queued, other = under_test.pop(), under_test.pop()

    under_test.queue.update(other_old, other_new)
    under_test.fail(queued, "Fit")
    under_test.fail(other, "Fit")

    assert under_test.places() == {"p": "unschedulable", "other": "backoff"}


def test_only_events_since_the_attempt_began_count() -> None:
    """What happened before the pod was popped was known to its attempt."""
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD),)})
    queue = under_test.queue
    for name in ("first", "second"):
        queue.add(make_pod_info(name))

    first = under_test.pop()
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())
    second = under_test.pop()
    under_test.fail(second, "Fit")
    under_test.fail(first, "Fit")

    assert under_test.places() == {"first": "backoff", "second": "unschedulable"}


def test_after_very_many_events_no_hint_is_asked() -> None:
    """A failed attempt goes to back-off; no event is kept for it any more."""
    asked = 0

    def skip(pod: PodInfo, old: object, new: object) -> QueueingHint:
        nonlocal asked
        asked += 1
        return QueueingHint.SKIP

    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD, skip),)})
    queue = under_test.queue
    for name in ("long", "short"):
        queue.add(make_pod_info(name))
    kept = []

    def happen(times: int) -> None:
        for _ in range(times):
            queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
        queue.validate()
        kept.append(dict(queue.in_flight.event_counts()))

    long = under_test.pop()
    happen(1)
    short = under_test.pop()
    happen(MAX_EVENTS)
    under_test.fail(long, "Fit")
    asked_for_long = asked
    under_test.fail(short, "Fit")

    assert under_test.places() == {"long": "backoff", "short": "unschedulable"}
    assert (asked_for_long, asked) == (0, MAX_EVENTS)
    assert kept == [
        {"NodeAdd": 1, "PodPopped": 1},
        {"NodeAdd": MAX_EVENTS, "PodPopped": 1},
    ]
    assert not queue.in_flight.event_counts()["NodeAdd"]


def test_events_are_kept_as_long_as_somebody_needs_them() -> None:
    """The list holds what the oldest attempt may still need, and nothing that nobody asked for."""
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD),)})
    queue = under_test.queue
    for name in ("first", "second"):
        queue.add(make_pod_info(name))
    kept = []

    def happen(times: int) -> None:
        for _ in range(times):
            queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
            queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_ADD, None, None)
        queue.validate()
        kept.append(dict(queue.in_flight.event_counts()))

    happen(3)
    first = under_test.pop()
    happen(100)
    second = under_test.pop()
    happen(10)
    queue.in_flight.stop_collecting(first.pod_info.uid)
    happen(1)
    queue.done(second.pod_info.uid)
    happen(1)

    assert kept == [
        {"PodPopped": 0},
        {"NodeAdd": 100, "PodPopped": 1},
        {"NodeAdd": 110, "PodPopped": 2},
        {"NodeAdd": 11, "PodPopped": 1},
        {"PodPopped": 0},
    ]
    assert len(queue.in_flight._events) == 0


def test_the_order_in_which_attempts_end_does_not_matter() -> None:
    """Each pod sees its own events although older and younger attempts end first."""
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD),)})
    queue = under_test.queue
    attempts = []
    for index in range(200):
        queue.add(make_pod_info(f"p{index}", priority=-index))
        attempts.append(under_test.pop())
        if index == 150:
            queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)

    for index in (*range(0, 200, 2), *range(199, 0, -2)):
        under_test.fail(attempts[index], "Fit")

    woken = [name for name, place in under_test.places().items() if place == "backoff"]
    assert sorted(woken) == sorted(f"p{index}" for index in range(151))

"""How pods move through the queue."""

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    ASSIGNED_POD_ADD,
    NODE_ADD,
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
)
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.queue import PUT_LAST_SECONDS
from scheduler.kernel.queue.active import SlowPods
from scheduler.kernel.queue.hints import ObservedEvent, QueueingHints, QueueingStrategy
from tests.support.builders import make_node, make_pod_info
from tests.support.clock import FakeClock
from tests.support.queueing import QueueUnderTest, gate, own_update, registered

NODE, POD = EventResource.NODE, EventResource.POD


# --- order ----------------------------------------------------------------------------------------


def test_pods_are_popped_by_priority_then_by_time() -> None:
    """The QueueSort plugin's key decides; among equals the first come is first."""
    under_test = QueueUnderTest()
    for name, priority in (("a", 1), ("b", 5), ("c", 1), ("d", 5)):
        under_test.queue.add(make_pod_info(name, priority=priority))
    under_test.clock.advance(1)
    under_test.queue.add(make_pod_info("e", priority=9))

    assert under_test.pop_names() == ["e", "b", "d", "a", "c"]


def test_equal_pods_are_popped_one_after_the_other() -> None:
    """As `pop` would hand them out; a pod that is not equal, or not next, stays."""
    under_test = QueueUnderTest()
    for name, fields in (("a", {}), ("b", {}), ("c", {"labels": {"x": "y"}}), ("d", {})):
        under_test.queue.add(make_pod_info(name, **fields))
    first = under_test.pop()

    second = under_test.queue.pop_equal(first.pod_info)
    third = under_test.queue.pop_equal(first.pod_info)

    assert second is not None
    assert (second.pod_info.name, second.attempts, third) == ("b", 1, None)
    assert under_test.places() == {"a": "inFlight", "b": "inFlight", "c": "active", "d": "active"}
    assert under_test.pop_names() == ["c", "d"]
    assert under_test.queue.pop_equal(first.pod_info) is None


def test_pods_that_are_due_to_be_woken_go_before_equal_ones() -> None:
    """`pop` wakes them; they may be more important."""
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD),)})
    queue = under_test.queue
    for number in range(600):
        queue.add(make_pod_info(f"waits{number}", labels={"a": str(number)}))
        under_test.fail(under_test.pop(), "Fit")
    under_test.clock.advance(20)
    names = [f"p{number}" for number in range(400)]
    for name in names:
        queue.add(make_pod_info(name, priority=9))
    first = under_test.pop()
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node("n"))

    assert queue.pop_equal(first.pod_info) is None
    popped = []
    while (following := queue.pop_equal(first.pod_info)) is None:
        popped.append(under_test.pop().pod_info.name)
    assert [*popped, following.pod_info.name] == names[1 : len(popped) + 2]


def test_pop_counts_attempts_and_keeps_the_pod_in_flight() -> None:
    """What is popped is in flight until it is done."""
    under_test = QueueUnderTest()
    under_test.queue.add(make_pod_info("p"))

    queued = under_test.pop()
    during = under_test.places()
    under_test.queue.done(queued.pod_info.uid)
    under_test.queue.done(queued.pod_info.uid)

    assert (queued.attempts, queued.initial_attempt_timestamp) == (1, 1000.0)
    assert (during, under_test.places()) == ({"p": "inFlight"}, {})


def test_the_queue_says_whether_there_is_something_to_pop() -> None:
    """Active pods and those that may be popped early; not parked ones, nor those after an error."""
    under_test = QueueUnderTest({"Fit": ()})
    queue, pod = under_test.queue, make_pod_info("p")
    seen = [queue.has_ready]

    queue.add(pod)
    seen.append(queue.has_ready)
    under_test.fail(under_test.pop(), "Fit")
    seen.append(queue.has_ready)
    queue.activate([pod.uid])
    seen.append(queue.has_ready)
    under_test.fail(under_test.pop())
    seen.append(queue.has_ready)

    assert seen == [False, True, False, True, False]


def heavy_and_light(under_test: QueueUnderTest) -> None:
    """A pod whose decision took long twice, and one of a lower priority; both are ready."""
    queue = under_test.queue
    queue.add(make_pod_info("heavy", priority=9))
    for last in (False, True):
        under_test.fail(under_test.pop(), "Fit")
        assert (queue.took_long("default/heavy") is not None) is last
        queue.activate(["default/heavy"])
    queue.add(make_pod_info("light"))
    assert queue.took_long("default/nobody") is None


def test_a_pod_that_took_long_comes_last() -> None:
    """Whatever its priority, while it waits and when it comes back."""
    under_test = QueueUnderTest()
    heavy_and_light(under_test)

    assert under_test.pop_names() == ["light", "heavy"]


def test_a_pod_that_took_long_is_forgiven() -> None:
    """After a while, whether it is ready by then, on its way, or comes back later."""
    under_test = QueueUnderTest()
    queue = under_test.queue
    heavy_and_light(under_test)
    under_test.clock.advance(PUT_LAST_SECONDS - 1)
    queue.flush_backoff_completed()
    light = under_test.pop()

    under_test.clock.advance(1)
    queue.flush_backoff_completed()
    queue.validate()
    under_test.fail(light)
    queue.activate(["default/light"])

    assert light.pod_info.name == "light"
    assert under_test.pop_names() == ["heavy", "light"]


def test_a_pod_that_takes_long_once_more_holds_up_no_other() -> None:
    """Its own time begins anew; the pod that was put last after it is forgiven first."""
    clock = FakeClock(0.0)
    slow = SlowPods(clock)

    def takes_long(pod: QueuedPodInfo) -> bool:
        pod.attempts += 1
        return slow.note(pod)

    again, once = (QueuedPodInfo(make_pod_info(name), 0.0) for name in ("again", "once"))
    assert [takes_long(pod) for pod in (again, again, once, once)] == [False, True] * 2
    clock.advance(1)
    assert takes_long(again)
    clock.advance(PUT_LAST_SECONDS - 1)
    assert list(slow.forgiven()) == [once.pod_info.uid]
    clock.advance(1)
    assert list(slow.forgiven()) == [again.pod_info.uid]


# --- failures -------------------------------------------------------------------------------------


def test_a_rejected_pod_waits_for_events() -> None:
    """Without an event a rejected pod stays where it is, however long its back-off is over."""
    under_test = QueueUnderTest({"Fit": ()})
    under_test.add_rejected(make_pod_info("p"), "Fit")

    under_test.clock.advance(60)
    under_test.queue.flush_backoff_completed()

    assert under_test.places() == {"p": "unschedulable"}
    assert under_test.queue.pop() is None


def test_counters_of_errors_and_rejections() -> None:
    """Errors in a row are counted until a rejection; rejections are counted for ever."""
    under_test = QueueUnderTest({"Fit": ()})
    pod = make_pod_info("p")
    under_test.queue.add(pod)
    story = []

    for plugins in ((), (), ("Fit",), ("Fit",), ()):
        queued = under_test.pop()
        under_test.clock.advance(20)
        under_test.fail(queued, *plugins)
        wait = queued.backoff_expiration - queued.timestamp
        story.append((queued.unschedulable_count, queued.consecutive_errors_count, wait))
        under_test.queue.activate([pod.uid])

    assert story == [(0, 1, 1.0), (0, 2, 2.0), (1, 0, 1.0), (2, 0, 2.0), (2, 1, 1.0)]


def test_a_pod_that_waits_already_is_not_put_back() -> None:
    """A late failure of a pod that came back on another way changes nothing."""
    under_test = QueueUnderTest()
    pod = make_pod_info("p")
    under_test.queue.add(pod)
    queued = under_test.pop()
    under_test.queue.done(pod.uid)
    under_test.queue.add(pod)

    assert not under_test.queue.add_unschedulable_if_not_present(queued, Failure(""))
    assert under_test.places() == {"p": "active"}


def test_a_failed_binding_is_retried_after_back_off() -> None:
    """A pod whose attempt is done comes back as after an error, also when a plugin is named."""
    under_test = QueueUnderTest({"Fit": ()})
    under_test.queue.add(make_pod_info("p"))
    queued = under_test.pop()
    under_test.queue.done(queued.pod_info.uid)

    under_test.fail(queued, "Fit")

    assert under_test.places() == {"p": "backoff"}


# --- updates --------------------------------------------------------------------------------------


def test_an_active_pod_is_updated_in_place() -> None:
    """The pod keeps its turn unless its priority says otherwise."""
    under_test = QueueUnderTest()
    old = make_pod_info("a", priority=1)
    under_test.queue.add(old)
    under_test.queue.add(make_pod_info("b", priority=1))
    new = make_pod_info("a", priority=1, labels={"x": "1"})

    under_test.queue.update(old, new)
    order = [row["pod"] for row in under_test.queue.dump()]
    under_test.queue.update(new, make_pod_info("a", priority=0))

    assert order == ["default/a", "default/b"]
    assert under_test.pop_names() == ["b", "a"]


@pytest.mark.parametrize("rejectors", [["Fit"], []], ids=["rejected", "failed"])
def test_a_pod_in_back_off_is_updated_in_place(rejectors: list[str]) -> None:
    """Back-off goes on with the new version, whose priority counts."""
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD),)})
    pods = [make_pod_info(name, priority=5) for name in ("a", "b")]
    for pod in pods:
        under_test.add_rejected(pod, *rejectors)
    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD)
    new = make_pod_info("b", priority=9)

    under_test.queue.update(pods[1], new)

    assert under_test.places() == {"a": "backoff", "b": "backoff"}
    assert under_test.queue.get(new.uid) is new
    assert under_test.pop_names() == (["b", "a"] if rejectors else [])


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(NODE_ADD, ASSIGNED_POD_ADD, id="weak, then strong"),
        pytest.param(ASSIGNED_POD_ADD, NODE_ADD, id="strong, then weak"),
    ],
)
def test_the_strongest_of_several_events_counts(first: ClusterEvent, then: ClusterEvent) -> None:
    """A Pending plugin that says Queue during the attempt wins, whatever else happens."""
    under_test = QueueUnderTest(
        {"Fit": (registered(NODE, ActionType.ADD),), "Wait": (registered(POD, ActionType.ADD),)}
    )
    under_test.queue.add(make_pod_info("p"))
    queued = under_test.pop()

    for event in (first, then):
        under_test.queue.move_all_to_active_or_backoff_queue(event)
    under_test.fail(queued, "Fit", pending=("Wait",))

    assert under_test.places() == {"p": "active"}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(make_pod_info("p", labels={"a": "1"}), "backoff", id="what it waits for"),
        pytest.param(make_pod_info("p", resource_version="2"), "unschedulable", id="nothing"),
    ],
)
def test_an_update_of_a_rejected_pod_is_an_event(new: PodInfo, expected: str) -> None:
    """The rejected pod's own update wakes it if its hints say so, and is taken over anyway."""
    event = registered(POD, ActionType.UPDATE_POD_LABEL, own_update)
    under_test = QueueUnderTest({"Fit": (event,)})
    old = make_pod_info("p")
    under_test.add_rejected(old, "Fit")

    under_test.queue.update(old, new)

    assert under_test.places() == {"p": expected}
    assert under_test.queue.get(old.uid) is new


def test_an_update_of_a_rejected_pod_wakes_no_other() -> None:
    """Other waiting pods are not asked."""
    under_test = QueueUnderTest({"Fit": (registered(POD, ActionType.ALL),)})
    old = make_pod_info("p")
    under_test.add_rejected(old, "Fit")
    under_test.add_rejected(make_pod_info("other"), "Fit")

    under_test.queue.update(old, make_pod_info("p", labels={"a": "1"}))

    assert under_test.places() == {"p": "backoff", "other": "unschedulable"}


def test_an_updated_pod_is_asked_about_with_its_new_labels() -> None:
    """A later event judges the pod by what it has become."""

    def is_red(pod: PodInfo, old: object, new: object) -> QueueingHint:
        return QueueingHint.QUEUE if pod.labels.get("team") == "red" else QueueingHint.SKIP

    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD, is_red),)})
    old = make_pod_info("p", labels={"team": "blue"})
    under_test.add_rejected(old, "Fit")
    under_test.queue.update(old, make_pod_info("p", labels={"team": "red"}))
    before = under_test.places()

    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())

    assert (before, under_test.places()) == ({"p": "unschedulable"}, {"p": "backoff"})


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    """No pod is lost because its addition was missed."""
    under_test = QueueUnderTest()

    under_test.queue.update(make_pod_info("p"), make_pod_info("p", labels={"a": "1"}))

    assert under_test.places() == {"p": "active"}
    assert under_test.incoming == {("active", "UnschedulablePodUpdate"): 1}


def test_a_pod_that_is_added_twice_has_one_entry() -> None:
    """A repeated addition is an update."""
    under_test = QueueUnderTest()
    newer = make_pod_info("p", labels={"a": "1"})
    under_test.queue.add(make_pod_info("p"))

    under_test.queue.add(newer)

    assert under_test.places() == {"p": "active"}
    assert under_test.queue.get(newer.uid) is newer


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated", "unknown"])
def test_a_deleted_pod_is_forgotten(place: str) -> None:
    """Wherever it waits, a deleted pod is gone, and its rejectors are no longer counted."""
    under_test = QueueUnderTest({"Fit": ()}, {"SchedulingGates": gate})
    pod = make_pod_info("p", gates=["g"] if place == "gated" else [])
    if place != "unknown":
        under_test.queue.add(pod)
    if place in ("backoff", "unschedulable"):
        under_test.fail(under_test.pop(), *(["Fit"] if place == "unschedulable" else []))
    assert under_test.places() == ({} if place == "unknown" else {"p": place})

    under_test.queue.delete(pod)

    assert (under_test.places(), under_test.pop_names()) == ({}, [])
    assert not under_test.rejected_by


# --- activate -------------------------------------------------------------------------------------


def test_activate_skips_back_off() -> None:
    """Rejected and failed pods become active at once; unknown ones are ignored."""
    under_test = QueueUnderTest({"Fit": ()})
    pods = [make_pod_info(name) for name in ("rejected", "failed", "unknown", "active")]
    under_test.add_rejected(pods[0], "Fit")
    under_test.add_rejected(pods[1])
    under_test.queue.add(pods[3])

    under_test.queue.activate(pod.uid for pod in pods)

    assert under_test.places() == {"rejected": "active", "failed": "active", "active": "active"}


def test_a_pod_that_is_to_be_tried_again_backs_off() -> None:
    """As after an error: not even an idle queue hands it out early; others stay."""
    under_test = QueueUnderTest({"Fit": ()})
    pod, other = make_pod_info("p"), make_pod_info("active")
    under_test.add_rejected(pod, "Fit")

    under_test.queue.try_again(pod.uid)
    under_test.queue.try_again("unknown")

    assert under_test.places() == {"p": "backoff"}
    assert not under_test.queue.has_ready
    under_test.queue.validate()
    under_test.queue.add(other)
    under_test.queue.try_again(other.uid)
    assert under_test.places() == {"p": "backoff", "active": "active"}


def test_a_pod_in_flight_that_is_to_be_tried_again_is() -> None:
    """A write for it failed before its attempt ended: no event would wake it."""
    under_test = QueueUnderTest({"Fit": ()})
    pods = [make_pod_info(name) for name in ("again", "deleted", "other")]
    for pod in pods:
        under_test.queue.add(pod)
    attempts = [under_test.pop() for _ in pods]
    under_test.queue.delete(pods[1])

    for pod in pods[:2]:
        under_test.queue.try_again(pod.uid)
    for queued in attempts[::2]:
        under_test.fail(queued, "Fit")

    places = {"again": "backoff", "deleted": "inFlight", "other": "unschedulable"}
    assert under_test.places() == places


def test_activating_a_pod_in_flight_concerns_only_that_pod() -> None:
    """The activated pod is tried again after its failure, others in flight are not."""
    under_test = QueueUnderTest({"Fit": ()})
    pods = [make_pod_info(name) for name in ("a", "b")]
    for pod in pods:
        under_test.queue.add(pod)
    attempts = [under_test.pop(), under_test.pop()]

    under_test.queue.activate([pods[1].uid])
    for queued in attempts:
        under_test.fail(queued, "Fit")

    assert under_test.places() == {"a": "unschedulable", "b": "backoff"}


def test_activating_a_pod_that_was_deleted_in_flight_concerns_nobody() -> None:
    under_test = QueueUnderTest({"Fit": ()})
    pods = [make_pod_info(name) for name in ("a", "deleted")]
    for pod in pods:
        under_test.queue.add(pod)
    attempt = under_test.pop()
    under_test.pop()

    under_test.queue.delete(pods[1])
    under_test.queue.activate([pods[1].uid])
    under_test.fail(attempt, "Fit")

    assert under_test.places() == {"a": "unschedulable", "deleted": "inFlight"}


# --- unexpected errors ----------------------------------------------------------------------------


def test_an_error_about_one_pod_keeps_no_other_from_waking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are checked against the event in the next step, and at later events."""
    original = QueueingHints.strategy

    def strategy(
        hints: QueueingHints, queued: QueuedPodInfo, observed: ObservedEvent
    ) -> QueueingStrategy:
        if queued.pod_info.labels:
            raise ValueError("no")
        return original(hints, queued, observed)

    monkeypatch.setattr(QueueingHints, "strategy", strategy)
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD),)})
    under_test.add_rejected(make_pod_info("broken", labels={"a": "1"}), "Fit")
    for number in range(2):
        name = f"other-{number}"
        under_test.add_rejected(make_pod_info(name, namespace=name), "Fit")
        with pytest.raises(ValueError, match="no"):
            under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())
        under_test.queue.flush_backoff_completed()

    assert under_test.places() == {
        "broken": "unschedulable",
        "other-0": "backoff",
        "other-1": "backoff",
    }


# --- flush ----------------------------------------------------------------------------------------


def test_pods_that_waited_too_long_are_tried_again() -> None:
    """After more than five minutes, and not before; the pod remembers that it was flushed."""
    under_test = QueueUnderTest({"Fit": ()})
    under_test.add_rejected(make_pod_info("p"), "Fit")
    under_test.clock.advance(300)
    under_test.queue.flush_unschedulable_leftover()
    before = under_test.places()
    under_test.clock.advance(0.1)
    under_test.queue.flush_unschedulable_leftover()
    after = under_test.places()
    queued = under_test.pop()
    flushed = queued.was_flushed
    under_test.fail(queued, "Fit")

    assert (before, after) == ({"p": "unschedulable"}, {"p": "active"})
    assert (flushed, queued.was_flushed) == (True, False)
    assert ("active", "UnschedulableTimeout") in under_test.incoming


def test_the_flush_does_not_wake_pods_in_flight() -> None:
    """That some pod waited too long says nothing about a pod that is being tried now."""
    under_test = QueueUnderTest({"Fit": ()})
    under_test.add_rejected(make_pod_info("late"), "Fit")
    under_test.clock.advance(301)
    under_test.queue.add(make_pod_info("p"))
    queued = under_test.pop()

    under_test.queue.flush_unschedulable_leftover()
    under_test.fail(queued, "Fit")

    assert under_test.places() == {"late": "active", "p": "unschedulable"}

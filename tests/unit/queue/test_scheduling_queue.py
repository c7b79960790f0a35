"""How pods move through the queue."""

import json

import pytest

from scheduler.api.pods import PodInfo
from scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    NODE_ADD,
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
)
from scheduler.framework.status import SUCCESS, Status, error, unschedulable
from scheduler.queue import PUT_LAST_SECONDS, QueueCounts, QueueInvariantError
from scheduler.queue.in_flight import MAX_EVENTS
from tests.support.builders import make_node, make_pod_info
from tests.support.queueing import QueueUnderTest, registered

NODE, POD = EventResource.NODE, EventResource.POD


def own_update(pod: PodInfo, old: PodInfo, new: PodInfo) -> QueueingHint:
    return QueueingHint.QUEUE if new.uid == pod.uid else QueueingHint.SKIP


def gate(pod: PodInfo) -> Status:
    """The rule of SchedulingGates."""
    return unschedulable("waiting for scheduling gates") if pod.spec.scheduling_gates else SUCCESS


GATES_GONE = registered(POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, own_update)


# --- order ----------------------------------------------------------------------------------------


def test_pods_are_popped_by_priority_then_by_time() -> None:
    """The QueueSort plugin's key decides; among equals the first come is first."""
    under_test = QueueUnderTest()
    for name, priority in (("a", 1), ("b", 5), ("c", 1), ("d", 5)):
        under_test.queue.add(make_pod_info(name, priority=priority))
    under_test.clock.advance(1)
    under_test.queue.add(make_pod_info("e", priority=9))

    assert under_test.pop_names() == ["e", "b", "d", "a", "c"]


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
    said = [queue.has_ready]

    queue.add(pod)
    said.append(queue.has_ready)
    under_test.fail(under_test.pop(), "Fit")
    said.append(queue.has_ready)
    queue.activate([pod.uid])
    said.append(queue.has_ready)
    under_test.fail(under_test.pop())
    said.append(queue.has_ready)

    assert said == [False, True, False, True, False]


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

    assert not under_test.queue.add_unschedulable_if_not_present(queued)
    assert under_test.places() == {"p": "active"}


def test_a_failed_binding_is_retried_after_back_off() -> None:
    """A pod whose attempt is done comes back as after an error, also when a plugin is named."""
    under_test = QueueUnderTest({"Fit": ()})
    under_test.queue.add(make_pod_info("p"))
    queued = under_test.pop()
    under_test.queue.done(queued.pod_info.uid)

    under_test.fail(queued, "Fit")

    assert under_test.places() == {"p": "backoff"}


# --- in flight ------------------------------------------------------------------------------------


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
        under_test.queue.done_scheduling_cycle(pod.uid)

    under_test.queue.delete(pod)
    latest = under_test.queue.latest(pod.uid)
    under_test.queue.add_nominated_pod(pod, "n")
    put_back = under_test.queue.add_unschedulable_if_not_present(queued)

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
        kept.append(dict(queue.in_flight_event_counts()))

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
    assert not queue.in_flight_event_counts()["NodeAdd"]


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
        kept.append(dict(queue.in_flight_event_counts()))

    happen(3)
    first = under_test.pop()
    happen(100)
    second = under_test.pop()
    happen(10)
    queue.done_scheduling_cycle(first.pod_info.uid)
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
    assert len(queue._in_flight._events) == 0


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


# --- gates ----------------------------------------------------------------------------------------


def test_a_gated_pod_waits_until_its_gates_are_gone() -> None:
    """Only the removal of the last gate lets the pod through, at once: it never failed."""
    under_test = QueueUnderTest({"SchedulingGates": (GATES_GONE,)}, {"SchedulingGates": gate})
    two = make_pod_info("p", gates=["a", "b"])
    one = make_pod_info("p", gates=["b"])
    places = []

    under_test.queue.add(two)
    places.append(under_test.places()["p"])
    under_test.queue.update(two, one)
    places.append(under_test.places()["p"])
    under_test.queue.update(one, make_pod_info("p"))
    places.append(under_test.places()["p"])

    assert places == ["gated", "gated", "active"]
    assert under_test.incoming == {
        ("unschedulable", "UnschedulablePodAdd"): 1,
        ("active", "UnschedulablePodUpdatePodSchedulingGatesEliminated"): 1,
    }
    assert set(under_test.metrics.extension_point_duration) == {
        ("PreEnqueue", status, "stowage") for status in ("Unschedulable", "Success")
    }


def test_the_gating_plugin_is_asked_first() -> None:
    """Plugins are asked in their order until one gates; next time that one comes first."""
    asked: list[str] = []
    closed = {"B"}

    def check(name: str, pod: PodInfo) -> Status:
        asked.append(name)
        return unschedulable(f"{name} is closed") if name in closed else SUCCESS

    checks = {name: lambda pod, name=name: check(name, pod) for name in ("A", "B", "C")}
    under_test = QueueUnderTest({"B": (registered(NODE, ActionType.ADD),)}, checks)
    under_test.queue.add(make_pod_info("p"))
    message = under_test.queue.dump()[0]["message"]
    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD)
    closed.clear()
    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD)

    assert asked == ["A", "B", "B", "B", "A", "C"]
    assert (message, under_test.queue.dump()[0]["message"]) == ("B is closed", "")
    assert under_test.places() == {"p": "active"}


def test_a_gated_pod_is_looked_at_only_for_its_gating_plugin() -> None:
    """Events that another rejector waits for cannot help while the gate is closed."""
    closed = False
    asked = []

    def check(pod: PodInfo) -> Status:
        asked.append(pod.name)
        return unschedulable("closed") if closed else SUCCESS

    under_test = QueueUnderTest(
        {"Fit": (registered(NODE, ActionType.ADD),), "Gate": (registered(POD, ActionType.ADD),)},
        {"Gate": check},
    )
    under_test.add_rejected(make_pod_info("p"), "Fit")
    closed = True
    under_test.clock.advance(5)
    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD)
    gated = under_test.places()
    asked.clear()
    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD)
    under_test.clock.advance(1000)
    under_test.queue.flush_unschedulable_leftover()
    unasked = list(asked)
    closed = False
    under_test.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_ADD)

    assert (gated, unasked, asked) == ({"p": "gated"}, [], ["p"])
    assert under_test.places() == {"p": "active"}


def test_the_gate_is_asked_before_back_off_and_not_after() -> None:
    """A pod in back-off has passed the gate, so that it may be popped at any time."""
    asked = []

    def check(pod: PodInfo) -> Status:
        asked.append(pod.name)
        return SUCCESS

    under_test = QueueUnderTest(pre_enqueue={"Gate": check})
    under_test.add_rejected(make_pod_info("p"))
    assert under_test.places() == {"p": "backoff"}
    under_test.clock.advance(5)
    under_test.queue.flush_backoff_completed()

    assert under_test.places() == {"p": "active"}
    assert asked == ["p", "p"]


def test_a_pod_may_be_gated_after_its_attempt() -> None:
    """An asynchronous preemption gates the pod; activating it opens the gate again."""
    preempting = set()

    def check(pod: PodInfo) -> Status:
        return unschedulable("waiting for the preemption") if pod.uid in preempting else SUCCESS

    under_test = QueueUnderTest(
        {"Fit": (registered(NODE, ActionType.ADD),), "DefaultPreemption": ()},
        {"DefaultPreemption": check},
    )
    pod = make_pod_info("p")
    under_test.queue.add(pod)
    queued = under_test.pop()
    preempting.add(pod.uid)
    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD)
    under_test.fail(queued, "Fit")
    gated = under_test.places()
    under_test.queue.activate([pod.uid])
    still_gated = under_test.places()
    preempting.clear()
    under_test.queue.activate([pod.uid])

    assert (gated, still_gated) == ({"p": "gated"}, {"p": "gated"})
    assert under_test.places() == {"p": "active"}


def test_a_gate_that_says_when_it_opens_is_not_asked_at_events() -> None:
    """A held pod costs nothing until then; afterwards it waits for what rejected it."""
    held, asked = set(), []

    def check(pod: PodInfo) -> Status:
        asked.append(pod.uid)
        return unschedulable("held") if pod.uid in held else SUCCESS

    under_test = QueueUnderTest(
        {"Fit": (registered(NODE, ActionType.ADD),), "Gate": ()}, {"Gate": check}
    )
    pod = make_pod_info("p")
    under_test.queue.add(pod)
    queued = under_test.pop()
    held.add(pod.uid)
    under_test.fail(queued, "Fit")
    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD)
    asked.clear()

    for _ in range(3):
        under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD)
    at_events = asked.copy()
    held.clear()
    under_test.queue.open_gate(pod.uid)
    opened = under_test.places()
    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD)

    assert at_events == []
    assert opened == {"p": "unschedulable"}
    assert under_test.places() == {"p": "backoff"}


def test_a_pod_whose_gate_failed_is_asked_about_again() -> None:
    """No event is due for it, so a flush asks, every 30 seconds; the two between do not."""
    answers = [None, None, SUCCESS]
    under_test = QueueUnderTest({"Gate": ()}, {"Gate": lambda _: answers.pop(0)})  # type: ignore[arg-type, return-value]
    under_test.queue.add(make_pod_info("p"))
    places = [under_test.places()["p"]]

    for _ in range(6):
        under_test.clock.advance(10.5)
        under_test.queue.flush_unschedulable_leftover()
        places.append(under_test.places()["p"])

    assert places == [*["gated"] * 6, "active"]
    assert (
        under_test.failed
        == ['running PreEnqueue plugin "Gate": returned None, expected a Status'] * 2
    )


@pytest.mark.parametrize("how", ["raises", "says error"])
def test_a_broken_gate_holds_only_its_pod(how: str) -> None:
    """A PreEnqueue plugin that fails gates the pod, and says why."""

    def check(pod: PodInfo) -> Status:
        if pod.name != "bad":
            return SUCCESS
        if how == "raises":
            raise ValueError("oops")
        return error("oops")

    under_test = QueueUnderTest(pre_enqueue={"Gate": check})
    under_test.queue.add(make_pod_info("bad"))
    under_test.queue.add(make_pod_info("good"))

    assert under_test.places() == {"bad": "gated", "good": "active"}
    assert "oops" in str(under_test.queue.dump()[1]["message"])
    told = ['running PreEnqueue plugin "Gate": ValueError: oops'] if how == "raises" else []
    assert under_test.failed == told


def test_a_plugin_that_rejects_and_gates_is_counted_once() -> None:
    """A gate that closes after the same plugin said Pending adds nothing to the gauge."""
    closed = False

    def check(pod: PodInfo) -> Status:
        return unschedulable("closed") if closed else SUCCESS

    under_test = QueueUnderTest({"Gate": (registered(NODE, ActionType.ADD),)}, {"Gate": check})
    under_test.add_rejected(make_pod_info("p"), pending=("Gate",))
    closed = True

    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD)

    assert under_test.places() == {"p": "gated"}
    assert under_test.rejected_by == {("Gate", "stowage"): 1}


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


# --- looking in -----------------------------------------------------------------------------------


def full_queue() -> QueueUnderTest:
    """One pod in every place."""
    under_test = QueueUnderTest({"Fit": ()}, {"SchedulingGates": gate})
    under_test.add_rejected(make_pod_info("failed"))
    under_test.add_rejected(make_pod_info("rejected"), "Fit")
    under_test.queue.add(make_pod_info("gated", gates=["g"]))
    under_test.queue.add(make_pod_info("flying"))
    under_test.pop()
    under_test.queue.add(make_pod_info("active", priority=3))
    return under_test


def test_counts_tell_where_pods_are() -> None:
    """Each pod is counted once."""
    under_test = full_queue()

    pods = under_test.queue.pending_pods()

    assert under_test.queue.counts() == QueueCounts(
        active=1, backoff=1, unschedulable=1, gated=1, in_flight=1
    )
    assert [pod.name for pod in pods] == ["active", "failed", "rejected", "gated"]


def test_the_dump_tells_each_pods_story() -> None:
    """Where a pod is, why, and how long it must wait, in plain values."""
    under_test = full_queue()
    under_test.clock.advance(0.5)

    rows = json.loads(json.dumps(under_test.queue.dump()))

    assert [(row["pod"], row["queue"]) for row in rows] == [
        ("default/flying", "inFlight"),
        ("default/active", "active"),
        ("default/failed", "backoff"),
        ("default/rejected", "unschedulable"),
        ("default/gated", "gated"),
    ]
    assert rows[1] == {
        "pod": "default/active",
        "uid": "default/active",
        "profile": "stowage",
        "priority": 3,
        "queue": "active",
        "attempts": 0,
        "waitingSeconds": 0.5,
        "backoffSecondsLeft": 0.0,
        "unschedulablePlugins": [],
        "pendingPlugins": [],
        "gatingPlugin": "",
        "message": "",
    }
    assert (rows[2]["backoffSecondsLeft"], rows[2]["attempts"]) == (1.5, 1)
    assert rows[3]["unschedulablePlugins"] == ["Fit"]
    assert rows[4]["message"] == "waiting for scheduling gates"


def test_rejectors_of_waiting_pods_are_counted() -> None:
    """The gauge follows pods in and out of the queue."""
    under_test = QueueUnderTest({"Fit": (), "Taint": ()})
    counts = []
    pods = [make_pod_info("a"), make_pod_info("b")]
    under_test.add_rejected(pods[0], "Fit")
    under_test.add_rejected(pods[1], "Fit", pending=("Taint",))
    counts.append(under_test.rejected_by)
    under_test.queue.activate(pod.uid for pod in pods)
    counts.append(under_test.rejected_by)
    under_test.pop()
    counts.append(under_test.rejected_by)
    under_test.queue.delete(pods[1])
    counts.append(under_test.rejected_by)

    fit, taint = ("Fit", "stowage"), ("Taint", "stowage")
    assert counts == [
        {fit: 2, taint: 1},
        {fit: 2, taint: 1},
        {fit: 1, taint: 1},
        {},
    ]


def test_validate_finds_contradictions() -> None:
    """A pod that changes behind the queue's back is noticed."""
    under_test = QueueUnderTest({"Fit": ()})
    queued = under_test.queue
    under_test.add_rejected(make_pod_info("p"), "Fit")
    waiting = queued._unschedulable.get("default/p")
    assert waiting is not None
    waiting.unschedulable_plugins = frozenset({"Other"})
    queued._active.push("default/p", waiting, (0, 0.0))

    with pytest.raises(QueueInvariantError) as raised:
        queued.validate()

    assert str(raised.value) == (
        "pod default/p is in 2 places; pod default/p changed while it was unschedulable"
    )

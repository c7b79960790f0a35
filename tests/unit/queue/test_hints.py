"""Which pods an event wakes."""

from typing import Any

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    ALL_EVENTS,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from tests.support.builders import make_node, make_pod_info
from tests.support.queueing import QueueUnderTest, registered

NODE, POD = EventResource.NODE, EventResource.POD
QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def says_queue(pod: PodInfo, old: object, new: object) -> QueueingHint:
    return QUEUE


def says_skip(pod: PodInfo, old: object, new: object) -> QueueingHint:
    return SKIP


def breaks(pod: PodInfo, old: object, new: object) -> QueueingHint:
    raise ValueError("bad hint")


@pytest.mark.parametrize(
    ("rejectors", "pending", "expected"),
    [
        pytest.param(["Unasked"], [], "unschedulable", id="registered for other events"),
        pytest.param(["Silent"], [], "unschedulable", id="registered for nothing"),
        pytest.param(["Unknown"], [], "unschedulable", id="not in the profile"),
        pytest.param(["Skips"], [], "unschedulable", id="hint says skip"),
        pytest.param(["Queues"], [], "backoff", id="hint says queue"),
        pytest.param(["NoHint"], [], "backoff", id="no hint means queue"),
        pytest.param(["Breaks"], [], "backoff", id="a hint that raises means queue"),
        pytest.param(["Skips", "Queues"], [], "backoff", id="one of two is enough"),
        pytest.param(["SkipsQueues"], [], "backoff", id="two registrations of one plugin"),
        pytest.param([], ["Skips"], "unschedulable", id="pending plugin says skip"),
        pytest.param([], ["Queues"], "active", id="pending plugin says queue: no back-off"),
        pytest.param(["Queues"], ["Skips"], "backoff", id="only the unschedulable one says queue"),
        pytest.param(["Skips"], ["Queues"], "active", id="only the pending one says queue"),
        pytest.param(["Queues"], ["NoHint"], "active", id="the pending one is stronger"),
    ],
)
@pytest.mark.parametrize("in_flight", [False, True], ids=["waiting", "in flight"])
def test_an_event_wakes_by_the_hints_of_the_rejectors(
    rejectors: list[str], pending: list[str], expected: str, *, in_flight: bool
) -> None:
    """The hints decide, and equally whether the event comes before or after the rejection."""
    node_add = (NODE, ActionType.ADD)
    events = {
        "Unasked": (registered(NODE, ActionType.DELETE, says_queue),),
        "Silent": (),
        "Skips": (registered(*node_add, says_skip),),
        "Queues": (registered(*node_add, says_queue),),
        "NoHint": (registered(*node_add),),
        "Breaks": (registered(*node_add, breaks),),
        "SkipsQueues": (
            registered(*node_add, says_skip),
            registered(NODE, ActionType.ALL, says_queue),
        ),
    }
    under_test = QueueUnderTest(events)
    queue = under_test.queue
    queue.add(make_pod_info("p"))
    queued = under_test.pop()

    if in_flight:
        queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())
        under_test.fail(queued, *rejectors, pending=tuple(pending))
    else:
        under_test.fail(queued, *rejectors, pending=tuple(pending))
        queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())

    assert under_test.places() == {"p": expected}


def test_a_broken_hint_is_reported() -> None:
    """The pod is woken, and people learn which plugin is broken."""
    under_test = QueueUnderTest({"Breaks": (registered(NODE, ActionType.ADD, breaks),)})
    under_test.add_rejected(make_pod_info("p"), "Breaks")

    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())

    assert list(under_test.metrics.queueing_hint_execution_duration) == [
        ("Breaks", "NodeAdd", "Error")
    ]
    assert under_test.metrics.plugin_errors["Breaks", "QueueingHint"].value == 1
    assert under_test.failed == ['running QueueingHint plugin "Breaks": ValueError: bad hint']


def test_a_hint_that_answers_nonsense_counts_as_broken() -> None:
    """A forgotten return does not strand the pod."""
    hint: Any = lambda pod, old, new: None  # noqa: E731 - wrong on purpose
    under_test = QueueUnderTest({"Forgets": (registered(NODE, ActionType.ADD, hint),)})
    under_test.add_rejected(make_pod_info("p"), "Forgets")

    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())

    assert under_test.places() == {"p": "backoff"}


def test_back_off_that_is_over_is_not_waited_for_again() -> None:
    """A pod that was rejected long ago becomes active at once."""
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD),)})
    under_test.add_rejected(make_pod_info("p"), "Fit")
    under_test.clock.advance(2)

    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())

    assert under_test.places() == {"p": "active"}


class Hint:
    """Counts how often it is asked, and wakes pods by a rule."""

    def __init__(self, wakes: set[str]) -> None:
        self.asked: list[str] = []
        self.wakes = wakes

    def __call__(self, pod: PodInfo, old: object, new: object) -> QueueingHint:
        self.asked.append(pod.name)
        return QUEUE if self.wakes & {pod.name, pod.namespace, *pod.labels.values()} else SKIP


def test_equal_pods_are_asked_about_once() -> None:
    """A hint is asked once for all pods of a workload, and separately for what differs."""
    hint = Hint({"red"})
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD, hint),)})
    for index in range(3):
        under_test.add_rejected(make_pod_info(f"red-{index}", labels={"team": "red"}), "Fit")
        under_test.add_rejected(make_pod_info(f"blue-{index}", labels={"team": "blue"}), "Fit")
    under_test.add_rejected(make_pod_info("elsewhere", namespace="red"), "Fit")
    under_test.add_rejected(make_pod_info("nowhere", namespace="blue"), "Fit")
    under_test.add_rejected(make_pod_info("big", requests={"cpu": 9}), "Fit")

    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())

    woken = {name for name, place in under_test.places().items() if place == "backoff"}
    assert woken == {"red-0", "red-1", "red-2", "elsewhere"}
    assert sorted(hint.asked) == ["big", "blue-0", "elsewhere", "nowhere", "red-0"]


def test_a_hint_that_reads_more_is_asked_for_each_pod() -> None:
    """A hint that depends on a pod's name gets every pod."""
    hint = Hint({"p-1"})
    event = ClusterEventWithHint(NODE_ADD, hint, reads_pod_shape_only=False)
    under_test = QueueUnderTest({"Picky": (event,)})
    for index in range(3):
        under_test.add_rejected(make_pod_info(f"p-{index}"), "Picky")

    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())

    assert under_test.places() == {"p-0": "unschedulable", "p-1": "backoff", "p-2": "unschedulable"}
    assert hint.asked == ["p-0", "p-1", "p-2"]


@pytest.mark.parametrize("own", [0, 1, 2], ids=["first", "middle", "last"])
@pytest.mark.parametrize("wakes_own", [True, False], ids=["wakes own", "wakes others"])
def test_the_pod_that_the_event_happened_to_is_asked_for_itself(
    own: int, *, wakes_own: bool
) -> None:
    """A hint may treat the event of the waiting pod itself differently from that of others."""

    def hint(pod: PodInfo, old: PodInfo, new: object) -> QueueingHint:
        return QUEUE if (old.uid == pod.uid) is wakes_own else SKIP

    under_test = QueueUnderTest({"Fit": (registered(POD, ActionType.DELETE, hint),)})
    pods = [make_pod_info(f"p-{index}") for index in range(3)]
    for pod in pods:
        under_test.add_rejected(pod, "Fit")

    under_test.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, pods[own], None)

    woken = {name for name, place in under_test.places().items() if place == "backoff"}
    assert woken == ({f"p-{own}"} if wakes_own else {"p-0", "p-1", "p-2"} - {f"p-{own}"})


def test_plugins_that_did_not_reject_are_not_asked() -> None:
    """An event costs nothing for pods whose rejectors did not register for it."""
    asked, unasked = Hint(set()), Hint(set())
    under_test = QueueUnderTest(
        {
            "Asked": (registered(NODE, ActionType.ADD, asked),),
            "Unasked": (registered(NODE, ActionType.ADD, unasked),),
        }
    )
    under_test.add_rejected(make_pod_info("p"), "Asked")

    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())

    assert (asked.asked, unasked.asked) == (["p"], [])


def test_only_pods_up_to_a_priority_are_woken() -> None:
    """What becomes free with a nominated pod helps only those who had to leave room for it."""
    under_test = QueueUnderTest({"Fit": (registered(POD, ActionType.DELETE),)})
    for name, priority in (("low", 1), ("same", 5), ("high", 9)):
        under_test.add_rejected(make_pod_info(name, priority=priority), "Fit")

    under_test.queue.move_all_to_active_or_backoff_queue(
        ASSIGNED_POD_DELETE, make_pod_info("gone"), None, max_priority=5
    )

    assert under_test.places() == {"low": "backoff", "same": "backoff", "high": "unschedulable"}


def test_a_pod_without_a_priority_has_priority_zero() -> None:
    """A room that was kept for one helps others like it."""
    under_test = QueueUnderTest({"Fit": (registered(POD, ActionType.DELETE),)})
    for name, priority in (("none", None), ("zero", 0), ("one", 1)):
        under_test.add_rejected(make_pod_info(name, priority=priority), "Fit")

    under_test.queue.move_all_to_active_or_backoff_queue(
        ASSIGNED_POD_DELETE, make_pod_info("gone"), None, max_priority=0
    )

    assert under_test.places() == {"none": "backoff", "zero": "backoff", "one": "unschedulable"}


def test_a_wildcard_event_wakes_everybody_after_back_off() -> None:
    """Rejectors are not asked, whatever they registered."""
    under_test = QueueUnderTest({"Fit": ()})
    under_test.add_rejected(make_pod_info("a"), "Fit")
    under_test.add_rejected(make_pod_info("b"), pending=("Other",))

    under_test.queue.move_all_to_active_or_backoff_queue(UNSCHEDULABLE_TIMEOUT)

    assert under_test.places() == {"a": "backoff", "b": "backoff"}


def test_a_wildcard_event_may_be_meant_for_one_pod() -> None:
    """An object given with a wildcard event is the pod that it is meant for."""
    under_test = QueueUnderTest({"Fit": ()})
    pods = [make_pod_info(name) for name in ("a", "b")]
    for pod in pods:
        under_test.add_rejected(pod, "Fit")

    under_test.queue.move_all_to_active_or_backoff_queue(UNSCHEDULABLE_TIMEOUT, None, pods[1])

    assert under_test.places() == {"a": "unschedulable", "b": "backoff"}


def test_profiles_have_their_own_hints() -> None:
    """The hint of the pod's own profile is asked, not that of another."""
    under_test = QueueUnderTest({"Fit": (registered(NODE, ActionType.ADD),)})
    under_test.add_rejected(make_pod_info("stranger", scheduler_name="other"), "Fit")
    under_test.add_rejected(make_pod_info("own"), "Fit")

    under_test.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node())

    assert under_test.places() == {"stranger": "unschedulable", "own": "backoff"}


def test_everything_is_covered() -> None:
    """A plugin that does not say what it waits for waits for whatever there is."""
    everything = [
        ClusterEvent(resource, action)
        for resource in EventResource
        if resource is not EventResource.WILDCARD
        for action in ActionType
    ]
    covered = [e for e in everything if any(r.event.covers(e) for r in ALL_EVENTS)]
    assert covered == everything

"""Pods that PreEnqueue plugins hold."""

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    ASSIGNED_POD_ADD,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEventWithHint,
    EventResource,
)
from scheduler.kernel.framework.status import SUCCESS, Status, error, unschedulable
from tests.support.builders import make_pod_info
from tests.support.queueing import GATES_GONE, QueueUnderTest, gate, registered

NODE, POD = EventResource.NODE, EventResource.POD


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


def test_the_message_names_the_gates_that_are_left() -> None:
    """No event tells that one of several gates is gone."""

    def named(pod: PodInfo) -> Status:
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return unschedulable(gates) if gates else SUCCESS

    under_test = QueueUnderTest({"SchedulingGates": (GATES_GONE,)}, {"SchedulingGates": named})
    two = make_pod_info("p", gates=["a", "b"])
    under_test.queue.add(two)

    under_test.queue.update(two, make_pod_info("p", gates=["b"]))

    assert under_test.queue.dump()[0]["message"] == "b"
    assert under_test.places() == {"p": "gated"}


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


def test_a_gate_that_waits_for_time_is_asked_every_five_minutes() -> None:
    """Not at every flush after the first five."""
    asked: list[float] = []

    def check(pod: PodInfo) -> Status:
        asked.append(under_test.clock.now)
        return unschedulable("held")

    under_test = QueueUnderTest(
        {"Gate": (ClusterEventWithHint(UNSCHEDULABLE_TIMEOUT),)}, {"Gate": check}, now=0.0
    )
    under_test.queue.add(make_pod_info("p"))
    for _ in range(95):
        under_test.clock.advance(10.0)
        under_test.queue.flush_unschedulable_leftover()

    assert asked == [0.0, 310.0, 620.0, 930.0]


def test_a_pod_whose_gate_failed_is_asked_about_again() -> None:
    """No event is due for it, so a flush asks, every 30 seconds; the two between do not."""
    answers = [None, None, SUCCESS]
    under_test = QueueUnderTest({"Gate": ()}, {"Gate": lambda _: answers.pop(0)})
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

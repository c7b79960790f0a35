"""Each invariant of the queue: `validate` notices when it is broken, and says which."""

from collections.abc import Callable

import pytest

from scheduler.kernel.framework.events import (
    NODE_ADD,
    ActionType,
    EventResource,
)
from scheduler.kernel.framework.types import Excess, QueuedPodInfo
from scheduler.kernel.queue import QueueInvariantError, SchedulingQueue
from scheduler.kernel.queue.active import MAX_EVENTS
from scheduler.kernel.queue.equivalent_pods import EquivalentPods
from tests.support.builders import make_node, make_pod_info
from tests.support.queueing import QueueUnderTest, gate, registered


def make_queue() -> SchedulingQueue:
    """Pods in every place; `a` is the probe of `b`, and an event is kept for `first`."""
    events = {"Taint": (), "Fit": (registered(EventResource.NODE, ActionType.ADD),)}
    under_test = QueueUnderTest(
        events, {"SchedulingGates": gate}, shares_rejections=lambda pod: pod.name in "ab"
    )
    queue = under_test.queue
    for name in "ab":
        under_test.add_rejected(make_pod_info(name), "Fit")
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node("n"))
    under_test.add_rejected(make_pod_info("failed"))
    under_test.add_rejected(make_pod_info("rejected"), "Taint")
    queue.add(make_pod_info("gated", gates=["g"]))
    for name in ("first", "second"):
        queue.add(make_pod_info(name))
        under_test.pop()
        queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node("n"))
    queue.add(make_pod_info("active"))
    queue.add_nominated_pod(make_pod_info("active"), "n")
    queue.validate()
    return queue


def waiting(queue: SchedulingQueue, name: str) -> QueuedPodInfo:
    return queue._known[f"default/{name}"]


def group(queue: SchedulingQueue, name: str) -> EquivalentPods:
    return queue._unschedulable.group_of[f"default/{name}"]


BROKEN: dict[str, Callable[[SchedulingQueue], object]] = {}
"""What breaks each invariant, by what is said of it."""


def breaks(message: str) -> Callable[[Callable[[SchedulingQueue], object]], None]:
    return lambda breaking: BROKEN.update({message: breaking})


@breaks("the pods that are known are not those that wait or are in flight")
def _(queue: SchedulingQueue) -> None:
    del queue._known["default/active"]


@breaks("active pods have turns without importance, or importance without turns")
def _(queue: SchedulingQueue) -> None:
    queue._active._by_failures.remove("default/active")


@breaks("pod default/active is active without having become ready")
def _(queue: SchedulingQueue) -> None:
    waiting(queue, "active").initial_attempt_timestamp = None


@breaks("gated pod default/active is active")
def _(queue: SchedulingQueue) -> None:
    waiting(queue, "active").gating_plugin = "Gate"


@breaks("gated pod default/failed is in back-off")
def _(queue: SchedulingQueue) -> None:
    waiting(queue, "failed").gating_plugin = "Gate"


@breaks("pod default/failed has a back-off that is too short for its failures")
def _(queue: SchedulingQueue) -> None:
    waiting(queue, "failed").backoff_expiration -= 1.0


@breaks("pod default/failed is in the wrong kind of back-off")
def _(queue: SchedulingQueue) -> None:
    waiting(queue, "failed").pending_plugins = frozenset({"Fit"})


@breaks("pod default/rejected changed while it was unschedulable")
def _(queue: SchedulingQueue) -> None:
    waiting(queue, "rejected").pending_plugins = frozenset({"Other"})


@breaks("pod default/rejected is unschedulable although no plugin rejected it")
def _(queue: SchedulingQueue) -> None:
    parts = queue._unschedulable
    queued = parts.remove("default/rejected")
    assert queued is not None
    queued.unschedulable_plugins = frozenset()
    parts.add("default/rejected", queued)


@breaks("groups hold pods that are not unschedulable")
def _(queue: SchedulingQueue) -> None:
    group(queue, "rejected").members["x"] = waiting(queue, "rejected")


@breaks("a group has no pods")
def _(queue: SchedulingQueue) -> None:
    parts = queue._unschedulable
    key = group(queue, "rejected").key
    parts.remove("default/rejected")
    del queue._known["default/rejected"]
    parts.groups[key] = EquivalentPods(key)
    parts._index(parts.groups[key])


@breaks("gated pods are miscounted")
def _(queue: SchedulingQueue) -> None:
    queue._unschedulable.gated_count += 1


@breaks("probes are not known to the pods that sent them")
def _(queue: SchedulingQueue) -> None:
    queue._unschedulable.probes.clear()


@breaks("a probe waits with those that wait for it")
def _(queue: SchedulingQueue) -> None:
    of = group(queue, "b")
    queue._unschedulable.probes = {"default/b": of}
    of.probe = "default/b"


@breaks("the rejection of a group is kept that does not exist")
def _(queue: SchedulingQueue) -> None:
    key = group(queue, "rejected").key
    queue._unschedulable.last_rejected[key.kind] = EquivalentPods(key)


@breaks("groups are indexed under other plugins than those that rejected them")
def _(queue: SchedulingQueue) -> None:
    queue._unschedulable._by_rejector.popitem()


@breaks("groups that no node could hold are not filed as such")
def _(queue: SchedulingQueue) -> None:
    queue._unschedulable.unfittable.add(group(queue, "rejected"), Excess("cpu", 1))


@breaks("events are collected for a pod that is not in flight")
def _(queue: SchedulingQueue) -> None:
    queue.in_flight._starts["x"] = queue.in_flight._recorded


@breaks("a newer version is kept of a pod that is not in flight")
def _(queue: SchedulingQueue) -> None:
    queue.in_flight.changed["x"] = None


@breaks("attempts are not in the order in which they began")
def _(queue: SchedulingQueue) -> None:
    queue.in_flight._starts.move_to_end("default/first")


@breaks("the events that are kept are not those since the first attempt began")
def _(queue: SchedulingQueue) -> None:
    queue.in_flight._events.pop()


@breaks(f"{MAX_EVENTS + 1} events are kept for attempts")
def _(queue: SchedulingQueue) -> None:
    parts = queue.in_flight
    more = MAX_EVENTS + 1 - len(parts._events)
    parts._events.extend([parts._events[0]] * more)
    parts._recorded += more


@breaks("nominations by pod and by node differ")
def _(queue: SchedulingQueue) -> None:
    queue.nominator._pods_by_node["other"] = {}


@breaks("nominations and their columns differ")
def _(queue: SchedulingQueue) -> None:
    queue.nominator._slots["default/active"] = 1


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_invariant_is_noticed(message: str) -> None:
    """It is named, and nothing else is."""
    queue = make_queue()

    BROKEN[message](queue)
    with pytest.raises(QueueInvariantError) as raised:
        queue.validate()

    assert str(raised.value) == message

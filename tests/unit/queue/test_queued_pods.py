"""What the queue says of its pods."""

import json

import pytest

from scheduler.kernel.framework.events import (
    EventResource,
)
from scheduler.kernel.framework.status import SUCCESS, unschedulable
from scheduler.kernel.queue import QueueCounts, QueueInvariantError
from tests.support.builders import make_pod_info
from tests.support.queueing import QueueUnderTest, gate

NODE, POD = EventResource.NODE, EventResource.POD


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
    """Where a pod is, why, and how long it must wait to the millisecond, in plain values."""
    under_test = full_queue()
    under_test.clock.advance(0.50049)

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


def test_a_pod_that_does_not_wait_has_an_equal_one_in_its_place() -> None:
    """A rejected one that no gate holds, if there is one."""
    under_test = QueueUnderTest(
        {"Fit": ()}, {"Gate": lambda pod: unschedulable() if pod.name == "gated" else SUCCESS}
    )
    under_test.add_rejected(make_pod_info("gone"), "Fit")
    under_test.queue.add(gated := make_pod_info("gated"))
    under_test.add_rejected(rejected := make_pod_info("rejected"), "Fit")
    queue, kind = under_test.queue, rejected.kind
    assert gated.kind is kind

    found = [queue.equal_to(kind, "default/gone")]
    for pod in (make_pod_info("gone"), rejected):
        queue.delete(pod)
        found.append(queue.equal_to(kind, "default/gone"))

    assert found == ["default/gone", rejected.uid, ""]

"""SchedulingGates keeps gated pods out of the queue."""

import pytest

from scheduler.kernel.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from scheduler.kernel.framework.status import SUCCESS, Code, Status
from scheduler.kernel.plugins.scheduling_gates import SchedulingGates
from tests.support.builders import make_pod_info


def test_a_pod_without_gates_may_enter() -> None:
    """No gates, no objection."""
    assert SchedulingGates().pre_enqueue(make_pod_info()) == SUCCESS


def test_a_gated_pod_is_told_which_gates_hold_it() -> None:
    """The message lists all gates in their order."""
    status = SchedulingGates().pre_enqueue(make_pod_info(gates=["example.com/b", "a"]))

    assert status == Status(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        ("waiting for scheduling gates: [example.com/b a]",),
    )


@pytest.mark.parametrize(
    ("updated", "expected"),
    [
        pytest.param("pod", QueueingHint.QUEUE, id="the pod itself"),
        pytest.param("other", QueueingHint.SKIP, id="another pod"),
    ],
)
def test_only_the_pods_own_gates_wake_it(updated: str, expected: QueueingHint) -> None:
    """The plugin registers the end of gating, and means the waiting pod's own."""
    (registered,) = SchedulingGates().events_to_register()
    assert registered.event == ClusterEvent(
        EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    )
    assert registered.queueing_hint is not None

    hint = registered.queueing_hint(
        make_pod_info(gates=["a"]), make_pod_info(updated, gates=["a"]), make_pod_info(updated)
    )

    assert hint is expected

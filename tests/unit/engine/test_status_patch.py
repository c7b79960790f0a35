"""What a failed attempt writes to a status that says nearly the same already."""

from msgspec.structs import replace

from scheduler.api.objects import PodCondition
from scheduler.api.pods import PodInfo, pod_info
from scheduler.api.written import Condition
from scheduler.kernel.engine.failure import status_patch
from scheduler.kernel.framework.types import Failure
from tests.support.builders import make_pod

MESSAGE = "0/1 nodes are available"
KNOWN = PodCondition("PodScheduled", "False", "Unschedulable", MESSAGE, observed_generation=1)


def waiting(generation: int, nominated_node_name: str = "") -> PodInfo:
    """A pod of this generation, whose condition was written for the first one."""
    pod = make_pod("p", conditions=[KNOWN], nominated_node_name=nominated_node_name)
    return pod_info(replace(pod, metadata=replace(pod.metadata, generation=generation)))


def rejected(nominated_node_name: str | None) -> Failure:
    """The end of an attempt, with the message that the status has."""
    return Failure(MESSAGE, is_rejection=True, nominated_node_name=nominated_node_name)


def test_a_nomination_is_written_with_the_generation_of_the_condition() -> None:
    """As kube-scheduler does: the condition is about the pod as it is now."""
    patch = status_patch(waiting(2), rejected("n"), is_nominated=False)

    condition = Condition("PodScheduled", "False", "Unschedulable", MESSAGE, observed_generation=2)
    assert patch is not None
    assert (patch.condition, patch.nominated_node_name) == (condition, "n")


def test_a_condition_of_this_generation_is_not_written_again() -> None:
    """Only the nomination is."""
    patch = status_patch(waiting(1), rejected("n"), is_nominated=False)

    assert patch is not None
    assert (patch.condition, patch.nominated_node_name) == (None, "n")


def test_another_generation_alone_writes_nothing() -> None:
    """The nomination stays as it is, and the message is known."""
    assert status_patch(waiting(2, "n"), rejected("n"), is_nominated=False) is None
    assert status_patch(waiting(2, "n"), rejected(None), is_nominated=False) is None

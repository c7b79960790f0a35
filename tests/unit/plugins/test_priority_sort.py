"""PrioritySort decides who goes first."""

from scheduler.kernel.plugins.priority_sort import PrioritySort
from tests.support.builders import make_queued_pod_info


def test_higher_priority_goes_first_then_longer_waiting() -> None:
    """Priority beats waiting time; no priority counts 0."""
    queued = [
        make_queued_pod_info("late", 9.0, priority=5),
        make_queued_pod_info("negative", 0.0, priority=-1),
        make_queued_pod_info("none", 2.0),
        make_queued_pod_info("zero", 1.0, priority=0),
        make_queued_pod_info("early", 3.0, priority=5),
    ]

    ordered = sorted(queued, key=PrioritySort().sort_key)

    assert [q.pod_info.name for q in ordered] == ["early", "late", "zero", "none", "negative"]

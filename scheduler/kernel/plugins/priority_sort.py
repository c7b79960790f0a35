"""PrioritySort: the pod of higher priority is popped first, among equals the earliest queued.

Extension points: QueueSort.
Events: none; it rejects no pod.
Source: pkg/scheduler/framework/plugins/queuesort/priority_sort.go (v1.36).
"""

from typing import ClassVar

from typing_extensions import override

from scheduler.kernel.framework.interface import QueueSortPlugin
from scheduler.kernel.framework.types import QueuedPodInfo


class PrioritySort(QueueSortPlugin):
    """Orders the active queue by priority, then by time."""

    NAME: ClassVar[str] = "PrioritySort"

    @override
    def sort_key(self, queued: QueuedPodInfo) -> tuple[int, float]:
        """Return a key that is smaller for the pod that is popped first."""
        return -queued.pod_info.priority, queued.timestamp

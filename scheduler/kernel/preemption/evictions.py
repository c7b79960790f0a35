"""The preemptors that are gated because the eviction of their victims is under way.

The preemption executor keeps this state; PreEnqueue of DefaultPreemption reads it. No I/O here.

Source: kubernetes pkg/scheduler/framework/preemption/executor.go (IsPodRunningPreemption) v1.36.
"""

from typing_extensions import override

from scheduler.kernel.framework.handle import SharedState


class Evictions(SharedState):
    """The preemptors that wait until all their victims are leaving.

    Attributes:
        under_way: UIDs of these pods and pod groups.
    """

    def __init__(self) -> None:
        self.under_way: set[str] = set()

    @override
    def fork(self) -> "Evictions":
        copy = Evictions()
        copy.under_way = self.under_way.copy()
        return copy

"""The preemptors that are gated because the eviction of their victims is under way.

The preemption executor keeps this state; PreEnqueue of DefaultPreemption reads it. No I/O here.

Source: kubernetes pkg/scheduler/framework/preemption/executor.go (IsPodRunningPreemption) v1.36.
"""

from collections.abc import Set as AbstractSet

from typing_extensions import override

from scheduler.kernel.framework.handle import SharedState


class Evictions(SharedState):
    """The preemptors that wait until all their victims are leaving."""

    def __init__(self) -> None:
        self._under_way: set[str] = set()

    @property
    def under_way(self) -> AbstractSet[str]:
        """The UIDs of these preemptors."""
        return self._under_way

    def begin(self, preemptor_uid: str) -> None:
        """Gate a preemptor whose victims are going to be evicted."""
        self._under_way.add(preemptor_uid)

    def end(self, preemptor_uid: str) -> None:
        """Release a preemptor: all its victims are leaving, or its preemption was dropped."""
        self._under_way.discard(preemptor_uid)

    def hold(self, uid: str) -> bool:
        """Whether a pod or pod group is gated."""
        return uid in self._under_way

    @override
    def fork(self) -> "Evictions":
        copy = Evictions()
        copy._under_way = self._under_way.copy()
        return copy

"""The backoff queue: failed pods that wait for some time before they are tried again.

Source: kubernetes pkg/scheduler/backend/queue/backoff_queue.go v1.36 (with PopFromBackoffQ, which
is on by default). As there, backoff ends at whole seconds: one flush a second, no timer per pod.
Differs: windows are seconds of the monotonic clock, which wall clock adjustments cannot move.
"""

from collections.abc import Iterator
from itertools import chain
from math import floor
from typing import Any, Final

from scheduler.clock import EventClock
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.active import PodHeap
from scheduler.kernel.queue.values import BackoffSettings

ORDERING_WINDOW_SECONDS: Final = 1.0
"""Pods that complete backoff in the same window are ordered by importance and released together.

Source: backoffQOrderingWindowDuration.
"""
_MAX_DOUBLINGS: Final = 62
"""Keeps the power in range; any configured maximum is reached long before."""


class BackoffQueue:
    """Pods in backoff: rejected pods in one heap, pods that met an error in another.

    A rejected pod whose last attempt took long is with the pods that met an error.

    Invariant: a pod is in at most one of the two heaps, the one that `may_come_early` selects.

    Attributes:
        early: the rejected pods; the first one may be popped before its backoff ends.
    """

    def __init__(self, settings: BackoffSettings, clock: EventClock) -> None:
        self._initial = settings.initial_seconds
        self._max = settings.max_seconds
        self._clock = clock
        self.early = PodHeap()
        self._failed = PodHeap()

    def __len__(self) -> int:
        return len(self.early) + len(self._failed)

    def __contains__(self, uid: object) -> bool:
        return uid in self.early or uid in self._failed

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(self.early, self._failed)

    def in_order(self) -> list[QueuedPodInfo]:
        """The pods, first the rejected ones; both sorts in the order in which backoff ends."""
        return self.early.in_order() + self._failed.in_order()

    def expiration(self, queued: QueuedPodInfo) -> float:
        """Compute the end of the backoff of a pod that failed at its timestamp; 0 without one."""
        count = queued.consecutive_errors_count or queued.unschedulable_count
        if count == 0 or self._max == 0:
            return 0.0
        doublings = min(count - 1, _MAX_DOUBLINGS)
        duration = min(self._initial * 2.0**doublings, self._max)
        return _window(queued.timestamp + duration)

    def is_backing_off(self, queued: QueuedPodInfo) -> bool:
        """Whether the pod must still wait; True in the window in which its backoff ends."""
        expiration = queued.backoff_expiration
        return expiration != 0.0 and expiration >= _window(self._clock.now)

    def push(self, uid: str, queued: QueuedPodInfo, sort_key: Any) -> None:
        """Add a pod that is in no queue."""
        if queued.may_come_early:
            self.early.push(uid, queued, (queued.backoff_expiration, sort_key))
        else:
            self._failed.push(uid, queued, queued.backoff_expiration)

    def rekey(self, uid: str, sort_key: Any) -> None:
        """Change the sort key of a pod, if it is here after a rejection."""
        queued = self.early.get(uid)
        if queued is not None:
            self.early.rekey(uid, (queued.backoff_expiration, sort_key))

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take out the pod with this UID, if it is here."""
        return self.early.remove(uid) or self._failed.remove(uid)

    def pop_completed(self) -> Iterator[QueuedPodInfo]:
        """Pop the pods that have completed backoff."""
        now = _window(self._clock.now)
        for heap in (self.early, self._failed):
            while (first := heap.first()) is not None and first.backoff_expiration < now:
                heap.pop()
                yield first

    def validate(self) -> Iterator[str]:
        """Yield each broken invariant as text."""
        for queued in self:
            uid = queued.pod_info.uid
            if queued.is_gated:
                yield f"gated pod {uid} is in back-off"
            if queued.backoff_expiration < self.expiration(queued):
                yield f"pod {uid} has a back-off that is too short for its failures"
            if (uid in self._failed) == queued.may_come_early:
                yield f"pod {uid} is in the wrong kind of back-off"


def backoff_end(queued: QueuedPodInfo) -> float:
    """The time at which a pod leaves backoff; 0 when it has none."""
    end = queued.backoff_expiration
    return end + ORDERING_WINDOW_SECONDS if end else 0.0


def _window(seconds: float) -> float:
    """The start of the ordering window that a point in time lies in."""
    return floor(seconds / ORDERING_WINDOW_SECONDS) * ORDERING_WINDOW_SECONDS

"""The active queue, and the order in which it pops pods.

Pods pop in the order of the QueueSort plugin. But many important pods may fit nowhere and return
here after each event, and their attempts delay all other pods. When half of the pops or more have
ended in a rejection for a while, every second pop is *fair*. It takes the newest of the pods with
the fewest failures; these are mostly new pods. In a queue that is too long to be served, newest
first keeps most waits short.
"""

from collections.abc import Iterator
from typing import Any, Final

from typing_extensions import override

from scheduler.clock import EventClock
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.pod_heap import PodHeap

FAIR_AFTER_SECONDS: Final = 0.5
"""Pops are fair only after rejections have prevailed for this long; until then as upstream."""
_REMEMBERED_TURNS: Final = 128


class ActiveQueue(PodHeap):
    """A heap in the order of the QueueSort plugin, and the same pods in the order of fair pops."""

    def __init__(self, clock: EventClock) -> None:
        super().__init__()
        self._clock = clock
        self._by_failures = PodHeap()
        self._turns = 0
        self._in_vain = 0
        """Number of the counted pops that ended in a rejection."""
        self._wasting_since: float | None = None
        """Time since which half of the pops or more ended in a rejection; None while fewer do."""
        self._is_fair_turn = False

    @override
    def push(self, uid: str, queued: QueuedPodInfo, key: Any) -> None:
        super().push(uid, queued, key)
        self._by_failures.push(uid, queued, _fairness(queued))

    @override
    def rekey(self, uid: str, key: Any) -> None:
        super().rekey(uid, key)
        queued = self.get(uid)
        if queued is not None:
            self._by_failures.rekey(uid, _fairness(queued))

    @override
    def remove(self, uid: str) -> QueuedPodInfo | None:
        self._by_failures.remove(uid)
        return super().remove(uid)

    @override
    def pop(self) -> QueuedPodInfo | None:
        since = self._wasting_since
        if since is not None and len(self) and self._is_fair(since):
            queued = self._by_failures.first()
            if queued is not None:
                self.remove(queued.pod_info.uid)
        elif (queued := super().pop()) is not None:
            self._by_failures.remove(queued.pod_info.pod.metadata.uid)
        if queued is None:
            self._turns = self._in_vain = 0
            self._wasting_since = None
            return None
        self._turns += 1
        self._weigh()
        return queued

    def take(self, uid: str) -> QueuedPodInfo | None:
        """Remove a pod, if it is here, and count it as popped."""
        queued = self.remove(uid)
        if queued is not None:
            self._turns += 1
        return queued

    @override
    def first(self) -> QueuedPodInfo | None:
        """The pod that `pop` returns next; None without one, or when that pop may be fair."""
        return None if self._wasting_since is not None else super().first()

    def note_rejection(self) -> None:
        """Count a pop whose attempt ended in a rejection."""
        self._in_vain += 1
        self._weigh()

    def validate(self) -> Iterator[str]:
        """Yield each broken invariant as text."""
        if set(self) != set(self._by_failures):
            yield "active pods have turns without importance, or importance without turns"
        for queued in self:
            if queued.is_gated:
                yield f"gated pod {queued.pod_info.uid} is active"
            if queued.initial_attempt_timestamp is None:
                yield f"pod {queued.pod_info.uid} is active without having become ready"

    def _weigh(self) -> None:
        if self._turns >= _REMEMBERED_TURNS:
            self._turns //= 2
            self._in_vain //= 2
        if 2 * self._in_vain < self._turns:
            self._wasting_since = None
        elif self._wasting_since is None:
            self._wasting_since = self._clock.now

    def _is_fair(self, wasting_since: float) -> bool:
        """Whether this pop is fair; fair and other pops alternate."""
        if self._clock.now - wasting_since < FAIR_AFTER_SECONDS:
            return False
        self._is_fair_turn = not self._is_fair_turn
        return self._is_fair_turn


def _fairness(queued: QueuedPodInfo) -> tuple[bool, int, float]:
    """A sort key: pods with the fewest failures first, and the newest first among these."""
    failures = queued.unschedulable_count + queued.consecutive_errors_count
    return queued.is_slow, failures, -queued.timestamp

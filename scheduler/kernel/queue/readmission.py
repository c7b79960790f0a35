"""Pods that have waited under an earlier configuration, until they are admitted under the new one.

Upstream reads its configuration once. Here it may change while very many pods wait: sorting them
anew, and asking the PreEnqueue plugins about each, would be one long step.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.active import ActiveQueue
from scheduler.kernel.queue.backoff import BackoffQueue
from scheduler.kernel.queue.hints import QueueingStrategy
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods


class _Source:
    """Pods of one former queue, which nothing changes any more."""

    def __init__(
        self, pods: ActiveQueue | BackoffQueue | UnschedulablePods, strategy: QueueingStrategy
    ) -> None:
        self.strategy = strategy
        self.left = len(pods)
        self._pods = pods
        self._order: Iterator[QueuedPodInfo] = iter(pods)
        self._taken: set[str] = set()

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods and uid not in self._taken

    def take(self, uid: str) -> None:
        self._taken.add(uid)
        self.left -= 1

    def take_next(self) -> QueuedPodInfo:
        queued = next(each for each in self._order if each.pod_info.uid not in self._taken)
        self.take(queued.pod_info.uid)
        return queued

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (each for each in self._pods if each.pod_info.uid not in self._taken)


class Readmission:
    """The pods of former queues, in the order in which they came there.

    Attributes:
        sources: the former queues that still hold pods; almost always empty.
    """

    def __init__(self) -> None:
        self.sources: deque[_Source] = deque()

    def __len__(self) -> int:
        return sum(source.left for source in self.sources)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (queued for source in self.sources for queued in source)

    def add(
        self, active: ActiveQueue, backoff: BackoffQueue, unschedulable: UnschedulablePods
    ) -> None:
        """Take over all pods of these queues. Cost: none for the pods."""
        for pods, strategy in (
            (active, QueueingStrategy.IMMEDIATELY),
            (backoff, QueueingStrategy.AFTER_BACKOFF),
            (unschedulable, QueueingStrategy.AFTER_BACKOFF),
        ):
            if len(pods):
                self.sources.append(_Source(pods, strategy))

    def __contains__(self, uid: str) -> bool:
        return any(uid in source for source in self.sources)

    def take(self, uid: str) -> QueueingStrategy | None:
        """Take out the pod with this UID, if it is here; return when it is to be tried."""
        for source in self.sources:
            if uid in source:
                source.take(uid)
                if not source.left:
                    self.sources.remove(source)
                return source.strategy
        return None

    def some(self, most: int) -> Iterable[tuple[QueuedPodInfo, QueueingStrategy]]:
        """Take out the first pods, at most `most` of them."""
        for _ in range(most):
            if not self.sources:
                return
            source = self.sources[0]
            queued = source.take_next()
            if not source.left:
                self.sources.popleft()
            yield queued, source.strategy

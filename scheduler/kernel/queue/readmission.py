"""Pods that have waited under an earlier configuration, until they are admitted under the new one.

Upstream reads its configuration once. Here it may change while very many pods wait. To sort them
again, and to run PreEnqueue for each, would be one long step.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.active import ActiveQueue
from scheduler.kernel.queue.backoff import BackoffQueue
from scheduler.kernel.queue.hints import QueueingStrategy
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods


class _Source(NamedTuple):
    """The pods left in a former queue, the strategy to requeue them, and their order of arrival."""

    pods: ActiveQueue | BackoffQueue | UnschedulablePods
    strategy: QueueingStrategy
    order: deque[QueuedPodInfo]


class Readmission:
    """The pods of former queues, in the order in which they came there.

    Attributes:
        sources: the former queues that still hold pods; almost always empty.
    """

    def __init__(self) -> None:
        self.sources: deque[_Source] = deque()

    def __len__(self) -> int:
        return sum(len(source.pods) for source in self.sources)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (queued for source in self.sources for queued in source.pods)

    def add(
        self, active: ActiveQueue, backoff: BackoffQueue, unschedulable: UnschedulablePods
    ) -> None:
        """Add all pods of these queues. Cost: O(pods), some 300 ns each."""
        for pods, strategy in (
            (active, QueueingStrategy.IMMEDIATELY),
            (backoff, QueueingStrategy.AFTER_BACKOFF),
            (unschedulable, QueueingStrategy.AFTER_BACKOFF),
        ):
            if len(pods):
                self.sources.append(_Source(pods, strategy, deque(pods)))

    def __contains__(self, uid: str) -> bool:
        return any(uid in source.pods for source in self.sources)

    def take(self, uid: str) -> QueueingStrategy | None:
        """Take out the pod with this UID, if it is here; return the strategy to requeue it."""
        for source in self.sources:
            if source.pods.remove(uid) is not None:
                if not len(source.pods):
                    self.sources.remove(source)
                return source.strategy
        return None

    def some(self, most: int) -> Iterable[tuple[QueuedPodInfo, QueueingStrategy]]:
        """Take out the first pods, at most `most` of them."""
        for _ in range(most):
            if not self.sources:
                return
            pods, strategy, order = self.sources[0]
            queued = next(each for each in iter(order.popleft, None) if each.pod_info.uid in pods)
            self.take(queued.pod_info.uid)
            yield queued, strategy

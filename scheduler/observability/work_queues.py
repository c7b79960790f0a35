"""What client-go tells of its work queues, told of ours.

Source: k8s.io/component-base metrics/prometheus/workqueue v0.36 (names, labels, buckets) and
k8s.io/client-go util/workqueue (what is counted when).
"""

from collections.abc import Awaitable, Callable, Sized
from typing import Final, TypeVar

from scheduler.observability.instruments import Instruments, exponential

T = TypeVar("T")

_BOUNDS: Final = exponential(10e-9, 10, 10)


class WorkQueueMetrics:
    """The families; each has the label `name`."""

    def __init__(self, add: Instruments) -> None:
        self.depth = add.gauge("workqueue_depth", "Current depth of a work queue.", "name")
        self.adds = add.counter("workqueue_adds_total", "Items put into a work queue.", "name")
        self.queued = add.histogram(
            "workqueue_queue_duration_seconds",
            "How long items wait in a work queue.",
            "name",
            bounds=_BOUNDS,
        )
        self.worked = add.histogram(
            "workqueue_work_duration_seconds",
            "How long work on an item takes.",
            "name",
            bounds=_BOUNDS,
        )
        self.unfinished = add.gauge(
            "workqueue_unfinished_work_seconds",
            "For how long items have been worked on that are not done, added up.",
            "name",
        )
        self.longest = add.gauge(
            "workqueue_longest_running_processor_seconds",
            "For how long the item has been worked on that was begun first.",
            "name",
        )
        self.retries = add.counter(
            "workqueue_retries_total", "Items put into a work queue once more.", "name"
        )


class WorkQueue:
    """Times the items of one queue; it knows neither the queue nor its order.

    Cost: two microseconds an item.
    """

    def __init__(
        self, metrics: WorkQueueMetrics, name: str, waiting: Sized, now: Callable[[], float]
    ) -> None:
        """Begin at zero.

        `waiting` are the items that are queued and not in process.
        """
        self._now = now
        self._adds, self._retries = metrics.adds[name], metrics.retries[name]
        self._queued, self._worked = metrics.queued[name], metrics.worked[name]
        self._begun: dict[int, float] = {}
        self._number = 0
        metrics.depth.from_source(lambda: {name: len(waiting)})
        metrics.unfinished.from_source(lambda: {name: sum(self._ages())})
        metrics.longest.from_source(lambda: {name: max(self._ages(), default=0.0)})

    def added(self) -> float:
        """An item was put into the queue; gives the time, which is to come back with it."""
        self._adds.inc()
        return self._now()

    def retried(self) -> None:
        """An item will be put into the queue once more."""
        self._retries.inc()

    async def work(self, since: float, running: Awaitable[T]) -> T:
        """Work on an item that was put into the queue then."""
        begun = self._now()
        self._queued.observe(begun - since)
        self._number = number = self._number + 1
        self._begun[number] = begun
        try:
            return await running
        finally:
            del self._begun[number]
            self._worked.observe(self._now() - begun)

    def _ages(self) -> list[float]:
        now = self._now()
        return [now - begun for begun in self._begun.values()]

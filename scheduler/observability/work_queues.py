"""The metrics of client-go's work queues, for the lanes of the outbox.

Source: k8s.io/component-base metrics/prometheus/workqueue v0.36 (names, labels, buckets) and
k8s.io/client-go util/workqueue (what is counted when).
"""

from typing import Final

from scheduler.observability.instruments import Instruments, exponential

_BOUNDS: Final = exponential(10e-9, 10, 10)


class WorkQueueMetrics:
    """The families of work queues; each has the label `name`."""

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

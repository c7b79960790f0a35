"""Metrics of the queue."""

from scheduler.observability.instruments import Instruments


class QueueMetrics:
    """The families of the queue; indexed by label values in the order of declaration."""

    def __init__(self, add: Instruments) -> None:
        self.pending_pods = add.gauge(
            "scheduler_pending_pods",
            "Waiting pods: active (to be tried next), backoff (tried, resting), unschedulable "
            "(tried, waiting for a change), gated (held back by a PreEnqueue plugin).",
            "queue",
        )
        self.inflight_events = add.gauge(
            "scheduler_inflight_events",
            "Events kept for pods that are being scheduled.",
            "event",
        )
        self.queue_incoming_pods = add.counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that came into a queue, by what brought them there.",
            "queue",
            "event",
        )
        self.unschedulable_pods = add.gauge(
            "scheduler_unschedulable_pods",
            "Waiting pods that a plugin rejected; a pod counts for each plugin that did.",
            "plugin",
            "profile",
        )

"""Metrics of extenders; of these kube-scheduler has only `scheduler_goroutines`."""

from scheduler.observability.instruments import Instruments, exponential


class ExtenderMetrics:
    """The families about extenders; indexed by label values in the order of declaration."""

    def __init__(self, add: Instruments) -> None:
        self.request_duration = add.histogram(
            "stowage_extender_request_duration_seconds",
            "Time of a request to an extender; the result is ok, error or late.",
            "extender",
            "verb",
            "result",
            bounds=exponential(0.001, 2, 15),
        )
        self.left_alone = add.counter(
            "stowage_extender_left_alone_total",
            "How often an ignorable extender was late so often that it was not asked for a while.",
            "extender",
        )
        self.asking_attempts = add.gauge(
            "stowage_asking_attempts",
            "Attempts that ask extenders (asking), or wait for their turn to do so (line).",
            "place",
        )

"""Metrics of volume binding."""

from scheduler.observability.instruments import Instruments


class VolumeMetrics:
    """The families of volume binding; indexed by label values in the order of declaration."""

    def __init__(self, add: Instruments) -> None:
        self.stage_errors = add.counter(
            "scheduler_volume_scheduling_stage_error_total",
            "Pods whose volumes could not be judged or assumed, or were not bound as decided.",
            "operation",
        )

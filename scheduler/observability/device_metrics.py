"""Metrics of devices and their binding.

Source: pkg/scheduler/metrics metrics.go (ResourceClaimCreatesTotal, DRABindingConditions) v1.36.3.
"""

from scheduler.observability.instruments import Instruments, exponential


class DeviceMetrics:
    """The families of devices; indexed by label values in the order of declaration."""

    def __init__(self, add: Instruments) -> None:
        self.claim_creates = add.counter(
            "scheduler_resourceclaim_creates_total",
            "Claims for extended resources that were asked to be made.",
            "status",
        )
        self.waited_allocations = add.counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Devices with binding conditions that an attempt has waited for.",
            "profile",
            "driver",
            "status",
        )
        self.wait_duration = add.histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time that PreBind waited until drivers had made devices ready.",
            "profile",
            "driver",
            "status",
            bounds=exponential(0.1, 2, 14),
        )

"""What kube-scheduler 1.36 has and Stowage has not, with the reason; drawn into docs/parity.md."""

from typing import Final

from scheduler.config.feature_gates import DEFAULTS, OF_SCHEDULING, OTHERWISE_HERE, SWITCHES
from tests.unit.observability.test_metrics import NOT_HERE as METRICS_AFTER_WORK

OF_GROUPS: Final = frozenset(
    {
        "DRAWorkloadResourceClaims",
        "GangScheduling",
        "GenericWorkload",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
    }
)
"""Pod groups have a row of their own on the page, and metrics that begin with `podgroup_`."""

GATES: Final = {
    "AllAlpha": "Gates are set one by one.",
    "AllBeta": "Gates are set one by one.",
    "DRAListTypeAttributes": "Not done: alpha, and CEL expressions would see other types.",
    "DRANodeAllocatableResources": "Not done: alpha, and devices would count as cpu and memory.",
    "OpportunisticBatching": "Equal pods are placed in one step in another way, which cannot be "
    "turned off.",
    "SchedulerAsyncAPICalls": "Every call to the API server is asynchronous, which cannot be "
    "turned on or off.",
}
"""Gates that cannot be set otherwise than Stowage behaves."""

_DISPATCHER: Final = "The outbox has `workqueue_*` of its own."

METRICS: Final = {
    **{name: f"{reason[0].upper()}{reason[1:]}." for name, reason in METRICS_AFTER_WORK.items()},
    "scheduler_async_api_call_execution_duration_seconds": _DISPATCHER,
    "scheduler_async_api_call_execution_total": _DISPATCHER,
    "scheduler_pending_async_api_calls": _DISPATCHER,
    "scheduler_volume_binder_cache_requests_total": "kube-scheduler declares it and never counts.",
}
"""Metrics that kube-scheduler serves, or would serve behind gates that are off by default."""

ENDPOINTS: Final = {
    "/debug/pprof": "Go's profiler; `SIGUSR2`, `/debug/cache` and `stowage_loop_*` tell instead.",
}


def missing_gates() -> set[str]:
    """The gates of scheduling that are off by default and no switch here, or mean nothing here."""
    return {
        gate
        for gate in OF_SCHEDULING - SWITCHES - OF_GROUPS
        if gate in OTHERWISE_HERE or not DEFAULTS[gate]
    }


def table() -> str:
    """One line per gate, metric and endpoint."""
    lines = ["| kube-scheduler's | why it is not here |", "|---|---|"]
    for sort, reasons in (("gate", GATES), ("metric", METRICS), ("endpoint", ENDPOINTS)):
        lines += [f"| {sort} `{name}` | {reason} |" for name, reason in sorted(reasons.items())]
    return "\n".join(lines)

"""Metrics of the engine.

Source: pkg/scheduler/metrics (metrics.go, profile_metrics.go) v1.36.
"""

from typing import Final

from scheduler.observability.instruments import CounterMetric, Instruments, exponential
from scheduler.observability.pod_group_metrics import PodGroupMetrics

_ATTEMPTS_SHOWN: Final = 15
"""Source: pkg/scheduler/schedule_one.go (getAttemptsLabel) v1.36."""


class EngineMetrics:
    """The families of the engine; indexed by label values in the order of declaration.

    Attributes:
        pod_groups: the families of pod groups.
    """

    def __init__(self, add: Instruments) -> None:
        self.pod_groups = PodGroupMetrics(add)
        self.schedule_attempts = add.counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod by how they ended: scheduled, unschedulable (no node "
            "fits) or error (something went wrong).",
            "result",
            "profile",
        )
        self.scheduling_attempt_duration = add.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of an attempt from taking the pod off the queue to its binding or rejection.",
            "result",
            "profile",
            bounds=exponential(0.001, 2, 15),
        )
        self.scheduling_algorithm_duration = add.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time to choose a node, without binding.",
            bounds=exponential(0.001, 2, 15),
        )[()]
        self.batch_attempts = add.counter(
            "scheduler_batch_attempts_total",
            "Pods by whether the answers for the pod before served them: hint_used, hint_not_used "
            "(no node fits any more) or no_hint (the pod was evaluated itself).",
            "profile",
            "result",
        )
        self.batch_cache_flushed = add.counter(
            "scheduler_batch_cache_flushed_total",
            "Batches of equal pods by why they ended: pod_incompatible (another pod is next), "
            "pod_failed, empty_list (no node fits any more) or expired (the step is over).",
            "profile",
            "reason",
        )
        self.pod_scheduling_sli_duration = add.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from when a pod was first ready to be scheduled until it was bound, over all "
            "its attempts.",
            "attempts",
            bounds=exponential(0.01, 2, 20),
        )
        self.pod_scheduling_attempts = add.histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts it took to schedule a pod.",
            bounds=exponential(1, 2, 5),
        )[()]
        self.pod_scheduled_after_flush = add.counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods that were scheduled only because they had waited for too long without being "
            "woken; points to a queueing hint that misses an event.",
        )[()]
        self.event_handling_duration = add.histogram(
            "scheduler_event_handling_duration_seconds",
            "Time to take a change of the cluster over into cache and queue.",
            "event",
            bounds=exponential(0.0001, 2, 12),
        )
        self.permit_wait_duration = add.histogram(
            "scheduler_permit_wait_duration_seconds",
            "Time a pod was held by a Permit plugin.",
            "result",
            bounds=exponential(0.001, 2, 15),
        )
        self.preemption_attempts = preemption_attempts(add)
        self.preemption_victims = add.histogram(
            "scheduler_preemption_victims",
            "Pods chosen to be evicted for one pod.",
            bounds=exponential(1, 2, 7),
        )[()]
        self.preemption_goroutines_duration = add.histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Time to evict the victims of one pod.",
            "result",
            bounds=exponential(0.01, 2, 20),
        )
        self.preemption_goroutines_execution = add.counter(
            "scheduler_preemption_goroutines_execution_total",
            "Evictions of the victims of one pod, by how they ended.",
            "result",
        )

    def attempt_ended(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt that ended `scheduled`, `unschedulable` or in `error`."""
        self.schedule_attempts[result, profile].inc()
        self.scheduling_attempt_duration[result, profile].observe(seconds)

    def pod_bound(self, attempts: int, seconds: float | None, *, was_flushed: bool) -> None:
        """Count a bound pod.

        `seconds` is the time since it was first active, None if unknown. With `was_flushed` its
        last attempt was caused by the time limit of unschedulable pods.
        """
        self.pod_scheduling_attempts.observe(attempts)
        if seconds is not None:
            shown = str(attempts) if attempts < _ATTEMPTS_SHOWN else f"{_ATTEMPTS_SHOWN}+"
            self.pod_scheduling_sli_duration[shown].observe(seconds)
        if was_flushed:
            self.pod_scheduled_after_flush.inc()


def preemption_attempts(add: Instruments) -> CounterMetric:
    """Declare the metric of DefaultPreemption, which is served even without this plugin."""
    family = add.counter(
        "scheduler_preemption_attempts_total",
        "Attempts to make room for a pod by evicting others.",
    )
    return family[()]

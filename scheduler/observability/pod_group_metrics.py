"""Metrics of pod groups, and of room kept for nominated pods.

Source: pkg/scheduler/metrics (metrics.go, profile_metrics.go) v1.36, with the feature gate
GenericWorkload. Differs: they are declared without the gate too.
"""

from scheduler.observability.instruments import Instruments, exponential


class PodGroupMetrics:
    """The families of pod groups; indexed by label values in the order of declaration."""

    def __init__(self, add: Instruments) -> None:
        self.attempts = add.counter(
            "scheduler_podgroup_schedule_attempts_total",
            "Attempts to schedule a pod group by how they ended: scheduled (enough members go on), "
            "unschedulable, waiting_on_preemption or error (something went wrong).",
            "result",
            "profile",
        )
        self.attempt_duration = add.histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Time of an attempt to schedule a pod group, from the first look at a member until all "
            "of them go on or are given back.",
            "result",
            "profile",
            bounds=exponential(0.001, 2, 15),
        )
        self.algorithm_duration = add.histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Time to choose nodes for the members of a pod group.",
            bounds=exponential(0.001, 2, 15),
        )[()]
        self.groups = add.gauge(
            "stowage_pod_groups",
            "Pod groups with pods that have not ended: whole (enough members have a node), partial "
            "(fewer than minCount have one, so members are missing) or waiting (none has one).",
            "state",
        )
        self.rooms = add.gauge(
            "stowage_kept_room",
            "Room that KeepRoom keeps now: for how many pods, on how many nodes; 0 for none.",
            "profile",
            "of",
        )
        self.room_since = add.gauge(
            "stowage_kept_room_since_seconds",
            "Since when room is kept for the same pod or pod group, in seconds since 1970; 0 for "
            "none.",
            "profile",
        )
        self.room_until = add.gauge(
            "stowage_kept_room_until_seconds",
            "When the room is expected to be needed, in seconds since 1970; 0 where that is not "
            "known, and for none.",
            "profile",
        )

    def attempt_ended(self, result: str, profile: str, seconds: float) -> None:
        """Count a group's attempt; the help text of the counter lists the results."""
        self.attempts[result, profile].inc()
        self.attempt_duration[result, profile].observe(seconds)

"""A pod on its way through the queue, and to its node.

Source of the names: kubernetes pkg/scheduler/framework/types.go (QueuedPodInfo) v1.36.
"""

from enum import Enum

import msgspec

from scheduler.api.pods import PodInfo


class PreBindWork(Enum):
    """What PreBind has to do for a pod."""

    NOTHING = "nothing"
    WRITES = "writes"
    """It waits for nothing but the API server."""
    ANYTHING = "anything"
    """It may wait for others, such as provisioners and drivers."""


class Excess(msgspec.Struct, frozen=True):
    """A pod asks for more of a resource than any node has, whatever runs there.

    Attributes:
        resource: the resource.
        amount: how much the pod asks for, in the units of the node table.
    """

    resource: str
    amount: int


class QueuedPodInfo:
    """A pod in the scheduling queue with the story of its attempts.

    Times are seconds of the injected monotonic clock.

    Attributes:
        pod_info: the pod.
        timestamp: when it was last put into the queue.
        attempts: scheduling attempts so far.
        initial_attempt_timestamp: when it first became ready, or None.
        unschedulable_count: attempts that ended in a rejection.
        consecutive_errors_count: attempts in a row that ended in an error.
        backoff_expiration: when its back-off ends; 0 when it has none.
        unschedulable_plugins: the plugins that rejected it last.
        pending_plugins: the plugins that returned Pending last.
        gating_plugin: the PreEnqueue plugin that holds it, or empty.
        gate_failed: whether that plugin failed, and so no event is due for the pod.
        last_failure: the message of the last failed attempt, for `explain` and people.
        is_slow: whether deciding about it took so long that others go first.
        slow_attempt: the number of the last attempt whose decision took long; -1 for none.
        was_flushed: whether the five-minute flush put it back last.
        excess: why no node could ever hold it, if the last rejection found that.
    """

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors_count",
        "excess",
        "gate_failed",
        "gating_plugin",
        "initial_attempt_timestamp",
        "is_slow",
        "last_failure",
        "pending_plugins",
        "pod_info",
        "slow_attempt",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, pod_info: PodInfo, timestamp: float) -> None:
        self.pod_info = pod_info
        self.timestamp = timestamp
        self.attempts = 0
        self.initial_attempt_timestamp: float | None = None
        self.unschedulable_count = 0
        self.consecutive_errors_count = 0
        self.backoff_expiration = 0.0
        self.unschedulable_plugins: frozenset[str] = frozenset()
        self.pending_plugins: frozenset[str] = frozenset()
        self.gating_plugin = ""
        self.gate_failed = False
        self.last_failure = ""
        self.is_slow = False
        self.slow_attempt = -1
        self.was_flushed = False
        self.excess: Excess | None = None

    @property
    def is_gated(self) -> bool:
        """Whether a PreEnqueue plugin holds the pod."""
        return bool(self.gating_plugin)

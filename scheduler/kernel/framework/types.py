"""A pod on its way through the queue, and to its node; and why it has not come there.

Source of the names: kubernetes pkg/scheduler/framework/types.go (QueuedPodInfo) v1.36.
"""

from collections.abc import Mapping
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


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed.

    That of a pod that fits nowhere is an evaluation which equal pods share. It holds while the
    cluster has the same version. Queueing hints do not matter: upstream's have false negatives, so
    an event that they ignore may have helped all the same.

    Attributes:
        message: for people; what the event and the condition say.
        is_rejection: whether the pod was rejected; False for an unexpected error.
        unschedulable_plugins: the plugins that rejected the pod; their hints may wake it.
        pending_plugins: the plugins that returned Pending.
        nominated_node_name: a nomination; "" withdraws one, None keeps what there is.
        needed_at: when the nominated pod needs its room, in seconds since 1970; 0 where that is
            not known.
        fits_nowhere: whether no node fits, nor one equal to it, and nothing can be done about it.
        excess: why no node could ever hold the pod, if that is so.
        reasons: how many nodes each reason rejects.
        version: of all that plugins read, when the pod was evaluated that fits nowhere; see
            `EngineState.cluster_version`.
        since: when that was, in seconds.
    """

    message: str
    is_rejection: bool = False
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominated_node_name: str | None = ""
    needed_at: float = 0.0
    fits_nowhere: bool = False
    excess: Excess | None = None
    reasons: Mapping[str, int] = {}
    version: tuple[int, ...] = ()
    since: float = 0.0


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
        waits_out: whether its last attempt took so long that it is not tried before its back-off is
            over, even if no other pod is ready.
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
        "waits_out",
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
        self.waits_out = False
        self.excess: Excess | None = None

    @property
    def may_come_early(self) -> bool:
        """Whether it may be tried before its back-off is over, if no other pod is ready."""
        was_rejected = self.unschedulable_plugins or self.pending_plugins
        return bool(was_rejected) and not self.waits_out

    @property
    def is_gated(self) -> bool:
        """Whether a PreEnqueue plugin holds the pod."""
        return bool(self.gating_plugin)

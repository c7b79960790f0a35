"""A pod on its way through the queue to its node, and the failure of an attempt.

Source of the names: kubernetes pkg/scheduler/framework/types.go (QueuedPodInfo) v1.36.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from scheduler.api.pods import PodInfo
from scheduler.api.written import MESSAGE_LIMIT, cut

_SURELY_SHORT: Final = MESSAGE_LIMIT // 4
"""A message of so many characters is within the limit: UTF-8 takes at most four bytes each."""


class PreBindWork(Enum):
    """The work that PreBind has for a pod."""

    NOTHING = "nothing"
    WRITES = "writes"
    """PreBind waits for nothing but the API server."""
    ANYTHING = "anything"
    """PreBind may wait for others, such as provisioners and drivers."""


class Excess(msgspec.Struct, frozen=True):
    """A request for more of a resource than any node has, whatever runs there.

    Attributes:
        resource: the resource.
        amount: the requested amount, in the units of the node table.
    """

    resource: str
    amount: int


class Failure(msgspec.Struct, frozen=True):
    """The reason why an attempt failed.

    Equal pods share the failure of a pod that no node fits, while the cluster has the same version.
    Any event that plugins read changes the version, even if all queueing hints skip it: upstream's
    hints have false negatives.

    Attributes:
        message: the text of the event and the condition; cut at `MESSAGE_LIMIT`.
        is_rejection: whether the pod was rejected; False for an unexpected error.
        unschedulable_plugins: the plugins that rejected the pod; their hints may requeue it.
        pending_plugins: the plugins that returned Pending.
        nominated_node_name: a nomination; "" withdraws one, None keeps the present one.
        needed_at: the time at which the nominated pod needs its room, in seconds since 1970; 0
            where unknown.
        fits_nowhere: whether no node fits the pod or its equals, and preemption does not help.
        excess: the request that exceeds every node, if there is one.
        reasons: number of nodes that each reason rejects.
        version: the version of all that plugins read, at the evaluation of a pod that fits
            nowhere; see `EngineState.cluster_version`.
        since: the time of that evaluation, in seconds.
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

    def __post_init__(self) -> None:
        """Cut a message that is too long for a pod condition."""
        if len(self.message) > _SURELY_SHORT:
            force_setattr(self, "message", cut(self.message))


class QueuedPodInfo(msgspec.Struct, eq=False):
    """A pod in the scheduling queue with the history of its attempts.

    Times are seconds of the injected monotonic clock.

    Attributes:
        pod_info: the pod.
        timestamp: the time at which it was last put into the queue.
        attempts: number of scheduling attempts so far.
        initial_attempt_timestamp: the time at which it first became ready, or None.
        unschedulable_count: number of attempts that ended in a rejection.
        consecutive_errors_count: number of attempts in a row that ended in an error.
        backoff_expiration: the end of its back-off; 0 when it has none.
        unschedulable_plugins: the plugins that rejected it last.
        pending_plugins: the plugins that returned Pending last.
        gating_plugin: the PreEnqueue plugin that holds it, or empty.
        gate_failed: whether that plugin failed; the pod then waits for the flush, not for an event.
        last_failure: the message of the last failed attempt, for `explain` and people.
        is_slow: whether decisions about it took so long that other pods are popped first.
        slow_attempt: the number of the last attempt whose decision took long; -1 for none.
        was_flushed: whether the five-minute flush put it back last.
        waits_out: whether its last attempt took so long that it is not tried before its back-off is
            over, even if no other pod is ready.
        excess: the request that exceeds every node, if the last rejection found one.
        fits_nowhere: whether the last rejection may hold for equal pods; see `Failure`.
    """

    pod_info: PodInfo
    timestamp: float
    attempts: int = 0
    initial_attempt_timestamp: float | None = None
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    backoff_expiration: float = 0.0
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    gating_plugin: str = ""
    gate_failed: bool = False
    last_failure: str = ""
    is_slow: bool = False
    slow_attempt: int = -1
    was_flushed: bool = False
    waits_out: bool = False
    excess: Excess | None = None
    fits_nowhere: bool = False

    @property
    def may_come_early(self) -> bool:
        """Whether it may be tried before its back-off is over, if no other pod is ready."""
        was_rejected = self.unschedulable_plugins or self.pending_plugins
        return bool(was_rejected) and not self.waits_out

    @property
    def is_gated(self) -> bool:
        """Whether a PreEnqueue plugin holds the pod."""
        return bool(self.gating_plugin)

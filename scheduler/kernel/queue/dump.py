"""The queue as people read it: all of its pods, or the position of one."""

from typing import Final

import msgspec

from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.backoff import ORDERING_WINDOW_SECONDS

IN_FLIGHT: Final = "inFlight"
ACTIVE: Final = "active"
BACKOFF: Final = "backoff"
UNSCHEDULABLE: Final = "unschedulable"
GATED: Final = "gated"


class QueuePosition(msgspec.Struct, frozen=True):
    """The part of the queue that holds a pod.

    Attributes:
        name: `active`, `backoff`, `unschedulable`, `gated`, or `inFlight`.
        queued: the pod with the history of its attempts.
        until: the end of its backoff, or its deadline when rejected; 0 in the other parts.
    """

    name: str
    queued: QueuedPodInfo
    until: float = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether the pod waits for an event."""
        return self.name in (UNSCHEDULABLE, GATED)


def backoff_end(queued: QueuedPodInfo) -> float:
    """The time at which a pod leaves backoff; 0 when it has none."""
    end = queued.backoff_expiration
    return end + ORDERING_WINDOW_SECONDS if end else 0.0


def row_of(place: str, queued: QueuedPodInfo, now: float) -> dict[str, object]:
    """A pod with its place, as plain values."""
    pod = queued.pod_info
    backoff_left = max(0.0, backoff_end(queued) - now)
    return {
        "pod": pod.key,
        "uid": pod.uid,
        "profile": pod.spec.scheduler_name,
        "priority": pod.priority,
        "queue": place,
        "attempts": queued.attempts,
        "waitingSeconds": round(now - queued.timestamp, 3),
        "backoffSecondsLeft": round(backoff_left, 3),
        "unschedulablePlugins": sorted(queued.unschedulable_plugins),
        "pendingPlugins": sorted(queued.pending_plugins),
        "gatingPlugin": queued.gating_plugin,
        "message": queued.last_failure,
    }

"""The queue as people read it: all of its pods, or the position of one."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from scheduler.clock import MonotonicClock
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.active import ActiveQueue
from scheduler.kernel.queue.backoff import ORDERING_WINDOW_SECONDS
from scheduler.kernel.queue.in_flight import InFlightPods
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods

IN_FLIGHT: Final = "inFlight"
ACTIVE: Final = "active"
BACKOFF: Final = "backoff"
UNSCHEDULABLE: Final = "unschedulable"
GATED: Final = "gated"


class QueuePosition(msgspec.Struct, frozen=True):
    """The part of the queue that holds a pod.

    Attributes:
        name: `active`, `backoff`, `unschedulable`, `gated`, or `inFlight`.
        queued: the pod with its story.
        until: the end of its back-off, or its deadline when rejected; 0 in the other parts.
    """

    name: str
    queued: QueuedPodInfo
    until: float = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether the pod waits for an event."""
        return self.name in (UNSCHEDULABLE, GATED)


def dump_queue(
    active: ActiveQueue,
    backoff: Iterable[QueuedPodInfo],
    unschedulable: UnschedulablePods,
    in_flight: InFlightPods,
    clock: MonotonicClock,
) -> Iterator[dict[str, object]]:
    """All pods: in flight, active, in back-off, rejected, gated; described one by one."""
    now = clock.monotonic()
    rejected = [queued for queued in unschedulable if not queued.is_gated]
    gated = [queued for queued in unschedulable if queued.is_gated]
    places: tuple[tuple[str, Iterable[QueuedPodInfo]], ...] = (
        (IN_FLIGHT, list(in_flight)),
        (ACTIVE, active.in_order()),
        (BACKOFF, backoff),
        (UNSCHEDULABLE, rejected),
        (GATED, gated),
    )
    return (_describe(place, queued, now) for place, pods in places for queued in pods)


def backoff_end(queued: QueuedPodInfo) -> float:
    """The time at which a pod leaves back-off; 0 when it has none."""
    end = queued.backoff_expiration
    return end + ORDERING_WINDOW_SECONDS if end else 0.0


def _describe(place: str, queued: QueuedPodInfo, now: float) -> dict[str, object]:
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

"""What the queue shows to people."""

from collections.abc import Iterable, Iterator

from scheduler.clock import MonotonicClock
from scheduler.framework.types import QueuedPodInfo
from scheduler.queue.active import ActiveQueue
from scheduler.queue.backoff import ORDERING_WINDOW_SECONDS, BackoffQueue
from scheduler.queue.in_flight import InFlightPods
from scheduler.queue.unschedulable_pods import UnschedulablePods


def dump_queue(
    active: ActiveQueue,
    backoff: BackoffQueue,
    unschedulable: UnschedulablePods,
    in_flight: InFlightPods,
    clock: MonotonicClock,
) -> Iterator[dict[str, object]]:
    """All pods: in flight, active, in back-off, rejected, gated; described one by one."""
    now = clock.monotonic()
    rejected = [queued for queued in unschedulable if not queued.is_gated]
    gated = [queued for queued in unschedulable if queued.is_gated]
    places: tuple[tuple[str, Iterable[QueuedPodInfo]], ...] = (
        ("inFlight", list(in_flight)),
        ("active", active.in_order()),
        ("backoff", backoff.in_order()),
        ("unschedulable", rejected),
        ("gated", gated),
    )
    return (_describe(place, queued, now) for place, pods in places for queued in pods)


def _describe(place: str, queued: QueuedPodInfo, now: float) -> dict[str, object]:
    pod = queued.pod_info
    backoff_left = 0.0
    if queued.backoff_expiration:
        backoff_left = max(0.0, queued.backoff_expiration + ORDERING_WINDOW_SECONDS - now)
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

"""The scheduling queue: the order of pods, the reasons to wait, and the events that move pods.

Pure: no I/O, no event loop, time from the injected clock. The queue calls plugins only through
their profiles, and has no access to nodes.

Source of the names: kubernetes pkg/scheduler/backend/queue (v1.36).
"""

from scheduler.kernel.queue.active import PUT_LAST_SECONDS
from scheduler.kernel.queue.hints import QueueingHints
from scheduler.kernel.queue.queued_pods import QueueInvariantError
from scheduler.kernel.queue.scheduling_queue import SchedulingQueue
from scheduler.kernel.queue.values import (
    GATED,
    BackoffSettings,
    QueueCounts,
    QueuePosition,
)

__all__ = [
    "GATED",
    "PUT_LAST_SECONDS",
    "BackoffSettings",
    "QueueCounts",
    "QueueInvariantError",
    "QueuePosition",
    "QueueingHints",
    "SchedulingQueue",
]

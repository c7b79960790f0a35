"""The scheduling queue: the order of pods, the reasons to wait, and the events that move pods.

Pure: no I/O, no event loop, time from the injected clock. The queue knows plugins only by the
events they registered, and has no access to nodes.

Source of the names: kubernetes pkg/scheduler/backend/queue (v1.36).
"""

from scheduler.kernel.queue.dump import QueuePosition
from scheduler.kernel.queue.queued_pods import PUT_LAST_SECONDS, QueueInvariantError
from scheduler.kernel.queue.scheduling_queue import SchedulingQueue
from scheduler.kernel.queue.settings import (
    BackoffSettings,
    QueueCounts,
    QueueProfile,
    QueueSettings,
)

__all__ = [
    "PUT_LAST_SECONDS",
    "BackoffSettings",
    "QueueCounts",
    "QueueInvariantError",
    "QueuePosition",
    "QueueProfile",
    "QueueSettings",
    "SchedulingQueue",
]

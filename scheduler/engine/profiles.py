"""The queue of all profiles."""

from collections.abc import Mapping

from scheduler.engine.core import EventTime
from scheduler.framework.runtime import Framework
from scheduler.observability.queue_metrics import QueueMetrics
from scheduler.queue import QueueProfile, QueueSettings, SchedulingQueue


def build_queue(
    frameworks: Mapping[str, Framework],
    time: EventTime,
    settings: QueueSettings,
    metrics: QueueMetrics,
) -> SchedulingQueue:
    """The queue; all profiles sort alike, as validation demands."""
    first = next(iter(frameworks.values()))
    return SchedulingQueue(
        first.sort_key,
        {
            name: QueueProfile(
                f.events_to_register(), f.run_pre_enqueue_plugins, f.run_queueing_hint
            )
            for name, f in frameworks.items()
        },
        time,
        settings=settings,
        metrics=metrics,
    )

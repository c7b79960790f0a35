"""The queue of all profiles: which events wake the pods that each plugin rejects.

Source: kubernetes pkg/scheduler/scheduler.go (buildQueueingHintMap) v1.36.
"""

from collections.abc import Iterable, Mapping

import msgspec

from scheduler.engine.core import EventTime
from scheduler.framework.events import ClusterEventWithHint
from scheduler.framework.interface import Plugin
from scheduler.framework.runtime import Framework
from scheduler.queue import (
    QueueProfile,
    QueueRecorder,
    QueueSettings,
    SchedulingQueue,
    events_of,
)


def build_queue(
    frameworks: Mapping[str, Framework],
    time: EventTime,
    settings: QueueSettings,
    recorder: QueueRecorder | None,
) -> SchedulingQueue:
    """The queue; all profiles sort alike, as validation demands."""
    first = next(iter(frameworks.values()))
    return SchedulingQueue(
        first.plugins.queue_sort.sort_key,
        {
            name: QueueProfile(
                _events(f),
                {plugin.NAME: plugin.pre_enqueue for plugin in f.plugins.pre_enqueue},
            )
            for name, f in frameworks.items()
        },
        time,
        settings=settings,
        recorder=recorder,
    )


def _events(framework: Framework) -> dict[str, tuple[ClusterEventWithHint, ...]]:
    """What each plugin that can reject pods wants to be woken by.

    Hints of out-of-tree plugins are asked for every pod, whatever they declare: an author who has
    not read about `reads_pod_shape_only` must not get another pod's answer.
    """
    events = events_of(_rejecting(framework))
    for name, wanted in events.items():
        if not _is_in_tree(framework.plugins.by_name[name]):
            events[name] = tuple(
                msgspec.structs.replace(event, reads_pod_shape_only=False) for event in wanted
            )
    return events


def _is_in_tree(plugin: Plugin) -> bool:
    return type(plugin).__module__.startswith("scheduler.plugins.")


def _rejecting(framework: Framework) -> Iterable[Plugin]:
    """The plugins that can reject pods; the others need no events."""
    plugins = framework.plugins
    points = (
        plugins.pre_enqueue,
        plugins.pre_filter,
        plugins.filter,
        plugins.reserve,
        plugins.permit,
    )
    names = dict.fromkeys(plugin.NAME for point in points for plugin in point)
    return [plugins.by_name[name] for name in names]

"""Connects the metrics of the daemon to the sources of their values."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler.daemon.driver.driver import Driver
from scheduler.kernel.engine import Engine
from scheduler.kernel.extender import Verb
from scheduler.kernel.framework.runtime import ProfilePlugins
from scheduler.kernel.framework.runtime.pod_classes import PodClasses
from scheduler.kernel.preemption.kept_room import RoomReservation
from scheduler.observability.metrics import SchedulerMetrics
from scheduler.observability.pod_group_metrics import PodGroupMetrics


def counted(plugins: ProfilePlugins) -> dict[str, list[str]]:
    """Return the names of the plugins whose evaluations and errors are counted, by point."""
    hints = [
        name for name, plugin in plugins.by_name.items() if hasattr(plugin, "events_to_register")
    ]
    points: dict[str, Sequence[Any]] = {
        "PreEnqueue": plugins.pre_enqueue,
        "PreFilter": plugins.pre_filter,
        "Filter": plugins.filter,
        "PostFilter": plugins.post_filter,
        "PreScore": plugins.pre_score,
        "Score": plugins.score,
        "ScoreExtensionNormalize": [each for each in plugins.score if each.normalize is not None],
        "Reserve": plugins.reserve,
        "Unreserve": plugins.unreserve,
        "Permit": plugins.permit,
        "PreBindPreFlight": plugins.pre_flight,
        "PreBind": plugins.pre_bind,
        "Bind": plugins.bind,
        "PostBind": plugins.post_bind,
        "PlacementGenerate": plugins.placement_generate,
        "PlacementScore": plugins.placement_score,
    }
    named = {point: [plugin.name for plugin in found] for point, found in points.items()}
    return {**named, "QueueingHint": hints}


def watch_sizes(driver: Driver, metrics: SchedulerMetrics) -> None:
    """Connect the metrics of queue, cache, binding cycles and pod classes to their sizes."""
    engine, queue, cache = driver.engine, driver.engine.core.queue, driver.engine.core.cache

    def pending() -> dict[str, float]:
        counts = queue.counts()
        return {
            "active": counts.active,
            "backoff": counts.backoff,
            "unschedulable": counts.unschedulable,
            "gated": counts.gated,
        }

    def extender_calls() -> dict[str, float]:
        return dict(zip(("asking", "line"), engine.extender_calls.counts(), strict=True))

    def classes() -> list[PodClasses]:
        return [framework.classes for framework in engine.core.frameworks.values()]

    metrics.queue.pending_pods.from_source(pending)
    metrics.queue.inflight_events.from_source(queue.in_flight.event_counts)
    metrics.cache_size.from_source(
        lambda: {
            "nodes": cache.node_count(),
            "pods": len(cache.pods),
            "assumed_pods": len(cache.assumed_pods()),
        }
    )
    metrics.goroutines.from_source(
        lambda: {
            "binding": driver.in_flight,
            "prioritizing_extender": driver.questions.count(Verb.PRIORITIZE),
        }
    )
    metrics.binds_in_flight.from_source(lambda: {(): driver.in_flight})
    metrics.tasks.from_source(lambda: {(): len(asyncio.all_tasks())})
    metrics.extenders.asking_attempts.from_source(extender_calls)
    metrics.class_cache_requests.from_source(
        lambda: {
            "hit": sum(each.hits for each in classes()),
            "miss": sum(each.misses for each in classes()),
        }
    )
    metrics.class_cache_bytes.from_source(lambda: {(): sum(each.size_bytes for each in classes())})
    watch_groups(engine, metrics.engine.pod_groups)


def watch_groups(engine: Engine, metrics: PodGroupMetrics) -> None:
    """Connect the metrics of complete pod groups and of kept room to their sources."""

    def groups() -> Mapping[str, float]:
        known = engine.core.groups
        return {} if known is None else known.counts()

    def rooms() -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        for profile, room in engine.scheduler.room_keeper.rooms().items():
            places = {} if room is None else room.places
            found[profile, "pods"] = len(places)
            found[profile, "nodes"] = len(set(places.values()))
        return found

    def times(which: Callable[[RoomReservation], float]) -> dict[str, float]:
        rooms = engine.scheduler.room_keeper.rooms()
        return {name: 0.0 if room is None else which(room) for name, room in rooms.items()}

    metrics.groups.from_source(groups)
    metrics.rooms.from_source(rooms)
    metrics.room_since.from_source(lambda: times(lambda room: room.since))
    metrics.room_until.from_source(lambda: times(lambda room: room.until))

"""What of the daemon is measured, and where the numbers come from."""

import asyncio

from scheduler.driver.driver import Driver
from scheduler.extender import Verb
from scheduler.framework.runtime import PluginSet
from scheduler.observability.metrics import SchedulerMetrics


def counted(plugins: PluginSet) -> dict[str, list[str]]:
    """The plugins whose evaluations and errors are counted, by extension point."""
    return {
        "PreEnqueue": [plugin.NAME for plugin in plugins.pre_enqueue],
        "PreFilter": [plugin.NAME for plugin in plugins.pre_filter],
        "Filter": [plugin.NAME for plugin in plugins.filter],
        "PreScore": [plugin.NAME for plugin in plugins.pre_score],
        "Score": [scored.plugin.NAME for scored in plugins.score],
        "Reserve": [plugin.NAME for plugin in plugins.reserve],
        "Permit": [plugin.NAME for plugin in plugins.permit],
        "PreBind": [plugin.NAME for plugin in plugins.pre_bind],
        "Bind": [plugin.NAME for plugin in plugins.bind],
    }


def watch_sizes(driver: Driver, metrics: SchedulerMetrics) -> None:
    """Let scrapes ask queue, cache, binding cycles and pod classes how large they are."""
    engine = driver.engine.core

    def pending() -> dict[str, float]:
        counts = engine.queue.counts()
        return {
            "active": counts.active,
            "backoff": counts.backoff,
            "unschedulable": counts.unschedulable,
            "gated": counts.gated,
        }

    def sizes() -> dict[str, float]:
        cache = engine.cache
        return {
            "nodes": cache.node_count(),
            "pods": cache.pod_count(),
            "assumed_pods": cache.assumed_pod_count(),
        }

    def requests() -> dict[str, float]:
        classes = [framework.classes for framework in engine.frameworks.values()]
        return {
            "hit": sum(c.hits for c in classes),
            "miss": sum(c.misses for c in classes),
        }

    metrics.watch_queue(pending, lambda: dict(engine.queue.in_flight_event_counts()))
    metrics.watch_cache(sizes)
    metrics.watch_work(lambda: driver.in_flight, lambda: driver.questions.count(Verb.PRIORITIZE))
    metrics.watch_tasks(lambda: len(asyncio.all_tasks()))
    metrics.watch_hearings(
        lambda: dict(zip(("asking", "line"), driver.engine.attempts.hearing_counts(), strict=True))
    )
    metrics.watch_class_cache(
        requests, lambda: sum(f.classes.size_bytes for f in engine.frameworks.values())
    )

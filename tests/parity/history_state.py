"""Where each pod waits after a step of a history, and what the cache and the nominator hold."""

from collections.abc import Mapping
from typing import Any, Final

from scheduler.kernel.engine.engine_state import EngineState
from tests.parity.generator.draw import Object

UNITS: Final = 512
"""Units of time per second: exact in nanoseconds and in floats."""
BEGINNING: Final = 1000.0
"""The time of the beginning, in seconds: a whole one, as backoff is counted in those."""


def state_of(core: EngineState) -> Object:
    """What is compared after each step, besides the attempt."""
    core.queue.validate()
    rows = list(core.queue.rows())
    pods: Object = {}
    for row in rows:
        place = core.queue.place_of(str(row["uid"]))
        assert place is not None
        if place.name != "inFlight":
            pods[str(row["pod"])] = _queued(place.name, place.queued)
    early = (row for row in rows if row["queue"] == "backoff" and _is_rejected(row))
    following = [*(row for row in rows if row["queue"] == "active"), *early]
    nodes: dict[str, list[str]] = {
        name: [] for name, info in core.cache.nodes.items() if info.node is not None
    }
    for pod in core.cache.pods.values():
        if pod.node_name in nodes:
            nodes[pod.node_name].append(pod.key)
    nominator = core.queue.nominator
    return {
        "pods": pods,
        "next": [row["pod"] for row in following],
        "nodes": {name: sorted(found) for name, found in nodes.items()},
        "nominated": {
            name: sorted(pod.key for pod in nominator.nominated_pods_for_node(name))
            for name in nominator
        },
    }


def _queued(place: str, queued: Any) -> Object:
    return {
        "place": place,
        "since": units_of(queued.timestamp),
        "until": units_of(queued.backoff_expiration) if place == "backoff" else 0,
        "attempts": queued.attempts,
        "rejections": queued.unschedulable_count,
        "errors": queued.consecutive_errors_count,
        "unschedulable": sorted(queued.unschedulable_plugins),
        "pending": sorted(queued.pending_plugins),
        "gate": queued.gating_plugin,
    }


def units_of(seconds: float) -> int:
    return round((seconds - BEGINNING) * UNITS)


def _is_rejected(row: Mapping[str, object]) -> bool:
    return bool(row["unschedulablePlugins"] or row["pendingPlugins"])

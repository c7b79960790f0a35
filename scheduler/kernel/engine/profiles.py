"""What a configuration means to an engine: its profiles, and the queue they share."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.engine.engine_state import EventTime
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.queue import BackoffSettings, QueueProfile, QueueSettings, SchedulingQueue
from scheduler.observability.queue_metrics import QueueMetrics


class EngineProfiles(msgspec.Struct, frozen=True):
    """What an engine decides by, and can exchange between two events.

    Attributes:
        frameworks: the profiles by scheduler name.
        percentage_of_nodes_to_score: enough for profiles that do not say it themselves.
        backoff: how long pods rest after failures.
    """

    frameworks: Mapping[str, Framework]
    percentage_of_nodes_to_score: int = 0
    backoff: BackoffSettings = BackoffSettings()


ProfilesOf: TypeAlias = Callable[[dict[str, Any]], EngineProfiles]
"""Builds the rules of a configuration in plain values; raises `SchedulerError`."""


def no_other_profiles(configuration: dict[str, Any]) -> EngineProfiles:
    """For engines that are never told another configuration.

    Raises:
        SchedulerError: always.
    """
    del configuration
    raise SchedulerError("this engine keeps its configuration")


def build_queue(
    frameworks: Mapping[str, Framework],
    time: EventTime,
    settings: QueueSettings,
    metrics: QueueMetrics,
) -> SchedulingQueue:
    """The queue; all profiles sort alike, as validation demands."""
    first = next(iter(frameworks.values()))
    return SchedulingQueue(
        first.sort_key, queue_profiles(frameworks), time, settings=settings, metrics=metrics
    )


def queue_profiles(frameworks: Mapping[str, Framework]) -> dict[str, QueueProfile]:
    """What the queue asks of each profile.

    Raises:
        PluginError: a plugin cannot say what it waits for.
    """
    return {
        name: QueueProfile(
            f.events_to_register(),
            f.run_pre_enqueue_plugins,
            f.run_queueing_hint,
            partial(_shares_rejections, f),
        )
        for name, f in frameworks.items()
    }


def _shares_rejections(framework: Framework, pod: PodInfo) -> bool:
    """Whether equal pods fit nowhere where this one does not.

    A member of a group may be rejected for the room that others of the group have taken.
    """
    return framework.shares_rejections(pod) and not framework.is_member(pod)

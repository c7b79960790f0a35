"""The part of a configuration that the engine uses: its profiles, and the queue they share."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.queue import BackoffSettings, QueueProfile


class EngineProfiles(msgspec.Struct, frozen=True):
    """The profiles and settings that an engine can exchange between two events.

    Attributes:
        frameworks: the profiles by scheduler name.
        percentage_of_nodes_to_score: the default for profiles without one of their own.
        backoff: the backoff of pods that failed.
    """

    frameworks: Mapping[str, Framework]
    percentage_of_nodes_to_score: int = 0
    backoff: BackoffSettings = BackoffSettings()


ProfilesOf: TypeAlias = Callable[[dict[str, Any]], EngineProfiles]
"""Builds the profiles of a configuration in plain values; raises `SchedulerError`."""


def queue_profiles(frameworks: Mapping[str, Framework]) -> dict[str, QueueProfile]:
    """The functions and event registrations of each profile, for the queue.

    Raises:
        PluginError: a plugin failed to return its events.
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
    """Whether a pod's rejection holds for equal pods.

    A member of a group may be rejected for the room that others of the group have taken.
    """
    return framework.shares_rejections(pod) and not framework.is_member(pod)

"""Settings of the queue, the functions of a profile that it calls, and its counts."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.config.types import MAX_IN_UNSCHEDULABLE_SECONDS
from scheduler.kernel.framework.events import ClusterEventWithHint, QueueingHint
from scheduler.kernel.framework.status import Status


class BackoffSettings(msgspec.Struct, frozen=True):
    """The shortest and the longest backoff of a pod that failed.

    Units: seconds.
    """

    initial_seconds: float = 1.0
    max_seconds: float = 10.0
    """0 turns backoff off."""


class QueueSettings(msgspec.Struct, frozen=True):
    """The configurable settings of the queue."""

    backoff: BackoffSettings = BackoffSettings()
    max_in_unschedulable_seconds: float = MAX_IN_UNSCHEDULABLE_SECONDS
    """After this time a rejected pod is tried again without an event."""


class QueueProfile(msgspec.Struct, frozen=True):
    """The functions and event registrations of one profile; the queue calls no plugin itself.

    Attributes:
        events: the registrations of its plugins; see `Framework.events_to_register`.
        pre_enqueue: returns whether a pod may become active; see
            `Framework.run_pre_enqueue_plugins`.
        ask_hint: returns whether an event may help a pod; see `Framework.run_queueing_hint`.
        shares_rejections: returns whether a pod's rejection holds for all pods equal to it.
    """

    events: Mapping[str, Sequence[ClusterEventWithHint]]
    pre_enqueue: Callable[[PodInfo, str], Status]
    ask_hint: Callable[[str, ClusterEventWithHint, str, PodInfo, object, object], QueueingHint]
    shares_rejections: Callable[[PodInfo], bool] = lambda _: False


class QueueCounts(msgspec.Struct, frozen=True):
    """Number of pods in each place of the queue."""

    active: int
    backoff: int
    unschedulable: int
    """Rejected, not counting gated ones."""
    gated: int
    in_flight: int

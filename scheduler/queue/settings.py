"""What the queue is told at its start, and the numbers it gives away."""

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.queue.backoff import BackoffSettings
from scheduler.queue.hints import PluginEvents
from scheduler.queue.pre_enqueue import PreEnqueueCheck


class QueueSettings(msgspec.Struct, frozen=True):
    """What can be configured of the queue."""

    backoff: BackoffSettings = BackoffSettings()
    max_in_unschedulable_seconds: float = 300.0
    """After this time a rejected pod is tried again although nothing happened."""


DEFAULT_SETTINGS: Final = QueueSettings()


class QueueProfile(msgspec.Struct, frozen=True):
    """What the queue needs to know of one profile."""

    events: PluginEvents = {}
    """See `events_of`."""
    pre_enqueue: Mapping[str, PreEnqueueCheck] = {}
    """What to ask of the PreEnqueue plugins, by plugin name, in the order in which they run."""


class QueueCounts(msgspec.Struct, frozen=True):
    """How many pods are where."""

    active: int
    backoff: int
    unschedulable: int
    """Rejected, not counting gated ones."""
    gated: int
    in_flight: int

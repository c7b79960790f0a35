"""Values that the queue takes and returns: its settings, its counts, and the places of pods."""

from typing import Final

import msgspec

from scheduler.kernel.framework.types import QueuedPodInfo

IN_FLIGHT: Final = "inFlight"
ACTIVE: Final = "active"
BACKOFF: Final = "backoff"
UNSCHEDULABLE: Final = "unschedulable"
GATED: Final = "gated"


class BackoffSettings(msgspec.Struct, frozen=True):
    """The shortest and the longest backoff of a pod that failed.

    Units: seconds.
    """

    initial_seconds: float = 1.0
    max_seconds: float = 10.0
    """0 turns backoff off."""


class QueueCounts(msgspec.Struct, frozen=True):
    """Number of pods in each place of the queue."""

    active: int
    backoff: int
    unschedulable: int
    """Rejected, not counting gated ones."""
    gated: int
    in_flight: int


class QueuePosition(msgspec.Struct, frozen=True):
    """The part of the queue that holds a pod.

    Attributes:
        name: `active`, `backoff`, `unschedulable`, `gated`, or `inFlight`.
        queued: the pod with the history of its attempts.
        until: the end of its backoff, or its deadline when rejected; 0 in the other parts.
    """

    name: str
    queued: QueuedPodInfo
    until: float = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether the pod waits for an event."""
        return self.name in (UNSCHEDULABLE, GATED)

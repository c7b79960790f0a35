"""The life of a pod in the cache, as one table.

Source: kubernetes pkg/scheduler/backend/cache/interface.go (the state machine drawn there) v1.36.
"""

from enum import Enum
from typing import Final


class PodState(Enum):
    """Where a pod stands."""

    ABSENT = "absent"
    """The cache does not know the pod: never seen, deleted, forgotten or expired."""
    ASSUMED = "assumed"
    """Decided, binding under way; the API server has not confirmed it."""
    EXPIRING = "expiring"
    """Bound as far as we know, not confirmed, and a time limit is set."""
    ADDED = "added"
    """Confirmed by the API server."""


class PodEvent(Enum):
    """What can happen to a pod in the cache."""

    ASSUME = "assume"
    FINISH_BINDING = "finish_binding"
    FORGET = "forget"
    ADD = "add"
    UPDATE = "update"
    REMOVE = "remove"
    EXPIRE = "expire"


TRANSITIONS: Final[dict[tuple[PodState, PodEvent], PodState]] = {
    (PodState.ABSENT, PodEvent.ASSUME): PodState.ASSUMED,
    (PodState.ABSENT, PodEvent.ADD): PodState.ADDED,
    # An update or a removal of a pod that expired or was never seen.
    (PodState.ABSENT, PodEvent.UPDATE): PodState.ADDED,
    (PodState.ABSENT, PodEvent.REMOVE): PodState.ABSENT,
    # The binding of a pod that was removed meanwhile ends.
    (PodState.ABSENT, PodEvent.FINISH_BINDING): PodState.ABSENT,
    (PodState.ABSENT, PodEvent.FORGET): PodState.ABSENT,
    (PodState.ASSUMED, PodEvent.FINISH_BINDING): PodState.EXPIRING,
    (PodState.ASSUMED, PodEvent.FORGET): PodState.ABSENT,
    (PodState.ASSUMED, PodEvent.ADD): PodState.ADDED,
    (PodState.ASSUMED, PodEvent.UPDATE): PodState.ADDED,
    (PodState.ASSUMED, PodEvent.REMOVE): PodState.ABSENT,
    (PodState.EXPIRING, PodEvent.FINISH_BINDING): PodState.EXPIRING,
    (PodState.EXPIRING, PodEvent.FORGET): PodState.ABSENT,
    (PodState.EXPIRING, PodEvent.ADD): PodState.ADDED,
    (PodState.EXPIRING, PodEvent.UPDATE): PodState.ADDED,
    (PodState.EXPIRING, PodEvent.REMOVE): PodState.ABSENT,
    (PodState.EXPIRING, PodEvent.EXPIRE): PodState.ABSENT,
    (PodState.ADDED, PodEvent.ADD): PodState.ADDED,
    (PodState.ADDED, PodEvent.UPDATE): PodState.ADDED,
    (PodState.ADDED, PodEvent.REMOVE): PodState.ABSENT,
    # The watch was faster than the answer to our own request.
    (PodState.ADDED, PodEvent.FINISH_BINDING): PodState.ADDED,
    # Binding failed for us although the API server says it is bound: the API server is right.
    (PodState.ADDED, PodEvent.FORGET): PodState.ADDED,
}
"""Every pair that may happen. A pair that is missing is a contradiction of our own."""

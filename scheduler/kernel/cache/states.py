"""The states of a pod in the cache, as one transition table.

Source: kubernetes pkg/scheduler/backend/cache/interface.go (the state machine drawn there) v1.36.
"""

from enum import Enum
from typing import Final


class PodState(Enum):
    """The state of a pod in the cache."""

    ABSENT = "absent"
    """The cache does not know the pod: never seen, deleted or forgotten."""
    ASSUMED = "assumed"
    """The scheduler has assumed the pod on a node; the API server has not confirmed it."""
    ADDED = "added"
    """Confirmed by the API server."""

    # Members are singletons; `Enum.__hash__` would hash their names in Python each time.
    __hash__ = object.__hash__


class PodEvent(Enum):
    """An event of a pod in the cache."""

    ASSUME = "assume"
    FORGET = "forget"
    ADD = "add"
    UPDATE = "update"
    REMOVE = "remove"

    # Members are singletons; `Enum.__hash__` would hash their names in Python each time.
    __hash__ = object.__hash__


TRANSITIONS: Final[dict[tuple[PodState, PodEvent], PodState]] = {
    (PodState.ABSENT, PodEvent.ASSUME): PodState.ASSUMED,
    (PodState.ABSENT, PodEvent.ADD): PodState.ADDED,
    # An update or a removal of a pod that was never seen.
    (PodState.ABSENT, PodEvent.UPDATE): PodState.ADDED,
    (PodState.ABSENT, PodEvent.REMOVE): PodState.ABSENT,
    (PodState.ABSENT, PodEvent.FORGET): PodState.ABSENT,
    (PodState.ASSUMED, PodEvent.FORGET): PodState.ABSENT,
    (PodState.ASSUMED, PodEvent.ADD): PodState.ADDED,
    (PodState.ASSUMED, PodEvent.UPDATE): PodState.ADDED,
    (PodState.ASSUMED, PodEvent.REMOVE): PodState.ABSENT,
    (PodState.ADDED, PodEvent.ADD): PodState.ADDED,
    (PodState.ADDED, PodEvent.UPDATE): PodState.ADDED,
    (PodState.ADDED, PodEvent.REMOVE): PodState.ABSENT,
    # The binding seems to have failed, but the API server shows the pod bound: the pod stays.
    (PodState.ADDED, PodEvent.FORGET): PodState.ADDED,
}
"""The next state for each allowed state and event; any other pair is a programming error."""

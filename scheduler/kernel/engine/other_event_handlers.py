"""Event handlers of objects that only plugins read.

Source: kubernetes pkg/scheduler/eventhandlers.go v1.36.
"""

from typing import Any

from scheduler.api.objects import ObjectMeta
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.event_handlers import is_older_of_same
from scheduler.kernel.engine.events import ObjectGone
from scheduler.kernel.framework.events import ActionType, ClusterEvent, ObjectKind
from scheduler.kernel.framework.runtime.shared_states import place_of


class OtherEventHandlers:
    """Objects that only plugins read.

    Their changes go to the shared states and listers of plugins, and may wake pods.
    """

    def __init__(self, core: EngineState, kind: ObjectKind) -> None:
        self._core = core
        self._kind = kind
        self._read: dict[tuple[str, str], Any] = {}
        """Objects from answers, until the watch is as far: older versions from it are ignored."""

    def set(self, new: Any) -> None:
        """Take over a new or changed object."""
        place = place_of(new)
        read = self._read.pop(place, None)
        if read is not None:
            if is_older_of_same(new.metadata, read.metadata):
                self._read[place] = read
                return
            if _is_same_version(new.metadata, read.metadata):
                return
        old = self._core.states.object_set(self._kind, new)
        self._wake(ActionType.ADD if old is None else ActionType.UPDATE, old, new)

    def read(self, new: Any) -> None:
        """Take over an object from the answer to a write, unless the watch is ahead of it.

        An object that the watch does not show is ignored: it may be gone by now.
        """
        namespace, name = place = place_of(new)
        old = self._core.states.lister(self._kind).get(name, namespace)
        if old is not None and is_older_of_same(old.metadata, new.metadata):
            self._core.states.object_set(self._kind, new)
            self._wake(ActionType.UPDATE, old, new)
            self._read[place] = new

    def gone(self, event: ObjectGone) -> None:
        """Take over the deletion of an object."""
        self._read.pop((event.namespace, event.name), None)
        old = self._core.states.object_gone(self._kind, event.name, event.namespace)
        if old is not None:
            self._wake(ActionType.DELETE, old, None)

    def _wake(self, action: ActionType, old: Any, new: Any) -> None:
        event = ClusterEvent(self._kind.event_resource, action)
        self._core.queue.move_all_to_active_or_backoff_queue(event, old, new)


def _is_same_version(meta: ObjectMeta, other: ObjectMeta) -> bool:
    return (meta.uid, meta.resource_version) == (other.uid, other.resource_version)

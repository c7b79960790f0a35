"""Event handlers of namespaces, and of objects that only plugins read.

Source: kubernetes pkg/scheduler/eventhandlers.go v1.36.
"""

from typing import Any, Final

from scheduler.api.objects import Namespace
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.event_handlers import wake
from scheduler.kernel.engine.events import ObjectGone
from scheduler.kernel.engine.newer_answers import NewerAnswers, is_older_of_same
from scheduler.kernel.framework.events import (
    NAMESPACE_ADD,
    NAMESPACE_KIND,
    NAMESPACE_UPDATE,
    ActionType,
    ClusterEvent,
    ObjectKind,
)
from scheduler.kernel.framework.runtime.shared_states import place_of

_ONLY_LISTED: Final = frozenset(
    {
        "PodDisruptionBudget",
        "ReplicaSet",
        "ReplicationController",
        "Service",
        "StatefulSet",
    }
)
"""Kinds of which kube-scheduler handles no event, as of namespaces; its metric has none of them."""


class NamespaceEventHandlers:
    """Keeps namespace labels in the cache, for namespace selectors; a change may move pods.

    Differs: upstream moves no pod, so a pod that only the change helps waits for another event.
    """

    def __init__(self, core: EngineState) -> None:
        self._core = core
        self._namespaces: dict[str, Namespace] = {}

    def set(self, new: Namespace) -> None:
        """Handle a new or changed namespace."""
        name, labels = new.metadata.name, new.metadata.labels
        old = self._namespaces.get(name)
        self._namespaces[name] = new
        if old is None or old.metadata.labels != labels:
            self._core.cache.set_namespace(name, labels)
            self._core.states.object_set(NAMESPACE_KIND, new)
            event = NAMESPACE_ADD if old is None else NAMESPACE_UPDATE
            self._core.queue.move_all_to_active_or_backoff_queue(event, old, new)

    def gone(self, event: ObjectGone) -> None:
        """Handle the deletion of a namespace."""
        old = self._namespaces.pop(event.name, None)
        if old is not None:
            self._core.cache.remove_namespace(event.name)
            self._core.states.object_gone(NAMESPACE_KIND, event.name, event.namespace)


class OtherEventHandlers:
    """Handlers of objects that only plugins read.

    Each change updates the shared states and listers of plugins, and may move pods.
    """

    def __init__(self, core: EngineState, kind: ObjectKind) -> None:
        self._core = core
        self._kind = kind
        self._answers = NewerAnswers[tuple[str, str], Any](lambda obj: obj.metadata)
        self._added, self._updated, self._deleted = (
            ClusterEvent(kind, action)
            for action in (ActionType.ADD, ActionType.UPDATE, ActionType.DELETE)
        )

    def set(self, new: Any) -> None:
        """Handle a new or changed object."""
        if not (self._answers.kept and self._answers.hide(place_of(new), new)):
            self._set(new)

    def _set(self, new: Any) -> None:
        old = self._core.states.object_set(self._kind, new)
        event = self._added if old is None else self._updated
        self._wake(event, old, new)

    def read(self, new: Any) -> None:
        """Apply an object from the answer to a write, unless the watch showed a newer version.

        An object that the watch does not show is ignored: it may be deleted by now.
        """
        namespace, name = place = place_of(new)
        old = self._core.states.lister(self._kind).get(name, namespace)
        if old is not None and is_older_of_same(old.metadata, new.metadata):
            self._answers.note(place, new, old)
            self._set(new)

    def set_back(self) -> None:
        """Go back to the objects as the watch showed them: the API server may lack the writes."""
        for watched in self._answers.take_watched():
            self._set(watched)

    def gone(self, event: ObjectGone) -> None:
        """Handle the deletion of an object."""
        self._answers.forget((event.namespace, event.name))
        old = self._core.states.object_gone(self._kind, event.name, event.namespace)
        if old is not None:
            self._wake(self._deleted, old, None)

    def _wake(self, event: ClusterEvent, old: Any, new: Any) -> None:
        if self._kind.kind in _ONLY_LISTED:
            self._core.queue.move_all_to_active_or_backoff_queue(event, old, new)
        else:
            wake(self._core, event, old, new)

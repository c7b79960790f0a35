"""From what the API server says to cache and queue: handlers record, they never decide.

Source: kubernetes pkg/scheduler/eventhandlers.go v1.36.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from scheduler.api.objects import Namespace, Node
from scheduler.api.pods import PodInfo
from scheduler.cache import Cache
from scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NAMESPACE_ADD,
    NAMESPACE_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
    ObjectKind,
)
from scheduler.framework.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.framework.runtime import WaitingPods
from scheduler.queue import SchedulingQueue


class EventTimer(Protocol):
    """Hears how long handling an event took."""

    def event_handled(self, event: str, seconds: float) -> None:
        """One event, by its label."""
        ...


class PodHandler:
    """Pods with a node go to the cache, pods of our profiles without one to the queue."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        waiting: WaitingPods,
        profiles: Collection[str],
        timer: EventTimer,
        now: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._waiting = waiting
        self._profiles = profiles
        self._timer = timer
        self._now = now

    def on_add(self, pod: PodInfo) -> None:
        """A pod the informer did not know."""
        if pod.node_name:
            self._add_assigned(pod)
        elif self._is_ours(pod):
            start = self._now()
            self._queue.add(pod)
            self._timer.event_handled(UNSCHEDULED_POD_ADD.label, self._now() - start)

    def on_update(self, old: PodInfo, new: PodInfo) -> None:
        """A newer version of a pod."""
        if old.uid != new.uid:
            # Deleted and created again under the same name between two looks.
            self.on_delete(old)
            self.on_add(new)
        elif old.node_name:
            self._update_assigned(old, new)
        elif new.node_name:
            self._add_assigned(new)
            if self._is_ours(old):
                start = self._now()
                self._queue.delete(old)
                self._timer.event_handled(UNSCHEDULED_POD_DELETE.label, self._now() - start)
        elif self._is_ours(old):
            self._update_unscheduled(old, new)

    def on_delete(self, pod: PodInfo) -> None:
        """A pod that is gone, or has ended."""
        start = self._now()
        if pod.node_name:
            self._cache.remove_pod(pod)
            self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, pod, None)
            self._timer.event_handled(ASSIGNED_POD_DELETE.label, self._now() - start)
        elif self._is_ours(pod):
            self._delete_unscheduled(pod)
            self._timer.event_handled(UNSCHEDULED_POD_DELETE.label, self._now() - start)

    def _is_ours(self, pod: PodInfo) -> bool:
        return pod.spec.scheduler_name in self._profiles

    def _add_assigned(self, pod: PodInfo) -> None:
        start = self._now()
        self._cache.add_pod(pod)
        self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_ADD, None, pod)
        self._timer.event_handled(ASSIGNED_POD_ADD.label, self._now() - start)

    def _update_assigned(self, old: PodInfo, new: PodInfo) -> None:
        start = self._now()
        self._cache.update_pod(new)
        for event in pod_scheduling_properties_change(old, new):
            self._queue.move_all_to_active_or_backoff_queue(event, old, new)
            self._timer.event_handled(event.label, self._now() - start)

    def _update_unscheduled(self, old: PodInfo, new: PodInfo) -> None:
        start = self._now()
        if self._cache.is_assumed_pod(new.uid):
            if self._queue.latest(new.uid) is not None:
                # Should its binding fail, the pod comes back as it is by then.
                self._queue.update(old, new)
            if new.is_terminating and not old.is_terminating:
                self._drop_assumed(new)
            return
        self._queue.update(old, new)
        before = old.pod.status.nominated_node_name
        if before and before != new.pod.status.nominated_node_name:
            self._free_nomination(old)
        seconds = self._now() - start
        self._timer.event_handled(UNSCHEDULED_POD_UPDATE.label, seconds)
        for event in pod_scheduling_properties_change(old, new):
            if event.label != UNSCHEDULED_POD_UPDATE.label:
                self._timer.event_handled(event.label, seconds)

    def _delete_unscheduled(self, pod: PodInfo) -> None:
        self._queue.delete(pod)
        if self._cache.is_assumed_pod(pod.uid):
            self._drop_assumed(pod)
        elif pod.pod.status.nominated_node_name:
            self._free_nomination(pod)

    def _drop_assumed(self, pod: PodInfo) -> None:
        """A pod is deleted while it is being bound: what it holds is free at once."""
        assumed = self._cache.get_pod(pod.uid)
        if assumed is None:
            return
        if not self._waiting.reject(pod.uid, "", "the pod is being deleted"):
            self._cache.forget_pod(assumed)
        self._queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, assumed, None)

    def _free_nomination(self, pod: PodInfo) -> None:
        """The place a pod was nominated to is free for pods that are no more important."""
        self._queue.move_all_to_active_or_backoff_queue(
            ASSIGNED_POD_DELETE, pod, None, max_priority=pod.priority
        )


class NodeHandler:
    """Nodes go to the cache; each of their changes may wake pods."""

    def __init__(
        self, cache: Cache, queue: SchedulingQueue, timer: EventTimer, now: Callable[[], float]
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._timer = timer
        self._now = now

    def on_add(self, node: Node) -> None:
        """A node appeared."""
        start = self._now()
        self._cache.set_node(node)
        self._queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node)
        self._timer.event_handled(NODE_ADD.label, self._now() - start)

    def on_update(self, old: Node, new: Node) -> None:
        """A node changed; a heartbeat that changes nothing we read is not worth a thought."""
        start = self._now()
        if old.spec == new.spec and old.status == new.status and _same_labels(old, new):
            return
        self._cache.set_node(new)
        for event in node_scheduling_properties_change(old, new):
            self._queue.move_all_to_active_or_backoff_queue(event, old, new)
            self._timer.event_handled(event.label, self._now() - start)

    def on_delete(self, node: Node) -> None:
        """A node is gone."""
        start = self._now()
        self._queue.move_all_to_active_or_backoff_queue(NODE_DELETE, node, None)
        self._cache.remove_node(node.metadata.name)
        self._timer.event_handled(NODE_DELETE.label, self._now() - start)


class NamespaceHandler:
    """Labels of namespaces go to the cache, for namespace selectors; a change may wake pods.

    Differs: upstream wakes nobody, so a pod that only the change helps waits for another event.
    """

    def __init__(self, cache: Cache, queue: SchedulingQueue) -> None:
        self._cache = cache
        self._queue = queue

    def on_add(self, namespace: Namespace) -> None:
        """A namespace appeared."""
        self._cache.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        self._queue.move_all_to_active_or_backoff_queue(NAMESPACE_ADD, None, namespace)

    def on_update(self, old: Namespace, new: Namespace) -> None:
        """A namespace changed."""
        if old.metadata.labels != new.metadata.labels:
            self._cache.set_namespace(new.metadata.name, new.metadata.labels)
            self._queue.move_all_to_active_or_backoff_queue(NAMESPACE_UPDATE, old, new)

    def on_delete(self, namespace: Namespace) -> None:
        """A namespace is gone."""
        self._cache.remove_namespace(namespace.metadata.name)


class ObjectHandler:
    """Objects nothing but plugins read: each change goes to a listener, and may wake pods."""

    def __init__(
        self,
        kind: ObjectKind,
        queue: SchedulingQueue,
        changed: Callable[[ObjectKind, object, object], object],
    ) -> None:
        self._kind = kind
        self._queue = queue
        self._changed = changed

    def on_add(self, new: object) -> None:
        """An object appeared."""
        self._take(ActionType.ADD, None, new)

    def on_update(self, old: object, new: object) -> None:
        """An object changed."""
        self._take(ActionType.UPDATE, old, new)

    def on_delete(self, old: object) -> None:
        """An object is gone."""
        self._take(ActionType.DELETE, old, None)

    def _take(self, action: ActionType, old: object, new: object) -> None:
        self._changed(self._kind, old, new)
        event = ClusterEvent(self._kind.event_resource, action)
        self._queue.move_all_to_active_or_backoff_queue(event, old, new)


def _same_labels(old: Node, new: Node) -> bool:
    return (
        old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
    )

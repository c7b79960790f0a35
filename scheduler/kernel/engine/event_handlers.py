"""Event handlers of pods and nodes: they update the cache, the queue, attempts and states.

Source: kubernetes pkg/scheduler/eventhandlers.go v1.36.
"""

from collections.abc import Callable, Collection
from typing import Final, TypeVar

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.kernel.cache import PodState
from scheduler.kernel.engine.attempt import REVOCABLE, Attempt, AttemptState
from scheduler.kernel.engine.binding_cycle import BindingCycle
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.events import ObjectGone
from scheduler.kernel.engine.newer_answers import NewerAnswers, is_older_of_same
from scheduler.kernel.engine.preemption_executor import PreemptionExecutor
from scheduler.kernel.engine.scheduling_failure import FailureHandler
from scheduler.kernel.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    NODE_KIND,
    POD_KIND,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    ClusterEvent,
)
from scheduler.kernel.framework.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.kernel.framework.types import Failure

NO_NODE_NEEDED: Final = "the pod was deleted or bound, and is back without a node"
"""The failure after a cancelled PreBind whose pod needs a node again: a backup was restored."""

T = TypeVar("T")


class PodEventHandlers:
    """Puts assigned pods into the cache, and unassigned pods of the profiles into the queue."""

    def __init__(
        self,
        core: EngineState,
        failures: FailureHandler,
        binding: BindingCycle,
        executor: PreemptionExecutor,
    ) -> None:
        """Store the parts; the executor handles each pod event before the queue moves pods."""
        self._core = core
        self._attempts = core.attempts
        self._failures = failures
        self._binding = binding
        self._answers = NewerAnswers[str, PodInfo](lambda pod: pod.pod.metadata)
        self._preemption_executor = executor

    def set(self, new: PodInfo) -> None:
        """Handle a new or changed pod."""
        if self._answers.kept and self._answers.hide(new.uid, new):
            return
        attempt = self._attempts.of(new.uid)
        if attempt is not None:
            is_needed = not new.node_name and not new.is_terminating
            if self._waits_for_pre_bind(attempt, new, is_needed=is_needed):
                return
        self._set(new)

    def _waits_for_pre_bind(
        self, attempt: Attempt, event: PodInfo | ObjectGone, *, is_needed: bool
    ) -> bool:
        """Cancel PreBind if the pod needs no node; return whether the event waits for its end."""
        if attempt.state is AttemptState.PREBINDING and not is_needed:
            self._failures.cancel_pre_bind(attempt, Failure(NO_NODE_NEEDED))
        if attempt.state is not AttemptState.CANCELLED:
            return False
        attempt.latest = event
        return True

    def pre_bound(self, attempt_id: int, failure: Failure | None) -> None:
        """Bind a pod after PreBind; if PreBind was cancelled, end or fail its attempt."""
        attempt = self._attempts.in_state(attempt_id, AttemptState.CANCELLED)
        if attempt is None:
            self._binding.pre_bound(attempt_id, failure)
            return
        latest = attempt.latest
        if isinstance(latest, ObjectGone):
            self._gone(latest)
        elif latest is not None:
            self._set(latest)
        if attempt.state is AttemptState.CANCELLED and attempt.failure is not None:
            self._failures.handle_scheduling_failure(attempt, attempt.failure)

    def _set(self, new: PodInfo) -> None:
        core, uid = self._core, new.uid
        if new.is_terminating:
            self._preemption_executor.leaving(uid)
        else:
            # A pod restored from a backup can be evicted again.
            self._preemption_executor.terminating.discard(uid)
        if core.cache.state_of(uid) is PodState.ADDED:
            if new.node_name:
                self._update_assigned(new)
                return
            # The API server was restored from a backup: the pod no longer has a node.
            self._end(uid)
        if new.node_name:
            self._add_assigned(new)
            return
        core.states.object_set(POD_KIND, new)
        if new.spec.scheduler_name in core.frameworks:
            self._set_unassigned(new)

    def _set_unassigned(self, new: PodInfo) -> None:
        """Handle a pod without a node that a profile is to schedule."""
        queue, uid = self._core.queue, new.uid
        old, attempt = queue.get(uid), self._attempts.of(uid)
        leaves_group = attempt is not None and attempt.pod.group_name != new.group_name
        if attempt is not None and leaves_group and not attempt.has_left:
            queue.delete(attempt.queued.pod_info)
            self._failures.abandon(attempt, "moved to another pod group", is_retried=True)
            self._timed(UNSCHEDULED_POD_ADD, queue.add, new)
        elif attempt is not None:
            self._update_in_flight(attempt, old, new)
        elif old is None:
            self._timed(UNSCHEDULED_POD_ADD, queue.add, new)
        else:
            self._update_unscheduled(old, new)
        if old is not None and old.group_name != new.group_name:
            queue.activate((uid,))  # no plugin's event is about the group of a pod

    def gone(self, event: ObjectGone) -> None:
        """Handle a pod that was deleted, or that no longer concerns scheduling."""
        self._answers.forget(event.uid)
        attempt = self._attempts.of(event.uid)
        if attempt is None or not self._waits_for_pre_bind(attempt, event, is_needed=False):
            self._gone(event)

    def _gone(self, event: ObjectGone) -> None:
        self._core.states.object_gone(POD_KIND, event.name, event.namespace, event.uid)
        self._end(event.uid)

    def _end(self, uid: str) -> None:
        core = self._core
        is_victim = self._preemption_executor.gone(uid)
        nominated = core.queue.nominator.nominated(uid)
        assigned = core.cache.pods.get(uid)
        attempt = self._attempts.of(uid)
        if attempt is not None:
            core.queue.delete(attempt.queued.pod_info)
            self._failures.abandon(attempt, "deleted")
        elif assigned is not None:
            core.cache.remove_pod(assigned)
            core.durations.note_end(assigned, core.wall())
            wake(self._core, ASSIGNED_POD_DELETE, assigned, None)
            if is_victim:
                self._wake_preemptors(assigned)
        elif (waiting := core.queue.get(uid)) is not None:
            self._timed(UNSCHEDULED_POD_DELETE, core.queue.delete, waiting)
            if waiting.pod.status.nominated_node_name:
                nominated = nominated or waiting
        core.queue.withdraw_nomination(nominated)

    def _wake_preemptors(self, victim: PodInfo) -> None:
        """Retry the waiting pods nominated to the node of the last victim, whatever hints return.

        Of several victims the first may have had the port that a hint looks at, and have ended
        while the preemptor was gated. Differs: upstream's preemptor waits for another event, its
        victims gone.
        """
        core, queue = self._core, self._core.queue
        info = core.cache.nodes.get(victim.node_name)
        if info is None or any(pod.is_terminating for pod in info.pods.values()):
            return
        for pod in tuple(queue.nominator.nominated_pods_for_node(victim.node_name)):
            place = queue.place_of(pod.uid)
            if place is not None and place.is_waiting:
                queue.activate((pod.uid,), after_backoff=True)

    def read(self, attempt_id: int, pod: PodInfo | None) -> None:
        """Handle the answer to `ReadPod` for a binding in doubt; None if the pod is gone."""
        attempt = self._attempts.in_state(attempt_id, AttemptState.UNSURE, AttemptState.BOUND)
        if attempt is None:
            return
        known = self._core.queue.get(attempt.pod.uid) or attempt.queued.pod_info
        if pod is not None and is_older_of_same(pod.pod.metadata, known.pod.metadata):
            pod = known  # the watch is ahead of the answer, and shows no node either
        else:
            self._answers.note(known.uid, pod, known)
        if pod is None:
            self._gone(ObjectGone("pods", known.namespace, known.name, known.uid))
            return
        if not pod.node_name:
            self._binding.not_bound(attempt, pod)
        self._set(pod)

    def set_back(self) -> None:
        """Go back to the pods as the watch showed them: the API server was set back."""
        for watched in self._answers.take_watched():
            self.set(watched)

    def profiles_gone(self, names: Collection[str]) -> None:
        """Keep pods in flight of removed profiles from returning to the queue.

        Their attempts continue; a pod whose attempt fails is not requeued.
        """
        for attempt in self._attempts:
            pod = attempt.queued.pod_info
            if pod.spec.scheduler_name in names:
                self._core.queue.delete(pod)

    def _add_assigned(self, pod: PodInfo) -> None:
        """Handle a pod that is now bound, to the node of its attempt or to another."""
        core = self._core
        nominated = core.queue.nominator.nominated(pod.uid)
        attempt = self._attempts.of(pod.uid)
        if attempt is not None and attempt.pod.node_name == pod.node_name:
            core.cache.add_pod(pod)
            if attempt.state in REVOCABLE:
                self._failures.abandon(attempt, "bound by another client")
            else:
                self._timed(UNSCHEDULED_POD_DELETE, self._binding.confirmed, attempt)
        else:
            if attempt is not None:
                self._failures.abandon(attempt, f"bound to {pod.node_name} by another client")
            waiting = core.queue.get(pod.uid)
            core.cache.add_pod(pod)
            if waiting is not None:
                self._preemption_executor.needs_no_room(pod.uid)
                self._timed(UNSCHEDULED_POD_DELETE, core.queue.delete, waiting)
        core.states.object_set(POD_KIND, pod)
        core.queue.withdraw_nomination(nominated)
        wake(self._core, ASSIGNED_POD_ADD, None, pod)

    def _update_assigned(self, new: PodInfo) -> None:
        core = self._core
        old = core.cache.pods.get(new.uid)
        core.cache.update_pod(new)
        core.states.object_set(POD_KIND, new)
        if old is None:
            return
        if old.is_terminating and not new.is_terminating:
            # The API server was restored from a backup. The pod keeps running, so the preemptors
            # that wait for its deletion must be tried again, nominated or not: groups are not.
            wake(core, ASSIGNED_POD_DELETE, old, None)
        for event in pod_scheduling_properties_change(old, new):
            wake(self._core, event, old, new)

    def _update_in_flight(self, attempt: Attempt, old: PodInfo | None, new: PodInfo) -> None:
        """Keep the new version of a pod in flight: the queue uses it if the binding fails."""
        queue = self._core.queue
        if new.uid in queue.in_flight:
            # The queue has no old version if the pod's profile was removed and added again.
            old = old or new
            if attempt.placed is not None:
                queue.update_assumed(new)
            else:
                queue.update(old, new)
                queue.nominator.update_nominated_pod(old, new)
                self._nomination_changed(old, new)
        else:
            attempt.queued.pod_info = new  # BOUND: the queue keeps it no more
        if new.is_terminating and attempt.state in REVOCABLE:
            self._failures.abandon(attempt, "being deleted")

    def _update_unscheduled(self, old: PodInfo, new: PodInfo) -> None:
        core = self._core
        start = core.stopwatch()
        core.queue.update(old, new)
        self._nomination_changed(old, new)
        if new.pod.status.nominated_node_name and core.is_held(new):
            # No attempt would use the room, and the write that clears the status may have failed.
            self._preemption_executor.clear_nominations((new,))
        seconds = core.stopwatch() - start
        core.metrics.event_handling_duration[UNSCHEDULED_POD_UPDATE.label].observe(seconds)
        for event in pod_scheduling_properties_change(old, new):
            if event.label != UNSCHEDULED_POD_UPDATE.label:
                core.metrics.event_handling_duration[event.label].observe(seconds)

    def _nomination_changed(self, old: PodInfo, new: PodInfo) -> None:
        """Move pods that may use the former nominated node, if a pod's nomination has changed."""
        before = old.pod.status.nominated_node_name
        if before and before != new.pod.status.nominated_node_name:
            is_displaced = self._preemption_executor.no_longer_displaced(new.uid)
            self._core.queue.free_nomination(old, but="" if is_displaced else new.uid)

    def _timed(self, event: ClusterEvent, method: Callable[[T], None], about: T) -> None:
        core = self._core
        start = core.stopwatch()
        method(about)
        core.metrics.event_handling_duration[event.label].observe(core.stopwatch() - start)


class NodeEventHandlers:
    """Updates nodes in the cache, and moves pods that a change may make schedulable."""

    def __init__(self, core: EngineState, binding: BindingCycle) -> None:
        self._core = core
        self._binding = binding

    def set(self, new: Node) -> None:
        """Handle a new or changed node; ignore a heartbeat that changes nothing relevant."""
        core = self._core
        info = core.cache.nodes.get(new.metadata.name)
        old = None if info is None else info.node
        if old is None:
            core.cache.set_node(new)
            core.states.object_set(NODE_KIND, new)
            wake(core, NODE_ADD, None, new)
        elif _read_of(old) != _read_of(new):
            core.cache.set_node(new)
            core.states.object_set(NODE_KIND, new)
            for event in node_scheduling_properties_change(old, new):
                wake(core, event, old, new)

    def gone(self, event: ObjectGone) -> None:
        """Handle the deletion of a node."""
        core = self._core
        info = core.cache.nodes.get(event.name)
        if info is not None and info.node is not None:
            node = info.node
            core.cache.remove_node(event.name)
            self._binding.node_gone(event.name)
            core.states.object_gone(NODE_KIND, event.name, event.namespace)
            wake(core, NODE_DELETE, node, None)


def wake(core: EngineState, event: ClusterEvent, old: object, new: object) -> None:
    """Move the pods that an event may help; time it under the label of the event."""
    start = core.stopwatch()
    core.queue.move_all_to_active_or_backoff_queue(event, old, new)
    core.metrics.event_handling_duration[event.label].observe(core.stopwatch() - start)


def _read_of(node: Node) -> tuple[object, ...]:
    """The fields of a node that scheduling reads."""
    return node.spec, node.status, node.metadata.labels, node.metadata.annotations

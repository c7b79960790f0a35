"""The queue of pods that wait to be scheduled.

Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go PriorityQueue v1.36, with
queueing hints and PopFromBackoffQ.
Differs: pods are identified by UID. Newer versions of a pod in flight, and its deletion, are kept
until its attempt ends. The flush of unschedulable pods is no event for pods in flight.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    ASSIGNED_POD_DELETE,
    CONFIGURATION_CHANGED,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF_Q,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ClusterEvent,
    EventResource,
)
from scheduler.kernel.framework.property_changes import pod_scheduling_properties_change
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.queue.hints import ObservedEvent, QueueingHints, QueueingStrategy
from scheduler.kernel.queue.queued_pods import QueuedPods
from scheduler.kernel.queue.values import ACTIVE, UNSCHEDULABLE, BackoffSettings

_ADMITTED_AT_ONCE: Final = 512
"""The most pods readmitted in one step after a change of configuration: some 4 ms."""


class SchedulingQueue(QueuedPods):
    """Pods that wait for a node.

    Invariant: a pod is in exactly one of active, backoff, unschedulable and in flight, from `add`
    until `delete`, or until `done` without being put back. See `validate`.
    """

    def configure(self, hints: QueueingHints, backoff: BackoffSettings) -> None:
        """Replace the settings; pods keep the history of their attempts.

        Rejected pods are requeued with backoff, as the plugin that rejected them may be gone. The
        PreEnqueue plugins run for every pod. Pods of removed profiles are dropped. Pods are
        readmitted in portions, and no pod is popped before all are readmitted.
        """
        now, later = QueueingStrategy.IMMEDIATELY, QueueingStrategy.AFTER_BACKOFF
        places = (self._active, now), (self._backoff, later), (self._unschedulable, later)
        for pods, strategy in places:
            self._readmission.update((each.pod_info.uid, (each, strategy)) for each in pods)
        self._begin(hints, backoff)
        self.in_flight.record(self._hints.observe(CONFIGURATION_CHANGED, None, None))

    def _readmit_some(self) -> None:
        for uid in [*islice(self._readmission, _ADMITTED_AT_ONCE)]:
            self._settle(uid)

    def _settle(self, uid: str) -> None:
        """Readmit a pod now, if it still waits for that; drop it if its profile is gone."""
        if uid not in self._readmission:
            return
        queued, strategy = self._readmission.pop(uid)
        if queued.pod_info.spec.scheduler_name in self._hints.profiles:
            queued.backoff_expiration = self._backoff.expiration(queued)
            self._requeue(uid, queued, strategy, CONFIGURATION_CHANGED.label)
        else:
            self.nominator.delete_nominated_pod_if_exists(uid)
            self._count_rejectors(queued, -1)
            del self._known[uid]

    # --- what happens to waiting pods -------------------------------------------------------------

    def add(self, pod: PodInfo, label: str = UNSCHEDULED_POD_ADD.label) -> None:
        """Add an unassigned pod that `get` does not know."""
        uid = pod.uid
        known = self._known.get(uid)
        if known is not None:
            if uid in self.in_flight:
                # Deleted and added again with the same UID: the deletion no longer counts.
                self.in_flight.changed[uid] = pod
            else:
                self.update(known.pod_info, pod)
            return
        queued = self._known[uid] = QueuedPodInfo(pod, self._clock.now)
        place = self._requeue(uid, queued, QueueingStrategy.IMMEDIATELY, label)
        if place == UNSCHEDULABLE:
            self._metrics.queue_incoming_pods[UNSCHEDULABLE, label].inc()
        elif self.nominator.nodes or pod.pod.status.nominated_node_name:
            self.nominator.nominate(pod)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Store a newer version of a waiting pod; add a pod that is unknown.

        Queueing hints decide, as for any event, whether the change may make it schedulable.
        """
        uid = new.uid
        self._settle(uid)
        if uid in self.in_flight:
            self.in_flight.changed[uid] = new
            for event in pod_scheduling_properties_change(old, new):
                self.in_flight.record(self._hints.observe(event, old, new))
        elif (queued := self._known.get(uid)) is None:
            self.add(new, UNSCHEDULED_POD_UPDATE.label)
        else:
            self.nominator.update_nominated_pod(old, new)
            if uid in self._unschedulable:
                self._waking.update(queued, old, new)
                return
            queued.pod_info = new
            self._sort_anew(queued)
            if old.kind is not new.kind:
                self._waking.end_probe(uid)

    def update_assumed(self, new: PodInfo) -> None:
        """Store a newer version of a pod in flight that is assumed; it counts if it gets no node.

        No pod in flight learns of the change. Source: eventhandlers.go (updatePodInSchedulingQueue)
        v1.36.3.
        """
        self._settle(new.uid)
        self.in_flight.changed[new.uid] = new

    def delete(self, pod: PodInfo) -> None:
        """Remove a pod that is gone or has a node; a pod in flight is not requeued then."""
        uid = pod.uid
        self._settle(uid)
        self.nominator.delete_nominated_pod_if_exists(uid)
        if uid in self.in_flight:
            self.in_flight.changed[uid] = None
        elif (queued := self._known.pop(uid, None)) is not None:
            for place in (self._active, self._backoff, self._unschedulable):
                place.remove(uid)
            self._count_rejectors(queued, -1)
            self._waking.end_probe(uid)

    def activate(self, uids: Iterable[str], *, after_backoff: bool = False) -> None:
        """Move waiting pods to the active queue, by default without backoff; ignore unknown pods.

        A pod in flight is retried after backoff if its attempt fails.
        """
        late, at_once = QueueingStrategy.AFTER_BACKOFF, QueueingStrategy.IMMEDIATELY
        strategy = late if after_backoff else at_once
        for uid in uids:
            self._settle(uid)
            known = self.get(uid)
            if known is None:
                continue
            self._unschedulable.last_rejected.pop(known.kind, None)
            if uid in self.in_flight:
                self.in_flight.record(self._hints.observe(FORCE_ACTIVATE, None, known))
            elif (queued := self._backoff.remove(uid)) is not None and not after_backoff:
                self._make_active(uid, queued, FORCE_ACTIVATE.label)
            elif (queued := queued or self._unschedulable.remove(uid)) is not None:
                self._requeue(uid, queued, strategy, FORCE_ACTIVATE.label)

    def try_again(self, uid: str) -> None:
        """Requeue a rejected pod as after an error: its preemption or placement has failed.

        The pod is not popped before its backoff ends, even if the active queue is empty.
        """
        self._settle(uid)
        if uid in self.in_flight:
            # It may be a member of a group, whose attempt takes several steps.
            self.activate((uid,))
        queued = self._unschedulable.remove(uid)
        if queued is None:
            return
        self._count_rejectors(queued, -1)
        queued.unschedulable_plugins = queued.pending_plugins = frozenset()
        self._requeue(uid, queued, QueueingStrategy.AFTER_BACKOFF, FORCE_ACTIVATE.label)

    def open_gate(self, uid: str) -> None:
        """Run PreEnqueue again for a gated pod; an admitted pod stays unschedulable as before.

        An admitted pod without any attempt becomes active, since no event would move it.

        The owner of a gate calls this when the gate opens, so no hints run for the gated pods.
        """
        self._settle(uid)
        queued = self._unschedulable.get(uid)
        if queued is not None and queued.is_gated:
            self._unschedulable.remove(uid)
            if self._admit(queued) and not queued.attempts:
                self._make_active(uid, queued, FORCE_ACTIVATE.label)
            else:
                self._unschedulable.add(uid, queued)

    def move_all_to_active_or_backoff_queue(
        self,
        event: ClusterEvent,
        old: object = None,
        new: object = None,
        *,
        max_priority: int | None = None,
        but: str = "",
    ) -> None:
        """Move the pods that an event may make schedulable; see `ObservedEvent`.

        A pod as `old` or `new` is a `PodInfo`. The event also counts for pods in flight that fail.
        """
        if not (len(self._unschedulable) or self.in_flight.is_collecting):
            return  # a later attempt sees the state after the event
        interest = self._hints.interest_in(event)
        is_about_node = event.resource is EventResource.NODE
        if interest.exists or is_about_node:
            observed = ObservedEvent(interest, old, new, max_priority, but)
            if is_about_node or len(self._unschedulable):
                self._waking.note(observed)
            self.in_flight.record(observed)

    # --- attempts ---------------------------------------------------------------------------------

    def pop(self) -> QueuedPodInfo | None:
        """Pop the first active pod; None when there is none, or while pods wait for readmission.

        When no pod is active, a rejected pod is popped before its backoff ends, unless its last
        attempt took long (PopFromBackoffQ). The caller ends the attempt with `done` or
        `add_unschedulable_if_not_present`.
        """
        if self._readmission:
            self._readmit_some()
            if self._readmission:
                return None
        self._waking.some()
        if self._is_flushing:
            self._flush()
        queued = self._active.pop()
        if queued is None and (queued := self._backoff.early.pop()) is not None:
            self._metrics.queue_incoming_pods[ACTIVE, POP_FROM_BACKOFF_Q].inc()
        return None if queued is None else self._popped(queued)

    def pop_equal(self, pod: PodInfo) -> QueuedPodInfo | None:
        """Pop the pod that `pop` would return, but only if it is active and equal to this pod.

        None also while pods are still to be moved by events or time, which `pop` does.
        """
        if self._waking.has_more or self._is_flushing or self._readmission:
            return None
        first = self._active.first()
        if first is None or first.pod_info.kind is not pod.kind:
            return None
        self._active.pop()
        return self._popped(first)

    def pop_with(self, uids: Iterable[str]) -> list[QueuedPodInfo]:
        """Pop these pods, too, from whichever queue holds them.

        Gated and unknown pods, and pods in flight, are left out.
        """
        taken = []
        for uid in uids:
            self._settle(uid)
            queued = self._backoff.remove(uid)
            if queued is None and (waiting := self._unschedulable.remove(uid)) is not None:
                self._requeue(uid, waiting, QueueingStrategy.IMMEDIATELY, FORCE_ACTIVATE.label)
            queued = queued or self._active.take(uid)
            if queued is not None:
                taken.append(self._popped(queued))
        return taken

    def put_back(self, popped: QueuedPodInfo, until: float) -> None:
        """Put a pod that was popped just now into backoff until this time, without an attempt."""
        uid = popped.pod_info.uid
        self.in_flight.done(uid)
        popped.attempts -= 1
        popped.waits_out = True
        popped.backoff_expiration = max(until, popped.backoff_expiration)
        self._count_rejectors(popped, 1)
        self._requeue(uid, popped, QueueingStrategy.AFTER_BACKOFF, SCHEDULE_ATTEMPT_FAILURE)
        self._waking.end_probe(uid)

    def _popped(self, queued: QueuedPodInfo) -> QueuedPodInfo:
        self.in_flight.add(queued)
        queued.attempts += 1
        queued.waits_out = False
        if queued.unschedulable_plugins or queued.pending_plugins:
            self._count_rejectors(queued, -1)
        return queued

    def found_place(self, uid: str, node_name: str) -> None:
        """Delete the nomination of a pod that is assumed, and move the next pod equal to it."""
        if self.nominator.nodes:
            nominated = self.nominator.nominated(uid)
            self.nominator.delete_nominated_pod_if_exists(uid)
            if nominated is not None and nominated.pod.status.nominated_node_name != node_name:
                self.free_nomination(nominated, but=uid)
        self.is_not_rejected(uid)

    def is_not_rejected(self, uid: str) -> None:
        """Move the next pod equal to one that plugins no longer reject; extenders may be asked."""
        if self._unschedulable.probes:
            self._waking.end_probe(uid)

    def done(self, uid: str) -> None:
        """End the attempt of a pod, and drop the pod."""
        if self.in_flight.done(uid):
            del self._known[uid]
        self._waking.end_probe(uid)

    def add_unschedulable_if_not_present(self, queued: QueuedPodInfo, failure: Failure) -> bool:
        """Requeue a pod after a failed attempt, and end the attempt.

        A failure without a rejecting plugin counts as an error. Equal pods share the failure of a
        pod that fits nowhere.

        Returns:
            False when the pod is not requeued: it was deleted meanwhile, or is waiting already.
        """
        uid = queued.pod_info.uid
        latest = self.in_flight.changed.get(uid, queued.pod_info)
        if latest is None or (uid in self._known and uid not in self.in_flight):
            self.done(uid)
            return False
        self._known[uid] = queued
        queued.pod_info = latest
        queued.unschedulable_plugins = failure.unschedulable_plugins
        queued.pending_plugins, queued.fits_nowhere = failure.pending_plugins, failure.fits_nowhere
        queued.last_failure, queued.excess = failure.message, failure.excess
        if queued.unschedulable_plugins or queued.pending_plugins:
            queued.unschedulable_count += 1
            queued.consecutive_errors_count = 0
        else:
            queued.consecutive_errors_count += 1
        queued.timestamp = self._clock.now
        queued.backoff_expiration = self._backoff.expiration(queued)
        queued.was_flushed = False
        self._count_rejectors(queued, 1)
        events = self.in_flight.events_for(uid)
        strategy = self._hints.strategy_after_attempt(queued, events)
        self.in_flight.done(uid)
        if self._requeue(uid, queued, strategy, SCHEDULE_ATTEMPT_FAILURE) == UNSCHEDULABLE:
            self._metrics.queue_incoming_pods[UNSCHEDULABLE, SCHEDULE_ATTEMPT_FAILURE].inc()
            is_known = failure.fits_nowhere and self._unschedulable.note_rejected(uid, failure)
            self._waking.end_probe(uid, is_rejected=is_known)
        elif not failure.fits_nowhere:
            # In back-off, it may fail again and again; equal pods may not.
            self._waking.end_probe(uid)
        if queued.unschedulable_plugins:
            self._active.note_rejection()
        return True

    # --- time -------------------------------------------------------------------------------------

    def flush_backoff_completed(self) -> None:
        """Move the pods that have completed backoff to the active queue; call it every second.

        Of very many pods, the next pops move the rest.
        """
        self._readmit_some()
        self._forgive()
        self._waking.some()
        self._flush()

    def flush_unschedulable_leftover(self) -> None:
        """Move the pods that have been unschedulable for too long; call it every second.

        After an error of a PreEnqueue plugin, pods move sooner, since no event is due for them.
        """
        self._waking.note_time(self._clock.now)

    # --- nominations ------------------------------------------------------------------------------

    def add_nominated_pod(
        self, pod: PodInfo, node_name: str | None = None, needed_at: float = 0.0
    ) -> None:
        """Nominate a pod as `NominatedPods.nominate` does, unless it is gone meanwhile."""
        self._settle(pod.uid)
        known = self.get(pod.uid)
        if known is None:
            self.nominator.delete_nominated_pod_if_exists(pod.uid)
            return
        self.nominator.nominate(known, node_name, needed_at)
        # A nominated pod shares no rejections with equal pods.
        self._waking.refile(pod.uid)

    def withdraw_nomination(self, nominated: PodInfo | None) -> None:
        """Delete a pod's nomination, if it has one, and move pods that may use the node."""
        if nominated is not None:
            self.nominator.delete_nominated_pod_if_exists(nominated.uid)
            self.free_nomination(nominated)

    def free_nomination(self, pod: PodInfo, but: str = "") -> None:
        """Move pods of no higher priority, which may use the node that a pod was nominated to.

        Differs: upstream also moves the pod itself in any case, and so without end where Permit
        rejects it each time. Here it is `but`, unless a more important pod took its nomination.
        Upstream moves no pod if the nominated pod gets another node.
        """
        self.move_all_to_active_or_backoff_queue(
            ASSIGNED_POD_DELETE, pod, None, but=but, max_priority=pod.priority
        )

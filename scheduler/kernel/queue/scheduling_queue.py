"""The queue of pods that wait to be scheduled.

Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go PriorityQueue v1.36, with
queueing hints and PopFromBackoffQ.
Differs: pods are identified by UID. Newer versions of a pod in flight, and its deletion, are kept
until it comes back. The flush of pods that waited too long does not concern pods in flight.
"""

from collections.abc import Iterable, Mapping
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
from scheduler.kernel.queue.backoff import BackoffSettings
from scheduler.kernel.queue.dump import ACTIVE, UNSCHEDULABLE
from scheduler.kernel.queue.hints import ObservedEvent, QueueingStrategy
from scheduler.kernel.queue.moves import SortKey, count_rejectors
from scheduler.kernel.queue.queued_pods import QueuedPods
from scheduler.kernel.queue.settings import QueueProfile

_ADMITTED_AT_ONCE: Final = 512
"""The most pods readmitted at once after a change of configuration: some 4 ms."""


class SchedulingQueue(QueuedPods):
    """Pods that wait for a node.

    Invariant: a pod is in exactly one of active, back-off, unschedulable and in flight, from `add`
    until `delete`, or until `done` without being put back. See `validate`.
    """

    def configure(
        self, sort_key: SortKey, profiles: Mapping[str, QueueProfile], backoff: BackoffSettings
    ) -> None:
        """Go on with other settings; pods keep the history of their attempts.

        A rejected pod is tried again after back-off: the plugin that rejected it may be gone. The
        PreEnqueue plugins run for every pod. Pods of profiles that are gone are forgotten.

        The pods follow some at a time, and none is popped before all have.
        """
        self._readmission.add(self._active, self._backoff, self._unschedulable)
        self._begin(sort_key, profiles, backoff)
        self._in_flight.record(self._hints.observe(CONFIGURATION_CHANGED, None, None))

    def _readmit_some(self) -> None:
        for queued, strategy in self._readmission.some(_ADMITTED_AT_ONCE):
            self._readmit(queued, strategy)

    def _readmit(self, queued: QueuedPodInfo, strategy: QueueingStrategy) -> None:
        """Sort a pod in under the configuration that is in force, or forget it with its profile."""
        pod = queued.pod_info
        if pod.spec.scheduler_name not in self._profiles:
            self.nominator.delete_nominated_pod_if_exists(pod.uid)
            count_rejectors(self._metrics, queued, -1)
            del self._known[pod.uid]
            return
        queued.backoff_expiration = self._backoff.expiration(queued)
        self._moves.requeue(pod.uid, queued, strategy, CONFIGURATION_CHANGED.label)

    def _settle(self, uid: str) -> None:
        """Readmit one pod now, if it still waits to be admitted anew."""
        strategy = self._readmission.take(uid) if self._readmission.sources else None
        if strategy is not None:
            self._readmit(self._known[uid], strategy)

    # --- what happens to waiting pods -------------------------------------------------------------

    def add(self, pod: PodInfo, label: str = UNSCHEDULED_POD_ADD.label) -> None:
        """Take in a new pod without a node, one that `get` does not know."""
        uid = pod.uid
        known = self._known.get(uid)
        if known is not None:
            if uid in self._in_flight:
                # Deleted and back under the same UID: it never was gone.
                self._in_flight.changed[uid] = pod
            else:
                self.update(known.pod_info, pod)
            return
        queued = self._known[uid] = QueuedPodInfo(pod, self._clock.monotonic())
        place = self._moves.requeue(uid, queued, QueueingStrategy.IMMEDIATELY, label)
        if place == UNSCHEDULABLE:
            self._metrics.queue_incoming_pods[UNSCHEDULABLE, label].inc()
        else:
            self.nominator.nominate(pod)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Take over a newer version of a waiting pod; add a pod that is unknown.

        The change may make a rejected pod schedulable, which the hints decide as for any event.
        """
        uid = new.uid
        self._settle(uid)
        if uid in self._in_flight:
            self._in_flight.changed[uid] = new
            for event in pod_scheduling_properties_change(old, new):
                self._in_flight.record(self._hints.observe(event, old, new))
        elif (queued := self._known.get(uid)) is None:
            self.add(new, UNSCHEDULED_POD_UPDATE.label)
        else:
            self.nominator.update_nominated_pod(old, new)
            if uid in self._unschedulable:
                self._waking.update(queued, old, new)
                return
            queued.pod_info = new
            self._moves.sort_anew(queued)
            if old.kind is not new.kind:
                self._waking.end_probe(uid)

    def delete(self, pod: PodInfo) -> None:
        """Forget a pod that is gone or has a node; if it is in flight, it will not come back."""
        uid = pod.uid
        self._settle(uid)
        self.nominator.delete_nominated_pod_if_exists(uid)
        if uid in self._in_flight:
            self._in_flight.changed[uid] = None
        elif (queued := self._known.pop(uid, None)) is not None:
            for place in (self._active, self._backoff, self._unschedulable):
                place.remove(uid)
            count_rejectors(self._metrics, queued, -1)
            self._waking.end_probe(uid)

    def activate(self, uids: Iterable[str]) -> None:
        """Make waiting pods active at once, without back-off; unknown ones are ignored.

        A pod in flight is tried again if its attempt fails.
        """
        for uid in uids:
            self._settle(uid)
            known = self.get(uid)
            if known is None:
                continue
            self._unschedulable.invalidate(known.kind)
            if uid in self._in_flight:
                self._in_flight.record(self._hints.observe(FORCE_ACTIVATE, None, known))
            elif (queued := self._backoff.remove(uid)) is not None:
                self._moves.activate(uid, queued, FORCE_ACTIVATE.label)
            elif (queued := self._unschedulable.remove(uid)) is not None:
                self._moves.requeue(uid, queued, QueueingStrategy.IMMEDIATELY, FORCE_ACTIVATE.label)

    def try_again(self, uid: str) -> None:
        """Try a rejected pod again as after an error: its preemption or placement has failed.

        It is not popped before its back-off is over, even if it is alone.
        """
        self._settle(uid)
        queued = self._unschedulable.remove(uid)
        if queued is None:
            return
        count_rejectors(self._metrics, queued, -1)
        queued.unschedulable_plugins = queued.pending_plugins = frozenset()
        self._moves.requeue(uid, queued, QueueingStrategy.AFTER_BACKOFF, FORCE_ACTIVATE.label)

    def open_gate(self, uid: str) -> None:
        """Run PreEnqueue again for a gated pod; if admitted, it stays rejected as before the gate.

        One that was never tried has its turn: nothing else would wake it.

        For gates that call this when they open: no event need be checked for the pods they hold.
        """
        self._settle(uid)
        queued = self._unschedulable.get(uid)
        if queued is not None and queued.is_gated:
            self._unschedulable.remove(uid)
            if self._moves.admit(queued) and not queued.attempts:
                self._moves.activate(uid, queued, FORCE_ACTIVATE.label)
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
        """Wake the pods that an event is worth trying again; see `ObservedEvent`.

        Pods are given as `PodInfo`. An attempt under way that fails is checked against the event.
        """
        if not (len(self._unschedulable) or self._in_flight.is_collecting):
            return  # a pod that comes later is evaluated against the state of that time
        interest = self._hints.interest_in(event)
        is_about_node = event.resource is EventResource.NODE
        if interest.exists or is_about_node:
            observed = ObservedEvent(interest, old, new, max_priority, but)
            if is_about_node or len(self._unschedulable):
                self._waking.note(observed)
            self._in_flight.record(observed)

    # --- attempts ---------------------------------------------------------------------------------

    def pop(self) -> QueuedPodInfo | None:
        """Hand out the most important ready pod; None when there is none, or it is not known yet.

        When no pod is active, pods in back-off after a rejection come early: they delay no other
        pod, unless their last attempt took long. The caller ends the attempt with `done` or
        `add_unschedulable_if_not_present`.
        """
        if self._readmission.sources:
            self._readmit_some()
            if self._readmission.sources:
                return None
        self._waking.some()
        if self._moves.is_flushing:
            self._moves.flush()
        queued = self._active.pop()
        if queued is None and (queued := self._backoff.pop_early()) is not None:
            self._metrics.queue_incoming_pods[ACTIVE, POP_FROM_BACKOFF_Q].inc()
        return None if queued is None else self._popped(queued)

    def pop_equal(self, pod: PodInfo) -> QueuedPodInfo | None:
        """Hand out the pod that `pop` would, but only if it is active and equal to this pod.

        None also while pods are due to be woken: `pop` does that.
        """
        if self._waking.has_more or self._moves.is_flushing or self._readmission.sources:
            return None
        first = self._active.first()
        if first is None or first.pod_info.kind is not pod.kind:
            return None
        self._active.pop()
        return self._popped(first)

    def pop_with(self, uids: Iterable[str]) -> list[QueuedPodInfo]:
        """Hand out more pods beside the one that was popped last, wherever they wait.

        Pods that are gated, in flight or unknown are left out.
        """
        taken = []
        for uid in uids:
            self._settle(uid)
            queued = self._backoff.remove(uid)
            if queued is None and (waiting := self._unschedulable.remove(uid)) is not None:
                self._moves.requeue(
                    uid, waiting, QueueingStrategy.IMMEDIATELY, FORCE_ACTIVATE.label
                )
            queued = queued or self._active.take(uid)
            if queued is not None:
                taken.append(self._popped(queued))
        return taken

    def _popped(self, queued: QueuedPodInfo) -> QueuedPodInfo:
        self._in_flight.add(queued)
        queued.attempts += 1
        queued.waits_out = False
        if queued.unschedulable_plugins or queued.pending_plugins:
            count_rejectors(self._metrics, queued, -1)
        return queued

    def begin_scheduling_cycle(self, uid: str) -> None:
        """Keep events again for a pod in flight, whose scheduling cycle begins anew."""
        self._in_flight.collect(uid)

    def done_scheduling_cycle(self, uid: str) -> None:
        """Keep no more events for a pod that can no longer be rejected: Permit is over.

        It stays in flight: its deletion and its newer versions are still taken note of.
        """
        self._in_flight.stop_collecting(uid)

    def found_place(self, uid: str, node_name: str) -> None:
        """A pod in flight has a node: it is nominated to none, and those like it may fit, too."""
        if len(self.nominator):
            nominated = self.nominator.nominated(uid)
            self.nominator.delete_nominated_pod_if_exists(uid)
            if nominated is not None and nominated.pod.status.nominated_node_name != node_name:
                self.free_nomination(nominated, but=uid)
        self._waking.end_probe(uid)

    def done(self, uid: str) -> None:
        """End the attempt of a pod that need not come back."""
        if self._in_flight.done(uid):
            del self._known[uid]
        self._waking.end_probe(uid)

    def add_unschedulable_if_not_present(self, queued: QueuedPodInfo, failure: Failure) -> bool:
        """Put back a pod after a failed attempt, and end the attempt.

        Without a rejecting plugin, the attempt met an error. Equal pods share the failure of a pod
        that fits nowhere.

        Returns:
            False when the pod was deleted meanwhile, or is waiting already: it is not put back.
        """
        uid = queued.pod_info.uid
        latest = self._in_flight.changed.get(uid, queued.pod_info)
        if latest is None or (uid in self._known and uid not in self._in_flight):
            self.done(uid)
            return False
        self._known[uid] = queued
        queued.pod_info = latest
        queued.unschedulable_plugins = failure.unschedulable_plugins
        queued.pending_plugins = failure.pending_plugins
        queued.last_failure, queued.excess = failure.message, failure.excess
        if queued.unschedulable_plugins or queued.pending_plugins:
            queued.unschedulable_count += 1
            queued.consecutive_errors_count = 0
        else:
            queued.consecutive_errors_count += 1
        queued.timestamp = self._clock.monotonic()
        queued.backoff_expiration = self._backoff.expiration(queued)
        queued.was_flushed = False
        count_rejectors(self._metrics, queued, 1)
        events = self._in_flight.events_for(uid)
        strategy = self._hints.strategy_after_attempt(queued, events)
        self._in_flight.done(uid)
        if self._moves.requeue(uid, queued, strategy, SCHEDULE_ATTEMPT_FAILURE) == UNSCHEDULABLE:
            self._metrics.queue_incoming_pods[UNSCHEDULABLE, SCHEDULE_ATTEMPT_FAILURE].inc()
            is_known = failure.fits_nowhere and self._unschedulable.note_rejected(uid, failure)
            self._waking.end_probe(uid, is_rejected=is_known)
        if queued.unschedulable_plugins:
            self._active.note_rejection()
        return True

    # --- time -------------------------------------------------------------------------------------

    def flush_backoff_completed(self) -> None:
        """Make the pods active that have completed back-off; to be called every second.

        If there are very many, the rest follow with the next pops.
        """
        self._readmit_some()
        self._forgive()
        self._waking.some()
        self._moves.flush()

    def flush_unschedulable_leftover(self) -> None:
        """Wake the pods that have waited too long; to be called every second.

        Pods with a PreEnqueue plugin that failed are woken sooner: no event is due for them.
        """
        self._waking.note_time(self._clock.monotonic())

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
        # Pods with a nomination are no longer like others.
        self._waking.refile(pod.uid)

    def free_nomination(self, pod: PodInfo, but: str = "") -> None:
        """Wake pods of no higher priority for the place that a pod was nominated to.

        Differs: upstream tries the pod itself again in any case, and so without end where Permit
        rejects it each time. It is `but` here, unless a more important one has taken its place.
        Upstream wakes no pod if the nominated one finds another place.
        """
        self.move_all_to_active_or_backoff_queue(
            ASSIGNED_POD_DELETE, pod, None, but=but, max_priority=pod.priority
        )

    def took_long(self, uid: str) -> QueuedPodInfo | None:
        """Note a slow decision: after the second in a row all other pods go first, for a while.

        Returns:
            The pod, if it is put last now; None also for a pod that does not wait.
        """
        queued = None if uid in self._in_flight else self._known.get(uid)
        if queued is None or not self._slow.note(queued):
            return None
        self._moves.sort_anew(queued)
        return queued

    def _forgive(self) -> None:
        """Let pods wait like all others again that were put last long enough ago."""
        for uid in self._slow.forgiven():
            queued = self._known.get(uid)
            if queued is not None:
                queued.is_slow = False
                self._moves.sort_anew(queued)

"""The queue of pods that wait to be scheduled.

Where a pod can be, and how it moves:

    from            to              by
    --------------  --------------  ------------------------------------------------------------
    (unknown)       active          add, update
    active          in flight       pop
    back-off        in flight       pop, when nothing is active and the pod met no error
    in flight       (unknown)       done, delete
    in flight       unschedulable   add_unschedulable_if_not_present: rejected, nothing happened
    in flight       back-off        add_unschedulable_if_not_present: error, or woken meanwhile
    in flight       active          add_unschedulable_if_not_present: a Pending plugin says Queue
    unschedulable   back-off        event, update, flush_unschedulable_leftover, try_again
    unschedulable   active          the same when back-off is over; activate
    back-off        active          flush_backoff_completed, activate
    any but flight  (unknown)       delete
    any but flight  readmission     configure
    readmission     any but flight  pop, flush_backoff_completed, and all that concerns the pod

Whenever a pod would become active or go to back-off, except from back-off, the PreEnqueue plugins
are asked; a pod that one of them rejects goes to *unschedulable* as a gated pod instead.

Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go PriorityQueue v1.36, with
queueing hints and PopFromBackoffQ.
Differs: pods are told apart by UID. Newer versions of a pod in flight, and its deletion, are kept
until it comes back. The flush of pods that waited too long does not concern pods in flight.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from scheduler.api.pods import PodInfo
from scheduler.clock import MonotonicClock
from scheduler.kernel.framework.events import (
    BACKOFF_COMPLETE,
    CONFIGURATION_CHANGED,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF_Q,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ClusterEvent,
)
from scheduler.kernel.framework.property_changes import pod_scheduling_properties_change
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.active import ActiveQueue
from scheduler.kernel.queue.backoff import BackoffQueue, BackoffSettings
from scheduler.kernel.queue.dump import (
    ACTIVE,
    BACKOFF,
    UNSCHEDULABLE,
)
from scheduler.kernel.queue.equivalent_pods import ProbeEvent, Rejection
from scheduler.kernel.queue.hints import QueueingHints, QueueingStrategy
from scheduler.kernel.queue.pre_enqueue import Gates
from scheduler.kernel.queue.queued_pods import QueuedPods
from scheduler.kernel.queue.settings import DEFAULT_SETTINGS, QueueProfile, QueueSettings
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods
from scheduler.kernel.queue.waking import Waking
from scheduler.observability.queue_metrics import QueueMetrics

PUT_LAST_SECONDS: Final = 300.0
"""A pod with slow decisions goes after all other pods for this long."""
_ADMITTED_AT_ONCE: Final = 512
"""So many pods are sorted in at once after another configuration: some 4 ms."""
_FLUSHED_AT_ONCE: Final = 512
"""So many pods become active at once when their back-off ends: some 5 ms."""

SortKey: TypeAlias = Callable[[QueuedPodInfo], Any]

_ADD_LABEL: Final = UNSCHEDULED_POD_ADD.label
_UPDATE_LABEL: Final = UNSCHEDULED_POD_UPDATE.label
_ACTIVATE_LABEL: Final = FORCE_ACTIVATE.label


class SchedulingQueue(QueuedPods):
    """Pods that wait for a node.

    Invariant: a pod is in exactly one of active, back-off, unschedulable and in flight, from `add`
    until `delete`, or until `done` without being put back. See `scheduler.kernel.queue.validation`.
    """

    def __init__(
        self,
        sort_key: SortKey,
        profiles: Mapping[str, QueueProfile],
        clock: MonotonicClock,
        *,
        settings: QueueSettings = DEFAULT_SETTINGS,
        metrics: QueueMetrics,
    ) -> None:
        """Make an empty queue.

        Args:
            sort_key: the QueueSort plugin's; all profiles share it.
            profiles: by scheduler name.
            clock: only its monotonic time is read.
            settings: times.
            metrics: what is counted.
        """
        super().__init__(clock, settings.max_in_unschedulable_seconds)
        self._metrics = metrics
        self._slow: OrderedDict[str, float] = OrderedDict()
        """Pods that all others go before, and until when."""
        self._begin(sort_key, profiles, settings.backoff)

    def _begin(
        self, sort_key: SortKey, profiles: Mapping[str, QueueProfile], backoff: BackoffSettings
    ) -> None:
        """Make the queue empty, with these settings."""
        self._sort_key: SortKey = lambda queued: (queued.is_slow, sort_key(queued))
        self._hints = QueueingHints(profiles)
        self._gates = Gates(profiles, self._metrics)
        self._profiles = profiles
        self._active = ActiveQueue(self._clock)
        self._backoff = BackoffQueue(backoff, self._clock)
        self._unschedulable = UnschedulablePods(
            self._shares_rejections, self._clock, self._max_in_unschedulable
        )
        self._waking = Waking(self._hints, self._unschedulable, self._in_flight, self._requeue)
        self._is_flushing = False
        """Whether pods remain that had completed back-off at the last flush."""

    def configure(
        self, sort_key: SortKey, profiles: Mapping[str, QueueProfile], backoff: BackoffSettings
    ) -> None:
        """Go on with other settings; pods keep the history of their attempts.

        A rejected pod is tried again after back-off: the plugin that rejected it may be gone. The
        PreEnqueue plugins are asked about every pod. Pods of profiles that are gone are forgotten.

        Args:
            sort_key: see `__init__`.
            profiles: see `__init__`.
            backoff: times of the back-off.

        Cost: O(profiles); the pods follow some at a time, and none is popped before all have.
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
            _count_rejectors(self._metrics, queued, -1)
            return
        queued.backoff_expiration = self._backoff.expiration(queued)
        self._requeue(pod.uid, queued, strategy, CONFIGURATION_CHANGED.label)

    def _settle(self, uid: str) -> None:
        """Have a pod in its place under the configuration that is in force."""
        found = self._readmission.take(uid) if self._readmission else None
        if found is not None:
            self._readmit(*found)

    # --- what happens to waiting pods -------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        """Take in a new pod without a node, one that `get` does not know."""
        self._add_new(pod, _ADD_LABEL)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Take over a newer version of a waiting pod; one that is unknown is added.

        The change may make a rejected pod schedulable, which the hints decide as for any event.
        """
        uid = new.uid
        self._settle(uid)
        if uid in self._in_flight:
            self._in_flight.update(new)
            for event in pod_scheduling_properties_change(old, new):
                self._in_flight.record(self._hints.observe(event, old, new))
        elif (queued := self._active.get(uid)) is not None:
            queued.pod_info = new
            self._active.rekey(uid, self._sort_key(queued))
            self._update_ready(old, new)
        elif (queued := self._backoff.get(uid)) is not None:
            queued.pod_info = new
            self._backoff.rekey(uid, self._sort_key(queued))
            self._update_ready(old, new)
        elif (queued := self._unschedulable.get(uid)) is not None:
            self.nominator.update_nominated_pod(old, new)
            self._waking.update(queued, old, new)
        else:
            self._add_new(new, _UPDATE_LABEL)

    def delete(self, pod: PodInfo) -> None:
        """Forget a pod that is gone or has a node; if it is in flight, it will not come back."""
        uid = pod.uid
        self._settle(uid)
        self.nominator.delete_nominated_pod_if_exists(uid)
        if uid in self._in_flight:
            self._in_flight.mark_deleted(uid)
            return
        queued = self._active.remove(uid) or self._backoff.remove(uid)
        queued = queued or self._unschedulable.remove(uid)
        if queued is not None:
            _count_rejectors(self._metrics, queued, -1)
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
                self._push_active(uid, queued, _ACTIVATE_LABEL)
            elif (queued := self._unschedulable.remove(uid)) is not None:
                self._requeue(uid, queued, QueueingStrategy.IMMEDIATELY, _ACTIVATE_LABEL)

    def try_again(self, uid: str) -> None:
        """Have a rejected pod tried again as after an error: what was to help it has failed.

        It is not popped before its back-off is over, even if it is alone.
        """
        self._settle(uid)
        queued = self._unschedulable.remove(uid)
        if queued is None:
            return
        _count_rejectors(self._metrics, queued, -1)
        queued.unschedulable_plugins = queued.pending_plugins = frozenset()
        self._requeue(uid, queued, QueueingStrategy.AFTER_BACKOFF, _ACTIVATE_LABEL)

    def open_gate(self, uid: str) -> None:
        """Ask again whether a gated pod is held; if not, it waits for what rejected it before.

        For gates that know when they open: no event need be looked at for the pods they hold.
        """
        self._settle(uid)
        queued = self._unschedulable.get(uid)
        if queued is not None and queued.is_gated:
            self._unschedulable.remove(uid)
            self._gates.admit(queued)
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
        """Wake the pods that an event is worth trying again.

        Args:
            event: what happened.
            old: the object before; None when it was added.
            new: the object after; None when it was deleted. Pods are given as `PodInfo`.
            max_priority: wake only pods of this priority or less.
            but: UID of a pod to leave alone.
        """
        self._waking.observe(event, old, new, max_priority=max_priority, but=but)

    # --- attempts ---------------------------------------------------------------------------------

    def pop(self) -> QueuedPodInfo | None:
        """Hand out the most important ready pod; None when there is none, or it is not known yet.

        When no pod is active, pods in back-off after a rejection come early: they delay no other
        pod. The caller ends the attempt with `done` or `add_unschedulable_if_not_present`.
        """
        if self._readmission:
            self._readmit_some()
            if self._readmission:
                return None
        self._waking.some()
        if self._is_flushing:
            self._flush_some()
        queued = self._active.pop()
        if queued is None:
            queued = self._backoff.pop_early()
            if queued is None:
                return None
            self._metrics.queue_incoming_pods[ACTIVE, POP_FROM_BACKOFF_Q].inc()
        return self._popped(queued)

    def pop_equal(self, pod: PodInfo) -> QueuedPodInfo | None:
        """Hand out what `pop` would, if that is an active pod equal to this one, and nothing else.

        None also while pods are due to be woken: `pop` does that.
        """
        if self._waking.has_more or self._is_flushing or self._readmission:
            return None
        first = self._active.first()
        if first is None or first.pod_info.kind is not pod.kind:
            return None
        self._active.pop()
        return self._popped(first)

    def _popped(self, queued: QueuedPodInfo) -> QueuedPodInfo:
        self._in_flight.add(queued)
        queued.attempts += 1
        if queued.unschedulable_plugins or queued.pending_plugins:
            _count_rejectors(self._metrics, queued, -1)
        return queued

    def begin_scheduling_cycle(self, uid: str) -> None:
        """Keep events again for a pod in flight: what was decided about it begins anew."""
        self._in_flight.collect(uid)

    def done_scheduling_cycle(self, uid: str) -> None:
        """Keep no more events for a pod that can no longer be rejected: Permit is over.

        It stays in flight: its deletion and its newer versions are still taken note of.
        """
        self._in_flight.stop_collecting(uid)

    def found_place(self, uid: str) -> None:
        """A pod in flight has a node: it is nominated to none, and those like it may fit, too."""
        if len(self.nominator):
            self.nominator.delete_nominated_pod_if_exists(uid)
        self._waking.end_probe(uid)

    def done(self, uid: str) -> None:
        """End the attempt of a pod that need not come back."""
        self._in_flight.done(uid)
        self._waking.end_probe(uid)

    def add_unschedulable_if_not_present(
        self, queued: QueuedPodInfo, rejection: Rejection | None = None
    ) -> bool:
        """Put back a pod after a failed attempt, and end the attempt.

        The caller has set `unschedulable_plugins` and `pending_plugins` to those that rejected the
        pod; without any, the attempt met an error.

        Args:
            queued: the pod.
            rejection: given if no node fits, nor can evictions help; its equals share it.

        Returns:
            False when the pod was deleted meanwhile, or is waiting already: it is not put back.
        """
        uid = queued.pod_info.uid
        deleted = uid in self._in_flight and self._in_flight.latest(uid) is None
        if deleted or self._find(uid) is not None:
            self.done(uid)
            return False
        queued.pod_info = self._in_flight.latest(uid) or queued.pod_info
        if queued.unschedulable_plugins or queued.pending_plugins:
            queued.unschedulable_count += 1
            queued.consecutive_errors_count = 0
        else:
            queued.consecutive_errors_count += 1
        queued.timestamp = self._clock.monotonic()
        queued.backoff_expiration = self._backoff.expiration(queued)
        queued.was_flushed = False
        _count_rejectors(self._metrics, queued, 1)
        events = self._in_flight.events_for(uid)
        strategy = self._hints.strategy_after_attempt(queued, events)
        self._in_flight.done(uid)
        if self._requeue(uid, queued, strategy, SCHEDULE_ATTEMPT_FAILURE) == UNSCHEDULABLE:
            self._metrics.queue_incoming_pods[UNSCHEDULABLE, SCHEDULE_ATTEMPT_FAILURE].inc()
            is_known = rejection is not None and self._unschedulable.note_rejected(uid, rejection)
            self._waking.end_probe(uid, ProbeEvent.REJECT if is_known else ProbeEvent.LEAVE)
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
        self._is_flushing = True
        self._flush_some()

    def flush_unschedulable_leftover(self) -> None:
        """Wake the pods that have waited too long; to be called every second.

        Pods with a PreEnqueue plugin that failed are woken sooner: no event is due for them.
        """
        self._waking.note_time(self._clock.monotonic())

    # --- nominations ------------------------------------------------------------------------------

    def add_nominated_pod(self, pod: PodInfo, node_name: str | None = None) -> None:
        """Nominate a pod as `Nominator.add_nominated_pod` does, unless it is gone meanwhile."""
        self._settle(pod.uid)
        known = self.get(pod.uid)
        if known is None:
            self.nominator.delete_nominated_pod_if_exists(pod.uid)
            return
        self.nominator.add_nominated_pod(known, node_name)
        # Pods with a nomination are no longer like others.
        self._waking.refile(pod.uid)

    def took_long(self, uid: str) -> QueuedPodInfo | None:
        """A decision took long: the second time in a row all others go first, for a while.

        Returns:
            The pod, if it is put last now; None also for one that does not wait.
        """
        queued = self._find(uid)
        if queued is None:
            return None
        in_a_row = queued.slow_attempt == queued.attempts - 1
        queued.slow_attempt = queued.attempts
        if not in_a_row:
            return None
        self._slow[uid] = self._clock.monotonic() + PUT_LAST_SECONDS
        self._slow.move_to_end(uid)
        self._set_slow(queued, is_slow=True)
        return queued

    def _forgive(self) -> None:
        """Pods that were put last long enough ago wait like all others."""
        now = self._clock.monotonic()
        while self._slow and next(iter(self._slow.values())) <= now:
            uid, _ = self._slow.popitem(last=False)
            queued = self._find(uid) or self._in_flight.queued(uid)
            if queued is not None:
                self._set_slow(queued, is_slow=False)

    def _set_slow(self, queued: QueuedPodInfo, *, is_slow: bool) -> None:
        queued.is_slow = is_slow
        uid = queued.pod_info.uid
        if uid in self._active:
            self._active.rekey(uid, self._sort_key(queued))
        self._backoff.rekey(uid, self._sort_key(queued))

    # --- moves ------------------------------------------------------------------------------------

    def _add_new(self, pod: PodInfo, label: str) -> None:
        uid = pod.uid
        if uid in self._in_flight:
            # Deleted and back under the same UID: it never was gone.
            self._in_flight.update(pod)
            return
        queued = QueuedPodInfo(pod, self._clock.monotonic())
        if self._gates.admit(queued):
            self._push_active(uid, queued, label)
            self.nominator.add_nominated_pod(pod)
        else:
            self._unschedulable.add(uid, queued)
            self._metrics.queue_incoming_pods[UNSCHEDULABLE, label].inc()

    def _update_ready(self, old: PodInfo, new: PodInfo) -> None:
        self.nominator.update_nominated_pod(old, new)
        if old.kind is not new.kind:
            self._waking.end_probe(new.uid)

    def _flush_some(self) -> None:
        """Let back-off end; where it does for very many pods, not yet for all."""
        completed = list(islice(self._backoff.pop_completed(), _FLUSHED_AT_ONCE))
        for queued in completed:
            self._push_active(queued.pod_info.uid, queued, BACKOFF_COMPLETE)
        self._is_flushing = len(completed) == _FLUSHED_AT_ONCE

    def _requeue(
        self, uid: str, queued: QueuedPodInfo, strategy: QueueingStrategy, label: str
    ) -> str:
        """Put a pod that is in no queue where it belongs, and say where that is."""
        if strategy is QueueingStrategy.SKIP or not self._gates.admit(queued):
            self._unschedulable.add(uid, queued)
            return UNSCHEDULABLE
        if strategy is QueueingStrategy.AFTER_BACKOFF and self._backoff.is_backing_off(queued):
            self._backoff.push(uid, queued, self._sort_key(queued))
            self._metrics.queue_incoming_pods[BACKOFF, label].inc()
            return BACKOFF
        self._push_active(uid, queued, label)
        return ACTIVE

    def _push_active(self, uid: str, queued: QueuedPodInfo, label: str) -> None:
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = self._clock.monotonic()
        self._active.push(uid, queued, self._sort_key(queued))
        self._metrics.queue_incoming_pods[ACTIVE, label].inc()


def _count_rejectors(metrics: QueueMetrics, queued: QueuedPodInfo, change: int) -> None:
    profile = queued.pod_info.spec.scheduler_name
    for plugin in queued.unschedulable_plugins | queued.pending_plugins:
        metrics.unschedulable_pods[plugin, profile].inc(change)

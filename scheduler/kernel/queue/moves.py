"""Moves each pod to the place where it waits: active, backoff or unschedulable.

The places of a pod, and the moves between them:

    from            to              by
    --------------  --------------  ------------------------------------------------------------
    (unknown)       active          add, update
    active          in flight       pop
    backoff         in flight       pop, when nothing is active and the pod may come early
    in flight       (unknown)       done, delete
    in flight       unschedulable   add_unschedulable_if_not_present: rejected, no event helps
    in flight       backoff         add_unschedulable_if_not_present: error, or an event helps
    in flight       backoff         put_back: the pods with which it is to be tried back off
    in flight       active          add_unschedulable_if_not_present: Pending, and an event helps
    unschedulable   backoff         event, update, flush_unschedulable_leftover, try_again
    unschedulable   active          the same when backoff is over; activate, open_gate
    backoff         active          flush_backoff_completed, activate
    any but flight  (unknown)       delete
    any but flight  readmission     configure
    readmission     any but flight  pop, flush_backoff_completed, and any call about the pod

Whenever a pod would become active or go to backoff, except from backoff, the PreEnqueue plugins
run. A pod that one of them rejects goes to *unschedulable* as a gated pod instead.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from scheduler.clock import EventClock
from scheduler.config.types import MAX_IN_UNSCHEDULABLE_SECONDS
from scheduler.kernel.framework.events import BACKOFF_COMPLETE
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.status import Code
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.active import ActiveQueue, InFlightPods, SlowPods
from scheduler.kernel.queue.backoff import BackoffQueue
from scheduler.kernel.queue.hints import QueueingHints, QueueingStrategy
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods
from scheduler.kernel.queue.values import (
    ACTIVE,
    BACKOFF,
    UNSCHEDULABLE,
    BackoffSettings,
)
from scheduler.kernel.queue.waking import Waking
from scheduler.observability.queue_metrics import QueueMetrics

_FLUSHED_AT_ONCE: Final = 512
"""The most pods that become active at once when their backoff ends: some 5 ms."""


class QueuePlaces:
    """The places of pods, and the moves into active, backoff and unschedulable.

    Attributes:
        in_flight: the pods between `pop` and `done`.
        nominator: the nominated pods, by node.
        sort_key: the order of the active queue: slow pods last, then that of the QueueSort plugin.
    """

    sort_key: Callable[[QueuedPodInfo], Any]

    def __init__(
        self,
        hints: QueueingHints,
        clock: EventClock,
        *,
        backoff: BackoffSettings,
        max_in_unschedulable_seconds: float = MAX_IN_UNSCHEDULABLE_SECONDS,
        metrics: QueueMetrics,
    ) -> None:
        """Make an empty queue; after so many seconds a rejected pod is tried without an event."""
        self._clock = clock
        self._max_in_unschedulable = max_in_unschedulable_seconds
        self._metrics = metrics
        self._known: dict[str, QueuedPodInfo] = {}
        """All pods that wait or are in flight, by UID."""
        self.in_flight = InFlightPods()
        self._readmission: dict[str, tuple[QueuedPodInfo, QueueingStrategy]] = {}
        """Pods that the current configuration has not admitted yet, in order, with their strategy.

        Upstream reads its configuration once. Here it may change while very many pods wait. To sort
        them again, and to run PreEnqueue for each, would be one long step.
        """
        self.nominator = NominatedPods()
        self._slow = SlowPods(clock)
        self._begin(hints, backoff)

    def _begin(self, hints: QueueingHints, backoff: BackoffSettings) -> None:
        """Make the places for waiting pods empty, with these settings."""
        # Validation requires the same QueueSort plugin in all profiles.
        sort_key = next(iter(hints.profiles.values())).sort_key
        self.sort_key = lambda queued: (queued.is_slow, sort_key(queued))
        self._hints = hints
        self._active = ActiveQueue(self._clock)
        self._backoff = BackoffQueue(backoff, self._clock)
        self._unschedulable = UnschedulablePods(
            self._shares_rejections, self._clock, self._max_in_unschedulable
        )
        self._waking = Waking(hints, self._unschedulable, self._requeue)
        self._is_flushing = False
        """Whether pods remain that had completed backoff at the last flush."""

    def _shares_rejections(self, queued: QueuedPodInfo) -> bool:
        """Whether a pod's rejection holds for equal pods; it does not if the pod is nominated.

        A member of a group may be rejected for the room that others of the group have taken.
        """
        pod = queued.pod_info
        profile = self._hints.profiles.get(pod.spec.scheduler_name)
        if profile is None or pod.pod.status.nominated_node_name or profile.is_member(pod):
            return False
        return self.nominator.nodes.get(pod.uid) is None and profile.shares_rejections(pod)

    def _requeue(
        self, uid: str, queued: QueuedPodInfo, strategy: QueueingStrategy, label: str
    ) -> str:
        """Put a pod that is in no queue into one of them; return the name of that queue."""
        if strategy is QueueingStrategy.SKIP or not self._admit(queued):
            self._unschedulable.add(uid, queued)
            return UNSCHEDULABLE
        if strategy is QueueingStrategy.AFTER_BACKOFF and self._backoff.is_backing_off(queued):
            self._backoff.push(uid, queued, self.sort_key(queued))
            self._metrics.queue_incoming_pods[BACKOFF, label].inc()
            return BACKOFF
        self._make_active(uid, queued, label)
        return ACTIVE

    def _admit(self, queued: QueuedPodInfo) -> bool:
        """Run the PreEnqueue plugins; return False if one rejects, and so gates, the pod.

        The plugin that gated the pod before runs first, as it is the likeliest to do so again.
        """
        pod = queued.pod_info
        name = pod.spec.scheduler_name
        profile = self._hints.profiles.get(name)
        if profile is None:
            return True
        gating = queued.gating_plugin
        status = profile.run_pre_enqueue_plugins(pod, gating)
        queued.gate_failed = status.code is Code.ERROR
        if status.is_success:
            if gating:
                queued.gating_plugin = ""
                queued.last_failure = ""
            return True
        plugin = status.plugin
        if plugin not in queued.unschedulable_plugins:
            if plugin not in queued.pending_plugins:
                self._metrics.unschedulable_pods[plugin, name].inc()
            queued.unschedulable_plugins |= {plugin}
        queued.gating_plugin = plugin
        queued.last_failure = status.message
        return False

    def _make_active(self, uid: str, queued: QueuedPodInfo, label: str) -> None:
        """Put a pod that is in no queue into the active queue."""
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = self._clock.now
        self._active.push(uid, queued, self.sort_key(queued))
        self._metrics.queue_incoming_pods[ACTIVE, label].inc()

    def _sort_anew(self, queued: QueuedPodInfo) -> None:
        """Update the sort key of a changed pod, if it is active or in backoff."""
        uid, key = queued.pod_info.uid, self.sort_key(queued)
        if uid in self._active:
            self._active.rekey(uid, key)
        self._backoff.rekey(uid, key)

    def _flush(self) -> None:
        """Activate pods that completed backoff; of very many, the next pops activate the rest."""
        completed = list(islice(self._backoff.pop_completed(), _FLUSHED_AT_ONCE))
        for queued in completed:
            self._make_active(queued.pod_info.uid, queued, BACKOFF_COMPLETE)
        self._is_flushing = len(completed) == _FLUSHED_AT_ONCE

    def _count_rejectors(self, queued: QueuedPodInfo, change: int) -> None:
        """Add a change to the count of waiting pods of each plugin that rejected this pod."""
        profile = queued.pod_info.spec.scheduler_name
        for plugin in queued.unschedulable_plugins | queued.pending_plugins:
            self._metrics.unschedulable_pods[plugin, profile].inc(change)

    def took_long(self, uid: str) -> QueuedPodInfo | None:
        """Record a slow decision; after two in a row, the pod sorts last for `PUT_LAST_SECONDS`.

        Returns:
            The pod, if it sorts last now; None also for a pod that does not wait.
        """
        queued = None if uid in self.in_flight else self._known.get(uid)
        if queued is None or not self._slow.note(queued):
            return None
        self._sort_anew(queued)
        return queued

    def _forgive(self) -> None:
        """Sort pods as usual again that have sorted last for `PUT_LAST_SECONDS`."""
        for uid in self._slow.forgiven():
            queued = self._known.get(uid)
            if queued is not None:
                queued.is_slow = False
                self._sort_anew(queued)

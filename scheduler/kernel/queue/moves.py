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
run; a pod that one of them rejects goes to *unschedulable* as a gated pod instead.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from scheduler.clock import EventClock
from scheduler.kernel.framework.events import BACKOFF_COMPLETE
from scheduler.kernel.framework.status import Code
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.active import ActiveQueue
from scheduler.kernel.queue.backoff import BackoffQueue
from scheduler.kernel.queue.dump import ACTIVE, BACKOFF, UNSCHEDULABLE
from scheduler.kernel.queue.hints import QueueingStrategy
from scheduler.kernel.queue.settings import QueueProfile
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods
from scheduler.observability.queue_metrics import QueueMetrics

SortKey: TypeAlias = Callable[[QueuedPodInfo], Any]

_FLUSHED_AT_ONCE: Final = 512
"""The most pods that become active at once when their backoff ends: some 5 ms."""


class Moves:
    """Puts pods into the active, backoff or unschedulable queue.

    Attributes:
        is_flushing: whether pods remain that had completed backoff at the last flush.
    """

    def __init__(  # noqa: PLR0913 - the parts of the queue that a move touches
        self,
        active: ActiveQueue,
        backoff: BackoffQueue,
        unschedulable: UnschedulablePods,
        *,
        profiles: Mapping[str, QueueProfile],
        sort_key: SortKey,
        clock: EventClock,
        metrics: QueueMetrics,
    ) -> None:
        self._active = active
        self._backoff = backoff
        self._unschedulable = unschedulable
        self._profiles = profiles
        self._sort_key: SortKey = lambda queued: (queued.is_slow, sort_key(queued))
        self._clock = clock
        self._metrics = metrics
        self.is_flushing = False

    def requeue(
        self, uid: str, queued: QueuedPodInfo, strategy: QueueingStrategy, label: str
    ) -> str:
        """Put a pod that is in no queue into one of them; return the name of that queue."""
        if strategy is QueueingStrategy.SKIP or not self.admit(queued):
            self._unschedulable.add(uid, queued)
            return UNSCHEDULABLE
        if strategy is QueueingStrategy.AFTER_BACKOFF and self._backoff.is_backing_off(queued):
            self._backoff.push(uid, queued, self._sort_key(queued))
            self._metrics.queue_incoming_pods[BACKOFF, label].inc()
            return BACKOFF
        self.activate(uid, queued, label)
        return ACTIVE

    def admit(self, queued: QueuedPodInfo) -> bool:
        """Run the PreEnqueue plugins; return False if one rejects, and so gates, the pod.

        The plugin that gated the pod before runs first, as it is the likeliest to do so again.
        """
        pod = queued.pod_info
        name = pod.spec.scheduler_name
        profile = self._profiles.get(name)
        if profile is None:
            return True
        gating = queued.gating_plugin
        status = profile.pre_enqueue(pod, gating)
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

    def activate(self, uid: str, queued: QueuedPodInfo, label: str) -> None:
        """Put a pod that is in no queue into the active queue."""
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = self._clock.now
        self._active.push(uid, queued, self._sort_key(queued))
        self._metrics.queue_incoming_pods[ACTIVE, label].inc()

    def sort_anew(self, queued: QueuedPodInfo) -> None:
        """Update the sort key of a changed pod, if it is active or in backoff."""
        uid = queued.pod_info.uid
        if uid in self._active:
            self._active.rekey(uid, self._sort_key(queued))
        self._backoff.rekey(uid, self._sort_key(queued))

    def flush(self) -> None:
        """Activate pods that completed backoff; of very many, the next pops activate the rest."""
        completed = list(islice(self._backoff.pop_completed(), _FLUSHED_AT_ONCE))
        for queued in completed:
            self.activate(queued.pod_info.uid, queued, BACKOFF_COMPLETE)
        self.is_flushing = len(completed) == _FLUSHED_AT_ONCE


def count_rejectors(metrics: QueueMetrics, queued: QueuedPodInfo, change: int) -> None:
    """Add a change to the count of waiting pods of each plugin that rejected this pod."""
    profile = queued.pod_info.spec.scheduler_name
    for plugin in queued.unschedulable_plugins | queued.pending_plugins:
        metrics.unschedulable_pods[plugin, profile].inc(change)

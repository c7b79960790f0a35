"""How rejected pods are woken: by events, by time, and by one probe for all that are equivalent.

Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go MoveAllToActiveOrBackoffQueue,
flushUnschedulablePodsLeftover v1.36. Differs: an event is noted, and pods are asked about it some
at a time; see `scheduler.kernel.queue.requeue_passes`.
"""

from collections.abc import Callable
from typing import TypeAlias

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    UNSCHEDULED_POD_UPDATE,
    ClusterEvent,
    EventResource,
)
from scheduler.kernel.framework.property_changes import pod_scheduling_properties_change
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.dump import UNSCHEDULABLE
from scheduler.kernel.queue.equivalent_pods import ProbeEvent, Wake
from scheduler.kernel.queue.hints import QueueingHints, QueueingStrategy
from scheduler.kernel.queue.in_flight import InFlightPods
from scheduler.kernel.queue.pending_events import PendingEvent, Step
from scheduler.kernel.queue.requeue_passes import RequeuePasses
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods

Requeue: TypeAlias = Callable[[str, QueuedPodInfo, QueueingStrategy, str], str]
"""Puts a pod, by UID, that is in no queue where it belongs; gives where that is."""


class Waking:
    """Tells which of the rejected pods are tried again, and has them put back.

    Attributes:
        passes: what has happened, and how far pods have been asked about it.
    """

    def __init__(
        self,
        hints: QueueingHints,
        unschedulable: UnschedulablePods,
        in_flight: InFlightPods,
        requeue: Requeue,
    ) -> None:
        self._hints = hints
        self._unschedulable = unschedulable
        self._in_flight = in_flight
        self._requeue = requeue
        self.passes = RequeuePasses(hints, unschedulable)

    @property
    def has_more(self) -> bool:
        """Whether `some` has something to do."""
        return self.passes.has_more

    def observe(
        self,
        event: ClusterEvent,
        old: object,
        new: object,
        *,
        max_priority: int | None,
        but: str,
    ) -> None:
        """See `SchedulingQueue.move_all_to_active_or_backoff_queue`."""
        if not (len(self._unschedulable) or self._in_flight.is_collecting):
            return  # a pod that comes later is evaluated against the state of that time
        observed = self._hints.observe(event, old, new)
        is_about_node = event.resource is EventResource.NODE
        if not (observed.interest.exists or is_about_node):
            return
        if is_about_node or len(self._unschedulable):
            self.passes.note(PendingEvent(observed, max_priority, but))
            if not self.passes.is_under_way:
                self.some()
        self._in_flight.record(observed)

    def note_time(self, now: float) -> None:
        """Wake the pods that have waited too long."""
        if self.passes.note_time(now) and not self.passes.is_under_way:
            self.some()

    def some(self) -> None:
        """Wake pods that something may have helped; where many different ones wait, not yet all."""
        for queued, wake in self.passes.some():
            self._send(queued, wake)

    def update(self, queued: QueuedPodInfo, old: PodInfo, new: PodInfo) -> None:
        """Take over a newer version of a pod, and wake it if the change may help it."""
        queued.pod_info = new
        uid, strategy, label = new.uid, QueueingStrategy.SKIP, UNSCHEDULED_POD_UPDATE.label
        for event in pod_scheduling_properties_change(old, new):
            observed = self._hints.observe(event, old, new)
            answer = self._hints.strategy_for(queued, observed)
            if answer > strategy:
                strategy, label = answer, observed.interest.label
        if strategy is QueueingStrategy.SKIP:
            self.refile(uid)
            return
        is_due = self.passes.is_due(uid)
        self._unschedulable.remove(uid)
        if self._requeue(uid, queued, strategy, label) == UNSCHEDULABLE and is_due:
            self.passes.make_due(uid)

    def refile(self, uid: str) -> None:
        """Move a pod that changed to its equivalents."""
        self.passes.refile(uid)

    def end_probe(self, uid: str, event: ProbeEvent = ProbeEvent.LEAVE) -> None:
        """Take note of what became of a pod, which may be a probe; another one may follow."""
        if uid in self._unschedulable.probes:
            step = self._unschedulable.end_probe(uid, event)
            if step is not None:
                self._send(*step)

    def _send(self, queued: QueuedPodInfo, wake: Wake) -> None:
        """Wake a pod that waits; where gates keep it, the next one that it was woken for."""
        step: Step | None = (queued, wake)
        while step is not None:
            queued, wake = step
            uid = queued.pod_info.uid
            self._unschedulable.send(uid, wake)
            queued.was_flushed = wake.late_before is not None
            if self._requeue(uid, queued, wake.strategy, wake.label) != UNSCHEDULABLE:
                return
            if wake.late_before is not None and not queued.gate_failed:
                self._unschedulable.extend_deadline(uid, wake.late_before)
            step = self._unschedulable.end_probe(uid, ProbeEvent.LEAVE)

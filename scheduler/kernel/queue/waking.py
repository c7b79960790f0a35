"""Requeues rejected pods: by events, by time, and by one probe for a group of equivalent pods.

Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go MoveAllToActiveOrBackoffQueue,
movePodsToActiveOrBackoffQueue, flushUnschedulablePodsLeftover v1.36. Differs: with very many
different waiting pods, a check of all takes longer than the time between events. So an event is
only recorded, and its cost does not grow with the waiting pods. A requeue pass checks groups of
equivalent pods, some at a time, against all events from before its beginning.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Final, TypeAlias

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import (
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_UPDATE,
    ClusterEvent,
)
from scheduler.kernel.framework.property_changes import pod_scheduling_properties_change
from scheduler.kernel.framework.types import Excess, QueuedPodInfo
from scheduler.kernel.queue.equivalent_pods import EquivalentPods, Step, Wake
from scheduler.kernel.queue.hints import Interest, ObservedEvent, QueueingHints, QueueingStrategy
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods
from scheduler.kernel.queue.values import UNSCHEDULABLE

QUESTIONS_AT_ONCE: Final = 256
"""The most checks of a waiting pod against an event in one step: some 5 ms."""
KEPT: Final = 8
"""The most events of one sort that pods are checked against in a pass. If there are more, all pods
that wait for the sort are requeued without hints."""

RequeuePass: TypeAlias = Iterator[Step | None]
"""The pods to requeue, computed lazily; None for each check that requeues none."""
Requeue: TypeAlias = Callable[[str, QueuedPodInfo, QueueingStrategy, str], str]
"""Puts a pod into a queue, and returns the name of the queue: see `QueuePlaces`."""


class PendingEvents:
    """The events and passed deadlines since the last pass began.

    Attributes:
        sorts: events by sort; of a sort with more than `KEPT`, the first of them and one more.
        offered: the largest amount on a changed node of each resource that groups lack, with the
            label of the event.
        late: the time before which deadlines had passed, and the plugins that registered for
            UnschedulableTimeout; None if no deadline has passed.
    """

    def __init__(self) -> None:
        self.sorts: dict[ClusterEvent, list[ObservedEvent]] = {}
        self.offered: dict[str, tuple[int, str]] = {}
        self.late: tuple[float, Interest] | None = None

    def __bool__(self) -> bool:
        """Whether anything is pending; the engine checks this after each event."""
        return bool(self.sorts or self.offered) or self.late is not None

    def add(self, observed: ObservedEvent, offers: Mapping[str, int]) -> None:
        """Record an event for the next pass, and the resources on its node that groups lack."""
        interest = observed.interest
        for resource, amount in offers.items():
            known = self.offered.get(resource)
            if known is None or amount > known[0]:
                self.offered[resource] = amount, interest.label
        if interest.exists:
            of_sort = self.sorts.setdefault(interest.event, [])
            if len(of_sort) <= KEPT:
                of_sort.append(observed)

    def helps(self, excess: Excess | None) -> str:
        """The label of the event after which a node holds the excess; empty without one."""
        amount, label = (0, "") if excess is None else self.offered.get(excess.resource, (0, ""))
        return "" if excess is None or amount < excess.amount else label


class Waking:
    """Chooses the rejected pods to requeue, and requeues them.

    Attributes:
        pending: events that the pass under way does not cover.
    """

    def __init__(
        self, hints: QueueingHints, unschedulable: UnschedulablePods, requeue: Requeue
    ) -> None:
        self._hints = hints
        self._unschedulable = unschedulable
        self._requeue = requeue
        self.pending = PendingEvents()
        self._pass: RequeuePass | None = None
        self._checked = self.pending
        """The events and deadlines of the pass under way."""
        self._due: OrderedDict[EquivalentPods, None] = OrderedDict()
        """The groups that the pass under way has not reached yet, in this order."""
        self._late: dict[EquivalentPods, list[str]] = {}
        """The pods past their deadline among these groups."""

    @property
    def has_more(self) -> bool:
        """Whether a pass is under way, or due."""
        return self._pass is not None or bool(self.pending)

    def note(self, observed: ObservedEvent) -> None:
        """Record an event; begin a pass that checks pods against it, if none is under way."""
        self.pending.add(observed, self._unschedulable.offers_of(observed))
        if self._pass is None:
            self.some()

    def note_time(self, now: float) -> None:
        """Record that deadlines have passed; begin a pass, if none is under way."""
        if self._unschedulable.deadlines.has_before(now):
            self.pending.late = now, self._hints.interest_in(UNSCHEDULABLE_TIMEOUT)
            if self._pass is None:
                self.some()

    def some(self) -> None:
        """Begin or continue a pass: requeue pods after at most `QUESTIONS_AT_ONCE` checks."""
        if self._pass is None:
            if not self.pending:
                return
            self._checked, self.pending = self.pending, PendingEvents()
            self._begin(self._checked)
            self._pass = self._going_on(self._checked)
        try:
            for step in islice(self._pass, QUESTIONS_AT_ONCE):
                if step is not None and step[0].pod_info.uid in self._unschedulable:
                    self._send(*step)
        except Exception:
            # The pass goes on without the group at hand: a pass without end would wake no pod.
            self._due.popitem(last=False)
            self._pass = self._going_on(self._checked)
            raise
        if not self._due:
            self._pass = None

    def update(self, queued: QueuedPodInfo, old: PodInfo, new: PodInfo) -> None:
        """Store a newer version of a rejected pod, and requeue it if the change may help it."""
        queued.pod_info = new
        uid, strategy, label = new.uid, QueueingStrategy.SKIP, UNSCHEDULED_POD_UPDATE.label
        for event in pod_scheduling_properties_change(old, new):
            observed = self._hints.observe(event, old, new)
            answer = self._hints.strategy(queued, observed)
            if answer > strategy:
                strategy, label = answer, observed.interest.label
        excess, requests = queued.excess, new.shape.requests
        if excess is not None and requests.get(excess.resource, 0) < excess.amount:
            # Events that may help the pod now were skipped while its request exceeded every node.
            strategy = max(strategy, QueueingStrategy.AFTER_BACKOFF)
        gates = new.spec.scheduling_gates
        if queued.is_gated and gates and gates != old.spec.scheduling_gates:
            # No event tells that one of several gates is gone; the message must name the others.
            strategy = max(strategy, QueueingStrategy.AFTER_BACKOFF)
        if strategy is QueueingStrategy.SKIP:
            group = self._unschedulable.group_of.get(uid)
            if self.refile(uid) and group is not None and group.probe:
                # The probe under way no longer stands for this pod, which left its group.
                self._send(queued, group.wake)
            return
        is_due = self._is_due(uid)
        self._unschedulable.remove(uid)
        if self._requeue(uid, queued, strategy, label) == UNSCHEDULABLE and is_due:
            self._make_due(uid)

    def refile(self, uid: str) -> bool:
        """Move a changed pod to its new group; the pass under way includes the group if need be.

        Returns whether the pod moved.
        """
        is_due = self._is_due(uid)
        is_moved = self._unschedulable.refile(uid)
        if is_moved and is_due:
            self._make_due(uid)
        return is_moved

    def _is_due(self, uid: str) -> bool:
        """Whether the pass under way has not reached a pod yet."""
        return self._unschedulable.group_of.get(uid) in self._due

    def _make_due(self, uid: str) -> None:
        """Add a pod's new group to the pass under way, which had not reached its old one."""
        group = self._unschedulable.group_of.get(uid)
        if group is not None:
            self._due[group] = None

    def end_probe(self, uid: str, *, is_rejected: bool = False) -> None:
        """Handle the end of a pod's attempt, if it is a probe; another probe may follow."""
        step = self._unschedulable.end_probe(uid, is_rejected=is_rejected)
        if step is not None:
            self._send(*step)

    def _send(self, queued: QueuedPodInfo, wake: Wake) -> None:
        """Requeue a pod; if PreEnqueue gates it, requeue the next pod of its group."""
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
            step = self._unschedulable.end_probe(uid)

    # --- a pass -----------------------------------------------------------------------------------

    def _begin(self, pending: PendingEvents) -> None:
        """Find the groups that the pass checks.

        Cost: O(groups with a rejector that registered for one of the events).
        """
        unschedulable = self._unschedulable
        interests = [of_sort[0].interest for of_sort in pending.sorts.values()]
        self._late = {} if pending.late is None else unschedulable.late(pending.late[0])
        if any(interest.is_wildcard for interest in interests):
            self._due = OrderedDict.fromkeys(unschedulable.groups.values())
            return
        found = [
            self._late,
            *(
                unschedulable.unfittable.that_fit(resource, amount)
                for resource, (amount, _) in pending.offered.items()
            ),
            *(
                unschedulable.rejected_by(profile, plugin, interest.event)
                for interest in interests
                for profile, registered in interest.by_profile.items()
                for plugin in registered.hints
            ),
        ]
        self._due = OrderedDict.fromkeys(chain.from_iterable(found))

    def _going_on(self, pending: PendingEvents) -> RequeuePass:
        """The pods to requeue; a pod may be gone by then, if the pass was interrupted."""
        while self._due:
            group = next(iter(self._due))
            yield None
            if group.members:
                yield from self._woken(group, pending)
            del self._due[group]

    def _woken(self, group: EquivalentPods, pending: PendingEvents) -> RequeuePass:
        helped_by = pending.helps(group.excess)
        if helped_by:
            yield from _outright(group, helped_by)
        for of_sort in pending.sorts.values():
            interest = of_sort[0].interest
            if not group.may_wake(interest):
                continue
            if len(of_sort) > KEPT:
                yield from _outright(group, interest.label)
                continue
            for observed in of_sort:
                if observed.max_priority is None or group.priority <= observed.max_priority:
                    yield from self._woken_by(group, observed)
        if pending.late is not None and group in self._late:
            yield from self._expired(group, *pending.late)

    def _expired(self, group: EquivalentPods, limit: float, interest: Interest) -> RequeuePass:
        """The pods past their deadline; of equivalent pods, one as a probe.

        Pods that wait for nodes get another deadline until nodes change. Gated pods get another
        one unless their gate has failed or has registered for this event.
        """
        wake = Wake(QueueingStrategy.AFTER_BACKOFF, interest.label, limit)
        has_time = self._unschedulable.waits_for_nodes(group) or not group.may_wake(interest)
        for uid in self._late[group]:
            queued = group.members.get(uid)
            if queued is None:
                continue
            if has_time and not queued.gate_failed:
                self._unschedulable.extend_deadline(uid, limit)
                yield None
            elif group.probe:
                return
            else:
                yield queued, wake

    def _woken_by(self, group: EquivalentPods, observed: ObservedEvent) -> RequeuePass:
        """Run hints once for equivalent pods, and again for the pod that the event is about."""
        label, subject_uid, but = observed.interest.label, observed.pod_uid, observed.but
        alone = not observed.interest.of(group.profile).asked_per_pod.isdisjoint(group.rejectors)
        has_subject = subject_uid in group.members
        is_each = alone or has_subject
        shared: QueueingStrategy | None = None
        for queued in list(group.members.values()) if is_each else _to_send(group, but):
            uid = queued.pod_info.uid
            if uid == subject_uid or alone:
                strategy = self._hints.strategy(queued, observed)
            else:
                if shared is None:
                    shared = self._hints.strategy(queued, observed)
                strategy = shared
            is_woken = strategy is not QueueingStrategy.SKIP and uid != but
            yield (queued, Wake(strategy, label)) if is_woken else None
            if shared is QueueingStrategy.SKIP and not is_each:
                return


def _outright(group: EquivalentPods, label: str) -> list[Step]:
    """Requeue a group without running hints; only a probe where pods share rejections."""
    is_pending = bool(group.key.pending_plugins)
    wake = Wake(
        QueueingStrategy.IMMEDIATELY if is_pending else QueueingStrategy.AFTER_BACKOFF, label
    )
    return [(queued, wake) for queued in _to_send(group, "")]


def _to_send(group: EquivalentPods, but: str) -> list[QueuedPodInfo]:
    """The pods to requeue: one if pods share rejections; none while a probe is under way."""
    if group.probe:
        return []
    members = (queued for uid, queued in group.members.items() if uid != but)
    return list(islice(members, 1 if group.key.shares else None))

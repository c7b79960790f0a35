"""Which waiting pods are tried again after what has happened, found out some at a time.

Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go movePodsToActiveOrBackoffQueue
v1.36. Differs: pods are asked about an event bit by bit, equivalent ones once.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from scheduler.kernel.framework.events import UNSCHEDULABLE_TIMEOUT
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.equivalent_pods import EquivalentPods, Wake
from scheduler.kernel.queue.hints import Interest, ObservedEvent, QueueingHints, QueueingStrategy
from scheduler.kernel.queue.pending_events import PendingEvent, PendingEvents, RequeuePass, Step
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods

QUESTIONS_AT_ONCE: Final = 256
"""So many times waiting pods are asked at once what an event means to them: some 5 ms."""


class RequeuePasses:
    """The events that waiting pods have not been asked about, and the pass under way.

    Attributes:
        pending: what has happened that the pass under way is not about.
    """

    def __init__(self, hints: QueueingHints, unschedulable: UnschedulablePods) -> None:
        """Begin without events.

        Args:
            hints: of all profiles.
            unschedulable: the pods that wait.
        """
        self._hints = hints
        self._unschedulable = unschedulable
        self.pending = PendingEvents()
        self._pass: RequeuePass | None = None
        self._due: OrderedDict[EquivalentPods, None] = OrderedDict()
        """The pods that the pass under way is still to come to, in this order."""
        self._late: dict[EquivalentPods, list[str]] = {}
        """Of these the ones that have waited too long."""

    @property
    def is_under_way(self) -> bool:
        """Whether a pass is under way."""
        return self._pass is not None

    @property
    def has_more(self) -> bool:
        """Whether `some` has something to do."""
        return self._pass is not None or bool(self.pending)

    def note(self, event: PendingEvent) -> None:
        """Something has happened. Cost: a note, however many pods wait."""
        self.pending.add(event, self._unschedulable.offers_of(event.observed))

    def note_time(self, now: float) -> bool:
        """Take note of the time; says whether the deadline of any pod is over."""
        is_late = self._unschedulable.deadlines.has_before(now)
        if is_late:
            self.pending.late = now, self._hints.interest_in(UNSCHEDULABLE_TIMEOUT)
        return is_late

    def some(self) -> Iterator[Step]:
        """Some of the pods that are worth trying again, each to be taken out before the next."""
        if self._pass is None:
            if not self.pending:
                return
            pending, self.pending = self.pending, PendingEvents()
            self._begin(pending)
            self._pass = self._going_on(pending)
        for step in islice(self._pass, QUESTIONS_AT_ONCE):
            if step is not None and step[0].pod_info.uid in self._unschedulable:
                yield step
        if not self._due:
            self._pass = None

    def is_due(self, uid: str) -> bool:
        """Whether the pass under way is still to come to a pod."""
        return self._unschedulable.equivalent_of(uid) in self._due

    def make_due(self, uid: str) -> None:
        """Let the pass under way come to a pod, to which it would have come elsewhere."""
        group = self._unschedulable.equivalent_of(uid)
        if group is not None:
            self._due[group] = None

    def refile(self, uid: str) -> None:
        """Move a pod that changed to its equivalents; the pass under way comes to it there."""
        is_due = self.is_due(uid)
        if self._unschedulable.refile(uid) and is_due:
            self.make_due(uid)

    # --- a pass -----------------------------------------------------------------------------------

    def _begin(self, pending: PendingEvents) -> None:
        """Find the pods that are to be asked.

        Cost: O(different pods with a rejector that registered for what happened).
        """
        unschedulable = self._unschedulable
        interests = [sort.interest for sort in pending.sorts.values()]
        self._late = {} if pending.late is None else unschedulable.late(pending.late[0])
        if any(interest.is_wildcard for interest in interests):
            self._due = OrderedDict.fromkeys(unschedulable.all_equivalent())
            return
        found = [
            self._late,
            *(
                unschedulable.that_fit(resource, amount)
                for resource, (amount, _) in pending.offered.items()
            ),
            *(
                unschedulable.rejected_by(profile, plugin)
                for interest in interests
                for profile, registered in interest.by_profile.items()
                for plugin in registered.hints
            ),
        ]
        self._due = OrderedDict.fromkeys(chain.from_iterable(found))

    def _going_on(self, pending: PendingEvents) -> RequeuePass:
        """The pods that are woken; one may be gone, if the pass rested for a while."""
        while self._due:
            group = next(iter(self._due))
            yield None
            if group.members:
                yield from self._woken(group, pending)
            del self._due[group]

    def _woken(self, group: EquivalentPods, pending: PendingEvents) -> RequeuePass:
        helped_by = "" if group.gating_plugin else pending.helps(group.key.excess)
        if helped_by:
            yield from _outright(group, helped_by)
        for sort in pending.sorts.values():
            if not group.may_wake(sort.interest):
                continue
            if sort.too_many:
                yield from _outright(group, sort.interest.label)
                continue
            for happened in sort.happened:
                if happened.max_priority is None or group.priority <= happened.max_priority:
                    yield from self._woken_by(group, happened)
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

    def _woken_by(self, group: EquivalentPods, happened: PendingEvent) -> RequeuePass:
        """Ask once for equivalent pods, and on its own for a pod that the event happened to."""
        observed, but = happened.observed, happened.but
        label, subject_uid = observed.interest.label, observed.pod_uid
        alone = not observed.interest.of(group.profile).asked_per_pod.isdisjoint(group.rejectors)
        has_subject = subject_uid in group.members
        is_each = alone or has_subject
        shared: QueueingStrategy | None = None
        for queued in list(group.members.values()) if is_each else _to_send(group, but):
            uid = queued.pod_info.uid
            if uid == subject_uid or alone:
                strategy = self._ask(group, queued, observed)
            else:
                if shared is None:
                    shared = self._ask(group, queued, observed)
                strategy = shared
            is_woken = strategy is not QueueingStrategy.SKIP and uid != but
            yield (queued, Wake(strategy, label)) if is_woken else None
            if shared is QueueingStrategy.SKIP and not is_each:
                return

    def _ask(
        self, group: EquivalentPods, queued: QueuedPodInfo, observed: ObservedEvent
    ) -> QueueingStrategy:
        key = group.key
        return self._hints.strategy(
            queued.pod_info, key.unschedulable_plugins, key.pending_plugins, observed
        )


def _outright(group: EquivalentPods, label: str) -> list[Step]:
    """Wake pods without asking; of equivalent ones a probe."""
    is_pending = bool(group.key.pending_plugins)
    wake = Wake(
        QueueingStrategy.IMMEDIATELY if is_pending else QueueingStrategy.AFTER_BACKOFF, label
    )
    return [(queued, wake) for queued in _to_send(group, "")]


def _to_send(group: EquivalentPods, but: str) -> list[QueuedPodInfo]:
    """The pods that are to be tried; none while a probe is on its way."""
    if group.probe:
        return []
    members = (queued for uid, queued in group.members.items() if uid != but)
    return list(islice(members, 1 if group.key.shares else None))

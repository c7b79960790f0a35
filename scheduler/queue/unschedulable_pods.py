"""Pods that were rejected, or are gated, and wait for something to happen.

Source: kubernetes pkg/scheduler/backend/queue/unschedulable_pods.go v1.36. Differs: pods that an
event cannot tell apart are kept together, so that an event costs as much as there are different
workloads waiting for it, however many pods they have; see `scheduler.queue.groups`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final

from scheduler.api.objects import Node
from scheduler.clock import MonotonicClock
from scheduler.framework.events import EventResource
from scheduler.framework.types import QueuedPodInfo
from scheduler.queue.deadlines import Deadlines
from scheduler.queue.excesses import Excesses
from scheduler.queue.groups import Group, GroupKey, Kind, Rejection, Wake, group_key
from scheduler.queue.hints import Interest, ObservedEvent, QueueingHints, Strategy
from scheduler.queue.news import Happened, News, Round, Step

GATE_RETRY_SECONDS: Final = 30.0
"""After this time a PreEnqueue plugin that failed is asked again."""


class UnschedulablePods:
    """Rejected and gated pods, found by UID, or by the plugins that rejected them.

    Invariant: every pod here was rejected or gated by at least one plugin. Where fields of a pod
    change that are part of its key, `refile` follows in the same step. A group has a scout only
    while that pod is not here, and while there are others that it was sent for.
    """

    def __init__(
        self,
        hints: QueueingHints,
        shares: Callable[[QueuedPodInfo], bool],
        clock: MonotonicClock,
        patience: float,
    ) -> None:
        """Let no pod wait.

        Args:
            hints: of all profiles.
            shares: whether a pod shares its rejection with equal ones.
            clock: of the deadlines.
            patience: after so many seconds a rejected pod is tried again although nothing happened.
        """
        self._hints = hints
        self._shares = shares
        self._clock = clock
        self._patience = patience
        self.deadlines = Deadlines()
        """Of the pods that are here; for reading."""
        self._group_of: dict[str, Group] = {}
        self._groups: dict[GroupKey, Group] = {}
        self._by_rejector: dict[tuple[str, str], dict[GroupKey, Group]] = {}
        """Profile and plugin to the groups that the plugin rejected."""
        self._excesses = Excesses()
        self.scouts: dict[str, Group] = {}
        """By the UID of a scout; for reading."""
        self._last_rejected: dict[Kind, Group] = {}
        """By kind, the group of the pod that was evaluated last."""
        self._node_changes = 0
        self._due: OrderedDict[Group, None] = OrderedDict()
        """The groups that the round under way is still to come to, in this order."""
        self._late: dict[Group, list[str]] = {}
        """Of these groups the pods that have waited too long."""
        self.gated_count = 0

    def __len__(self) -> int:
        """Rejected and gated pods together."""
        return len(self._group_of)

    def __contains__(self, uid: object) -> bool:
        return uid in self._group_of

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (group.members[uid] for uid, group in self._group_of.items())

    def get(self, uid: str) -> QueuedPodInfo | None:
        """The pod with this UID, or None."""
        group = self._group_of.get(uid)
        return None if group is None else group.members[uid]

    # --- coming and going -------------------------------------------------------------------------

    def add(self, uid: str, queued: QueuedPodInfo) -> None:
        """Add a pod that is in no queue."""
        key = group_key(queued, shares=self._shares(queued))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
            self._index(group)
        group.members[uid] = queued
        group.node_changes = self._node_changes
        self._group_of[uid] = group
        self.deadlines.set(
            uid,
            self._clock.monotonic() + GATE_RETRY_SECONDS
            if queued.gate_failed
            else queued.timestamp + self._patience,
        )
        if group.gating_plugin:
            self.gated_count += 1

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take out the pod with this UID, if it is here."""
        group = self._group_of.pop(uid, None)
        if group is None:
            return None
        queued = group.members.pop(uid)
        self.deadlines.remove(uid)
        if group.gating_plugin:
            self.gated_count -= 1
        if not group.members:
            self._forget(group)
        return queued

    def _index(self, group: Group) -> None:
        excess = group.key.excess
        if excess is not None and not group.gating_plugin:
            self._excesses.add(group, excess)
            return
        for plugin in group.rejectors:
            self._by_rejector.setdefault((group.profile, plugin), {})[group.key] = group

    def _forget(self, group: Group) -> None:
        del self._groups[group.key]
        self.scouts.pop(group.scout, None)
        if self._last_rejected.get(group.key.kind) is group:
            del self._last_rejected[group.key.kind]
        excess = group.key.excess
        if excess is not None and not group.gating_plugin:
            self._excesses.remove(group, excess)
            return
        for plugin in group.rejectors:
            rejected = self._by_rejector[group.profile, plugin]
            del rejected[group.key]
            if not rejected:
                del self._by_rejector[group.profile, plugin]

    # --- one for all ------------------------------------------------------------------------------

    def send(self, uid: str, wake: Wake) -> QueuedPodInfo | None:
        """Take out a pod that is woken; where others are like it, it goes for all of them."""
        group = self._group_of.get(uid)
        if group is not None and group.key.shares and len(group.members) > 1 and not group.scout:
            group.scout, group.wake = uid, wake
            self.scouts[uid] = group
        return self.remove(uid)

    def end_scouting(self, uid: str, *, found_nothing: bool = False) -> Step | None:
        """A scout, if it is one, is not under way any more: who goes next, and how.

        Args:
            uid: of the scout.
            found_nothing: whether it was rejected as those were that it was sent for.
        """
        group = self.scouts.pop(uid, None)
        if group is None:
            return None
        group.scout = ""
        following, limit = next(iter(group.members.values())), group.wake.late_before
        is_late = limit is not None and self.deadlines.of(following.pod_info.uid) < limit
        if found_nothing and not is_late:
            return None
        return following, group.wake

    def note_rejected(self, uid: str, rejection: Rejection) -> bool:
        """A pod that is here fits nowhere, by this evaluation of it or of an equal pod.

        Returns:
            Whether the group it is in sent it.
        """
        group = self._group_of[uid]
        if not group.key.shares:
            return False
        group.rejection = rejection
        self._last_rejected[group.key.kind] = group
        return group.scout == uid

    @property
    def has_rejections(self) -> bool:
        """Whether any pod was rejected whose equals share that."""
        return bool(self._last_rejected)

    def rejection(self, kind: Kind) -> Rejection | None:
        """The last rejection of a pod of this kind that waits here, valid or not."""
        group = self._last_rejected.get(kind)
        return None if group is None else group.rejection

    def invalidate(self, kind: Kind) -> None:
        """The next pod of this kind is evaluated, whatever is known of its equals."""
        self._last_rejected.pop(kind, None)

    # --- events -----------------------------------------------------------------------------------

    def offers_of(self, observed: ObservedEvent) -> dict[str, int]:
        """What a changed node has, as far as it helps groups for sure: those that waited for it."""
        if observed.interest.event.resource is not EventResource.NODE:
            return {}
        self._node_changes += 1
        return self._excesses.offers(observed.new) if isinstance(observed.new, Node) else {}

    def round_of(self, news: News) -> Round:
        """The pods that are worth trying again, and how; of equal ones only the scout.

        There is one at a time. Who it gives may be gone, if it was left alone for a while.

        Cost: O(groups whose rejectors registered for what happened); asking comes bit by bit.
        """
        interests = [sort.interest for sort in news.sorts.values()]
        self._late = {}
        for uid in () if news.late is None else self.deadlines.before(news.late[0]):
            self._late.setdefault(self._group_of[uid], []).append(uid)
        if any(interest.is_wildcard for interest in interests):
            self._due = OrderedDict.fromkeys(self._groups.values())
        else:
            lines = [
                list(self._late),
                *(
                    self._excesses.that_fit(resource, amount)
                    for resource, (amount, _) in news.offered.items()
                ),
            ]
            lines += [
                list(self._by_rejector.get((profile, plugin), {}).values())
                for interest in interests
                for profile, registered in interest.by_profile.items()
                for plugin in registered.hints
            ]
            self._due = OrderedDict.fromkeys(chain.from_iterable(lines))
        return self._looking(news)

    def _looking(self, news: News) -> Round:
        while self._due:
            group = next(iter(self._due))
            yield None
            if group.members:
                yield from self._woken(group, news)
            del self._due[group]

    @property
    def has_due(self) -> bool:
        """Whether a round is under way."""
        return bool(self._due)

    def is_due(self, uid: str) -> bool:
        """Whether the round under way is still to come to a pod."""
        return self._group_of.get(uid) in self._due

    def make_due(self, uid: str) -> None:
        """Let the round under way come to a pod, which it would have come to elsewhere."""
        self._due[self._group_of[uid]] = None

    def refile(self, uid: str) -> None:
        """Move a pod, if it is here, to the group to which it belongs since it changed.

        A round under way comes to it there, and its deadline stays.
        """
        group = self._group_of.get(uid)
        if group is None:
            return
        queued = group.members[uid]
        if group_key(queued, shares=self._shares(queued)) != group.key:
            is_due, deadline = group in self._due, self.deadlines.of(uid)
            self.remove(uid)
            self.add(uid, queued)
            self.deadlines.set(uid, deadline)
            if is_due:
                self.make_due(uid)

    def _woken(self, group: Group, news: News) -> Round:
        helped_by = "" if group.gating_plugin else news.helps(group.key.excess)
        if helped_by:
            yield from self._outright(group, helped_by)
        for sort in news.sorts.values():
            if not group.may_wake(sort.interest):
                continue
            if sort.too_many:
                yield from self._outright(group, sort.interest.label)
                continue
            for happened in sort.happened:
                if happened.max_priority is None or group.priority <= happened.max_priority:
                    yield from self._woken_by(group, happened)
        if news.late is not None and group in self._late:
            yield from self._waking_late(group, *news.late)

    @staticmethod
    def _outright(group: Group, label: str) -> list[Step]:
        """Everybody of a group, without asking."""
        is_pending = bool(group.key.pending_plugins)
        wake = Wake(Strategy.IMMEDIATELY if is_pending else Strategy.AFTER_BACKOFF, label)
        return [(queued, wake) for queued in _to_send(group, "")]

    def _waking_late(self, group: Group, limit: float, interest: Interest) -> Round:
        """The pods whose deadline is over. Of equal ones it is the scout.

        Pods that wait for nodes have time until there are other nodes, those that are gated until
        their gate has failed or has registered for this. They get another deadline.
        """
        wake = Wake(Strategy.AFTER_BACKOFF, interest.label, limit)
        has_time = group.key.excess is not None and group.node_changes == self._node_changes
        has_time |= not group.may_wake(interest)
        for uid in self._late[group]:
            queued = group.members.get(uid)
            if queued is None:
                continue
            if has_time and not queued.gate_failed:
                self.deadlines.set(uid, limit + self._patience)
                yield None
            elif group.scout:
                return
            else:
                yield queued, wake

    def _woken_by(self, group: Group, happened: Happened) -> Round:
        """Ask once for all pods of a group, and on its own for a pod that the event happened to."""
        observed, but = happened.observed, happened.but
        label, subject_uid = observed.interest.label, observed.pod_uid
        alone = not observed.interest.of(group.profile).asked_per_pod.isdisjoint(group.rejectors)
        has_subject = subject_uid in group.members
        is_each = alone or has_subject
        shared: Strategy | None = None
        for queued in list(group.members.values()) if is_each else _to_send(group, but):
            uid = queued.pod_info.uid
            if uid == subject_uid or alone:
                strategy = self._ask(group, queued, observed)
            else:
                if shared is None:
                    shared = self._ask(group, queued, observed)
                strategy = shared
            is_woken = strategy is not Strategy.SKIP and uid != but
            yield (queued, Wake(strategy, label)) if is_woken else None
            if shared is Strategy.SKIP and not is_each:
                return

    def _ask(self, group: Group, queued: QueuedPodInfo, observed: ObservedEvent) -> Strategy:
        key = group.key
        return self._hints.strategy(
            queued.pod_info, key.unschedulable_plugins, key.pending_plugins, observed
        )

    # --- checks -----------------------------------------------------------------------------------

    def validate(self) -> Iterator[str]:
        """What is wrong, in words."""
        for uid, group in self._group_of.items():
            queued = group.members[uid]
            if group.key != group_key(queued, shares=self._shares(queued)):
                yield f"pod {uid} changed while it was unschedulable"
            if not group.rejectors:
                yield f"pod {uid} is unschedulable although nobody rejected it"
        if sum(len(group.members) for group in self._groups.values()) != len(self._group_of):
            yield "groups hold pods that are not unschedulable"
        if any(not group.members for group in self._groups.values()):
            yield "a group has no pods"
        if self.gated_count != sum(1 for queued in self if queued.is_gated):
            yield "gated pods are miscounted"
        if self.scouts != {g.scout: g for g in self._groups.values() if g.scout}:
            yield "scouts are not known to the groups that sent them"
        if any(uid in self._group_of for uid in self.scouts):
            yield "a scout waits with those that wait for it"
        if any(self._groups.get(group.key) is not group for group in self._last_rejected.values()):
            yield "the rejection of a group is kept that does not exist"
        yield from self._misfiled()

    def _misfiled(self) -> Iterator[str]:
        indexed = {
            (profile, plugin, key)
            for (profile, plugin), groups in self._by_rejector.items()
            for key in groups
        }
        excessive = {g.key for g in self._groups.values() if g.key.excess and not g.gating_plugin}
        expected = {
            (group.profile, plugin, key)
            for key, group in self._groups.items()
            if key not in excessive
            for plugin in group.rejectors
        }
        if indexed != expected:
            yield "groups are indexed under other plugins than those that rejected them"
        if {group.key for group in self._excesses} != excessive:
            yield "groups that no node could hold are not filed as such"


def _to_send(group: Group, but: str) -> list[QueuedPodInfo]:
    """Who is to be tried of a group; nobody while its scout is under way."""
    if group.scout:
        return []
    members = (queued for uid, queued in group.members.items() if uid != but)
    return list(islice(members, 1 if group.key.shares else None))

"""Pods that were rejected, or are gated, and wait for something to happen.

Source: kubernetes pkg/scheduler/backend/queue/unschedulable_pods.go v1.36. Differs: pods that an
event cannot tell apart are kept together, so that an event costs as much as there are different
workloads waiting for it, however many pods they have.
"""

from collections.abc import Iterator
from typing import TypeAlias

from scheduler.api.pods import LabelSet, PodInfo, PodShape
from scheduler.framework.types import QueuedPodInfo
from scheduler.queue.hints import Interest, ObservedEvent, QueueingHints, Strategy
from scheduler.queue.waking import Woken

GroupKey: TypeAlias = tuple[PodShape, LabelSet, str, frozenset[str], frozenset[str], str]
"""Shape, labels, namespace, unschedulable plugins, pending plugins, gating plugin."""


def group_key(queued: QueuedPodInfo) -> GroupKey:
    """What hints may depend on; pods of the same key get the same answers."""
    pod_info = queued.pod_info
    return (
        pod_info.shape,
        pod_info.label_set,
        pod_info.pod.metadata.namespace,
        queued.unschedulable_plugins,
        queued.pending_plugins,
        queued.gating_plugin,
    )


class Group:
    """Waiting pods of the same key."""

    __slots__ = ("gating_plugin", "key", "members", "priority", "profile", "rejectors")

    def __init__(self, key: GroupKey) -> None:
        spec = key[0].spec
        self.key = key
        self.profile = spec.scheduler_name
        self.priority = spec.priority or 0
        self.rejectors = key[3] | key[4]
        self.gating_plugin = key[5]
        self.members: dict[str, QueuedPodInfo] = {}

    def may_wake(self, interest: Interest, max_priority: int | None) -> bool:
        """Whether an event is to be looked at for these pods.

        A gated pod cannot leave before its gating plugin lets it, so only what that plugin
        registered for matters.
        """
        if max_priority is not None and self.priority > max_priority:
            return False
        return not self.gating_plugin or self.gating_plugin in interest.of(self.profile).hints


class UnschedulablePods:
    """Rejected and gated pods, found by UID, or by the plugins that rejected them.

    Invariant: every pod here was rejected or gated by at least one plugin. Fields of a pod that
    are part of its key change only while the pod is not here.
    """

    def __init__(self, hints: QueueingHints) -> None:
        self._hints = hints
        self._group_of: dict[str, Group] = {}
        self._groups: dict[GroupKey, Group] = {}
        self._by_rejector: dict[tuple[str, str], dict[GroupKey, Group]] = {}
        """Profile and plugin to the groups that the plugin rejected."""
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

    def add(self, uid: str, queued: QueuedPodInfo) -> None:
        """Add a pod that is in no queue."""
        key = group_key(queued)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
            for plugin in group.rejectors:
                self._by_rejector.setdefault((group.profile, plugin), {})[key] = group
        group.members[uid] = queued
        self._group_of[uid] = group
        if group.gating_plugin:
            self.gated_count += 1

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take out the pod with this UID, if it is here."""
        group = self._group_of.pop(uid, None)
        if group is None:
            return None
        queued = group.members.pop(uid)
        if group.gating_plugin:
            self.gated_count -= 1
        if not group.members:
            self._forget(group)
        return queued

    def _forget(self, group: Group) -> None:
        del self._groups[group.key]
        for plugin in group.rejectors:
            rejected = self._by_rejector[group.profile, plugin]
            del rejected[group.key]
            if not rejected:
                del self._by_rejector[group.profile, plugin]

    def woken_by(
        self,
        observed: ObservedEvent,
        now: float,
        *,
        max_priority: int | None = None,
        but: str = "",
    ) -> Iterator[Woken | None]:
        """The pods that an event is worth trying again, and how, found one question at a time.

        Gives None for a question whose answer was no. Pods may leave and come between two of
        them; those that came after the event are not asked about it.

        Args:
            observed: what happened.
            now: when.
            max_priority: ask only about pods of this priority or less.
            but: UID of a pod to leave alone.

        Cost: O(groups whose rejectors registered for the event) at once, and no more than one
        hint and the members of one group for each item.
        """
        groups = self._interested_groups(observed.interest)
        return self._woken_of(groups, observed, now, max_priority, but)

    def everybody(self, now: float) -> Iterator[Woken | None]:
        """All pods that are here, one by one, to be tried again."""
        return self._those(list(self._group_of), now)

    def late(self, waiting: list[QueuedPodInfo], now: float) -> Iterator[Woken | None]:
        """These pods, one by one, to be tried again because they have waited for too long."""
        for woken in self._those([queued.pod_info.uid for queued in waiting], now):
            woken[0].was_flushed = True
            yield woken

    def _those(self, uids: list[str], now: float) -> Iterator[Woken]:
        for uid in uids:
            queued = self.get(uid)
            if queued is not None and queued.timestamp <= now:
                yield queued, Strategy.AFTER_BACKOFF

    def _interested_groups(self, interest: Interest) -> list[Group]:
        if interest.is_wildcard:
            return list(self._groups.values())
        groups: dict[GroupKey, Group] = {}
        for profile, profile_interest in interest.by_profile.items():
            for plugin in profile_interest.hints:
                rejected = self._by_rejector.get((profile, plugin))
                if rejected is not None:
                    groups.update(rejected)
        return list(groups.values())

    def _woken_of(
        self,
        groups: list[Group],
        observed: ObservedEvent,
        now: float,
        max_priority: int | None,
        but: str,
    ) -> Iterator[Woken | None]:
        for group in groups:
            if group.may_wake(observed.interest, max_priority):
                for queued, strategy in self._answers(group, observed):
                    is_old = queued.timestamp <= now and queued.pod_info.uid != but
                    is_woken = is_old and strategy is not Strategy.SKIP
                    yield (queued, strategy) if is_woken else None

    def _answers(self, group: Group, observed: ObservedEvent) -> Iterator[Woken]:
        """Ask once for all pods of a group, and on its own for a pod that the event happened to."""
        asked_per_pod = observed.interest.of(group.profile).asked_per_pod
        is_shared = asked_per_pod.isdisjoint(group.rejectors)
        subject = observed.pod_uid
        shared: Strategy | None = None
        if is_shared:
            other = next((q for uid, q in group.members.items() if uid != subject), None)
            if other is not None:
                shared = self._ask(group, other.pod_info, observed)
                if shared is Strategy.SKIP and subject not in group.members:
                    yield other, shared
                    return
        for uid, queued in list(group.members.items()):
            if group.members.get(uid) is queued:
                if shared is None or uid == subject:
                    yield queued, self._ask(group, queued.pod_info, observed)
                else:
                    yield queued, shared

    def _ask(self, group: Group, pod: PodInfo, observed: ObservedEvent) -> Strategy:
        return self._hints.strategy(pod, group.key[3], group.key[4], observed)

    def validate(self) -> Iterator[str]:
        """What is wrong, in words."""
        for uid, group in self._group_of.items():
            queued = group.members[uid]
            if group.key != group_key(queued):
                yield f"pod {uid} changed while it was unschedulable"
            if not group.rejectors:
                yield f"pod {uid} is unschedulable although nobody rejected it"
        if sum(len(group.members) for group in self._groups.values()) != len(self._group_of):
            yield "groups hold pods that are not unschedulable"
        if any(not group.members for group in self._groups.values()):
            yield "a group has no pods"
        if self.gated_count != sum(1 for queued in self if queued.is_gated):
            yield "gated pods are miscounted"
        indexed = {
            (profile, plugin, key)
            for (profile, plugin), groups in self._by_rejector.items()
            for key in groups
        }
        expected = {
            (group.profile, plugin, key)
            for key, group in self._groups.items()
            for plugin in group.rejectors
        }
        if indexed != expected:
            yield "groups are indexed under other plugins than those that rejected them"

"""Pods that were rejected, or are gated, and wait for an event or their deadline.

Source: kubernetes pkg/scheduler/backend/queue/unschedulable_pods.go v1.36. Differs: equivalent pods
are kept in one group. So the cost of an event grows with the number of groups, and not of pods; see
`scheduler.kernel.queue.equivalent_pods`.
"""

from collections.abc import Callable, Iterable, Iterator
from math import floor
from typing import Final

from scheduler.api.objects import Node
from scheduler.api.pods import PodKind
from scheduler.clock import EventClock
from scheduler.kernel.framework.events import ClusterEvent, EventResource
from scheduler.kernel.framework.types import Failure, QueuedPodInfo
from scheduler.kernel.queue.equivalent_pods import (
    EquivalenceKey,
    EquivalentPods,
    Step,
    UnfittablePods,
    Wake,
    key_of,
)
from scheduler.kernel.queue.hints import ObservedEvent

GATE_RETRY_SECONDS: Final = 30.0
"""After this time a PreEnqueue plugin that failed is run again."""

_NODES_AND_PODS: Final = frozenset(
    {
        EventResource.NODE,
        EventResource.POD,
        EventResource.ASSIGNED_POD,
        EventResource.UNSCHEDULED_POD,
    }
)


class Deadlines:
    """Pods by the time at which they are tried again without an event.

    Times are seconds of the queue's clock.

    Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go
    flushUnschedulablePodsLeftover v1.36. Differs: upstream scans every waiting pod every 30
    seconds, so a pod waits for up to 330 seconds. Here pods are filed by second: a scan costs as
    much as there are pods to be tried, and can be done every second.
    """

    def __init__(self) -> None:
        self._of: dict[str, float] = {}
        self._by_second: dict[int, dict[str, None]] = {}

    def of(self, uid: str) -> float:
        """The deadline of a pod that has one."""
        return self._of[uid]

    def set(self, uid: str, deadline: float) -> None:
        """Give a pod a deadline, in place of an earlier one."""
        self.remove(uid)
        self._of[uid] = deadline
        self._by_second.setdefault(floor(deadline), {})[uid] = None

    def remove(self, uid: str) -> None:
        """Forget a pod, if it has a deadline."""
        deadline = self._of.pop(uid, None)
        if deadline is None:
            return
        second = floor(deadline)
        pods = self._by_second[second]
        del pods[uid]
        if not pods:
            del self._by_second[second]

    def has_before(self, now: float) -> bool:
        """Whether the deadline of any pod is over."""
        return any(second < now for second in self._by_second)

    def before(self, now: float) -> list[str]:
        """The pods past their deadline, the earliest second first.

        Cost: O(these pods, and seconds in which a deadline ends).
        """
        seconds = sorted(second for second in self._by_second if second <= now)
        pods = (uid for second in seconds for uid in self._by_second[second])
        return [uid for uid in pods if self._of[uid] < now]


class UnschedulablePods:
    """Rejected and gated pods, found by UID, or by the plugins that rejected them.

    Invariant: every pod here was rejected or gated by at least one plugin. When a field of a pod
    that is part of its key changes, `refile` follows in the same step. A group has a probe only
    while the probe itself is not here, and other pods of the group are.
    """

    def __init__(
        self,
        shares: Callable[[QueuedPodInfo], bool],
        clock: EventClock,
        patience: float,
    ) -> None:
        """Start without pods; `shares` returns whether a pod shares its rejection with equal ones.

        `patience` is the time after which a rejected pod is tried again without an event, in
        seconds.
        """
        self._shares = shares
        self._clock = clock
        self._patience = patience
        self.deadlines = Deadlines()
        """The deadlines of the pods that are here; for reading."""
        self.group_of: dict[str, EquivalentPods] = {}
        """The group of each pod that is here, by UID; for reading."""
        self.groups: dict[EquivalenceKey, EquivalentPods] = {}
        """All groups that wait; for reading."""
        self._by_kind: dict[PodKind, dict[EquivalenceKey, EquivalentPods]] = {}
        self._by_rejector: dict[tuple[str, str, bool], dict[EquivalenceKey, EquivalentPods]] = {}
        """The groups that a plugin rejected, by profile, plugin, and whether their request exceeds
        every node."""
        self.unfittable = UnfittablePods()
        """The groups that no node can hold; for reading."""
        self.probes: dict[str, EquivalentPods] = {}
        """The group of each probe, by the UID of the probe; for reading."""
        self.last_rejected: dict[PodKind, EquivalentPods] = {}
        """By kind, the group of the pod that was evaluated last."""
        self._node_changes = 0
        self.gated_count = 0

    def __len__(self) -> int:
        """Rejected and gated pods together."""
        return len(self.group_of)

    def __contains__(self, uid: object) -> bool:
        return uid in self.group_of

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (group.members[uid] for uid, group in self.group_of.items())

    def get(self, uid: str) -> QueuedPodInfo | None:
        """The pod with this UID, or None."""
        group = self.group_of.get(uid)
        return None if group is None else group.members[uid]

    def any_of(self, kind: PodKind) -> str:
        """UID of a pod of a kind that is not gated; empty for none."""
        groups = self._by_kind.get(kind, {}).items()
        found = (each.members for key, each in groups if not key.gating_plugin)
        return next(iter(next(found, ())), "")

    # --- coming and going -------------------------------------------------------------------------

    def add(self, uid: str, queued: QueuedPodInfo) -> None:
        """Add a pod that is in no queue."""
        key = key_of(queued, shares=self._shares(queued))
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = EquivalentPods(key)
            self._by_kind.setdefault(key.kind, {})[key] = group
            self._index(group)
        group.members[uid] = queued
        group.node_changes = self._node_changes
        self.group_of[uid] = group
        self.deadlines.set(
            uid,
            self._clock.now + GATE_RETRY_SECONDS
            if queued.gate_failed
            else queued.timestamp + self._patience,
        )
        if group.key.gating_plugin:
            self.gated_count += 1

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take out the pod with this UID, if it is here."""
        group = self.group_of.pop(uid, None)
        if group is None:
            return None
        queued = group.members.pop(uid)
        self.deadlines.remove(uid)
        if group.key.gating_plugin:
            self.gated_count -= 1
        if not group.members:
            self._forget(group)
        return queued

    def refile(self, uid: str) -> bool:
        """Move a changed pod, if it is here, to the group that it is equivalent to now.

        Its deadline stays. Returns whether it moved.
        """
        group = self.group_of.get(uid)
        if group is None:
            return False
        queued = group.members[uid]
        if key_of(queued, shares=self._shares(queued)) == group.key:
            return False
        deadline = self.deadlines.of(uid)
        self.remove(uid)
        self.add(uid, queued)
        self.deadlines.set(uid, deadline)
        return True

    def _index(self, group: EquivalentPods) -> None:
        if group.excess is not None:
            self.unfittable.add(group, group.excess)
        for place in _places_of(group):
            self._by_rejector.setdefault(place, {})[group.key] = group

    def _forget(self, group: EquivalentPods) -> None:
        del self.groups[group.key]
        of_kind = self._by_kind[group.key.kind]
        del of_kind[group.key]
        if not of_kind:
            del self._by_kind[group.key.kind]
        self.probes.pop(group.probe, None)
        if self.last_rejected.get(group.key.kind) is group:
            del self.last_rejected[group.key.kind]
        if group.excess is not None:
            self.unfittable.remove(group, group.excess)
        for place in _places_of(group):
            rejected = self._by_rejector[place]
            del rejected[group.key]
            if not rejected:
                del self._by_rejector[place]

    # --- probes ------------------------------------------------------------------------------

    def send(self, uid: str, wake: Wake) -> QueuedPodInfo | None:
        """Take out a pod to requeue it; it becomes the probe of its group if equal pods share."""
        group = self.group_of.get(uid)
        if group is not None and group.key.shares and not group.probe:
            group.probe, group.wake = uid, wake
            self.probes[uid] = group
        return self.remove(uid)

    def end_probe(self, uid: str, *, is_rejected: bool = False) -> Step | None:
        """End a probe; return the next probe and the way to requeue it, or None.

        After a probe that is rejected by the same plugins, only pods that are past their own
        deadline follow. After any other end, the next pod follows.
        """
        group = self.probes.pop(uid, None)
        if group is None:
            return None
        group.probe = ""
        uid, following = next(iter(group.members.items()))
        limit = group.wake.late_before
        if is_rejected and (limit is None or self.deadlines.of(uid) >= limit):
            return None
        return following, group.wake

    def note_rejected(self, uid: str, rejection: Failure) -> bool:
        """Store the failure of a pod here that fits nowhere; an equal pod may have been evaluated.

        Returns:
            Whether the pod is the probe of its own group.
        """
        group = self.group_of[uid]
        if not group.key.shares:
            return False
        group.rejection = rejection
        self.last_rejected[group.key.kind] = group
        return group.probe == uid

    # --- which pods an event may help -------------------------------------------------------------

    def offers_of(self, observed: ObservedEvent) -> dict[str, int]:
        """The amounts on a changed node that are enough for at least one group, by resource."""
        if observed.interest.event.resource is not EventResource.NODE:
            return {}
        self._node_changes += 1
        return self.unfittable.offers(observed.new) if isinstance(observed.new, Node) else {}

    def late(self, limit: float) -> dict[EquivalentPods, list[str]]:
        """The pods past their deadline at that time."""
        late: dict[EquivalentPods, list[str]] = {}
        for uid in self.deadlines.before(limit):
            late.setdefault(self.group_of[uid], []).append(uid)
        return late

    def waits_for_nodes(self, group: EquivalentPods) -> bool:
        """Whether the pods wait for nodes only, and no node has changed since one of them came."""
        return group.key.excess is not None and group.node_changes == self._node_changes

    def extend_deadline(self, uid: str, now: float) -> None:
        """Extend the deadline of a pod for which nothing has changed."""
        self.deadlines.set(uid, now + self._patience)

    def rejected_by(
        self, profile: str, plugin: str, event: ClusterEvent
    ) -> Iterable[EquivalentPods]:
        """The groups that a plugin of a profile rejected and that an event may help.

        For events of nodes and pods, groups whose request exceeds every node are left out:
        `that_fit` finds them. Other events may help them: a device class may provide the resource.
        """
        found = list(self._by_rejector.get((profile, plugin, False), {}).values())
        if event.resource not in _NODES_AND_PODS:
            found += self._by_rejector.get((profile, plugin, True), {}).values()
        return found

    # --- checks -----------------------------------------------------------------------------------

    def validate(self) -> Iterator[str]:  # noqa: C901, PLR0912 - one line per invariant
        """Yield each broken invariant as text."""
        for uid, group in self.group_of.items():
            queued = group.members[uid]
            if group.key != key_of(queued, shares=self._shares(queued)):
                yield f"pod {uid} changed while it was unschedulable"
            if not group.rejectors:
                yield f"pod {uid} is unschedulable although no plugin rejected it"
        if sum(len(group.members) for group in self.groups.values()) != len(self.group_of):
            yield "groups hold pods that are not unschedulable"
        if any(not group.members for group in self.groups.values()):
            yield "a group has no pods"
        if self.gated_count != sum(1 for queued in self if queued.is_gated):
            yield "gated pods are miscounted"
        if self.probes != {g.probe: g for g in self.groups.values() if g.probe}:
            yield "probes are not known to the pods that sent them"
        if any(uid in self.group_of for uid in self.probes):
            yield "a probe waits with those that wait for it"
        if any(self.groups.get(group.key) is not group for group in self.last_rejected.values()):
            yield "the rejection of a group is kept that does not exist"
        yield from self._misfiled()

    def _misfiled(self) -> Iterator[str]:
        indexed = {(place, key) for place, groups in self._by_rejector.items() for key in groups}
        unfittable = {group.key for group in self.groups.values() if group.excess}
        expected = {
            ((group.profile, plugin, key in unfittable), key)
            for key, group in self.groups.items()
            for plugin in group.rejectors
        }
        if indexed != expected:
            yield "groups are indexed under other plugins than those that rejected them"
        if {group.key for group in self.unfittable} != unfittable:
            yield "groups that no node could hold are not filed as such"


def _places_of(group: EquivalentPods) -> Iterator[tuple[str, str, bool]]:
    """The keys of a group among those that plugins rejected."""
    return ((group.profile, plugin, group.excess is not None) for plugin in group.rejectors)

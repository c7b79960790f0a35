"""Each pod group with its object, its members, and the reason why they are held.

A group exists from its first pod or its object until the last of both is gone. Pods of every
scheduler count once they have a node. Pods without a node count if a profile of this process is to
place them.

Source: kubernetes pkg/scheduler/backend/cache/podgroupstate.go v1.36; the texts: pkg/scheduler/
framework/plugins/gangscheduling/gangscheduling.go v1.36.
Differs: upstream moves gated members when a pod or the PodGroup is added. Here gated and rejected
members are woken when the reason for the gate changes, whatever changes it. They are also woken
when another scheduler binds a member of a gang that failed, if it then needs fewer nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, Final, TypeAlias

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import POD_GROUP_KIND, POD_KIND, ObjectKind
from scheduler.kernel.framework.handle import SharedState

GroupKey: TypeAlias = tuple[str, str]
"""Namespace and name."""
WrittenCondition: TypeAlias = tuple[str, str, str, str, int]
"""A group's condition: UID of the object; status, reason, message, and the observed generation."""

NO_GROUP: Final = 'waiting for pods\'s pod group "{}" to appear in scheduling queue'
TOO_FEW: Final = "waiting for minCount pods from a gang to appear in scheduling queue"
STATES: Final = ("whole", "partial", "waiting")
"""The states of groups with pods."""


class GroupAttempt(msgspec.Struct, frozen=True):
    """The result of the last attempt to place the waiting members of a group.

    Attributes:
        tried: number of members that were tried.
        placed: number of them that found a node.
        running: number of other members that had a node before.
        lacking: the reason why the first of the rest found no node; empty if all found one.
        is_success: whether the placed members go on.
        domain: the domain of the members, if all had to be in one domain; "" otherwise.
        domains: number of domains to choose from.
        victims: the pods to evict for the group, as `namespace/name`.
    """

    tried: int
    placed: int
    running: int
    lacking: str
    is_success: bool
    domain: str = ""
    domains: int = 0
    victims: tuple[str, ...] = ()


class GroupMembers:
    """The object and the members of one group.

    Attributes:
        group: the object; None while there is none.
        pending: pods without a node, by UID, oldest first.
        assumed: the pending pods that are assumed on a node, with it, by UID.
        assigned: pods that have a node, by UID.
        last: the last attempt; None before the first.
        written: the condition written last; None before the first time.
        owner: the token of the `PodGroups` that may change this; any other copies it first.
    """

    __slots__ = (
        "_bound_by_others",
        "_of_profile",
        "_released",
        "assigned",
        "assumed",
        "group",
        "last",
        "owner",
        "pending",
        "written",
    )

    def __init__(self, owner: object = None) -> None:
        self.owner = owner
        self.group: PodGroup | None = None
        self.pending: dict[str, PodInfo] = {}
        self.assumed: dict[str, PodInfo] = {}
        self.assigned: dict[str, PodInfo] = {}
        self.last: GroupAttempt | None = None
        self.written: WrittenCondition | None = None
        self._of_profile: Counter[str] = Counter()
        """Number of `pending` pods that name each scheduler."""
        self._bound_by_others = 0
        """Number of members that others bound after a failure of a gang; it needs fewer nodes."""
        self._released: tuple[str, int | None, int] = ("", None, 0)
        """The hold's reason, members needed, and `_bound_by_others`, at the last activation."""

    @property
    def scheduled(self) -> int:
        """Number of members that have a node, or are assumed on one."""
        return len(self.assigned) + len(self.assumed)

    @property
    def waiting(self) -> list[str]:
        """UIDs of the members that have no node and are assumed on none."""
        return [uid for uid in self.pending if uid not in self.assumed]

    @property
    def is_empty(self) -> bool:
        """Whether the group has neither an object nor pods."""
        return self.group is None and not self.pending and not self.assigned

    def known(self, profiles: Collection[str]) -> int:
        """Number of members that count: those with a node, and those of these profiles."""
        return len(self.assigned) + sum(self._of_profile[name] for name in profiles)

    @property
    def state(self) -> str:
        """`whole`, `partial` (members are missing) or `waiting`; empty without pods."""
        if self.scheduled:
            return "whole" if self.has_quorum() else "partial"
        return "waiting" if self.pending else ""

    def has_quorum(self) -> bool:
        """Whether enough members have a node, or are assumed on one."""
        least = None if self.group is None else self.group.min_count
        return least is None or self.scheduled >= least

    def add(self, pod: PodInfo) -> None:
        """Add a member, or store its newer version."""
        uid = pod.uid
        if pod.node_name:
            is_new = uid not in self.assumed and uid not in self.assigned
            self._bound_by_others += is_new and self.last is not None and not self.has_quorum()
            self._drop_pending(uid)
            self.assigned[uid] = pod
            return
        if uid not in self.pending:
            self._of_profile[pod.spec.scheduler_name] += 1
        self.pending[uid] = pod

    def remove(self, uid: str) -> None:
        """Remove a member."""
        self._drop_pending(uid)
        self.assigned.pop(uid, None)

    def released(self, held: str) -> bool:
        """Whether to activate members now that the hold has this reason; call at each change."""
        least = None if self.group is None else self.group.min_count
        now = held, least, self._bound_by_others
        before, self._released = self._released, now
        return now != before

    def clone(self, owner: object) -> "GroupMembers":
        """Make an independent copy."""
        copy = GroupMembers(owner)
        copy.group, copy.last, copy.written = self.group, self.last, self.written
        copy.pending, copy.assumed = self.pending.copy(), self.assumed.copy()
        copy.assigned, copy._of_profile = self.assigned.copy(), self._of_profile.copy()
        copy._bound_by_others, copy._released = self._bound_by_others, self._released
        return copy

    def _drop_pending(self, uid: str) -> None:
        self.assumed.pop(uid, None)
        known = self.pending.pop(uid, None)
        if known is not None:
            self._of_profile[known.spec.scheduler_name] -= 1


class PodGroups(SharedState):
    """All groups by namespace and name.

    A fork shares everything with its original. The first change on either side copies the list of
    groups, and the group. So read the result of `of` at once: a later change may go to a copy.

    Attributes:
        profiles: the scheduler names of the profiles; filled in by the engine.
        changed: the groups that changed since `take_released`, in this order.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (POD_KIND, POD_GROUP_KIND)

    def __init__(self) -> None:
        self.profiles: Collection[str] = ()
        self.changed: dict[GroupKey, None] = {}
        self._groups: dict[GroupKey, GroupMembers] = {}
        self._assumed: dict[str, tuple[PodInfo, GroupKey]] = {}
        """The assumed pods by UID, each with its node, and the group that it belongs to by now."""
        self._are_basic = False
        self._is_shared = False
        """Whether a fork reads the same list."""
        self._own = object()
        """The owner of the groups that no fork reads."""

    def __iter__(self) -> Iterator[GroupMembers]:
        return iter(self._groups.values())

    def of(self, namespace: str, name: str) -> GroupMembers | None:
        """The group with this name, or None."""
        return self._groups.get((namespace, name))

    def all(self) -> Iterator[tuple[GroupKey, GroupMembers]]:
        """Every known group, in order of arrival."""
        yield from self._groups.items()

    def counts(self) -> Mapping[str, int]:
        """Number of groups by `GroupMembers.state`. Cost: O(groups)."""
        found = Counter(each.state for each in self)
        return {state: found[state] for state in STATES}

    def of_pod(self, pod: PodInfo) -> GroupMembers | None:
        """The group of a pod; None for a pod without one."""
        name = pod.group_name
        return self._groups.get((pod.namespace, name)) if name else None

    def make_basic(self) -> None:
        """Make all groups basic from now on: pods wait for neither the object nor other members."""
        self._are_basic = True
        for place, known in list(self._groups.items()):
            self._to_change(place).group = _basic(known.group)

    def why_held(self, namespace: str, name: str) -> str:
        """The reason why the members of a group are not tried yet; empty when they may be."""
        if self._are_basic:
            return ""
        known = self.of(namespace, name)
        if known is None or known.group is None:
            return NO_GROUP.format(name)
        least = known.group.min_count
        return TOO_FEW if least is not None and known.known(self.profiles) < least else ""

    def take_released(self) -> Iterator[tuple[GroupKey, list[PodInfo], bool]]:
        """Yield each group whose reason for the hold has changed.

        With it come its members to activate, and whether the group is held now.
        """
        changed, self.changed = self.changed, {}
        for place in changed:
            if place not in self._groups:
                continue
            held, known = self.why_held(*place), self._to_change(place)
            if known.released(held):
                yield place, [known.pending[uid] for uid in known.waiting], bool(held)

    def note_attempt(
        self, place: GroupKey, last: GroupAttempt, written: WrittenCondition | None
    ) -> None:
        """Keep the last attempt of a known group, and the condition that was written."""
        known = self._to_change(place)
        known.last, known.written = last, written

    def forget_written(self, place: GroupKey, uid: str) -> None:
        """Forget the condition of a group whose write failed: the next attempt writes it again."""
        known = self._groups.get(place)
        if known is not None and known.written is not None and known.written[0] == uid:
            self._to_change(place).written = None

    # --- events, reservations and forks ---------------------------------------------------------

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        if kind == POD_GROUP_KIND:
            group = _basic(new) if self._are_basic else new
            self._change(place := _place(new or old)).group = group
            self._forget_if_empty(place)
            return
        # A label or an annotation that names the group may change.
        if old is not None and old.group_name and (new is None or new.group_name != old.group_name):
            place = old.namespace, old.group_name
            self._change(place).remove(old.uid)
            self._forget_if_empty(place)
        if new is not None and new.group_name:
            self._change((new.namespace, new.group_name)).add(new)
        if new is None or new.node_name:
            self._assumed.pop((old or new).uid, None)
        elif new.uid in self._assumed:
            self._assume(self._assumed[new.uid][0], (new.namespace, new.group_name))

    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        self._assume(pod, (pod.namespace, pod.group_name))

    def _assume(self, pod: PodInfo, place: GroupKey) -> None:
        self._assumed[pod.uid] = pod, place
        known = self._groups.get(place)
        if known is not None and pod.uid in known.pending:
            self._to_change(place).assumed[pod.uid] = pod

    @override
    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        _, place = self._assumed.pop(pod.uid, (pod, (pod.namespace, pod.group_name)))
        known = self._groups.get(place)
        if known is not None and pod.uid in known.assumed:
            del self._to_change(place).assumed[pod.uid]

    @override
    def fork(self) -> "PodGroups":
        """See `SharedState`. Cost: none that grows with the groups, before something changes."""
        copy = PodGroups()
        copy.profiles, copy._groups = self.profiles, self._groups
        copy._are_basic, copy._assumed = self._are_basic, self._assumed.copy()
        self._is_shared = copy._is_shared = True
        self._own = object()
        return copy

    def _change(self, place: GroupKey) -> GroupMembers:
        self.changed[place] = None
        return self._to_change(place)

    def _to_change(self, place: GroupKey) -> GroupMembers:
        """A group that no fork reads; a new one where none is known."""
        known = self._groups.get(place)
        if known is not None and known.owner is self._own:
            return known
        known = GroupMembers(self._own) if known is None else known.clone(self._own)
        self._own_list()[place] = known
        return known

    def _own_list(self) -> dict[GroupKey, GroupMembers]:
        if self._is_shared:
            self._groups, self._is_shared = self._groups.copy(), False
        return self._groups

    def _forget_if_empty(self, place: GroupKey) -> None:
        if self._groups[place].is_empty:
            del self._own_list()[place]


def _basic(group: PodGroup | None) -> PodGroup | None:
    return None if group is None else replace(group, min_count=None)


def _place(group: PodGroup) -> GroupKey:
    return group.namespace, group.name

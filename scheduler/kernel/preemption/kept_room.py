"""The pod or pod group of each profile for which room is kept, and the next one.

The plugin KeepRoom decides by this state, and the engine nominates by it. A profile keeps room for
one waiter at a time, so that no two wait for each other's room. Of the waiters that have waited
long enough, it is one of the highest priority, and of these the one that has waited longest.

Equal pods wait together: their wait starts at the first rejection since one of them was assumed.
The wait of a group lasts from its first rejection until it starts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
from typing_extensions import override

from scheduler.api.devices import AllocationResult
from scheduler.api.objects import Node
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.ends import RunDurations
from scheduler.kernel.ends.times import text_of
from scheduler.kernel.framework.handle import SharedState
from scheduler.kernel.groups import GroupKey, PodGroups

FORGOTTEN_AFTER_SECONDS: Final = 400.0
"""Pods not rejected for this long count as gone: waiting pods are tried after five minutes."""
ASKED_AGAIN_SECONDS: Final = 30.0
"""The interval at which the pods whose turn it is are tried, even without an event."""
UNKNOWN_REVIEWED_SECONDS: Final = 300.0
"""Time after which room is chosen anew where the time at which it is needed is unknown."""
NOT_KEPT: Final = "no room is kept for pods that extenders filter nodes for"
"""Extenders cannot be asked about nodes that other pods must leave first."""


class WaitingGroup:
    """A group that waits; the same object as long as it waits.

    Attributes:
        place: namespace and name.
        uid: the UID of the group object.
    """

    __slots__ = ("__weakref__", "place", "uid")

    def __init__(self, place: GroupKey, uid: str) -> None:
        self.place = place
        self.uid = uid


Waiter: TypeAlias = PodKind | WaitingGroup
"""Equal pods, or a group."""


class RoomReservation(msgspec.Struct):
    """Room that is kept.

    Attributes:
        waiter: the pods or group that it is kept for; of equal pods, the one in `places`.
        name: the waiter as text, for people.
        priority: pods of no higher priority leave it free.
        places: the node of each pod that is to have a place, by UID.
        until: the time at which it is needed, in seconds since 1970; 0 where unknown.
        unknown: number of pods without a known end that have to end before.
        review_at: the time at which it is chosen anew, on the engine's clock.
        since: the time since which room is kept for it, in seconds since 1970; the places may be
            newer.
        asked_at: the time at which a new choice was last requested.
        is_ending: whether it is to be given up.
        is_there: whether the pods that have to end are on the same nodes.
        devices: the allocations for the claims of each such pod, by UID.
        nodes: the nodes of the places, by name, as they were when the room was searched on a copy.
    """

    waiter: Waiter
    name: str
    priority: int
    places: Mapping[str, str]
    until: float
    unknown: int
    review_at: float
    since: float = 0.0
    asked_at: float = -ASKED_AGAIN_SECONDS
    is_ending: bool = False
    is_there: bool = True
    devices: Mapping[str, Sequence[AllocationResult]] = MappingProxyType({})
    nodes: Mapping[str, Node] = MappingProxyType({})

    def pod_message(self, uid: str) -> str:
        """The text about the room of one pod, for its condition."""
        node = self.places.get(uid)
        where = f'on node "{node}"' if node else f"for other pods of the {self.name}"
        there = "there end" if node and self.is_there else "end"
        return f"room is kept {where}{self._when(there)}"

    def group_message(self) -> str:
        """The text about the room of the whole group."""
        nodes = len(set(self.places.values()))
        where = f"on {nodes} node{'s' * (nodes > 1)} for {len(self.places)} pods"
        return f"room is kept {where}{self._when('there end' if self.is_there else 'end')}"

    def _when(self, end: str) -> str:
        if not self.unknown:
            return f", expected start {text_of(self.until)}"
        if self.unknown == 1:
            return f" until 1 pod {end.replace('end', 'ends')}"
        return f" until {self.unknown} pods {end}"


class _Wait(msgspec.Struct):
    """The wait of one waiter.

    Attributes:
        since: its start.
        last: the last rejection.
        uid: UID of a pod to be tried.
        asked_at: the time at which a try was last requested.
    """

    since: float
    last: float
    uid: str
    asked_at: float = -ASKED_AGAIN_SECONDS


class Turns:
    """The waiters of one profile.

    Attributes:
        after: time that they wait before room is kept for them, in seconds.
        room: the kept room; None for none.
    """

    def __init__(
        self,
        after: float,
        waiting_of: Callable[[WaitingGroup], list[str]],
        to_try: Callable[[Waiter, str], str],
    ) -> None:
        """Start without waiters.

        Args:
            after: as above.
            waiting_of: returns the UIDs of a group's waiting members.
            to_try: returns the UID of a pod of a waiter that may be tried, preferably this one;
                empty for none.
        """
        self.after = after
        self.room: RoomReservation | None = None
        self._waiting_of = waiting_of
        self._to_try = to_try
        self._groups: dict[GroupKey, WaitingGroup] = {}
        self._waits: dict[int, WeakKeyDictionary[Waiter, _Wait]] = {}
        """The waits by priority, the longest first."""
        self._resting = WeakKeyDictionary[Waiter, _Wait]()
        """The waits without a pod that could be tried at their turn, until one is rejected."""

    def group(self, group: PodGroup) -> WaitingGroup:
        """The waiter of a group."""
        place = group.namespace, group.name
        known = self._groups.get(place)
        if known is None or known.uid != group.uid:
            known = self._groups[place] = WaitingGroup(place, group.uid)
        return known

    def note(self, waiter: Waiter, pod: PodInfo, now: float) -> None:
        """Record that a waiter was rejected; `pod` is the pod, or the most important member."""
        waits = self._waits.setdefault(pod.priority, WeakKeyDictionary())
        rested = self._resting.pop(waiter, None)
        wait = rested or waits.get(waiter)
        if wait is None or now - wait.last > FORGOTTEN_AFTER_SECONDS:
            # A new wait is the last one of its priority.
            waits.pop(waiter, None)
            waits[waiter] = _Wait(now, now, pod.uid)
            return
        wait.last, wait.uid = now, pod.uid
        if rested is not None:
            waits[waiter] = rested
            in_order = sorted(waits.items(), key=lambda each: each[1].since)
            self._waits[pod.priority] = WeakKeyDictionary(in_order)

    def forget(self, waiter: Waiter) -> None:
        """Forget a waiter that waits no longer, or for which no room can be kept."""
        for waits in (*self._waits.values(), self._resting):
            waits.pop(waiter, None)
        if isinstance(waiter, WaitingGroup):
            self._groups.pop(waiter.place, None)

    def forget_gone(self) -> None:
        """Forget the groups that no longer wait."""
        for waiter in list(self._groups.values()):
            if not self._waiting_of(waiter):
                self.forget(waiter)

    def kept_for(self, waiter: Waiter, uid: str) -> RoomReservation | None:
        """The room that is kept for a group, or for this one of equal pods; None for none."""
        room = self.room
        if room is None or room.is_ending:
            return None
        if isinstance(waiter, WaitingGroup):
            return room if room.waiter is waiter else None
        # The UID alone decides: a pod whose labels change is of another kind, but keeps its room.
        return room if uid in room.places else None

    def is_next(self, waiter: Waiter, now: float) -> bool:
        """Whether room is to be kept for a waiter for which none is kept yet.

        Room that is kept for a less important waiter is given up first.
        """
        room, due = self.room, self._next(now)
        if due is None or due[0] is not waiter:
            return False
        if room is not None:
            room.is_ending = True
            due[1].asked_at = -ASKED_AGAIN_SECONDS
        return room is None

    def to_be_tried(self, now: float) -> str:
        """UID of a pod whose turn it is to be tried now; empty for none.

        Where none of a waiter's pods may be tried, the next waiter has its turn.
        """
        while (due := self._next(now)) and now - due[1].asked_at >= ASKED_AGAIN_SECONDS:
            waiter, wait = due
            wait.asked_at = now
            uid = self._to_try(waiter, wait.uid)
            if uid:
                wait.uid = uid
                return uid
            for waits in self._waits.values():
                waits.pop(waiter, None)
            self._resting[waiter] = wait
        room = self.room
        if room is None or now < room.review_at or now - room.asked_at < ASKED_AGAIN_SECONDS:
            return ""
        room.asked_at = now
        return next(iter(room.places))

    def _next(self, now: float) -> tuple[Waiter, _Wait] | None:
        """The first waiter that waited long enough, if it outranks that of the kept room."""
        for priority in sorted(self._waits, reverse=True):
            if self.room is not None and self.room.priority >= priority:
                return None
            first = self._first_of(priority, now)
            if first is not None and now - first[1].since >= self.after:
                return first
        return None

    def _first_of(self, priority: int, now: float) -> tuple[Waiter, _Wait] | None:
        """The longest waiting waiter of a priority; drops the waiters that are gone."""
        waits, gone, first = self._waits[priority], [], None
        for waiter, wait in waits.items():
            if now - wait.last <= FORGOTTEN_AFTER_SECONDS:
                first = waiter, wait
                break
            gone.append(waiter)
        for waiter in gone:
            del waits[waiter]
        if not waits:
            del self._waits[priority]
        return first


class KeptRoom(SharedState):
    """The room that is kept, by profile.

    Attributes:
        durations: returns the run times of ended pods; filled in by the engine.
        groups: the pod groups, if any are scheduled; filled in by the engine.
        holds_more: returns whether a pod holds volumes or devices, for which room is searched on a
            copy of the cluster; filled in by the engine.
        keeps_for: returns whether room may be kept for a pod; filled in by the engine.
        equal_to: returns the UID of a waiting pod of this kind, preferably this one, or nothing;
            filled in by the engine.
        freed: pods whose kept room was given up, or moved to other nodes or times. The engine
            moves pods that may fit there.
    """

    def __init__(self) -> None:
        self.durations: Callable[[], RunDurations | None] = lambda: None
        self.groups: PodGroups | None = None
        self.holds_more: Callable[[PodInfo], bool] = lambda _: False
        self.keeps_for: Callable[[PodInfo], bool] = lambda _: True
        self.equal_to: Callable[[PodKind, str], str] = lambda _, uid: uid
        self.freed: list[PodInfo] = []
        self._turns: dict[str, Turns] = {}

    def __iter__(self) -> Iterator[Turns]:
        return iter(self._turns.values())

    def of(self, profile: str, after: float) -> Turns:
        """The waiters of a profile; `after` as in `Turns`."""
        turns = self._turns.get(profile)
        if turns is None:
            turns = self._turns[profile] = Turns(after, self._waiting_of, self._to_try)
        # An attempt that began under an earlier configuration may have created the entry.
        turns.after = after
        return turns

    def room_of(self, profile: str) -> RoomReservation | None:
        """The kept room of a profile; None for none."""
        turns = self._turns.get(profile)
        return None if turns is None else turns.room

    def rooms(self) -> list[RoomReservation]:
        """All room that is kept."""
        return [turns.room for turns in self._turns.values() if turns.room is not None]

    def keeps(self, uid: str) -> bool:
        """Whether room is kept for a pod."""
        return any(uid in room.places for room in self.rooms())

    def drop_profiles(self) -> None:
        """Forget all waiters; kept room must have been given up."""
        self._turns.clear()

    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        if pod.group_name:
            return
        for turns in self._turns.values():
            room = turns.kept_for(pod.kind, pod.uid)
            turns.forget(pod.kind)
            if room is not None:
                turns.room = None
                if room.places[pod.uid] != node_name:
                    self.freed.append(pod)

    @override
    def fork(self) -> "KeptRoom":
        """Return a copy without waiters: no room is kept on a fork."""
        copy = KeptRoom()
        copy.durations, copy.groups = self.durations, self.groups
        copy.holds_more, copy.keeps_for = self.holds_more, self.keeps_for
        return copy

    def _waiting_of(self, waiter: WaitingGroup) -> list[str]:
        known = None if self.groups is None else self.groups.of(*waiter.place)
        if known is None or known.group is None or known.group.uid != waiter.uid:
            return []
        return known.waiting

    def _to_try(self, waiter: Waiter, uid: str) -> str:
        if not isinstance(waiter, WaitingGroup):
            return self.equal_to(waiter, uid)
        if self.groups is None or self.groups.why_held(*waiter.place):
            return ""
        waiting = self._waiting_of(waiter)
        # Prefer the member that was tried last: others may be gated.
        return uid if uid in waiting else next(iter(waiting), "")

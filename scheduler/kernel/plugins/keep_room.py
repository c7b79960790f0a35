"""KeepRoom: keeps room for a big pod or a pod group that has waited long.

Not enabled by default; kube-scheduler has no such plugin. A steady stream of small pods takes all
room that becomes free, so a big pod or a gang may wait for ever. The plugin nominates a pod or
group that has waited for a given time to the nodes on which it can start first. Then no other pod
of its priority or less may take that room, except a pod that ends before the room is needed. The
plugin keeps room for one pod or group at a time; see `preemption.kept_room`.

Extension points: PostFilter.
Events: none; the plugin rejects no pod. The engine requeues pods when room is no longer kept, and
then tries the next waiter.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.config.args import KeepRoomArgs
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ClusterEventWithHint
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import EnqueueExtensions, PostFilterPlugin
from scheduler.kernel.framework.results import Diagnosis, PostFilterResult
from scheduler.kernel.framework.runtime import diagnosis as runtime
from scheduler.kernel.framework.status import Code, Status, unschedulable
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.preemption import Importance, rows_that_may_help, soonest_start
from scheduler.kernel.preemption.group_start import (
    GroupStart,
    GroupWorld,
    RoomForGroupPlugin,
    soonest_group_start,
)
from scheduler.kernel.preemption.kept_room import (
    ASKED_AGAIN_SECONDS,
    NOT_KEPT,
    UNKNOWN_REVIEWED_SECONDS,
    KeptRoom,
    RoomReservation,
    Turns,
    Waiter,
)
from scheduler.kernel.snapshot import Snapshot

NODES_TRIED: Final = 256
"""Largest number of candidate nodes examined; with more, a window from a random start."""


class KeepRoom(PostFilterPlugin, RoomForGroupPlugin, EnqueueExtensions):
    """Keeps room for the pod or group that has waited longest."""

    NAME: ClassVar[str] = "KeepRoom"
    ARGS: ClassVar[type] = KeepRoomArgs

    def __init__(self, args: KeepRoomArgs, handle: Handle) -> None:
        self._handle = handle
        self._after = args.after_seconds
        self._importance = Importance()
        handle.shared(KeptRoom)

    @override
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return ()

    @override
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        if not self._kept.keeps_for(pod):
            return None, unschedulable() if pod.group_name else unschedulable(NOT_KEPT)
        if pod.group_name or self._kept.holds_more(pod):
            # The engine keeps room for all members together, and for pods with volumes or devices.
            return None, unschedulable()
        found = cast("runtime.AttemptDiagnosis", diagnosis)
        turns, room = self._turns, self._turns.kept_for(pod.kind, pod.uid)
        rows = rows_that_may_help(snapshot, found)
        if not len(rows):
            self._drop(pod.kind, (pod,))
            return None, unschedulable()
        if not self._has_turn(pod.kind, pod, (pod,)):
            return None, unschedulable()
        rows = self._some(rows, room, pod.uid, snapshot)
        kept, wall = self._kept, self._handle.wall()
        start = soonest_start(found, snapshot, self._importance, rows, wall, kept.durations())
        if start is None:
            self._drop(pod.kind, (pod,))
            return None, unschedulable()
        places = {pod.uid: start.node_name}
        chosen = GroupStart(places, start.time, start.unknown)
        new = self._room(pod.kind, f"pod {pod.key}", pod, chosen)
        if room is not None and (room.until, room.places) != (new.until, new.places):
            kept.freed.append(pod)
        turns.room = new
        result = PostFilterResult(start.node_name, needed_at=new.until)
        return result, Status(Code.SUCCESS, (new.pod_message(pod.uid),))

    @override
    def has_turn(self, group: PodGroup | None, members: Sequence[PodInfo]) -> bool:
        return self._has_turn(self._waiter(group, members), members[0], members)

    @override
    def room_of(self, group: PodGroup | None, members: Sequence[PodInfo]) -> RoomReservation | None:
        room = self._turns.kept_for(self._waiter(group, members), members[0].uid)
        waiting = {pod.uid for pod in members}
        if room is None or self._handle.now() >= room.review_at:
            return None
        return room if room.places.keys() <= waiting else None

    @override
    def search(
        self, members: Sequence[PodInfo], snapshot: Snapshot, world: GroupWorld
    ) -> Steps[GroupStart | None]:
        wall, durations = self._handle.wall(), self._kept.durations()
        return soonest_group_start(members, snapshot, world, wall, durations)

    @override
    def keep(
        self, group: PodGroup | None, members: Sequence[PodInfo], start: GroupStart | None
    ) -> RoomReservation | None:
        turns = self._turns
        waiter = self._waiter(group, members)
        room = turns.kept_for(waiter, members[0].uid)
        if room is not None:
            self._kept.freed += [pod for pod in members if pod.uid in room.places]
        if start is None:
            self._drop(waiter, members)
            return None
        name = f"pod {members[0].key}"
        if group is not None:
            name = f"pod group {group.namespace}/{group.name}"
        turns.room = self._room(waiter, name, members[0], start)
        return turns.room

    @property
    def _kept(self) -> KeptRoom:
        return self._handle.shared(KeptRoom)

    @property
    def _turns(self) -> Turns:
        return self._kept.of(self._handle.profile, self._after)

    def _waiter(self, group: PodGroup | None, members: Sequence[PodInfo]) -> Waiter:
        return members[0].kind if group is None else self._turns.group(group)

    def _has_turn(self, waiter: Waiter, first: PodInfo, pods: Sequence[PodInfo]) -> bool:
        """Record a rejected waiter; return whether room is kept for it, or is to be kept next."""
        turns, now = self._turns, self._handle.now()
        turns.note(waiter, first, now)
        if turns.kept_for(waiter, first.uid) is not None:
            return True
        if turns.room is None and any(pod.pod.status.nominated_node_name for pod in pods):
            # The nomination is from the scheduler that ran before this one.
            return True
        return turns.is_next(waiter, now)

    def _room(
        self, waiter: Waiter, name: str, first: PodInfo, start: GroupStart
    ) -> RoomReservation:
        until = start.time
        now, wall = self._handle.now(), self._handle.wall()
        seconds = max(until - wall, ASKED_AGAIN_SECONDS) if until else UNKNOWN_REVIEWED_SECONDS
        known = self._turns.kept_for(waiter, first.uid)
        since = wall if known is None else known.since
        return RoomReservation(
            waiter,
            name,
            first.priority,
            start.places,
            until,
            start.unknown,
            now + seconds,
            since,
            is_there=start.is_there,
            devices=start.devices,
        )

    def _some(
        self, rows: NDArray[np.intp], room: RoomReservation | None, uid: str, snapshot: Snapshot
    ) -> NDArray[np.intp]:
        """The rows to examine: the row of the kept room, or else at most `NODES_TRIED`."""
        row = None if room is None else snapshot.table.row_of.get(room.places[uid])
        if row is not None and row in rows:
            return np.array([row], np.intp)
        if len(rows) > NODES_TRIED:
            rows = np.roll(rows, -int(self._handle.random.random() * len(rows)))[:NODES_TRIED]
        return rows

    def _drop(self, waiter: Waiter, pods: Sequence[PodInfo]) -> None:
        """Remove a waiter that can start on no node, and mark its room as ending."""
        turns = self._turns
        turns.forget(waiter)
        room = turns.kept_for(waiter, pods[0].uid)
        if room is None and turns.room is None:
            # Kept by the scheduler that ran before this one: the engine withdraws nominations.
            nodes = {pod.uid: pod.pod.status.nominated_node_name for pod in pods}
            places = {uid: node for uid, node in nodes.items() if node}
            if places:
                room = turns.room = self._room(waiter, "", pods[0], GroupStart(places, 0.0, 0))
        if room is not None:
            room.is_ending = True

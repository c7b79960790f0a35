"""KeepRoom: a big pod that has waited long gets a node that is kept for it.

Not enabled by default: kube-scheduler has no such thing. Small pods that come again and again take
what others leave, so a big one may wait for ever. Once a pod has waited so long it is nominated to
the node on which it can start first; as for every nominated pod, no other one of its priority or
less may take the room meanwhile. One pod at a time, the one that waited longest.

Pods that are equal wait together: the time runs from the first rejection of one of them since one
found a place.

Extension points: PostFilter, Reserve.
Events: none; the plugin rejects no pod.
"""

from typing import ClassVar, Final, cast
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from typing_extensions import override

from scheduler.api.pods import PodInfo, PodKind
from scheduler.config.args import KeepRoomArgs
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ClusterEventWithHint
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    Diagnosis,
    EnqueueExtensions,
    PostFilterPlugin,
    PostFilterResult,
    ReservePlugin,
)
from scheduler.kernel.framework.runtime import diagnosis as runtime
from scheduler.kernel.framework.status import SUCCESS, Code, Status, unschedulable
from scheduler.kernel.preemption import Importance, rows_that_may_help, soonest_start
from scheduler.kernel.preemption.estimate import Start
from scheduler.kernel.snapshot import Snapshot

NODES_TRIED: Final = 256
"""Of more nodes that may help, so many are looked at, from anywhere on."""
FORGOTTEN_AFTER_SECONDS: Final = 400.0
"""Pods that were not tried for so long are gone: after five minutes all that wait are tried."""


class _Wait(msgspec.Struct):
    """Since when pods of a kind wait, and when one of them was tried last."""

    since: float
    last: float


class KeepRoom(PostFilterPlugin, ReservePlugin, EnqueueExtensions):
    """Keeps room for the pod that has waited longest."""

    NAME: ClassVar[str] = "KeepRoom"
    ARGS: ClassVar[type] = KeepRoomArgs

    def __init__(self, args: KeepRoomArgs, handle: Handle) -> None:
        self._handle = handle
        self._after = args.after_seconds
        self._importance = Importance()
        self._waits: WeakKeyDictionary[PodKind, _Wait] = WeakKeyDictionary()
        """Those that wait longest first."""
        self._kept = ("", "")
        """The UID of the pod for which room is kept, and its node."""

    @override
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return ()

    @override
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        found = cast("runtime.AttemptDiagnosis", diagnosis)
        rows = rows_that_may_help(snapshot, found)
        if not len(rows):
            return None, unschedulable()
        self._note(pod)
        if not self._is_its_turn(pod):
            return None, unschedulable()
        uid, node_name = self._kept
        row = snapshot.table.row_of.get(node_name) if uid == pod.uid else None
        if row is not None and row in rows:
            rows = np.array([row], np.intp)
        elif len(rows) > NODES_TRIED:
            rows = np.roll(rows, -int(self._handle.random.random() * len(rows)))[:NODES_TRIED]
        start = soonest_start(found, snapshot, self._importance, rows, self._handle.wall())
        if start is None:
            self._waits.pop(pod.kind, None)
            return None, unschedulable()
        self._kept = (pod.uid, start.node_name)
        return PostFilterResult(start.node_name), Status(Code.SUCCESS, (_told(start),))

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        self._waits.pop(pod.kind, None)
        return SUCCESS

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """See `ReservePlugin.unreserve`."""

    def _note(self, pod: PodInfo) -> None:
        """Take note that a pod was rejected."""
        now, kind = self._handle.now(), pod.kind
        wait = self._waits.get(kind)
        if wait is not None and now - wait.last <= FORGOTTEN_AFTER_SECONDS:
            wait.last = now
            return
        # Anew, and so the last.
        self._waits.pop(kind, None)
        self._waits[kind] = _Wait(now, now)

    def _is_its_turn(self, pod: PodInfo) -> bool:
        """Whether room is kept for this pod, or it is the next one for which it is to be."""
        uid, node_name = self._kept
        there = self._handle.nominator.nominated_pods_for_node(node_name)
        if any(other.uid == uid for other in there):
            return uid == pod.uid
        if pod.pod.status.nominated_node_name:
            # Kept by the scheduler that ran before this one.
            self._kept = (pod.uid, pod.pod.status.nominated_node_name)
            return True
        now = self._handle.now()
        while self._waits:
            kind, wait = next(iter(self._waits.items()))
            if now - wait.last <= FORGOTTEN_AFTER_SECONDS:
                return kind == pod.kind and now - wait.since >= self._after
            del self._waits[kind]
        return False


def _told(start: Start) -> str:
    if start.time:
        return f'room is kept on node "{start.node_name}", expected start {start.time}'
    if start.unknown == 1:
        return f'room is kept on node "{start.node_name}" until 1 pod there ends'
    return f'room is kept on node "{start.node_name}" until {start.unknown} pods there end'

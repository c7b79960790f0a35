"""Nominated pods, as columns.

Every other pod of no higher priority must leave room for them, so each attempt reads all of them at
once. Some nominated pods need their room only from a known time on; a pod that ends earlier may use
it.

Source: kubernetes pkg/scheduler/backend/queue/nominator.go (pods themselves are kept here, not
references; an empty nomination is no entry), pkg/scheduler/framework/runtime/framework.go
(addGENominatedPods) v1.36.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from math import inf
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.snapshot import Indices, Rows, Snapshot
from scheduler.kernel.snapshot.changes import RowLog
from scheduler.kernel.snapshot.pod_kinds import PodKinds

_NO_PODS: Final[Mapping[str, PodInfo]] = MappingProxyType({})
_MIN_CAPACITY: Final = 16
_PRIORITY, _KIND, _ROW, _NEEDED = range(4)
NO_TIME: Final = 2**62
"""After all times: a pod whose end is not known ends later than any room is needed."""
_NOWHERE: Final = -1
"""The row of a node that does not exist."""


class Nominated(msgspec.Struct, frozen=True):
    """Nominated pods, with the rows of their nodes.

    Attributes:
        pods: all nominated pods, by slot.
        slots: the slots of the chosen pods.
        rows: the row of each.
        kinds: the number of each one's kind.
    """

    pods: list[PodInfo]
    slots: Indices
    rows: Indices
    kinds: Indices

    def of(self, chosen: NDArray[np.bool_]) -> "Nominated":
        """Only some of them."""
        return Nominated(self.pods, self.slots[chosen], self.rows[chosen], self.kinds[chosen])

    def pods_on(self, snapshot: Snapshot) -> list[PodInfo]:
        """The pods, as if they ran on the nodes that they are nominated to."""
        names = snapshot.table.names
        places = zip(self.slots.tolist(), self.rows.tolist(), strict=True)
        return [self.pods[slot].on_node(names[row]) for slot, row in places]


class NominatedPods:
    """Nominated pods by node, in order of their nomination.

    Invariant: a pod is nominated to at most one node; no node is kept without pods.

    Attributes:
        nodes: the node of each nominated pod, by the UID of the pod; for reading.
        version: grows with every nomination that is made or withdrawn.
        withdrawals: grows with every nomination that is withdrawn: there may be room again.
        end_if_started: returns the time at which a pod would end if it started now, in seconds
            since 1970; infinite where unknown.
    """

    def __init__(self) -> None:
        self.version = 0
        self.withdrawals = 0
        self.end_if_started: Callable[[PodInfo], float] = lambda _: inf
        self._row_log = RowLog()
        self._pods_by_node: dict[str, dict[str, PodInfo]] = {}
        self.nodes: dict[str, str] = {}
        self._slots: dict[str, int] = {}
        self._pods: list[PodInfo] = []
        self._columns = np.zeros((4, _MIN_CAPACITY), np.int64)
        self._kinds: PodKinds | None = None
        self._seen: object = None
        """The kinds and the nodes that the columns are of."""
        self._rows_of: Mapping[str, int] = {}

    def __len__(self) -> int:
        """Number of nominated pods; 0 spares the filters their second run."""
        return len(self.nodes)

    def __iter__(self) -> Iterator[str]:
        """The names of the nodes that pods are nominated to."""
        return iter(self._pods_by_node)

    def copy(self) -> "NominatedPods":
        """Make an independent copy."""
        copy = NominatedPods()
        copy.end_if_started = self.end_if_started
        for node in self:
            for pod in self.nominated_pods_for_node(node):
                copy.nominate(pod, node, self.needed_at(pod.uid))
        return copy

    def nominated_pods_for_node(self, node_name: str) -> Collection[PodInfo]:
        """The pods nominated to a node, in order of their nomination."""
        return self._pods_by_node.get(node_name, _NO_PODS).values()

    def before(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        *,
        on: Rows | None = None,
        counts_itself: bool = False,
    ) -> Nominated | None:
        """The nominated pods that a pod must leave room for; None when there are none.

        These are the other pods of its own priority or higher, except pods that need their room
        only after it has ended. With `on`, only pods nominated to these rows count. With
        `counts_itself`, its own nomination counts, too.

        Cost: a few operations on columns of all nominated pods.
        """
        count = len(self._pods)
        if not count:
            return None
        self._refresh(snapshot)
        priorities, kinds, rows, needed = self._columns[:, :count]
        meant = priorities >= pod.priority
        meant &= rows != _NOWHERE
        if on is not None:
            is_asked = np.zeros(snapshot.table.size, np.bool_)
            is_asked[on] = True
            meant &= is_asked[rows]
        before = self.passes(pod)
        if before != NO_TIME:
            meant &= needed < before
        own = self._slots.get(pod.uid)
        if own is not None and not counts_itself:
            meant[own] = False
        slots = np.flatnonzero(meant)
        if not len(slots):
            return None
        return Nominated(self._pods, slots, rows[slots], kinds[slots])

    def passes(self, pod: PodInfo) -> int:
        """The earliest `needed_at` by which the pod will have ended if it starts now.

        Nominations for that time or later do not exclude the pod. For most pods it is `NO_TIME`.
        """
        if not self._pods:
            return NO_TIME
        needed = self._columns[_NEEDED, : len(self._pods)]
        if not needed.any():
            return NO_TIME
        later = needed[(needed > 0) & (needed >= self.end_if_started(pod))]
        return int(later.min(initial=NO_TIME))

    def nominated(self, uid: str) -> PodInfo | None:
        """A nominated pod with the nomination in its status; None for any other pod."""
        node_name = self.nodes.get(uid)
        if node_name is None:
            return None
        info = self._pods[self._slots[uid]]
        if info.pod.status.nominated_node_name == node_name:
            return info
        status = replace(info.pod.status, nominated_node_name=node_name)
        return PodInfo(replace(info.pod, status=status), info.kind)

    def comes_before(self, uid: str, pod: PodInfo) -> bool:
        """Whether filters for a pod count the nominated pod with this UID; see `before`."""
        slot = self._slots.get(uid)
        if slot is None or uid == pod.uid or self._pods[slot].priority < pod.priority:
            return False
        return self.needed_at(uid) < self.passes(pod)

    def needed_at(self, uid: str) -> int:
        """The time at which a nominated pod needs its room, seconds since 1970; 0 where unknown."""
        slot = self._slots.get(uid)
        return 0 if slot is None else int(self._columns[_NEEDED, slot])

    def row_of(self, uid: str) -> int | None:
        """The row a pod is nominated to, or None; as of the snapshot seen last."""
        slot = self._slots.get(uid)
        row = _NOWHERE if slot is None else int(self._columns[_ROW, slot])
        return None if row == _NOWHERE else row

    def row_log(self, snapshot: Snapshot) -> RowLog:
        """The log of rows whose nominations changed.

        The log is a new one when nodes change, or for another snapshot.
        """
        self._refresh(snapshot)
        return self._row_log

    def nominate(self, pod: PodInfo, node_name: str | None = None, needed_at: float = 0.0) -> None:
        """Nominate a pod, in place of an earlier nomination.

        Without a `node_name`, the node of the pod's status is meant; an empty one withdraws the
        nomination. `needed_at` is the time at which it needs its room, in seconds since 1970; 0
        where unknown.
        """
        uid = pod.uid
        if node_name is None:
            node_name = pod.pod.status.nominated_node_name
        self.delete_nominated_pod_if_exists(uid)
        if not node_name:
            return
        self.version += 1
        self.nodes[uid] = node_name
        self._pods_by_node.setdefault(node_name, {})[uid] = pod
        slot = self._slots[uid] = len(self._pods)
        self._pods.append(pod)
        if slot >= self._columns.shape[1]:
            self._columns = np.hstack((self._columns, np.zeros_like(self._columns)))
        self._columns[_NEEDED, slot] = int(needed_at)
        self._fill(slot)
        self._note(slot)

    def update_nominated_pod(self, old: PodInfo, new: PodInfo) -> None:
        """Store a newer version of a pod.

        Watch events of the pod may precede the write of its nomination to the API server. So an
        update in which neither version has a nomination keeps the nomination.
        """
        current = self.nodes.get(new.uid)
        stated = new.pod.status.nominated_node_name
        needed_at = self.needed_at(new.uid)
        if stated or old.pod.status.nominated_node_name:
            self.nominate(new, stated, needed_at if stated == current else 0.0)
        elif current is not None:
            self.nominate(new, current, needed_at)

    def delete_nominated_pod_if_exists(self, uid: str) -> None:
        """Withdraw the nomination of a pod, if there is one."""
        node_name = self.nodes.pop(uid, None)
        if node_name is None:
            return
        self.version += 1
        self.withdrawals += 1
        pods = self._pods_by_node[node_name]
        del pods[uid]
        if not pods:
            del self._pods_by_node[node_name]
        self._note(self._slots[uid])
        slot, last = self._slots.pop(uid), self._pods.pop()
        if slot < len(self._pods):
            self._pods[slot] = last
            self._slots[last.uid] = slot
            self._columns[:, slot] = self._columns[:, len(self._pods)]

    def validate(self) -> Iterator[str]:
        """Yield each broken invariant as text."""
        by_node = {uid: node_name for node_name, pods in self._pods_by_node.items() for uid in pods}
        if by_node != self.nodes or not all(self._pods_by_node.values()):
            yield "nominations by pod and by node differ"
        slots = {pod.uid: slot for slot, pod in enumerate(self._pods)}
        if slots != self._slots or slots.keys() != self.nodes.keys():
            yield "nominations and their columns differ"

    def _refresh(self, snapshot: Snapshot) -> None:
        """Update rows and kinds if nodes or the numbering of kinds have changed."""
        kinds, log = snapshot.kinds, snapshot.node_log
        seen = kinds, kinds.epoch, log, log.position
        if seen == self._seen:
            return
        self._seen, self._kinds = seen, kinds
        self._rows_of = snapshot.table.row_of
        self._row_log = RowLog(self._row_log.position + 1)
        for slot in range(len(self._pods)):
            self._fill(slot)

    def _note(self, slot: int) -> None:
        row = int(self._columns[_ROW, slot])
        if row != _NOWHERE:
            self._row_log.append(row, len(self._rows_of))

    def _fill(self, slot: int) -> None:
        pod = self._pods[slot]
        column = self._columns[:, slot]
        column[_PRIORITY] = pod.priority
        column[_ROW] = self._rows_of.get(self.nodes[pod.uid], _NOWHERE)
        if self._kinds is not None:
            column[_KIND] = self._kinds.number_of(pod)

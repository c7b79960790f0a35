"""The pods of each node, most important first.

The pods of a node are sorted once, and kept in columns until something on the node changes. A
preemption reads thousands of pods, of which few have changed since the last preemption.

Source: kubernetes pkg/scheduler/util/utils.go (MoreImportantPod, GetPodStartTime) v1.36.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.snapshot import Indices, Snapshot

_NOW: Final = "~"
"""A pod without a start time counts as started now; sorts after all times."""
_SMALL: Final = 2**16
_LATEST: Final = 10**15
_WRITTEN_BY_SERVERS: Final = len("2026-01-01T00:00:00Z")

_PRIORITY, _KIND, _START = range(3)


def start_time(pod: PodInfo) -> str:
    """The start time of the pod, as a text that sorts by time."""
    text = pod.pod.start_time
    if text is None:
        return _NOW
    return text if len(text) == _WRITTEN_BY_SERVERS else _in_utc(text)


def importance(pod: PodInfo) -> tuple[int, str]:
    """A key that sorts more important pods first."""
    return (-(pod.shape.spec.priority or 0), start_time(pod))


@lru_cache(maxsize=4096)
def _in_utc(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def start_number(pod: PodInfo) -> int:
    """The start time as a number, for columns."""
    text = start_time(pod)
    digits = text[:4] + text[5:7] + text[8:10] + text[11:13] + text[14:16] + text[17:19]
    return int(digits) if digits.isdecimal() else _LATEST


class PodsAt:
    """Pods of several nodes in one column.

    Attributes:
        at: the position of each pod's node among some nodes.
    """

    __slots__ = ("_columns", "_every", "_slots", "at")

    def __init__(
        self, every: Sequence[PodInfo], columns: NDArray[np.int64], slots: Indices, at: Indices
    ) -> None:
        """Refer to some pods.

        Args:
            every: a list that contains them.
            columns: priority, kind and start of all pods in this list.
            slots: the position of each pod in this list.
            at: the position of each pod's node among some nodes.
        """
        self._every = every
        self._columns = columns
        self._slots = slots
        self.at = at

    def __len__(self) -> int:
        return len(self.at)

    @property
    def priorities(self) -> NDArray[np.int64]:
        """The priority of each pod."""
        found: NDArray[np.int64] = self._columns[_PRIORITY].take(self._slots)
        return found

    @property
    def kinds(self) -> Indices:
        """The number of each pod's kind."""
        found: Indices = self._columns[_KIND].take(self._slots)
        return found

    @property
    def starts(self) -> NDArray[np.int64]:
        """The start of each pod, as a number that grows with time."""
        found: NDArray[np.int64] = self._columns[_START].take(self._slots)
        return found

    def take(self, chosen: NDArray[np.bool_] | Indices) -> "PodsAt":
        """The chosen pods, in the order given."""
        return PodsAt(self._every, self._columns, self._slots[chosen], self.at[chosen])

    def pods(self, chosen: Indices | slice = slice(None)) -> list[PodInfo]:
        """The pods themselves."""
        every = self._every
        return [every[slot] for slot in self._slots[chosen].tolist()]


class RankedPods(PodsAt):
    """Pods of several nodes: first the most important one of each node, then each second one.

    Nodes with more pods come before those with fewer. So the pods of a rank are adjacent, and are
    those of the first nodes: an operation on all nodes in step works on slices.

    Attributes:
        nodes: the nodes with pods, as positions among the given rows; `at` is a position in it.
        widths: number of nodes that have a pod of each rank.
    """

    __slots__ = ("nodes", "widths")

    def __init__(
        self,
        every: Sequence[PodInfo],
        columns: NDArray[np.int64],
        firsts: Indices,
        nodes: Indices,
        widths: Sequence[int],
    ) -> None:
        """Refer to some pods.

        Args:
            every: a list that contains them; those of a node are adjacent, most important first.
            columns: priority, kind and start of all pods in this list.
            firsts: the position in this list of the first pod of each node.
            nodes: the nodes, as in the attribute.
            widths: the number of nodes by rank, as in the attribute.
        """
        count = np.arange(len(nodes))
        slots = [firsts[:width] + rank for rank, width in enumerate(widths)]
        at = [count[:width] for width in widths]
        super().__init__(every, columns, _joined(slots), _joined(at))
        self.nodes = nodes
        self.widths = widths

    def ranks(self) -> Iterator[slice]:
        """Yield the slice of the pods of each rank."""
        end = 0
        for width in self.widths:
            start, end = end, end + width
            yield slice(start, end)

    def only(self, kept: NDArray[np.bool_]) -> "RankedPods":
        """The pods of some of the nodes."""
        if kept.all():
            return self
        left = np.concatenate(([0], np.cumsum(kept)))
        widths = [width for width in left[[*self.widths]].tolist() if width]
        firsts = self._slots[: len(kept)][kept]
        return RankedPods(self._every, self._columns, firsts, self.nodes[kept], widths)

    def by_node(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> PodsAt:
        """Some of the pods, node by node in the order of the given rows; `at` is a position there.

        The pods of a node come most important first.
        """
        slots, at = self._slots[chosen], self.nodes[self.at[chosen]]
        order = stable_order(at)
        return PodsAt(self._every, self._columns, slots[order], at[order])


def _joined(parts: Sequence[Indices]) -> Indices:
    return np.concatenate(parts) if parts else np.zeros(0, np.intp)


def stable_order(values: Indices) -> Indices:
    """The stable order of numbers from 0 on; small ones are sorted by their digits."""
    is_small = len(values) > 0 and int(values.max()) < _SMALL
    return np.argsort(values.astype(np.uint16) if is_small else values, kind="stable")


class Importance:
    """Remembers the order of the pods of each node.

    The pods of a row are one block of the columns. A block is never written again: a changed row
    gets a new block, and readers of the old block are not affected.
    """

    def __init__(self, priority_of: Callable[[PodInfo], int] | None = None) -> None:
        """Begin without any order.

        Args:
            priority_of: returns the priority of a pod; None for that of its specification.
        """
        self._priority_of = priority_of or attrgetter("priority")
        # The usual key is the faster one.
        self._key = importance if priority_of is None else self._other_key
        self._about: tuple[object, ...] = ()
        """The inputs that the blocks are valid for."""
        self._positions: tuple[int, ...] = ()
        """The log positions up to which changes have been applied."""
        self._forget(0)

    def ranked(self, snapshot: Snapshot, rows: Indices, below: float = np.inf) -> RankedPods:
        """The pods on some rows whose priority is below `below`.

        Cost: a few column operations, and O(pods on the row) for each row that has changed since it
        was last seen.
        """
        self._catch_up(snapshot)
        unknown = rows[self._starts[rows] == _UNKNOWN]
        if len(unknown):
            self._rank(unknown, snapshot)
        firsts, lengths = self._starts[rows], self._lengths[rows]
        is_lower = self._columns[_PRIORITY, : len(self._pods)] < below
        if not is_lower.all():
            # Pods of lower priority are the last ones of each block.
            lower = np.concatenate(([0], np.cumsum(is_lower)))
            ends = firsts + lengths
            lengths = lower[ends] - lower[firsts]
            firsts = ends - lengths
        most = int(lengths.max(initial=0))
        nodes = stable_order(most - lengths)[: np.count_nonzero(lengths)]
        widths = len(rows) - np.cumsum(np.bincount(lengths, minlength=1))[:most]
        return RankedPods(self._pods, self._columns, firsts[nodes], nodes, widths.tolist())

    def _forget(self, capacity: int) -> None:
        self._starts = np.full(capacity, _UNKNOWN, np.intp)
        self._lengths = np.zeros(capacity, np.intp)
        self._pods: list[PodInfo] = []
        self._columns = np.zeros((3, _MIN_PODS), np.int64)
        self._used = 0
        """Number of pods in blocks that are not out of date."""

    def _catch_up(self, snapshot: Snapshot) -> None:
        """Drop the blocks of rows that have changed."""
        kinds, logs = snapshot.kinds, (snapshot.pod_log, snapshot.version_log)
        kinds.trim()
        about = (kinds, kinds.epoch, snapshot.table.capacity, *logs)
        is_known = about == self._about
        changes = [
            log.since(position) for log, position in zip(logs, self._positions, strict=is_known)
        ]
        self._about, self._positions = about, tuple(log.position for log in logs)
        if not is_known or any(rows is None for rows in changes):
            self._forget(snapshot.table.capacity)
            return
        for rows in changes:
            if rows is not None and len(rows):
                self._used -= int(self._lengths[rows].sum())
                self._starts[rows], self._lengths[rows] = _UNKNOWN, 0

    def _rank(self, rows: Indices, snapshot: Snapshot) -> None:
        """Sort the pods of rows that have no block."""
        if len(self._pods) > max(_MIN_PODS, 2 * self._used):
            self._compact()
        infos, first = snapshot.table.infos, len(self._pods)
        lengths = []
        for row in rows.tolist():
            info = infos[row]
            pods = [] if info is None else sorted(info.pods.values(), key=self._key)
            self._pods.extend(pods)
            lengths.append(len(pods))
        self._lengths[rows] = lengths
        self._starts[rows] = first + np.cumsum(lengths) - lengths
        new, number_of = self._pods[first:], snapshot.kinds.number_of
        self._used += len(new)
        if len(self._pods) > self._columns.shape[1]:
            # Room for as many again; after `_compact` there may be no column at all.
            more = np.zeros((3, max(_MIN_PODS, len(self._pods))), np.int64)
            self._columns = np.hstack((self._columns, more))
        self._columns[:, first : len(self._pods)] = (
            [*map(self._priority_of, new)],
            [*map(number_of, new)],
            [*map(start_number, new)],
        )

    def _other_key(self, pod: PodInfo) -> tuple[int, str]:
        return -self._priority_of(pod), start_time(pod)

    def _compact(self) -> None:
        """Drop the blocks that are out of date."""
        rows = np.flatnonzero(self._starts != _UNKNOWN)
        lengths = self._lengths[rows]
        ends = np.cumsum(lengths)
        moved_by = self._starts[rows] - (ends - lengths)
        slots = np.arange(self._used) + np.repeat(moved_by, lengths)
        self._pods = [self._pods[slot] for slot in slots.tolist()]
        self._columns = self._columns[:, slots]
        self._starts[rows] = ends - lengths


_UNKNOWN: Final = -1
"""The start of a row that has no block."""
_MIN_PODS: Final = 1024

"""Which pods run on each node, most important first.

Sorted once per node and kept in columns until something on the node changes: a preemption looks at
thousands of pods, of which few have changed since the last one.

Source: kubernetes pkg/scheduler/util/utils.go (MoreImportantPod, GetPodStartTime) v1.36.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.snapshot import Snapshot

_NOW: Final = "~"
"""A pod without a start time counts as started now; sorts after all times."""
_SMALL: Final = 2**16
_LATEST: Final = 10**15
_WRITTEN_BY_SERVERS: Final = len("2026-01-01T00:00:00Z")

Indices: TypeAlias = NDArray[np.intp]


def start_time(pod: PodInfo) -> str:
    """When the pod started, as a text that sorts by time."""
    text = pod.pod.status.start_time
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
    """The same as a number, for columns."""
    text = start_time(pod)
    digits = text[:4] + text[5:7] + text[8:10] + text[11:13] + text[14:16] + text[17:19]
    return int(digits) if digits.isdecimal() else _LATEST


class RankedPods:
    """Pods of several nodes in one column: node by node, most important first.

    Attributes:
        at: the place of each pod's row among the rows asked for.
        priorities: of each pod.
        kinds: the number of each pod's kind.
        starts: when each started, as a number that grows with time.
    """

    __slots__ = ("_every", "_slots", "at", "kinds", "priorities", "starts")

    def __init__(
        self, every: Sequence[PodInfo], slots: Indices, at: Indices, columns: NDArray[np.int64]
    ) -> None:
        """Name some pods.

        Args:
            every: where they are.
            slots: the place there of each.
            at: see above.
            columns: priority, kind and start of each.
        """
        self._every = every
        self._slots = slots
        self.at = at
        self.priorities: NDArray[np.int64] = columns[0]
        self.kinds: Indices = columns[1]
        self.starts: NDArray[np.int64] = columns[2]

    def __len__(self) -> int:
        return len(self.at)

    def take(self, chosen: NDArray[np.bool_] | Indices) -> "RankedPods":
        """Only some of the pods, in the order given."""
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        part = object.__new__(RankedPods)
        part._every = self._every
        part.at, part._slots = self.at[chosen], self._slots[chosen]
        part.priorities, part.kinds = self.priorities[chosen], self.kinds[chosen]
        part.starts = self.starts[chosen]
        return part

    def pods(self, chosen: Indices | slice = slice(None)) -> list[PodInfo]:
        """The pods themselves."""
        every = self._every
        return [every[slot] for slot in self._slots[chosen].tolist()]


def stable_order(values: Indices) -> Indices:
    """The stable order of numbers from 0 on; small ones are sorted by their digits."""
    is_small = len(values) > 0 and int(values.max()) < _SMALL
    return np.argsort(values.astype(np.uint16) if is_small else values, kind="stable")


class Importance:
    """Remembers the order of the pods of each node.

    The pods of a row are one block of the columns. A block is never written again: a row that has
    changed gets a new one, so whoever read the old one may go on with it.
    """

    def __init__(self) -> None:
        self._about: tuple[object, ...] = ()
        """What the blocks hold for."""
        self._positions: tuple[int, ...] = ()
        """Up to where changes are taken over."""
        self._forget(0)

    def ranked(self, snapshot: Snapshot, rows: Indices) -> RankedPods:
        """The pods on some rows.

        Cost: a few column operations, and O(pods on the row) for each row that has changed since it
        was last seen.
        """
        self._catch_up(snapshot)
        unknown = rows[self._starts[rows] == _UNKNOWN]
        if len(unknown):
            self._rank(unknown, snapshot)
        at, slots = self._slots(rows)
        return RankedPods(self._pods, slots, at, self._columns[:, slots])

    def _forget(self, capacity: int) -> None:
        self._starts = np.full(capacity, _UNKNOWN, np.intp)
        self._lengths = np.zeros(capacity, np.intp)
        self._pods: list[PodInfo] = []
        self._columns = np.zeros((3, _MIN_PODS), np.int64)
        self._used = 0
        """Pods in blocks that are not out of date."""

    def _catch_up(self, snapshot: Snapshot) -> None:
        """Let the blocks go of rows that have changed."""
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
            pods = [] if info is None else sorted(info.pods.values(), key=importance)
            self._pods.extend(pods)
            lengths.append(len(pods))
        self._lengths[rows] = lengths
        self._starts[rows] = first + np.cumsum(lengths) - lengths
        new, number_of = self._pods[first:], snapshot.kinds.number_of
        self._used += len(new)
        while len(self._pods) > self._columns.shape[1]:
            self._columns = np.hstack((self._columns, np.zeros_like(self._columns)))
        self._columns[:, first : len(self._pods)] = (
            [pod.priority for pod in new],
            [*map(number_of, new)],
            [*map(start_number, new)],
        )

    def _compact(self) -> None:
        """Give up the blocks that are out of date."""
        rows = np.flatnonzero(self._starts != _UNKNOWN)
        _, slots = self._slots(rows)
        self._pods = [self._pods[slot] for slot in slots.tolist()]
        self._columns = self._columns[:, slots]
        lengths = self._lengths[rows]
        self._starts[rows] = np.cumsum(lengths) - lengths

    def _slots(self, rows: Indices) -> tuple[Indices, Indices]:
        """For each pod of some rows, the place of its row among them, and its own."""
        lengths = self._lengths[rows]
        at = np.repeat(np.arange(len(rows)), lengths)
        first = np.cumsum(lengths) - lengths
        return at, np.arange(len(at)) + (self._starts[rows] - first)[at]


_UNKNOWN: Final = -1
"""The start of a row that has no block."""
_MIN_PODS: Final = 1024

"""Which pods run on each node, most important first.

Sorted once per node and kept until something on the node changes: a preemption looks at thousands
of pods, of which few have changed since the last one.

Source: kubernetes pkg/scheduler/util/utils.go (MoreImportantPod, GetPodStartTime) v1.36.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.nodes import NodeInfo
from scheduler.api.pods import PodInfo
from scheduler.snapshot import Snapshot
from scheduler.snapshot.pod_kinds import PodKinds

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


class _Ranked:
    """The pods of one node."""

    __slots__ = ("columns", "generation", "info", "pods")

    def __init__(self, info: NodeInfo, kinds: PodKinds) -> None:
        self.info = info
        self.generation = info.generation
        self.pods = sorted(info.pods.values(), key=importance)
        priorities = [pod.shape.spec.priority or 0 for pod in self.pods]
        numbers = [*map(kinds.number_of, self.pods)]
        starts = [*map(start_number, self.pods)]
        self.columns = np.array([priorities, numbers, starts], np.int64)


class RankedPods:
    """Pods of several nodes in one column: node by node, most important first.

    Attributes:
        at: the place of each pod's row among the rows asked for.
        priorities: of each pod.
        kinds: the number of each pod's kind.
        starts: when each started, as a number that grows with time.
    """

    __slots__ = ("_blocks", "_index", "at", "kinds", "priorities", "starts")

    def __init__(self, blocks: Sequence[_Ranked]) -> None:
        lengths = np.array([len(block.pods) for block in blocks], np.intp)
        columns = np.concatenate([block.columns for block in blocks], axis=1)
        self._blocks = blocks
        self.at: Indices = np.repeat(np.arange(len(blocks)), lengths)
        starts = np.cumsum(lengths) - lengths
        self._index: Indices = np.arange(len(self.at)) - starts[self.at]
        self.priorities: NDArray[np.int64] = columns[0]
        self.kinds: Indices = columns[1].astype(np.intp)
        self.starts: NDArray[np.int64] = columns[2]

    def __len__(self) -> int:
        return len(self.at)

    def take(self, chosen: NDArray[np.bool_] | Indices) -> "RankedPods":
        """Only some of the pods, in the order given."""
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        part = object.__new__(RankedPods)
        part._blocks = self._blocks
        part.at, part._index = self.at[chosen], self._index[chosen]
        part.priorities, part.kinds = self.priorities[chosen], self.kinds[chosen]
        part.starts = self.starts[chosen]
        return part

    def pods(self, chosen: Indices | slice = slice(None)) -> list[PodInfo]:
        """The pods themselves."""
        places = zip(self.at[chosen].tolist(), self._index[chosen].tolist(), strict=True)
        return [self._blocks[at].pods[index] for at, index in places]


def stable_order(values: Indices) -> Indices:
    """The stable order of numbers from 0 on; small ones are sorted by their digits."""
    is_small = len(values) > 0 and int(values.max()) < _SMALL
    return np.argsort(values.astype(np.uint16) if is_small else values, kind="stable")


class Importance:
    """Remembers the order of the pods of each node."""

    def __init__(self) -> None:
        self._ranked: dict[int, _Ranked] = {}
        self._kinds: PodKinds | None = None
        self._epoch = 0

    def ranked(self, snapshot: Snapshot, rows: Indices) -> RankedPods:
        """The pods on some rows.

        Cost: O(rows), and O(pods on the row) for each row that has changed since it was last seen.
        """
        kinds = snapshot.kinds
        kinds.trim()
        if kinds is not self._kinds or kinds.epoch != self._epoch:
            self._ranked.clear()
            self._kinds, self._epoch = kinds, kinds.epoch
        numbers = rows.tolist()
        every, ranked = snapshot.table.infos, self._ranked
        infos = [every[row] or _NOBODY for row in numbers]
        blocks = [ranked.get(row, _UNKNOWN) for row in numbers]
        stale = [
            place
            for place, (block, info) in enumerate(zip(blocks, infos, strict=True))
            if block.generation != info.generation or block.info is not info
        ]
        for place in stale:
            blocks[place] = ranked[numbers[place]] = _Ranked(infos[place], kinds)
        return RankedPods(blocks)


_NOBODY: Final = NodeInfo("")
_UNKNOWN: Final = _Ranked(NodeInfo(""), PodKinds())

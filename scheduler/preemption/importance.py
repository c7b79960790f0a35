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


class _Ranked:
    """The pods of one node."""

    __slots__ = ("columns", "generation", "info", "pods")

    def __init__(self, info: NodeInfo, kinds: PodKinds) -> None:
        self.info = info
        self.generation = info.generation
        self.pods = sorted(info.pods.values(), key=importance)
        priorities = [pod.shape.spec.priority or 0 for pod in self.pods]
        numbers = [*map(kinds.number_of, self.pods)]
        self.columns = np.array([priorities, numbers], np.int64)


class RankedPods:
    """Pods of several nodes in one column: node by node, most important first.

    Attributes:
        at: the place of each pod's row among the rows asked for.
        priorities: of each pod.
        kinds: the number of each pod's kind.
    """

    __slots__ = ("_blocks", "_index", "at", "kinds", "priorities")

    def __init__(self, blocks: Sequence[_Ranked]) -> None:
        lengths = np.array([len(block.pods) for block in blocks], np.intp)
        columns = np.concatenate([block.columns for block in blocks], axis=1)
        self._blocks = blocks
        self.at: Indices = np.repeat(np.arange(len(blocks)), lengths)
        starts = np.cumsum(lengths) - lengths
        self._index: Indices = np.arange(len(self.at)) - starts[self.at]
        self.priorities: NDArray[np.int64] = columns[0]
        self.kinds: Indices = columns[1].astype(np.intp)

    def __len__(self) -> int:
        return len(self.at)

    def take(self, chosen: NDArray[np.bool_] | Indices) -> "RankedPods":
        """Only some of the pods, in the order given."""
        part = object.__new__(RankedPods)
        part._blocks = self._blocks
        part.at, part._index = self.at[chosen], self._index[chosen]
        part.priorities, part.kinds = self.priorities[chosen], self.kinds[chosen]
        return part

    def pods(self, chosen: Indices | slice = slice(None)) -> list[PodInfo]:
        """The pods themselves."""
        places = zip(self.at[chosen].tolist(), self._index[chosen].tolist(), strict=True)
        return [self._blocks[at].pods[index] for at, index in places]


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
        infos = snapshot.table.infos
        ranked = self._ranked
        blocks = []
        for row in rows.tolist():
            info = infos[row] or _NOBODY
            block = ranked.get(row)
            if block is None or block.info is not info or block.generation != info.generation:
                block = ranked[row] = _Ranked(info, kinds)
            blocks.append(block)
        return RankedPods(blocks)


_NOBODY: Final = NodeInfo("")

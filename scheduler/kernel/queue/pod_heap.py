"""A heap of pods from which any pod can be taken out."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeAlias

from scheduler.kernel.framework.types import QueuedPodInfo

_Entry: TypeAlias = tuple[Any, int, QueuedPodInfo]
"""Key, arrival, pod. Arrivals differ, so pods are never compared."""

_COMPACT_FROM: Final = 64
"""Below this many heap slots, outdated entries are not worth removing."""


class PodHeap:
    """Pods by key, first come first served among equal keys.

    A pod that is removed or gets another key leaves an outdated entry in the heap. The heap drops
    it at the top, or when outdated entries outnumber the pods.

    Invariant: `_entries` holds the current entry of every pod in the heap.

    Cost: O(log n) for push and pop, O(1) for all else, amortised.
    """

    __slots__ = ("_arrivals", "_entries", "_heap")

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._heap: list[_Entry] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """The pods, in any order."""
        return (entry[2] for entry in self._entries.values())

    def in_order(self) -> list[QueuedPodInfo]:
        """The pods in the order in which they would be popped."""
        return [entry[2] for entry in sorted(self._entries.values())]

    def get(self, uid: str) -> QueuedPodInfo | None:
        """The pod with this UID, or None."""
        entry = self._entries.get(uid)
        return None if entry is None else entry[2]

    def push(self, uid: str, queued: QueuedPodInfo, key: Any) -> None:
        """Add a pod that is not in the heap."""
        self._arrivals += 1
        entry = (key, self._arrivals, queued)
        self._entries[uid] = entry
        heappush(self._heap, entry)

    def rekey(self, uid: str, key: Any) -> None:
        """Give a pod of the heap another key; its arrival stays."""
        old_key, arrival, queued = self._entries[uid]
        if old_key != key:
            entry = (key, arrival, queued)
            self._entries[uid] = entry
            heappush(self._heap, entry)
            self._compact()

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take out the pod with this UID, if it is there."""
        entry = self._entries.pop(uid, None)
        if entry is None:
            return None
        self._compact()
        return entry[2]

    def pop(self) -> QueuedPodInfo | None:
        """Take out the first pod, None when there is none."""
        entries = self._entries
        heap = self._heap
        while heap:
            entry = heappop(heap)
            queued = entry[2]
            uid = queued.pod_info.pod.metadata.uid
            if entries.get(uid) is entry:
                del entries[uid]
                return queued
        return None

    def first(self) -> QueuedPodInfo | None:
        """The first pod, None when there is none."""
        entries = self._entries
        heap = self._heap
        while heap:
            entry = heap[0]
            queued = entry[2]
            if entries.get(queued.pod_info.pod.metadata.uid) is entry:
                return queued
            heappop(heap)
        return None

    def _compact(self) -> None:
        size = len(self._heap)
        if size > _COMPACT_FROM and size > 2 * len(self._entries):
            self._heap = list(self._entries.values())
            heapify(self._heap)

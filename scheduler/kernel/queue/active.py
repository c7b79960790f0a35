"""The active queue, the order in which it pops pods, and the popped pods until their attempts end.

Pods pop in the order of the QueueSort plugin. But many important pods may fit nowhere and return
here after each event, and their attempts delay all other pods. When half of the pops or more have
ended in a rejection for a while, every second pop is *fair*. It takes the newest of the pods with
the fewest failures; these are mostly new pods. In a queue that is too long to be served, newest
first keeps most waits short.

Source: kubernetes pkg/scheduler/backend/queue/active_queue.go inFlightPods, inFlightEvents v1.36.
Differs: the newest version of a pod in flight is kept here, so that it can be requeued without
another look-up. Past a limit no events are kept. A pod that Permit holds for minutes would keep all
objects of the cluster, and run its hints on each of them.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, Final, TypeAlias

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.clock import EventClock
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.hints import ObservedEvent

_Entry: TypeAlias = tuple[Any, int, QueuedPodInfo]
"""Key, arrival, pod. Arrivals differ, so pods are never compared."""

_COMPACT_FROM: Final = 64
"""Below this many heap slots, outdated entries are not worth removing."""

PUT_LAST_SECONDS: Final = 300.0
"""A pod with slow decisions sorts after all other pods for this long."""

FAIR_AFTER_SECONDS: Final = 0.5
"""Pops are fair only after rejections have prevailed for this long; until then as upstream."""
_REMEMBERED_TURNS: Final = 128

POD_POPPED: Final = "PodPopped"
"""The label under which pods, rather than events, are counted in the metric of in-flight events."""
MAX_EVENTS: Final = 256
"""After more events than this a failed attempt goes to backoff without running hints: 5 ms."""


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


class ActiveQueue(PodHeap):
    """A heap in the order of the QueueSort plugin, and the same pods in the order of fair pops."""

    def __init__(self, clock: EventClock) -> None:
        super().__init__()
        self._clock = clock
        self._by_failures = PodHeap()
        self._turns = 0
        self._in_vain = 0
        """Number of the counted pops that ended in a rejection."""
        self._wasting_since: float | None = None
        """Time since which half of the pops or more ended in a rejection; None while fewer do."""
        self._is_fair_turn = False

    @override
    def push(self, uid: str, queued: QueuedPodInfo, key: Any) -> None:
        super().push(uid, queued, key)
        self._by_failures.push(uid, queued, _fairness(queued))

    @override
    def rekey(self, uid: str, key: Any) -> None:
        super().rekey(uid, key)
        queued = self.get(uid)
        if queued is not None:
            self._by_failures.rekey(uid, _fairness(queued))

    @override
    def remove(self, uid: str) -> QueuedPodInfo | None:
        self._by_failures.remove(uid)
        return super().remove(uid)

    @override
    def pop(self) -> QueuedPodInfo | None:
        since = self._wasting_since
        if since is not None and len(self) and self._is_fair(since):
            queued = self._by_failures.first()
            if queued is not None:
                self.remove(queued.pod_info.uid)
        elif (queued := super().pop()) is not None:
            self._by_failures.remove(queued.pod_info.pod.metadata.uid)
        if queued is None:
            self._turns = self._in_vain = 0
            self._wasting_since = None
            return None
        self._turns += 1
        self._weigh()
        return queued

    def take(self, uid: str) -> QueuedPodInfo | None:
        """Remove a pod, if it is here, and count it as popped."""
        queued = self.remove(uid)
        if queued is not None:
            self._turns += 1
        return queued

    @override
    def first(self) -> QueuedPodInfo | None:
        """The pod that `pop` returns next; None without one, or when that pop may be fair."""
        return None if self._wasting_since is not None else super().first()

    def note_rejection(self) -> None:
        """Count a pop whose attempt ended in a rejection."""
        self._in_vain += 1
        self._weigh()

    def validate(self) -> Iterator[str]:
        """Yield each broken invariant as text."""
        if set(self) != set(self._by_failures):
            yield "active pods have turns without importance, or importance without turns"
        for queued in self:
            if queued.is_gated:
                yield f"gated pod {queued.pod_info.uid} is active"
            if queued.initial_attempt_timestamp is None:
                yield f"pod {queued.pod_info.uid} is active without having become ready"

    def _weigh(self) -> None:
        if self._turns >= _REMEMBERED_TURNS:
            self._turns //= 2
            self._in_vain //= 2
        if 2 * self._in_vain < self._turns:
            self._wasting_since = None
        elif self._wasting_since is None:
            self._wasting_since = self._clock.now

    def _is_fair(self, wasting_since: float) -> bool:
        """Whether this pop is fair; fair and other pops alternate."""
        if self._clock.now - wasting_since < FAIR_AFTER_SECONDS:
            return False
        self._is_fair_turn = not self._is_fair_turn
        return self._is_fair_turn


def _fairness(queued: QueuedPodInfo) -> tuple[bool, int, float]:
    """A sort key: pods with the fewest failures first, and the newest first among these."""
    failures = queued.unschedulable_count + queued.consecutive_errors_count
    return queued.is_slow, failures, -queued.timestamp


class SlowPods:
    """Pods whose decisions took long, each with the time until which it sorts last."""

    def __init__(self, clock: EventClock) -> None:
        self._clock = clock
        self._until: OrderedDict[str, float] = OrderedDict()

    def note(self, queued: QueuedPodInfo) -> bool:
        """Record a slow decision; return whether it is the second in a row: the pod sorts last."""
        in_a_row = queued.slow_attempt == queued.attempts - 1
        queued.slow_attempt = queued.attempts
        if in_a_row:
            uid = queued.pod_info.uid
            self._until[uid] = self._clock.now + PUT_LAST_SECONDS
            self._until.move_to_end(uid)
            queued.is_slow = True
        return in_a_row

    def forgiven(self) -> Iterator[str]:
        """Yield the UIDs of the pods that need not sort last any more."""
        now = self._clock.now
        while self._until and next(iter(self._until.values())) <= now:
            yield self._until.popitem(last=False)[0]


class InFlightPods:
    """Pods between `pop` and `done`.

    The events since the oldest attempt began are kept, in the order in which they happened. For
    each pod, `_starts` has the number of events recorded before its attempt; it needs later ones.

    Invariant: `_starts` is ordered by its values, because pods are popped one after the other. So
    as many events are kept as were recorded since the first of them, and at most `MAX_EVENTS`.

    Attributes:
        changed: newer versions of these pods by UID; None for those that are gone.
    """

    def __init__(self) -> None:
        self._attempts: dict[str, QueuedPodInfo] = {}
        self.changed: dict[str, PodInfo | None] = {}
        self._starts: OrderedDict[str, int] = OrderedDict()
        """Attempts with kept events, each with the count of recorded events at its start."""
        self._events: deque[ObservedEvent] = deque()
        self._recorded = 0

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, uid: object) -> bool:
        return uid in self._attempts

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._attempts.values())

    def add(self, queued: QueuedPodInfo) -> None:
        """Begin an attempt."""
        uid = queued.pod_info.pod.metadata.uid
        self._attempts[uid] = queued
        self._starts[uid] = self._recorded

    def collect(self, uid: str) -> None:
        """Keep for a pod in flight the events from now on, and no earlier ones."""
        self.stop_collecting(uid)
        self._starts[uid] = self._recorded

    @property
    def is_collecting(self) -> bool:
        """Whether events are kept for any attempt."""
        return bool(self._starts)

    def record(self, observed: ObservedEvent) -> None:
        """Keep an event for the attempts that have begun."""
        if not self._starts:
            return
        self._events.append(observed)
        self._recorded += 1
        while len(self._events) > MAX_EVENTS:
            self._starts.popitem(last=False)
            self._trim()

    def events_for(self, uid: str) -> Iterator[ObservedEvent] | None:
        """The events since the attempt of a pod began; None when they were not kept."""
        start = self._starts.get(uid)
        if start is None:
            return None
        return islice(self._events, len(self._events) - (self._recorded - start), None)

    def stop_collecting(self, uid: str) -> None:
        """Keep no more events for a pod."""
        if self._starts.pop(uid, None) is not None and self._events:
            self._trim()

    def done(self, uid: str) -> bool:
        """End an attempt; return whether there was one."""
        if self._attempts.pop(uid, None) is None:
            return False
        self.changed.pop(uid, None)
        self.stop_collecting(uid)
        return True

    def event_counts(self) -> Counter[str]:
        """Number of kept events by label, and of the pods that they are kept for."""
        counts = Counter(observed.interest.label for observed in self._events)
        counts[POD_POPPED] = len(self._starts)
        return counts

    def validate(self) -> Iterator[str]:
        """Yield each broken invariant as text."""
        starts = list(self._starts.values())
        if not self._starts.keys() <= self._attempts.keys():
            yield "events are collected for a pod that is not in flight"
        if not self.changed.keys() <= self._attempts.keys():
            yield "a newer version is kept of a pod that is not in flight"
        if starts != sorted(starts):
            yield "attempts are not in the order in which they began"
        if len(self._events) != self._recorded - min(starts, default=self._recorded):
            yield "the events that are kept are not those since the first attempt began"
        if len(self._events) > MAX_EVENTS:
            yield f"{len(self._events)} events are kept for attempts"

    def _trim(self) -> None:
        """Drop the events that no attempt needs."""
        needed = self._recorded - next(iter(self._starts.values()), self._recorded)
        while len(self._events) > needed:
            self._events.popleft()

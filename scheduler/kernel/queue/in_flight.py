"""Pods in flight, and the events that happened since their attempts began.

Source: kubernetes pkg/scheduler/backend/queue/active_queue.go inFlightPods, inFlightEvents v1.36.
Differs: the newest version of a pod in flight is kept here, so that it can be requeued
without another look-up. Past a limit no events are kept: a pod that Permit holds for minutes would
keep all objects of the cluster, and run its hints on each of them.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.hints import ObservedEvent

POD_POPPED: Final = "PodPopped"
"""The label under which pods, rather than events, are counted in the metric of in-flight events."""
MAX_EVENTS: Final = 256
"""After more events than this a failed attempt goes to backoff without running hints: 5 ms."""


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

"""Pods that are being scheduled, and the events they must not miss meanwhile.

Source: kubernetes pkg/scheduler/backend/queue/active_queue.go inFlightPods, inFlightEvents v1.36.
Differs: the newest version of a pod in flight is kept here, so that whoever puts it back needs no
other place to look for it.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.framework.types import QueuedPodInfo
from scheduler.queue.hints import ObservedEvent

POD_POPPED: Final = "PodPopped"
"""The label under which pods, rather than events, are counted in the metric of in-flight events."""
_TRIM_FROM: Final = 64
"""Below this many events that nobody needs, memory is not worth the copying."""


class _Attempt:
    """A pod that was popped, and its newest version; None when it is gone."""

    __slots__ = ("latest", "queued")

    def __init__(self, queued: QueuedPodInfo) -> None:
        self.queued = queued
        self.latest: PodInfo | None = queued.pod_info


class InFlightPods:
    """Pods between `pop` and `done`.

    Events are kept in one list, in the order in which they happened. A pod remembers how long the
    list was when its attempt began; what came later concerns it.

    Invariant: `_starts` is ordered by its values, because pods are popped one after the other. So
    the events before the first of them concern nobody.
    """

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}
        self._starts: OrderedDict[str, int] = OrderedDict()
        self._events: list[ObservedEvent] = []
        self._dropped = 0
        """How many events the list has lost at its front."""
        self._needed_from = 0
        """Counted like `_starts`: events before this one concern nobody."""

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, uid: object) -> bool:
        return uid in self._attempts

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (attempt.queued for attempt in self._attempts.values())

    def latest(self, uid: str) -> PodInfo | None:
        """The newest version of a pod in flight; None when it was deleted or is not in flight."""
        attempt = self._attempts.get(uid)
        return None if attempt is None else attempt.latest

    def queued(self, uid: str) -> QueuedPodInfo | None:
        """A pod in flight as it was popped."""
        attempt = self._attempts.get(uid)
        return None if attempt is None else attempt.queued

    def add(self, queued: QueuedPodInfo) -> None:
        """Begin an attempt."""
        uid = queued.pod_info.pod.metadata.uid
        self._attempts[uid] = _Attempt(queued)
        self._starts[uid] = self._dropped + len(self._events)

    def collect(self, uid: str) -> None:
        """Keep the events from now on for a pod in flight, and only these."""
        self.stop_collecting(uid)
        self._starts[uid] = self._dropped + len(self._events)

    def update(self, pod: PodInfo) -> None:
        """Take note of a newer version of a pod in flight."""
        self._attempts[pod.uid].latest = pod

    def mark_deleted(self, uid: str) -> None:
        """Take note that a pod in flight must not come back."""
        self._attempts[uid].latest = None

    @property
    def is_collecting(self) -> bool:
        """Whether events are kept for anybody."""
        return bool(self._starts)

    def record(self, observed: ObservedEvent) -> None:
        """Keep an event for the pods whose attempt has begun."""
        if self._starts:
            self._events.append(observed)

    def events_for(self, uid: str) -> Iterator[ObservedEvent] | None:
        """What happened since the attempt began; None when that was not kept."""
        start = self._starts.get(uid)
        return None if start is None else islice(self._events, start - self._dropped, None)

    def stop_collecting(self, uid: str) -> None:
        """Keep no more events for a pod."""
        if self._starts.pop(uid, None) is not None and self._events:
            end = self._dropped + len(self._events)
            self._needed_from = next(iter(self._starts.values()), end)
            self._trim()

    def done(self, uid: str) -> None:
        """End an attempt; harmless when it has ended already."""
        if uid in self._attempts:
            del self._attempts[uid]
            self.stop_collecting(uid)

    def event_counts(self) -> Counter[str]:
        """How many events are kept by label, and how many pods."""
        kept = islice(self._events, self._needed_from - self._dropped, None)
        counts = Counter(observed.interest.label for observed in kept)
        counts[POD_POPPED] = len(self._starts)
        return counts

    def validate(self) -> Iterator[str]:
        """What is wrong, in words."""
        starts = list(self._starts.values())
        end = self._dropped + len(self._events)
        if not self._starts.keys() <= self._attempts.keys():
            yield "events are collected for a pod that is not in flight"
        if starts != sorted(starts):
            yield "attempts are not in the order in which they began"
        if any(not self._needed_from <= start <= end for start in starts):
            yield "an attempt began outside of the events that are kept"
        if not starts and self._events:
            yield "events are kept for nobody"

    def _trim(self) -> None:
        unneeded = self._needed_from - self._dropped
        if unneeded == len(self._events) or (
            unneeded > _TRIM_FROM and 2 * unneeded > len(self._events)
        ):
            del self._events[:unneeded]
            self._dropped = self._needed_from

"""Queues of requests about pods: one lane for each kind, in the order in which they are served."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Container, Hashable
from enum import Enum
from typing import Final, Generic, TypeVar

import msgspec

from scheduler.observability.loop_shares import BINDS, EVENTS, OTHER_WRITES
from scheduler.observability.work_queues import WorkQueueMetrics

T = TypeVar("T")
R = TypeVar("R")

CONCURRENCY: Final = 128
"""Requests at a time. Each has a connection: a file here, memory at the server.

The number is fixed: a search for the best one brought nothing on a real API server, which limits
its own work (priority and fairness).
"""
AHEAD: Final = 2
"""Binds that may wait for each request under way: further decisions would be on an old view."""
MAX_OWED: Final = 512
"""Unsent events at most, those of binds and evictions under way included.

With 256, bursts at half of the greatest rate filled it within a second, and bindings waited for
events. Server and scheduler shared two cores. From creation to binding took 0.2 to 1.6 s at p99;
with 512 it takes 0.11 to 0.16 s. At the greatest rate 512 events are sent within 0.8 s.
"""
RETRY_SECONDS: Final = 10.0
"""Source: client-go tools/events/event_broadcaster.go (sleepDuration) v0.36."""
FOR_BINDS: Final = 4
"""One in `FOR_BINDS` requests at a time is reserved for binds and reads: others may hang."""
FOR_EVENTS: Final = 3
"""One in `FOR_EVENTS` of the others is reserved for events: unsent events stop the binds."""


class OutboxSettings(msgspec.Struct, frozen=True):
    """Limits and pauses of an outbox.

    Attributes:
        hostname: identifies the instance in events.
        concurrency: requests under way at most; at least 4.
        max_owed: unsent events at most. 0 stands for any number: events then wait for all binds,
            as in schedulers without this limit. For comparisons only.
        retry_seconds: mean pause before an event is tried again.
    """

    hostname: str
    concurrency: int = CONCURRENCY
    max_owed: int = MAX_OWED
    retry_seconds: float = RETRY_SECONDS


class ConcurrencyShare(Enum):
    """The requests that count against the limit of a lane."""

    ALL = "all lanes"
    CHANGES = "evictions and patches"
    EVENTS = "evictions, patches and events"

    def at_a_time(self, concurrency: int) -> int:
        """Return how many of these requests may be under way, of `concurrency` in all."""
        if self is ConcurrencyShare.ALL:
            return concurrency
        others = concurrency - concurrency // FOR_BINDS
        return others - others // FOR_EVENTS if self is ConcurrencyShare.CHANGES else others


class LaneKind(msgspec.Struct, frozen=True):
    """The properties of a lane.

    Attributes:
        name: its name in metrics.
        work: the kind of work under which `LoopShares` counts its time.
        share: its share of the requests under way.
        brings_event: whether an event follows each write: it is sent only if the event has room.
    """

    name: str
    work: str
    share: ConcurrencyShare
    brings_event: bool = False


BIND: Final = LaneKind("binds", BINDS, ConcurrencyShare.ALL, brings_event=True)
READ: Final = LaneKind("reads", OTHER_WRITES, ConcurrencyShare.ALL)
EVICT: Final = LaneKind("evictions", OTHER_WRITES, ConcurrencyShare.CHANGES, brings_event=True)
PATCH: Final = LaneKind("patches", OTHER_WRITES, ConcurrencyShare.CHANGES)
EVENT: Final = LaneKind("events", EVENTS, ConcurrencyShare.EVENTS)
LANES: Final = (BIND, READ, EVICT, PATCH, EVENT)
"""All lanes; a write is sent only if no write of an earlier lane may be."""


class InFlightWrite(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A write that has been taken from its lane and is being sent.

    Attributes:
        key: the object of the write.
        since: the time at which it was put into the lane, in seconds.
        write: the write.
    """

    key: Hashable
    since: float
    write: T


class Lane(Generic[T]):
    """Writes of one kind, oldest first. Per key at most one waits and one is under way.

    The metrics cost two microseconds per write.

    Attributes:
        kind: the properties of the lane.
        waiting: the writes by key, each with the time at which it was put here, in seconds.
        under_way: the keys of writes that are sent and have no answer yet.
    """

    def __init__(
        self,
        kind: LaneKind,
        metrics: WorkQueueMetrics,
        now: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        """Create an empty lane; `wake` is called when a write is put into it."""
        self.kind = kind
        self.under_way: set[Hashable] = set()
        # Not a plain dict: finding its first key passes over all keys removed before.
        self.waiting: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._now = now
        self._wake = wake
        self._begun: dict[int, float] = {}
        self._number = 0
        name = kind.name
        self._adds, self._retries = metrics.adds[name], metrics.retries[name]
        self._queued, self._worked = metrics.queued[name], metrics.worked[name]
        metrics.depth.from_source(lambda: {name: len(self.waiting)})
        metrics.unfinished.from_source(lambda: {name: sum(self._ages())})
        metrics.longest.from_source(lambda: {name: max(self._ages(), default=0.0)})

    @property
    def owed(self) -> int:
        """Number of requests that wait or are under way."""
        return len(self.waiting) + len(self.under_way)

    def get(self, key: Hashable) -> T | None:
        """Return the waiting write about a key; None if no such write waits."""
        found = self.waiting.get(key)
        return None if found is None else found[1]

    def put(self, key: Hashable, write: T) -> None:
        """Add a write at the end, or in place of the waiting write about the same key."""
        known = self.waiting.get(key)
        if known is None:
            self._adds.inc()
        self.waiting[key] = self._now() if known is None else known[0], write
        self._wake()

    def put_again(self, key: Hashable, write: T) -> None:
        """Add a write again after it failed, and count a retry."""
        self._retries.inc()
        self.put(key, write)

    def remove(self, is_meant: Callable[[T], bool]) -> bool:
        """Remove the waiting writes that match; return whether there were any."""
        keys = [key for key, (_, write) in self.waiting.items() if is_meant(write)]
        for key in keys:
            del self.waiting[key]
        return bool(keys)

    def take(self, busy: Container[Hashable] = ()) -> InFlightWrite[T] | None:
        """Take the first write whose key is not under way; None if there is no such write.

        Args:
            busy: more keys that must not be written now.
        """
        under_way = self.under_way
        for key in self.waiting:
            if key not in under_way and key not in busy:
                since, write = self.waiting.pop(key)
                under_way.add(key)
                return InFlightWrite(key, since, write)
        return None

    async def work(self, taken: InFlightWrite[T], sending: Awaitable[R]) -> R:
        """Await the sending of a write that was taken; measure it, and return its result."""
        begun = self._now()
        self._queued.observe(begun - taken.since)
        self._number = number = self._number + 1
        self._begun[number] = begun
        try:
            return await sending
        finally:
            del self._begun[number]
            self._worked.observe(self._now() - begun)
            self.under_way.discard(taken.key)

    def _ages(self) -> list[float]:
        now = self._now()
        return [now - begun for begun in self._begun.values()]

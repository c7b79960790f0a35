"""Writes about pods that wait: a lane for each kind, in the order in which lanes are served."""

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
"""Requests at a time. Each has a connection: a file here, memory at the server."""
AHEAD: Final = 2
"""Binds that may wait for each request under way: further decisions would be on an old view."""
MAX_OWED: Final = 512
"""Most events that may be unsent, those of binds and evictions under way included."""
RETRY_SECONDS: Final = 10.0
"""Source: client-go tools/events/event_broadcaster.go (sleepDuration) v0.36."""
FOR_BINDS: Final = 4
"""One in so many concurrent requests is reserved for binds and reads: others may hang."""
FOR_EVENTS: Final = 3
"""One in so many of the rest is reserved for events: without these no bind leaves for long."""


class OutboxSettings(msgspec.Struct, frozen=True):
    """Numbers of an outbox.

    Attributes:
        hostname: identifies the instance in events.
        concurrency: requests at a time, 4 at least.
        max_owed: most events that may be unsent; 0 for any number, which then wait for all binds,
            as in schedulers that do not bound them. For comparisons only.
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
        """Return the number of such requests that may be under way."""
        if self is ConcurrencyShare.ALL:
            return concurrency
        others = concurrency - concurrency // FOR_BINDS
        return others - others // FOR_EVENTS if self is ConcurrencyShare.CHANGES else others


class LaneKind(msgspec.Struct, frozen=True):
    """A row of the table.

    Attributes:
        name: its name in metrics.
        work: the kind of work as which the event loop's time counts.
        share: its share of concurrent requests.
        brings_event: whether a write is followed by an event, so that it leaves only with room.
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
"""All lanes; a write leaves only if nothing in an earlier lane may."""


class InFlightWrite(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A write on its way.

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

    Each write costs two microseconds of metrics.

    Attributes:
        kind: the properties of all of them.
        waiting: the writes by key, each with the time at which it was put here, in seconds.
        under_way: the keys of writes that have left and are not done.
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
        # Taking the first of very many out of a plain dict would pass all that were taken before.
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
        """The write about a key that waits."""
        found = self.waiting.get(key)
        return None if found is None else found[1]

    def put(self, key: Hashable, write: T) -> None:
        """Add a write, at the end or in place of one about the same key."""
        known = self.waiting.get(key)
        if known is None:
            self._adds.inc()
        self.waiting[key] = self._now() if known is None else known[0], write
        self._wake()

    def put_again(self, key: Hashable, write: T) -> None:
        """Add a write that has been under way."""
        self._retries.inc()
        self.put(key, write)

    def remove(self, is_meant: Callable[[T], bool]) -> bool:
        """Remove the waiting writes that match; return whether there were any."""
        keys = [key for key, (_, write) in self.waiting.items() if is_meant(write)]
        for key in keys:
            del self.waiting[key]
        return bool(keys)

    def take(self, busy: Container[Hashable] = ()) -> InFlightWrite[T] | None:
        """Take the first write that may leave; None if the keys of all are under way.

        Args:
            busy: further keys that must not be written at present.
        """
        under_way = self.under_way
        for key in self.waiting:
            if key not in under_way and key not in busy:
                since, write = self.waiting.pop(key)
                under_way.add(key)
                return InFlightWrite(key, since, write)
        return None

    async def work(self, taken: InFlightWrite[T], sending: Awaitable[R]) -> R:
        """Wait until a write is done."""
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

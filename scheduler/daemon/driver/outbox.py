"""Everything that is written to the API server about pods, in one queue.

Binds go first, then evictions, changes of status, and events. What is owed is bounded by number: a
bind or an eviction leaves only while there is room for the event it will bring, and no pod is
decided about while there is none. So a process that is killed takes few events with it, and
decisions slow down to what the API server takes.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

from scheduler.api.objects import is_terminal
from scheduler.clock import Clock, Throttle
from scheduler.daemon.client.errors import (
    ApiError,
    ConflictError,
    FencedError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from scheduler.daemon.client.event_series import EventSeries, Occurrence
from scheduler.daemon.client.events import Event
from scheduler.daemon.client.writes import PodWrites
from scheduler.daemon.driver.concurrency import LOOK_SECONDS, MOST, ConcurrencyLimit
from scheduler.daemon.informers.kinds import PODS, MalformedObjectError
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Event as EngineEvent,
    Evicted,
    EvictFailed,
    PodRead,
    ReadFailed,
)
from scheduler.kernel.engine.instructions import Bind, Evict, PatchStatus, ReadPod, Tell
from scheduler.observability.logs import get_logger
from scheduler.observability.loop_shares import (
    BINDS,
    EVENTS,
    OTHER_WRITES,
    LoopShares,
)
from scheduler.observability.work_queues import WorkQueue, WorkQueueMetrics

MAX_OWED: Final = 512
"""Events that may be owed, those of binds and evictions under way included."""
FEW_EVENTS: Final = 4
"""Events that may be under way while few are owed: they take a busy server's time from binds."""
FOR_BINDS: Final = 4
"""Of the requests at a time, one in so many is kept for binds and reads: others may hang."""
FOR_EVENTS: Final = 3
"""Of the others, one in so many is kept for events: without these no bind leaves for long."""
MANY: Final = 32
"""While so many requests are under way, the loop rests: each takes the server longer than that."""
REST_SECONDS: Final = 0.003
BUSY_SECONDS: Final = 0.002
"""No rest where this much was to do since the last one: two slices of decisions, many answers."""
AHEAD: Final = 2
"""Binds that may wait for each request under way: further decisions would be on an old view."""
MAX_TRIES: Final = 12
RETRY_SECONDS: Final = 10.0
"""Source: client-go tools/events/event_broadcaster.go (maxTriesPerEvent, sleepDuration) v0.36."""
SWEEP_SECONDS: Final = 60.0
DROPPED: Final = ("queue_full", "refused", "unreachable")
"""Why an event is not sent: too many are owed, the API server said no, or it did not answer."""
COMPLAIN_AGAIN_SECONDS: Final = 60.0
"""Events that are lost for one reason are logged this often."""

log = get_logger(__name__)


async def rest_for_ever(clock: Clock, under_way: Callable[[], int]) -> None:
    """While many answers are on their way, let several come before any is looked at.

    One at a time, each would find the processor's caches full of other things.

    Args:
        clock: holds the loop up.
        under_way: how many requests are.
    """
    now = clock.monotonic
    while True:
        start = now()
        # One turn of the loop receives what has come, the next one works through it.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if under_way() < MANY:
            await asyncio.sleep(LOOK_SECONDS)
        elif now() - start < BUSY_SECONDS:
            clock.rest(REST_SECONDS)


class OutboxSettings(msgspec.Struct, frozen=True):
    """Numbers of an outbox.

    Attributes:
        hostname: says which instance speaks.
        concurrency: requests at a time; 0 for as many as bring the most answers.
        max_owed: events that may be owed; 0 for any number, which then wait for all binds, as
            in schedulers that do not bound them. For comparisons only.
        retry_seconds: mean pause before an event is tried again.
    """

    hostname: str
    concurrency: int = 0
    max_owed: int = MAX_OWED
    retry_seconds: float = RETRY_SECONDS


class Outbox:
    """Sends what the engine wants written, and tells it what came of it.

    Args:
        writes: the requests.
        clock: gives events and conditions their time.
        settings: numbers.
        answer: takes the engine's events.
        ask_others: carries out a binding that is for Bind plugins or an extender; never raises.
        shares: adds up what the loop's time goes to.
        queues: tells of what waits and for how long.
        on_sent: called after each request: there may be room again.
        on_dropped: told why, one of `DROPPED`, for each event that is lost.

    Attributes:
        binds_owed: bindings that wait or are under way.
    """

    def __init__(  # noqa: PLR0913 - the requests, and the callbacks
        self,
        writes: PodWrites,
        clock: Clock,
        settings: OutboxSettings,
        *,
        answer: Callable[[EngineEvent], None],
        ask_others: Callable[[Bind], Awaitable[EngineEvent]],
        shares: LoopShares,
        queues: WorkQueueMetrics,
        on_sent: Callable[[], None] = lambda: None,
        on_dropped: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._writes = writes
        self._clock = clock
        self._settings = settings
        self._answer = answer
        self._ask_others = ask_others
        self._timed = shares.timed
        self._beside: set[asyncio.Task[None]] = set()
        """Binds that extenders carry out: they may take long, and delay no other request."""
        self._on_sent = on_sent
        self._on_dropped = on_dropped
        self._complaints = {why: Throttle(clock, COMPLAIN_AGAIN_SECONDS) for why in DROPPED}
        self._rng = random.Random()  # noqa: S311 - spreads retries, keeps no secret
        self._series = EventSeries()
        # Each with the time at which it was put there.
        self._binds: deque[tuple[float, Bind]] = deque()
        self._reads: deque[tuple[float, ReadPod]] = deque()
        self._evicts: deque[tuple[float, Evict]] = deque()
        self._evicts_owed = 0
        """Evictions that wait or are under way."""
        self._patches: dict[str, tuple[float, PatchStatus]] = {}
        self._patching: dict[str, tuple[float, Bind] | None] = {}
        """UIDs with a status write in flight, each with the bind that waits for its end."""
        self._events: deque[tuple[float, Occurrence]] = deque()
        self._bind_queue = WorkQueue(queues, "binds", self._binds, clock.monotonic)
        self._read_queue = WorkQueue(queues, "reads", self._reads, clock.monotonic)
        self._evict_queue = WorkQueue(queues, "evictions", self._evicts, clock.monotonic)
        self._patch_queue = WorkQueue(queues, "patches", self._patches, clock.monotonic)
        self._event_queue = WorkQueue(queues, "events", self._events, clock.monotonic)
        self._events_in_flight = 0
        """Under way, or to be tried again later."""
        self._is_hushed = False
        """Whether events wait because the last one had no answer."""
        self._tries: dict[Occurrence, int] = {}
        self._changes_in_flight = self._deliveries_in_flight = 0
        """Evictions and changes of status, and events, that are under way."""
        self._binds_in_flight = self._sequence = 0
        self._limit = ConcurrencyLimit(settings.concurrency or MOST)
        self._idle: deque[asyncio.Future[None]] = deque()
        self._changed = asyncio.Event()
        self.binds_owed = 0

    @property
    def concurrency(self) -> int:
        """Requests that may be under way at a time."""
        return self._limit.limit

    @property
    def events_owed(self) -> int:
        """Events that wait or are under way."""
        return len(self._events) + self._events_in_flight

    @property
    def has_room(self) -> bool:
        """Whether another pod may be decided about."""
        return self._room() > 0

    @property
    def has_room_again(self) -> bool:
        """Whether there is room for so many pods that it is worth beginning to decide."""
        most = self.concurrency * AHEAD
        return 2 * self._room() >= min(most, self._settings.max_owed or most)

    def _room(self) -> int:
        """How many more pods may be decided about."""
        max_owed = self._settings.max_owed
        room = self.concurrency * AHEAD - len(self._binds)
        if not max_owed:
            return room
        # Evictions that wait are no reason to decide less: their preemptors are held back.
        return min(room, max_owed - self._owed_by_sent() - self._binds_waiting())

    def _binds_waiting(self) -> int:
        return self.binds_owed - self._binds_in_flight

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits and nothing is under way but reads."""
        owed = self.binds_owed or self.events_owed or self._evicts_owed
        return not (owed or self._patches or self._patching)

    # --- taking in ------------------------------------------------------------------------------

    def bind(self, bind: Bind) -> None:
        """Send a binding. What is not told yet of an earlier failure is out of date."""
        self.binds_owed += 1
        self._patches.pop(bind.uid, None)
        waiting = self._bind_queue.added(), bind
        if bind.uid in self._patching:
            self._patching[bind.uid] = waiting
        else:
            self._binds.append(waiting)
            self._wake()

    def cancel(self, attempt: int) -> None:
        """Forget a binding that has not left yet."""
        for waiting in self._binds:
            if waiting[1].attempt == attempt:
                self._binds.remove(waiting)
                self._let_go()
                return
        for uid, held in self._patching.items():
            if held is not None and held[1].attempt == attempt:
                self._patching[uid] = None
                self._let_go()
                return

    def _let_go(self) -> None:
        self.binds_owed -= 1
        self._changed.set()

    def read(self, read: ReadPod) -> None:
        """Ask how a pod is."""
        self._reads.append((self._read_queue.added(), read))
        self._wake()

    def evict(self, evict: Evict) -> None:
        """Delete a pod, to make room."""
        self._evicts_owed += 1
        self._evicts.append((self._evict_queue.added(), evict))
        self._wake()

    def patch(self, patch: PatchStatus) -> None:
        """Change a pod's status; of several changes that wait only the newest is sent.

        What the newest leaves alone is still to be as the one before it says.
        """
        since, before = self._patches.get(patch.uid) or (self._patch_queue.added(), None)
        if before is not None:
            nominated = patch.nominated_node_name
            patch = msgspec.structs.replace(
                patch,
                condition=patch.condition or before.condition,
                nominated_node_name=before.nominated_node_name if nominated is None else nominated,
            )
        self._patches[patch.uid] = since, patch
        self._wake()

    def tell(self, tell: Tell) -> None:
        """Record an event."""
        self._sequence += 1
        event = Event(
            regarding=tell.regarding,
            event_type=tell.event_type,
            reason=tell.reason,
            action=tell.action,
            note=tell.note,
            reporting_controller=tell.controller,
            reporting_instance=f"{tell.controller}-{self._settings.hostname}",
            event_time=self._clock.wall(),
            related=tell.related,
            sequence=self._sequence,
        )
        if tell.is_repeatable:
            self._owe(self._series.observe(event), can_be_dropped=True)
        else:
            self._owe([Occurrence(event, 1, event.event_time)])

    def _owe(self, occurrences: list[Occurrence], *, can_be_dropped: bool = False) -> None:
        limit = self._settings.max_owed
        for occurrence in occurrences:
            # Binds and evictions leave only while there is room for their events, and keep it.
            # Others may come in a burst; what they say is said again at the next attempt.
            if can_be_dropped and limit and self._owed_by_sent() >= limit:
                self._drop("queue_full", f"{limit} are owed already")
            else:
                self._events.append((self._event_queue.added(), occurrence))
                self._wake()

    # --- sending --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send for ever. Run it as a task."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._sweep_for_ever())
                group.create_task(rest_for_ever(self._clock, lambda: self._limit.workers))
                if not self._settings.concurrency:
                    group.create_task(self._look_for_ever())
                for _ in range(self._settings.concurrency or MOST):
                    group.create_task(self._work())
        finally:
            for task in self._beside:
                task.cancel()
            await asyncio.gather(*self._beside, return_exceptions=True)

    async def drain(self, timeout: float, *, binds_only: bool = False) -> None:
        """Wait until everything is sent, or all binds are answered, at most so long.

        Args:
            timeout: seconds.
            binds_only: do not wait for status and events.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self.binds_owed if binds_only else not self.is_empty:
                    self._changed.clear()
                    await self._changed.wait()

    def sweep(self) -> None:
        """Send the counts of events that have ceased to happen, or go on for long."""
        self._owe(self._series.sweep(self._clock.wall()), can_be_dropped=True)

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before = self.concurrency
            self._limit.look(self._clock.monotonic())
            if self.concurrency > before:
                self._wake_all()

    def _wake_all(self) -> None:
        for _ in range(len(self._idle)):
            self._wake()

    def _wake(self) -> None:
        while self._idle and self._limit.workers < self.concurrency:
            idle = self._idle.popleft()
            if not idle.done():  # cancelled, when the process ends
                self._limit.workers += 1
                idle.set_result(None)
                return

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        self._limit.workers += 1
        while True:
            job = self._next() if self._limit.workers <= self.concurrency else None
            if job is None:
                self._limit.workers -= 1
                if self._is_hushed or not (self._events or self._patches or self._evicts):
                    self._limit.ran_dry = True
                idle: asyncio.Future[None] = loop.create_future()
                self._idle.append(idle)
                await idle
                continue
            await job
            self._changed.set()
            self._on_sent()

    def _next(self) -> Awaitable[None] | None:
        """The most important thing that may be sent now."""
        if self._binds and self._has_room_for_event():
            return self._timed(BINDS, self._bind(*self._binds.popleft()))
        if self._reads:
            since, read = self._reads.popleft()
            return self._timed(OTHER_WRITES, self._read_queue.work(since, self._read(read)))
        others = self.concurrency - self.concurrency // FOR_BINDS
        if self._changes_in_flight + self._deliveries_in_flight >= others:
            return None
        if self._changes_in_flight < others - others // FOR_EVENTS:
            job = self._next_change()
            if job is not None:
                self._changes_in_flight += 1
                return job
        return self._next_event()

    def _next_change(self) -> Awaitable[None] | None:
        if self._evicts and self._has_room_for_event():
            since, evict = self._evicts.popleft()
            return self._timed(OTHER_WRITES, self._evict_queue.work(since, self._evict(evict)))
        for uid in self._patches:
            if uid not in self._patching:
                since, patch = self._patches.pop(uid)
                return self._timed(OTHER_WRITES, self._patch_queue.work(since, self._patch(patch)))
        return None

    def _next_event(self) -> Awaitable[None] | None:
        waits_for_binds = self.binds_owed and not self._settings.max_owed
        if not self._events or self._is_hushed or waits_for_binds:
            return None
        if self._deliveries_in_flight >= self._events_at_a_time():
            # With more requests at a time no more would be sent.
            self._limit.ran_dry = True
            return None
        self._events_in_flight += 1
        self._deliveries_in_flight += 1
        since, occurrence = self._events.popleft()
        return self._timed(EVENTS, self._event_queue.work(since, self._deliver(occurrence)))

    def _events_at_a_time(self) -> int:
        """As large a share of the requests as of the events that may be owed is."""
        limit = self._settings.max_owed
        if not limit:
            return self.concurrency
        return max(FEW_EVENTS, self.concurrency * self.events_owed // limit)

    def _has_room_for_event(self) -> bool:
        """Whether what brings an event may leave."""
        limit = self._settings.max_owed
        return not limit or self._owed_by_sent() < limit

    def _owed_by_sent(self) -> int:
        """Events that are owed, and that the binds and evictions under way will owe."""
        evicts_in_flight = self._evicts_owed - len(self._evicts)
        return self.events_owed + self._binds_in_flight + evicts_in_flight

    async def _bind(self, since: float, bind: Bind) -> None:
        self._binds_in_flight += 1
        finishing = self._bind_queue.work(since, self._finish(bind))
        if bind.extender is None:
            await finishing
        else:
            task = asyncio.get_running_loop().create_task(finishing)
            self._beside.add(task)
            task.add_done_callback(self._came_back)

    async def _finish(self, bind: Bind) -> None:
        is_ours = not bind.by_plugins and bind.extender is None
        try:
            answer = await (self._send_bind(bind) if is_ours else self._ask_others(bind))
        finally:
            self._binds_in_flight -= 1
            self.binds_owed -= 1
        self._answer(answer)
        if not (self.binds_owed or self._settings.max_owed):
            self._wake_all()

    def _came_back(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        self._changed.set()
        self._wake()
        self._on_sent()

    async def _send_bind(self, bind: Bind) -> EngineEvent:
        try:
            await self._writes.bind(bind.namespace, bind.name, bind.uid, bind.node)
        except (ConflictError, UnavailableError) as problem:
            # It may be bound: by an earlier try of ours, or before the connection broke.
            return BindFailed(bind.attempt, str(problem), is_certain=False)
        except (ApiError, FencedError) as problem:
            return BindFailed(bind.attempt, str(problem))
        self._limit.answered += 1
        return Bound(bind.attempt)

    async def _read(self, read: ReadPod) -> None:
        try:
            body = await self._writes.read(read.namespace, read.name)
            pod = None if body is None else PODS.decode(body)
        except (ApiError, MalformedObjectError, msgspec.DecodeError) as problem:
            log.warning("Cannot read pod", pod=f"{read.namespace}/{read.name}", err=str(problem))
            self._answer(ReadFailed(read.attempt))
            return
        is_there = pod is not None and pod.uid == read.uid and not is_terminal(pod.pod)
        self._answer(PodRead(read.attempt, pod if is_there else None))

    async def _evict(self, evict: Evict) -> None:
        try:
            was_there = await self._writes.evict(
                evict.namespace, evict.name, evict.uid, self._clock.wall(), evict.condition
            )
        except (ApiError, FencedError) as problem:
            answer: EngineEvent = EvictFailed(evict.uid, str(problem))
        else:
            self._limit.answered += 1
            answer = Evicted(evict.uid, was_there)
        finally:
            self._evicts_owed -= 1
            self._changes_in_flight -= 1
        self._answer(answer)

    async def _patch(self, patch: PatchStatus) -> None:
        self._patching[patch.uid] = None
        try:
            await self._writes.patch_status(
                patch.namespace,
                patch.name,
                patch.uid,
                self._clock.wall(),
                condition=patch.condition,
                nominated_node_name=patch.nominated_node_name,
            )
        except NotFoundError:
            pass  # the pod is gone, and its status with it
        except (ApiError, FencedError) as problem:
            pod = f"{patch.namespace}/{patch.name}"
            log.warning("Error updating pod", pod=pod, err=str(problem))
        else:
            self._limit.answered += 1
        finally:
            held = self._patching.pop(patch.uid)
            self._changes_in_flight -= 1
            if held is not None:
                self._binds.append(held)
            self._wake()

    async def _deliver(self, occurrence: Occurrence) -> None:
        try:
            await self._send(occurrence)
        finally:
            self._deliveries_in_flight -= 1

    async def _send(self, occurrence: Occurrence) -> None:
        try:
            await self._writes.event(occurrence)
            self._limit.answered += 1
        except ConflictError:
            pass  # an earlier try arrived after all
        except (UnavailableError, TooManyRequestsError, UnauthorizedError) as problem:
            if not problem.status:
                self._hush()
            self._try_later(occurrence, problem)
            return
        except ApiError as problem:
            # The namespace is going away, or a right is missing.
            self._drop("refused", str(problem))
        self._tries.pop(occurrence, None)
        self._events_in_flight -= 1

    def _hush(self) -> None:
        """Delay other events for a while: the API server does not answer, and tries are in vain."""
        if not self._is_hushed:
            self._is_hushed = True
            pause = self._settings.retry_seconds / 10
            asyncio.get_running_loop().call_later(pause, self._speak)

    def _speak(self) -> None:
        self._is_hushed = False
        self._wake_all()

    def _drop(self, reason: str, problem: str) -> None:
        """An event is lost: that is counted, and said once a minute."""
        self._on_dropped(reason)
        others = self._complaints[reason].take()
        if others is not None:
            log.warning("Event not sent", reason=reason, err=problem, others=others)

    def _try_later(self, occurrence: Occurrence, problem: ApiError) -> None:
        """Send the event again after a while; it stays owed, and delays no other request."""
        tries = self._tries[occurrence] = self._tries.get(occurrence, 1) + 1
        if tries > MAX_TRIES:
            del self._tries[occurrence]
            self._events_in_flight -= 1
            self._drop("unreachable", str(problem))
            return
        self._event_queue.retried()
        pause = self._settings.retry_seconds * self._rng.uniform(0.5, 1.5)
        asyncio.get_running_loop().call_later(pause, self._again, occurrence)

    def _again(self, occurrence: Occurrence) -> None:
        self._events_in_flight -= 1
        self._events.append((self._event_queue.added(), occurrence))
        self._wake()

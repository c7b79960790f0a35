"""Sends events behind everything else: recording never waits, and never holds up a bind."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from scheduler.client.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from scheduler.client.event_series import EventSeries, Occurrence
from scheduler.client.events import (
    NORMAL,
    Event,
    ObjectReference,
    event_body,
    events_path,
    series_body,
)
from scheduler.client.session import STRATEGIC_MERGE_PATCH, ApiSession
from scheduler.client.wire import segment
from scheduler.clock import Clock

CAPACITY: Final = 32_768
WORKERS: Final = 2
"""Few, because each competes with the binds for the API server."""
PATIENCE_SECONDS: Final = 10.0
"""How long an event makes way for binds at most."""
_LOOK_AGAIN_SECONDS: Final = 0.02
MAX_TRIES: Final = 12
RETRY_SECONDS: Final = 10.0
"""Source: client-go tools/events/event_broadcaster.go (maxTriesPerEvent, sleepDuration) v0.36."""
SWEEP_SECONDS: Final = 60.0


class EventRecorder:
    """Takes events at once and sends them with a few workers.

    Args:
        session: where requests go.
        clock: gives events their time.
        hostname: says which instance speaks; the reporting instance is
            `<reporting controller>-<hostname>`.
        capacity: events that may wait; what comes on top is dropped and counted.
        workers: requests at a time.
        makes_way: whether the API server has more important things to do for this scheduler; then
            events wait, for `PATIENCE_SECONDS` at most.
        on_dropped: told why (`queue_full`, `refused`, `unreachable`) for each event that is lost.

    Attributes:
        retry_seconds: mean pause before an event is tried again.
    """

    retry_seconds: float = RETRY_SECONDS

    def __init__(
        self,
        session: ApiSession,
        clock: Clock,
        *,
        hostname: str,
        capacity: int = CAPACITY,
        workers: int = WORKERS,
        makes_way: Callable[[], bool] = lambda: False,
        on_dropped: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._clock = clock
        self._hostname = hostname
        self._capacity = capacity
        self._workers = workers
        self._makes_way = makes_way
        self._on_dropped = on_dropped
        self._rng = random.Random()  # noqa: S311 - spreads retries, keeps no secret
        self._series = EventSeries()
        self._waiting: deque[tuple[float, Occurrence]] = deque()
        self._has_work = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._in_flight = 0
        self._sequence = 0

    @property
    def backlog(self) -> int:
        """Events that wait or are on their way."""
        return len(self._waiting) + self._in_flight

    def record(  # noqa: PLR0913 - an event has that many parts
        self,
        regarding: ObjectReference,
        *,
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
        event_type: str = NORMAL,
        related: ObjectReference | None = None,
        is_repeatable: bool = True,
    ) -> None:
        """Notes that something happened. Never blocks, never raises.

        Args:
            regarding: the object it is about.
            reason: why, in one word: `Scheduled`.
            action: what was done: `Binding`.
            note: a sentence for people; cut to 1,024 bytes when sent.
            reporting_controller: the scheduler name of the profile.
            event_type: `Normal` or `Warning`.
            related: a second object.
            is_repeatable: False for what happens to an object once (Scheduled): it is not looked
                up among recent events.
        """
        self._sequence += 1
        event = Event(
            regarding=regarding,
            event_type=event_type,
            reason=reason,
            action=action,
            note=note,
            reporting_controller=reporting_controller,
            reporting_instance=f"{reporting_controller}-{self._hostname}",
            event_time=self._clock.wall(),
            related=related,
            sequence=self._sequence,
        )
        if is_repeatable:
            self._enqueue(self._series.observe(event))
        else:
            self._enqueue([Occurrence(event, 1, event.event_time)])

    async def run(self) -> None:
        """Sends events for ever. Run it as a task."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sweep())
            for _ in range(self._workers):
                group.create_task(self._work())

    async def drain(self, timeout: float) -> None:
        """Waits until all events are sent, at most `timeout` seconds. `run` must be running."""
        self._enqueue(self._series.sweep(self._clock.wall()))
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._is_idle.wait()

    def _enqueue(self, occurrences: list[Occurrence]) -> None:
        now = self._clock.monotonic()
        for occurrence in occurrences:
            if len(self._waiting) >= self._capacity:
                self._on_dropped("queue_full")
            else:
                self._waiting.append((now, occurrence))
                self._has_work.set()
                self._is_idle.clear()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._enqueue(self._series.sweep(self._clock.wall()))

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._has_work.clear()
                await self._has_work.wait()
            since, occurrence = self._waiting[0]
            if self._makes_way() and self._clock.monotonic() - since < PATIENCE_SECONDS:
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                continue
            self._waiting.popleft()
            self._in_flight += 1
            try:
                await self._deliver(occurrence)
            finally:
                self._in_flight -= 1
                if not self.backlog:
                    self._is_idle.set()

    async def _deliver(self, occurrence: Occurrence) -> None:
        for _ in range(MAX_TRIES):
            try:
                await self._send(occurrence)
            except ConflictError:
                return  # an earlier try arrived after all
            except (UnavailableError, TooManyRequestsError, UnauthorizedError):
                await asyncio.sleep(self.retry_seconds * self._rng.uniform(0.5, 1.5))
            except ApiError:
                self._on_dropped("refused")  # the namespace is going away, or a right is missing
                return
            else:
                return
        self._on_dropped("unreachable")

    async def _send(self, occurrence: Occurrence) -> None:
        event, count, last_observed = occurrence.event, occurrence.count, occurrence.last_observed
        path = events_path(event)
        if count == 1:
            await self._session.request("POST", path, event_body(event))
            return
        try:
            await self._session.request(
                "PATCH",
                f"{path}/{segment(event.name)}",
                series_body(count, last_observed),
                content_type=STRATEGIC_MERGE_PATCH,
            )
        except NotFoundError:
            # The first event has expired, or was never taken.
            body = event_body(event, count=count, last_observed=last_observed)
            await self._session.request("POST", path, body)

"""Records Kubernetes events about pods, counts them in series, sends them, and retries.

Source: k8s.io/client-go tools/events/event_broadcaster.go v0.36. Differs:
the number of unsent events is bounded.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from scheduler.clock import Clock, Throttle
from scheduler.daemon.client.errors import (
    ApiError,
    ConflictError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from scheduler.daemon.client.event_series import EventSeries, Occurrence
from scheduler.daemon.client.events import EventEntry
from scheduler.daemon.client.writes import PodWrites
from scheduler.daemon.driver.lanes import Lane, OutboxSettings
from scheduler.kernel.engine.instructions import RecordEvent
from scheduler.observability.logs import get_logger

FEW_EVENTS: Final = 4
"""Events under way at most while few wait: they take the API server's time from binds."""
MAX_TRIES: Final = 12
"""Source: client-go tools/events/event_broadcaster.go (maxTriesPerEvent) v0.36."""
FEW_TRIES: Final = 3
"""Tries at most while more than half of `max_owed` events are unsent: binds wait for room."""
SWEEP_SECONDS: Final = 60.0
DROPPED: Final = ("queue_full", "refused", "unreachable")
"""Reasons why an event is lost: too many wait, the API server refused it, or did not answer."""
LOG_AGAIN_SECONDS: Final = 60.0
"""Events that are lost for one reason are logged this often."""

log = get_logger(__name__)


class EventBroadcaster:
    """Records events and sends them when the outbox takes them from their lane.

    Args:
        writes: sends the requests to the API server.
        clock: gives events their time.
        settings: limits and pauses.
        lane: the lane in which events wait.
        has_room: whether one more event that may be dropped may wait.
        wake: called when events may be sent again after a pause.
        on_dropped: called with the reason, one of `DROPPED`, for each event that is lost.

    Attributes:
        is_paused: whether events wait for a moment because one had no answer.
    """

    def __init__(  # noqa: PLR0913 - ports and limits, by name
        self,
        writes: PodWrites,
        clock: Clock,
        settings: OutboxSettings,
        lane: Lane[Occurrence],
        *,
        has_room: Callable[[], bool],
        wake: Callable[[], None],
        on_dropped: Callable[[str], None],
    ) -> None:
        self._writes = writes
        self._clock = clock
        self._settings = settings
        self._lane = lane
        self._has_room = has_room
        self._wake = wake
        self._on_dropped = on_dropped
        self._drop_throttles = {why: Throttle(clock, LOG_AGAIN_SECONDS) for why in DROPPED}
        self._rng = random.Random()  # noqa: S311 - spreads retries, keeps no secret
        self._series = EventSeries()
        self._sequence = self._postponed = 0
        """Number of events recorded so far; number of events that wait for their next try."""
        self._tries: dict[Occurrence, int] = {}
        self.is_paused = False

    @property
    def owed(self) -> int:
        """Number of events that wait, are under way or will be tried again."""
        return self._lane.owed + self._postponed

    @property
    def under_way(self) -> int:
        """Number of events that are sent and have no answer yet."""
        return len(self._lane.under_way)

    def may_send(self, concurrency: int) -> bool:
        """Return whether one more event may be sent.

        Events get the same fraction of `concurrency` as they fill of `max_owed`.
        """
        if self.is_paused:
            return False
        limit = self._settings.max_owed
        share = concurrency * self.owed // limit if limit else concurrency
        return self.under_way < max(FEW_EVENTS, share)

    def record(self, event: RecordEvent) -> None:
        """Record an event about an object: put it into the lane, or count it in its series."""
        self._sequence += 1
        entry = EventEntry(
            regarding=event.regarding,
            event_type=event.event_type,
            reason=event.reason,
            action=event.action,
            note=event.note,
            reporting_controller=event.controller,
            reporting_instance=f"{event.controller}-{self._settings.hostname}",
            event_time=self._clock.wall(),
            related=event.related,
            sequence=self._sequence,
        )
        if event.is_repeatable:
            self._owe_or_drop(self._series.observe(entry))
        else:
            # Never dropped: binds and evictions are sent only with room for their events.
            self._owe(Occurrence(entry, 1, entry.event_time))

    async def sweep_for_ever(self) -> None:
        """Sweep every minute until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        """Put the counts of series that have ended, or last for long, into the lane."""
        self._owe_or_drop(self._series.sweep(self._clock.wall()))

    def _owe_or_drop(self, occurrences: list[Occurrence]) -> None:
        """Drop occurrences without room: the next attempt of the pod repeats the event."""
        for occurrence in occurrences:
            if self._has_room():
                self._owe(occurrence)
            else:
                self._drop("queue_full", f"{self._settings.max_owed} are owed already")

    def _owe(self, occurrence: Occurrence) -> None:
        self._lane.put(_key(occurrence), occurrence)

    async def send(self, occurrence: Occurrence) -> None:
        """Send an event that was taken from the lane; try again later after a passing failure."""
        try:
            await self._writes.event(occurrence)
        except ConflictError:
            pass  # the API server has the event from an earlier try whose answer was lost
        except (UnavailableError, TooManyRequestsError, UnauthorizedError) as problem:
            if not problem.status:
                self._pause()
            self._try_later(occurrence, problem)
            return
        except ApiError as problem:
            # The namespace is terminating, or RBAC forbids the request.
            self._drop("refused", str(problem))
        self._tries.pop(occurrence, None)

    def _pause(self) -> None:
        """Delay all events for a tenth of the retry pause: the API server does not answer."""
        if not self.is_paused:
            self.is_paused = True
            asyncio.get_running_loop().call_later(self._settings.retry_seconds / 10, self._resume)

    def _resume(self) -> None:
        self.is_paused = False
        self._wake()

    def _drop(self, reason: str, problem: str) -> None:
        """Count a lost event, and log the loss once a minute."""
        self._on_dropped(reason)
        others = self._drop_throttles[reason].take()
        if others is not None:
            log.warning("Event not sent", reason=reason, err=problem, others=others)

    def _try_later(self, occurrence: Occurrence, problem: ApiError) -> None:
        """Put the event into the lane again after a pause, during which it counts as owed."""
        tries = self._tries[occurrence] = self._tries.get(occurrence, 1) + 1
        limit = self._settings.max_owed
        if tries > (FEW_TRIES if limit and 2 * self.owed > limit else MAX_TRIES):
            del self._tries[occurrence]
            self._drop("unreachable", str(problem))
            return
        self._postponed += 1
        pause = self._settings.retry_seconds * self._rng.uniform(0.5, 1.5)
        asyncio.get_running_loop().call_later(pause, self._try_again, occurrence)

    def _try_again(self, occurrence: Occurrence) -> None:
        self._postponed -= 1
        self._lane.put_again(_key(occurrence), occurrence)


def _key(occurrence: Occurrence) -> tuple[int, int]:
    return occurrence.event.sequence, occurrence.count

"""Counts repetitions of an event in one object instead of a new object each time.

Pure: takes events and times, returns the occurrences to send.

Source: k8s.io/client-go tools/events/event_broadcaster.go (recordToSink, finishSeries,
    refreshExistingEventSeries) v0.36.
Differs: the number of remembered events is bounded; upstream's map grows with the events of six
    minutes.
"""

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from scheduler.daemon.client.events import EventEntry

QUIET: Final = timedelta(minutes=6)
"""Time without a repetition after which a series ends."""
REFRESH: Final = timedelta(minutes=30)
"""Interval between updates of the count of a long series."""

_Key: TypeAlias = tuple[object, ...]


class Occurrence(msgspec.Struct, frozen=True, gc=False):
    """An event to send: the event itself (count 1), or its series."""

    event: EventEntry
    count: int
    last_observed: datetime


class _Series(msgspec.Struct, gc=False):
    event: EventEntry
    count: int
    last_observed: datetime
    sent_count: int
    sent_at: datetime


class EventSeries:
    """Remembers recent events and their repetitions.

    Invariant: every remembered event was sent at least once, with `sent_count`.
    """

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._recent: OrderedDict[_Key, _Series] = OrderedDict()

    def observe(self, event: EventEntry) -> list[Occurrence]:
        """Record that an event has happened, and return the occurrences to send now.

        The first time it returns the event, the second time its series, then nothing until the
        series is refreshed or ends. If the capacity is exceeded, it ends the oldest series.
        """
        key = _key(event)
        series = self._recent.get(key)
        if series is None:
            now = event.event_time
            self._recent[key] = _Series(event, 1, now, 1, now)
            return [*self._make_room(), Occurrence(event, 1, now)]
        self._recent.move_to_end(key)
        series.count += 1
        series.last_observed = event.event_time
        if series.sent_count > 1:
            return []
        return [_sent(series, event.event_time)]

    def sweep(self, now: datetime) -> list[Occurrence]:
        """Return the occurrences of series that have ended or are due for a refresh."""
        due: list[Occurrence] = []
        for key, series in list(self._recent.items()):
            is_over = now - series.last_observed >= QUIET
            is_unsent = series.count > series.sent_count
            if is_unsent and (is_over or now - series.sent_at >= REFRESH):
                due.append(_sent(series, now))
            if is_over:
                del self._recent[key]
        return due

    def _make_room(self) -> list[Occurrence]:
        due: list[Occurrence] = []
        while len(self._recent) > self._capacity:
            _, series = self._recent.popitem(last=False)
            if series.count > series.sent_count:
                due.append(_sent(series, series.last_observed))
        return due


def _sent(series: _Series, now: datetime) -> Occurrence:
    series.sent_count = series.count
    series.sent_at = now
    return Occurrence(series.event, series.count, series.last_observed)


def _key(event: EventEntry) -> _Key:
    """Return the key of an event; events with equal keys are one series, whatever their notes."""
    return (
        event.regarding,
        event.related,
        event.reason,
        event.action,
        event.event_type,
        event.reporting_controller,
        event.reporting_instance,
    )

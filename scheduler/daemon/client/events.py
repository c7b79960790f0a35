"""Recorded events, and their encoding as events.k8s.io/v1.

Source: k8s.io/client-go tools/events (event_recorder.go) and k8s.io/api events/v1 v0.36.
"""

from datetime import datetime
from typing import Final

import msgspec

from scheduler.api.written import ObjectReference, cut
from scheduler.daemon.client.wire import json_string, micro_time, segment, well_formed

NOTE_LIMIT: Final = 1024
"""Bytes of a note. Source: pkg/apis/core/validation/events.go (NoteLengthLimit) v1.36."""
_NAME_LIMIT: Final = 253


class EventEntry(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One recorded event.

    `sequence` distinguishes events of the same microsecond.
    """

    regarding: ObjectReference
    event_type: str
    reason: str
    action: str
    note: str
    reporting_controller: str
    reporting_instance: str
    event_time: datetime
    related: ObjectReference | None = None
    sequence: int = 0

    @property
    def namespace(self) -> str:
        """The namespace that the event is created in."""
        return self.regarding.namespace or "default"

    @property
    def name(self) -> str:
        """A unique name: the object's name, and the time in nanoseconds."""
        stamp = f".{_nanoseconds(self.event_time) + self.sequence % 1000:x}"
        # A part of a DNS name ends with a letter or a digit, also where the limit cuts it.
        return self.regarding.name[: _NAME_LIMIT - len(stamp)].rstrip("-.") + stamp


class _Wire(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """Common settings of the wire structs: empty fields are left out."""


class _Reference(_Wire):
    """core/v1 ObjectReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Series(_Wire):
    """events.k8s.io/v1 EventSeries."""

    count: int
    last_observed_time: str


class _Meta(_Wire):
    """The object metadata that a client writes."""

    name: str
    namespace: str


class _Body(_Wire, kw_only=True):
    """events.k8s.io/v1 Event. A struct, as every bound pod brings one."""

    api_version: str
    kind: str
    metadata: _Meta
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: _Reference
    note: str
    type: str
    related: _Reference | None = None
    series: _Series | None = None


def events_path(event: EventEntry) -> str:
    """Return the path to which events of the event's namespace are posted."""
    return f"/apis/events.k8s.io/v1/namespaces/{segment(event.namespace)}/events"


def event_body(
    event: EventEntry, *, count: int = 1, last_observed: datetime | None = None
) -> bytes:
    """Encode an event for its creation; with a series if `last_observed` is given."""
    return json_string(
        _Body(
            api_version="events.k8s.io/v1",
            kind="Event",
            metadata=_Meta(event.name, event.namespace),
            event_time=micro_time(event.event_time),
            reporting_controller=event.reporting_controller,
            reporting_instance=event.reporting_instance,
            action=event.action,
            reason=event.reason,
            regarding=_reference(event.regarding),
            note=cut_note(event.note),
            type=event.event_type,
            related=None if event.related is None else _reference(event.related),
            series=None if last_observed is None else _series(count, last_observed),
        )
    )


def series_body(count: int, last_observed: datetime) -> bytes:
    """Encode the patch that sets the series of an event."""
    return json_string({"series": _series(count, last_observed)})


def cut_note(note: str) -> str:
    """Return the note, cut to `NOTE_LIMIT` bytes and marked if it is longer.

    Source: pkg/scheduler/schedule_one.go (truncateMessage) v1.36.
    """
    return cut(well_formed(note), NOTE_LIMIT)


def _series(count: int, last_observed: datetime) -> _Series:
    return _Series(count, micro_time(last_observed))


def _reference(reference: ObjectReference) -> _Reference:
    return _Reference(
        reference.api_version,
        reference.kind,
        reference.name,
        reference.namespace,
        reference.uid,
        reference.resource_version,
    )


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000

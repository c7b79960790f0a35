"""The two forms of an event: core/v1, in which it is stored, and events.k8s.io/v1.

Source: pkg/apis/events/v1/conversion.go.
"""

from typing import Final

import msgspec

from scheduler.sandbox.kinds import EVENTS, Kind
from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.store import Entry

_CORE_TO_EVENTS: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_EVENTS_TO_CORE: Final = {theirs: ours for ours, theirs in _CORE_TO_EVENTS.items()}


def stored_form(kind: Kind, content: Object) -> Object:
    """An object of any kind as it is stored."""
    return _renamed(content, _EVENTS_TO_CORE) if kind.stored_as == EVENTS.key else content


def shown_form(kind: Kind, content: Object) -> Object:
    """A stored object as clients of the kind see it."""
    return _renamed(content, _CORE_TO_EVENTS) if kind.stored_as == EVENTS.key else content


def shown_body(kind: Kind, entry: Entry) -> bytes:
    """The bytes of an entry as clients of the kind see it, without kind and apiVersion."""
    if not kind.stored_as:
        return entry.body
    return msgspec.json.encode(shown_form(kind, entry.content()))[1:]


def _renamed(content: Object, names: dict[str, str]) -> Object:
    return {names.get(name, name): value for name, value in content.items()}

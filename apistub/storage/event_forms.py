"""The two forms of an event: core/v1, in which it is stored, and events.k8s.io/v1.

Source: pkg/apis/events/v1/conversion.go.
"""

from typing import Final

import msgspec

from apistub.storage.kinds import Kind, Object
from apistub.storage.store import Entry

_TO_MODERN: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_TO_CORE: Final = {theirs: ours for ours, theirs in _TO_MODERN.items()}


def stored_form(kind: Kind, content: Object) -> Object:
    """An object of any kind as it is stored."""
    return _renamed(content, _TO_CORE) if kind.stored_as else content


def shown(kind: Kind, entry: Entry) -> Object:
    """A stored object as clients of the kind see it, with kind and apiVersion."""
    content = entry.content()
    if kind.stored_as:
        content = _renamed(content, _TO_MODERN)
    return {"kind": kind.kind, "apiVersion": kind.api_version, **content}


def shown_body(kind: Kind, entry: Entry) -> bytes:
    """The bytes of an entry as clients of the kind see it, without kind and apiVersion."""
    if not kind.stored_as:
        return entry.body
    return msgspec.json.encode(_renamed(entry.content(), _TO_MODERN))[1:]


def _renamed(content: Object, names: dict[str, str]) -> Object:
    return {names.get(name, name): value for name, value in content.items()}

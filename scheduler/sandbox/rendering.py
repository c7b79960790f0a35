"""Entries as the bytes clients read: plain objects, tables for kubectl, metadata only."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Protocol

import msgspec
from typing_extensions import override

from scheduler.sandbox.event_forms import shown_body
from scheduler.sandbox.kinds import Kind
from scheduler.sandbox.reading import Page
from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.status import bad_request
from scheduler.sandbox.store import ChangeType, Entry
from scheduler.sandbox.tables.table import IncludeObject, partial_metadata, table

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_BOOKMARK_FILLING: Final[Mapping[str, Object]] = {
    "Pod": {"spec": {"containers": None}, "status": {}}
}
_LINE_HEADS: Final = {
    change: f'{{"type":"{change.value}","object":{{'.encode() for change in ChangeType
}


class Renderer(Protocol):
    """How one client wants to see one kind."""

    def one(self, entry: Entry) -> bytes:
        """A single object."""
        ...

    def many(self, page: Page) -> bytes:
        """A list."""
        ...

    def line(self, change: ChangeType, entry: Entry) -> bytes:
        """One line of a watch."""
        ...

    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        """The line that only says how far a watch has come."""
        ...


def renderer_for(
    kind: Kind, accept: str, query: Mapping[str, str], now: Callable[[], datetime]
) -> Renderer:
    """What the Accept header asks for; the first form we know wins.

    Raises:
        StatusError: 400, the table is asked for with an unknown includeObject.
    """
    if "as=" not in accept:
        return JsonRenderer(kind)
    for choice in accept.split(","):
        if "as=Table" in choice and "json" in choice:
            return TableRenderer(kind, _include(query), now)
        if "as=PartialObjectMetadata" in choice and "json" in choice:
            return MetadataRenderer(kind)
        if "as=" not in choice and ("json" in choice or "*/*" in choice):
            break
    return JsonRenderer(kind)


def _include(query: Mapping[str, str]) -> IncludeObject:
    text = query.get("includeObject") or IncludeObject.METADATA.value
    try:
        return IncludeObject(text)
    except ValueError as error:
        raise bad_request(
            f'includeObject: Unsupported value: "{text}": supported values: "Metadata", "None", '
            '"Object"'
        ) from error


def typed_line(event_type: str, content: object) -> bytes:
    """A line of a watch with any object."""
    return msgspec.json.encode({"type": event_type, "object": content}) + b"\n"


def object_json(kind: Kind, entry: Entry) -> bytes:
    """One object in full."""
    return b"{" + kind.type_meta + shown_body(kind, entry)


class JsonRenderer(Renderer):
    """Objects in full, from their stored bytes.

    Args:
        kind: what is shown.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    @override
    def one(self, entry: Entry) -> bytes:
        return object_json(self._kind, entry)

    @override
    def many(self, page: Page) -> bytes:
        # As on the real server, items carry neither kind nor apiVersion.
        items = [b"{" + shown_body(self._kind, entry) for entry in page.entries]
        metadata = b'"metadata":' + msgspec.json.encode(_list_metadata(page))
        return self._kind.list_head + metadata + b',"items":[' + b",".join(items) + b"]}"

    @override
    def line(self, change: ChangeType, entry: Entry) -> bytes:
        kind = self._kind
        return _LINE_HEADS[change] + kind.type_meta + shown_body(kind, entry) + b"}\n"

    @override
    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        kind = self._kind
        content = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": _bookmark_metadata(version, ends_initial_events=ends_initial_events),
            **_BOOKMARK_FILLING.get(kind.kind, {}),
        }
        return typed_line("BOOKMARK", content)


class TableRenderer(Renderer):
    """Rows of cells, for `kubectl get`.

    Args:
        kind: what is shown.
        include: what each row carries beside its cells.
        now: the time ages are counted to.
    """

    def __init__(self, kind: Kind, include: IncludeObject, now: Callable[[], datetime]) -> None:
        self._kind = kind
        self._include = include
        self._now = now
        self._columns_shown = False

    @override
    def one(self, entry: Entry) -> bytes:
        content = table(self._kind, [entry], self._include, self._now())
        content["metadata"] = {"resourceVersion": str(entry.version)}
        return msgspec.json.encode(content)

    @override
    def many(self, page: Page) -> bytes:
        content = table(self._kind, page.entries, self._include, self._now())
        content["metadata"] = _list_metadata(page)
        return msgspec.json.encode(content)

    @override
    def line(self, change: ChangeType, entry: Entry) -> bytes:
        # A watch names the columns once, in its first event.
        with_columns, self._columns_shown = not self._columns_shown, True
        content = table(self._kind, [entry], self._include, self._now(), with_columns=with_columns)
        return typed_line(change.value, content)

    @override
    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        content = table(self._kind, [], self._include, self._now(), with_columns=False)
        metadata = _bookmark_metadata(version, ends_initial_events=ends_initial_events)
        content["rows"] = [{"cells": [], "object": partial_metadata({"metadata": metadata})}]
        return typed_line("BOOKMARK", content)


class MetadataRenderer(Renderer):
    """Metadata only, for clients that look at names and owners.

    Args:
        kind: what is shown.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    @override
    def one(self, entry: Entry) -> bytes:
        return msgspec.json.encode(partial_metadata(entry.content()))

    @override
    def many(self, page: Page) -> bytes:
        return msgspec.json.encode(
            {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": _list_metadata(page),
                "items": [partial_metadata(entry.content()) for entry in page.entries],
            }
        )

    @override
    def line(self, change: ChangeType, entry: Entry) -> bytes:
        return typed_line(change.value, partial_metadata(entry.content()))

    @override
    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        metadata = _bookmark_metadata(version, ends_initial_events=ends_initial_events)
        return typed_line("BOOKMARK", partial_metadata({"metadata": metadata}))


def _list_metadata(page: Page) -> Object:
    metadata: Object = {"resourceVersion": str(page.version)}
    if page.next_token:
        metadata["continue"] = page.next_token
        metadata["remainingItemCount"] = page.remaining
    return metadata


def _bookmark_metadata(version: int, *, ends_initial_events: bool) -> Object:
    metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_initial_events:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return metadata

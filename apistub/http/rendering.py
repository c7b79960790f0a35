"""Entries as the bytes clients read: plain objects, or tables for `kubectl get`."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec
from typing_extensions import override

from apistub.http.columns import COLUMNS, DEFAULT_COLUMNS
from apistub.storage.event_forms import shown, shown_body
from apistub.storage.kinds import Kind, Object
from apistub.storage.reading import Page
from apistub.storage.store import ChangeType, Entry

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_LINE_HEADS: Final = {
    change: f'{{"type":"{change.value}","object":{{'.encode() for change in ChangeType
}


def typed_line(event_type: str, content: object) -> bytes:
    """A line of a watch with any object."""
    return msgspec.json.encode({"type": event_type, "object": content}) + b"\n"


class Renderer:
    """How one client wants to see one kind: objects in full, from their stored bytes."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def one(self, entry: Entry) -> bytes:
        """A single object."""
        return b"{" + self._kind.type_meta + shown_body(self._kind, entry)

    def many(self, page: Page) -> bytes:
        """A list."""
        kind = self._kind
        head = f'{{"kind":"{kind.kind}List","apiVersion":"{kind.api_version}","metadata":'.encode()
        # As on the real server, items carry neither kind nor apiVersion.
        items = [b"{" + shown_body(kind, entry) for entry in page.entries]
        metadata = msgspec.json.encode(_list_metadata(page))
        return head + metadata + b',"items":[' + b",".join(items) + b"]}"

    def line(self, change: ChangeType, entry: Entry) -> bytes:
        """One line of a watch."""
        return _LINE_HEADS[change] + self._kind.type_meta + shown_body(self._kind, entry) + b"}\n"

    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        """The line that only says how far a watch has come."""
        metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if ends_initial_events:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return typed_line("BOOKMARK", self._marked(metadata))

    def _marked(self, metadata: Object) -> Object:
        """The object of a bookmark."""
        kind = self._kind
        return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}


class _TableRenderer(Renderer):
    """Rows of cells.

    Args:
        kind: what is shown.
        include: what each row carries beside its cells: `Object`, `None`, or else its metadata.
        now: the time ages are counted to.

    Source: k8s.io/apimachinery pkg/apis/meta/v1 (Table, TableRow, TableColumnDefinition).
    """

    def __init__(self, kind: Kind, include: str, now: Callable[[], datetime]) -> None:
        super().__init__(kind)
        self._include = include
        self._now = now
        self._columns = COLUMNS.get(kind.storage_key, DEFAULT_COLUMNS)
        self._columns_shown = False

    @override
    def one(self, entry: Entry) -> bytes:
        return msgspec.json.encode(self._table([entry], {"resourceVersion": str(entry.version)}))

    @override
    def many(self, page: Page) -> bytes:
        return msgspec.json.encode(self._table(page.entries, _list_metadata(page)))

    @override
    def line(self, change: ChangeType, entry: Entry) -> bytes:
        content = self._table([entry], {})
        # A watch names the columns once, in its first event.
        if self._columns_shown:
            content["columnDefinitions"] = None
        self._columns_shown = True
        return typed_line(change.value, content)

    @override
    def _marked(self, metadata: Object) -> Object:
        content = {**self._table([], {}), "columnDefinitions": None}
        return {**content, "rows": [{"cells": [], "object": _partial(metadata)}]}

    def _table(self, entries: Iterable[Entry], metadata: Object) -> Object:
        definitions = [
            {
                "name": name,
                "type": "string",
                "format": "name" if name == "Name" else "",
                "description": name,
                "priority": int(wide),
            }
            for name, _, wide in self._columns
        ]
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": [self._row(entry) for entry in entries],
        }

    def _row(self, entry: Entry) -> Object:
        content, now = entry.content(), self._now()
        row: Object = {"cells": [str(cell(content, now)) for _, cell, _ in self._columns]}
        if self._include == "Object":
            row["object"] = shown(self._kind, entry)
        elif self._include != "None":
            row["object"] = _partial(content["metadata"])
        return row


def _partial(metadata: Object) -> Object:
    """An object reduced to its metadata."""
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {**kind, "metadata": metadata}


def _list_metadata(page: Page) -> Object:
    metadata: Object = {"resourceVersion": str(page.version)}
    return metadata | ({"continue": page.next_token} if page.next_token else {})


def renderer_for(
    kind: Kind, accept: str, query: Mapping[str, str], now: Callable[[], datetime]
) -> Renderer:
    """What the Accept header asks for: a table if that is its first choice in JSON."""
    first = next((choice for choice in accept.split(",") if "json" in choice), "")
    if "as=Table" in first:
        return _TableRenderer(kind, query.get("includeObject", ""), now)
    return Renderer(kind)

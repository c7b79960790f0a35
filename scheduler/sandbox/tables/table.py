"""Tables as API objects.

Source: k8s.io/apimachinery pkg/apis/meta/v1 (Table, TableRow, TableColumnDefinition).
"""

from collections.abc import Iterable
from datetime import datetime
from enum import Enum

from scheduler.sandbox.event_forms import shown_form
from scheduler.sandbox.kinds import Kind
from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.store import Entry
from scheduler.sandbox.tables.columns import COLUMNS, DEFAULT_COLUMNS, Column


class IncludeObject(Enum):
    """What each row carries beside its cells (`?includeObject=`)."""

    NONE = "None"
    METADATA = "Metadata"
    OBJECT = "Object"


def partial_metadata(content: Object) -> Object:
    """An object reduced to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": content["metadata"],
    }


def table(
    kind: Kind,
    entries: Iterable[Entry],
    include: IncludeObject,
    now: datetime,
    *,
    with_columns: bool = True,
) -> Object:
    """The table of some objects of a kind."""
    columns = COLUMNS.get(kind.storage_key, DEFAULT_COLUMNS)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [_definition(column) for column in columns] if with_columns else None,
        "rows": [_row(kind, columns, entry, include, now) for entry in entries],
    }


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else "",
        "description": column.name,
        "priority": int(column.wide),
    }


def _row(
    kind: Kind, columns: Iterable[Column], entry: Entry, include: IncludeObject, now: datetime
) -> Object:
    content = entry.content()
    row: Object = {"cells": [column.cell(content, now) for column in columns]}
    if include is IncludeObject.METADATA:
        row["object"] = partial_metadata(content)
    elif include is IncludeObject.OBJECT:
        shown = shown_form(kind, content)
        row["object"] = {"kind": kind.kind, "apiVersion": kind.api_version, **shown}
    return row

"""The envelopes in which objects arrive: pages of a list and events of a watch."""

from typing import Final
from urllib.parse import quote

import msgspec

BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"
DELETED: Final = "DELETED"
CHANGES: Final = frozenset({"ADDED", "MODIFIED", DELETED})


class _Envelope(msgspec.Struct, gc=False, rename="camel"):
    """Common settings."""


class ListMeta(_Envelope):
    """metav1.ListMeta: the version of a list and its continue token."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(_Envelope):
    """One page of a list; its objects are not decoded yet."""

    kind: str = ""
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: tuple[msgspec.Raw, ...] | None = None


class WatchEvent(_Envelope):
    """A watch event; its object is not decoded yet."""

    type: str
    object: msgspec.Raw


class Bookmark(_Envelope):
    """The object of a bookmark event; only its version is used."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


page_decoder: Final = msgspec.json.Decoder(Page)
items_decoder: Final = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
event_decoder: Final = msgspec.json.Decoder(WatchEvent)
bookmark_decoder: Final = msgspec.json.Decoder(Bookmark)


def list_query(field_selector: str, page_size: int, continue_: str) -> str:
    """Return the query of a list request."""
    parts = [f"fieldSelector={field_selector}"] if field_selector else []
    parts.append(f"limit={page_size}")
    if continue_:
        parts.append(f"continue={quote(continue_, safe='')}")
    return "&".join(parts)


def watch_query(field_selector: str, version: str, timeout_seconds: int) -> str:
    """Return the query of a watch request."""
    parts = [f"fieldSelector={field_selector}"] if field_selector else []
    parts += ["watch=true", "allowWatchBookmarks=true", f"timeoutSeconds={timeout_seconds}"]
    parts.append(f"resourceVersion={quote(version, safe='')}")
    return "&".join(parts)

"""The envelopes in which objects arrive: pages of a list and events of a watch."""

from typing import Final
from urllib.parse import quote

import msgspec

BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"
DELETED: Final = "DELETED"
CHANGES: Final = frozenset({"ADDED", "MODIFIED", DELETED})

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends a streamed list.

Source: k8s.io/apimachinery pkg/apis/meta/v1/types.go (InitialEventsAnnotationKey) v0.36.
"""


class _Envelope(msgspec.Struct, gc=False, rename="camel"):
    """Common settings."""


class ListMeta(_Envelope):
    """metav1.ListMeta: the version of a list and where it goes on."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(_Envelope):
    """One page of a list, its objects still to be read."""

    kind: str = ""
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: tuple[msgspec.Raw, ...] | None = None


class Event(_Envelope):
    """A watch event, its object still to be read."""

    type: str
    object: msgspec.Raw


class BookmarkMeta(_Envelope):
    """What a bookmark says: a version, and whether a streamed list ends there."""

    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Bookmark(_Envelope):
    """The object of a bookmark."""

    metadata: BookmarkMeta = msgspec.field(default_factory=BookmarkMeta)

    @property
    def ends_list(self) -> bool:
        """Whether everything that was there at the beginning has been told."""
        return (self.metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"


page_decoder: Final = msgspec.json.Decoder(Page)
event_decoder: Final = msgspec.json.Decoder(Event)
bookmark_decoder: Final = msgspec.json.Decoder(Bookmark)


def list_query(field_selector: str, page_size: int, continue_: str) -> str:
    """The query of a list request."""
    parts = [f"fieldSelector={field_selector}"] if field_selector else []
    parts.append(f"limit={page_size}")
    if continue_:
        parts.append(f"continue={quote(continue_, safe='')}")
    return "&".join(parts)


def watch_query(
    field_selector: str, version: str, timeout_seconds: int, *, is_list_streamed: bool
) -> str:
    """The query of a watch request."""
    parts = [f"fieldSelector={field_selector}"] if field_selector else []
    parts += ["watch=true", "allowWatchBookmarks=true", f"timeoutSeconds={timeout_seconds}"]
    if is_list_streamed:
        parts += ["sendInitialEvents=true", "resourceVersionMatch=NotOlderThan"]
    else:
        parts.append(f"resourceVersion={quote(version, safe='')}")
    return "&".join(parts)

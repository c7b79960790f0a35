"""One watch: which lines a client gets, in which order. The connection is the server's business.

Source: k8s.io/apiserver pkg/storage/cacher (cache_watcher.go, watch_cache.go) and KEP-3157.
"""

import asyncio
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from apistub.http.rendering import Renderer, typed_line
from apistub.storage.kinds import Kind
from apistub.storage.reading import Selection, current, number_in
from apistub.storage.status import StatusError, bad_request, expired
from apistub.storage.store import Change, ChangeType, Collection, Entry, Store, make_entry

BATCH: Final = 500
"""How many events are sent before others get a turn."""
_TRUE: Final = ("true", "1")


class Watch:
    """The events of one watch request.

    Raises:
        StatusError: 400 for contradictory parameters.
    """

    def __init__(
        self,
        kind: Kind,
        store: Store,
        wanted: Selection,
        renderer: Renderer,
        query: Mapping[str, str],
    ) -> None:
        self.kind = kind
        self.wake = asyncio.Event()
        """Set whenever there may be something to do for the connection."""
        self.is_over = False
        """Whether nothing more is sent, not even a bookmark."""
        self.is_aborted = False
        """Whether the connection is cut without an end of the answer."""
        self.is_silent = False
        """Whether it never sends anything again, without ending, as a half-open connection."""
        self._injected: list[bytes] = []
        self._store = store
        self._collection: Collection = store.collection(kind)
        self._wanted = wanted
        self._renderer = renderer
        self._wants_bookmarks = query.get("allowWatchBookmarks") in _TRUE
        asked = number_in(query, "resourceVersion")
        streams_list = _streams_list(query)
        self._initial: Iterator[Entry] | None = None
        self._ends_initial_events = streams_list
        self._cursor = self._collection.end_cursor
        self._after = asked or 0
        """As from a watch cache, nothing comes at or below the version that was asked for."""
        self.failure: StatusError | None = None
        """Why the watch cannot go on, if so."""
        if streams_list or (asked == 0 and query.get("sendInitialEvents") is None):
            self._initial = iter(list(current(self._collection, wanted)))
        elif asked and asked < self._collection.floor:
            self.failure = expired(f"version {asked} is forgotten")
        elif asked:
            self._cursor = self._collection.cursor_after(asked)

    @property
    def has_more(self) -> bool:
        """Whether `take` would give something now."""
        return not self.is_over and (
            bool(self._injected)
            or self.failure is not None
            or self._initial is not None
            or self._cursor < self._collection.end_cursor
        )

    def take(self) -> bytes:
        """The next lines, at most a batch of events; the watch may be over afterwards."""
        if self._injected:
            lines, self._injected = self._injected, []
            return b"".join(lines)
        if self.failure is None and self._cursor < self._collection.first_cursor:
            self.failure = expired("the watch is too far behind")
        if self.failure is not None:
            self.is_over = True
            return typed_line("ERROR", self.failure.body())
        if self._initial is not None:
            return self._take_initial(self._initial)
        start = self._cursor - self._collection.first_cursor
        changes = self._collection.changes[start : start + BATCH]
        self._cursor += len(changes)
        return b"".join(filter(None, map(self._line, changes)))

    def _take_initial(self, entries: Iterator[Entry]) -> bytes:
        batch = list(islice(entries, BATCH))
        lines = [self._renderer.line(ChangeType.ADDED, entry) for entry in batch]
        if len(batch) < BATCH:
            self._initial = None
            if self._ends_initial_events and self._wants_bookmarks:
                version = self._version_seen()
                lines.append(self._renderer.bookmark(version, ends_initial_events=True))
        return b"".join(lines)

    def close(self, *, abort: bool = False) -> None:
        """Ends the answer, or cuts the connection."""
        self.is_over, self.is_aborted = True, abort
        self.wake.set()

    def expire(self) -> None:
        """Ends the watch with the error that its version is too old."""
        self.failure = expired("told to say so")
        self.wake.set()

    def inject(self, line: bytes) -> None:
        """Sends a line of any content between the events."""
        self._injected.append(line)
        self.wake.set()

    def bookmark(self) -> bytes:
        """A bookmark at the version this watch has come to; nothing if none are wanted."""
        if not self._wants_bookmarks or self._initial is not None:
            return b""
        version = self._version_seen()
        return self._renderer.bookmark(version) if version > self._after else b""

    def _version_seen(self) -> int:
        """The newest version up to which the client knows everything."""
        position = self._cursor - self._collection.first_cursor
        if position < len(self._collection.changes):
            return self._collection.changes[position].version - 1
        return self._store.version

    def _line(self, change: Change) -> bytes | None:
        if change.version <= self._after:
            return None
        matches = self._wanted.matches
        if matches is None:
            return self._renderer.line(change.type, change.entry)
        is_in = change.type is not ChangeType.DELETED and matches(change.entry)
        was_in = change.old is not None and matches(change.old)
        if is_in:
            kind = ChangeType.MODIFIED if was_in else ChangeType.ADDED
            return self._renderer.line(kind, change.entry)
        if not was_in or change.old is None:
            return None
        # An object that leaves the selection is shown as it was, at the version of the change.
        old = change.old
        last = make_entry(self._collection.kind, old.key, old.content(), change.version)
        return self._renderer.line(ChangeType.DELETED, last)


def _streams_list(query: Mapping[str, str]) -> bool:
    """Whether the client wants the list as events first (`sendInitialEvents`)."""
    send = query.get("sendInitialEvents")
    if send in _TRUE and query.get("resourceVersionMatch") != "NotOlderThan":
        raise bad_request("sendInitialEvents needs resourceVersionMatch=NotOlderThan")
    return send in _TRUE

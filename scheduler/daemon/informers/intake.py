"""Decodes one kind's objects from lists and watches, and applies them to its store.

No bytes can end an informer: an object that cannot be decoded is counted and left out.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec

from scheduler.clock import Clock
from scheduler.daemon.client.errors import UnavailableError, error_from_event
from scheduler.daemon.client.wire import UNREADABLE
from scheduler.daemon.informers.kinds import Kind, MalformedObjectError
from scheduler.daemon.informers.metadata_peek import peek_metadata
from scheduler.daemon.informers.reports import Reports
from scheduler.daemon.informers.restore_detector import RestoreDetector
from scheduler.daemon.informers.store import Store, key_of
from scheduler.daemon.informers.wire import (
    BOOKMARK,
    CHANGES,
    DELETED,
    ERROR,
    bookmark_decoder,
    event_decoder,
)

T = TypeVar("T")

SLICE_SECONDS: Final = 0.001


class Pacer:
    """Divides work into slices of time, after which other tasks of the event loop run."""

    def __init__(self, clock: Clock, slice_seconds: float = SLICE_SECONDS) -> None:
        self._clock = clock
        self._slice_seconds = slice_seconds
        self._ends = clock.monotonic() + slice_seconds

    @property
    def is_due(self) -> bool:
        """Whether the slice is over."""
        return self._clock.monotonic() >= self._ends

    async def pause(self) -> None:
        """Let every other ready task run once, and begin a new slice."""
        await asyncio.sleep(0)
        self._ends = self._clock.monotonic() + self._slice_seconds


class Intake(Generic[T]):
    """Applies listed objects and watch events to a store.

    Attributes:
        restores: detects a restored server by the newest objects received.
        pacer: interrupts long lists, so that other tasks run.
        taken: number of objects received in lists.
        malformed: reports objects that cannot be decoded.
    """

    def __init__(self, kind: Kind[T], store: Store[T], reports: Reports, clock: Clock) -> None:
        self._store = store
        self._reports = reports
        self.pacer = Pacer(clock)
        self.taken = 0
        self.malformed = reports.malformed
        self._unnamed: dict[str, None] = {}
        """Known keys that the list in progress has not contained yet; removed at its end."""
        self.move_to(kind)

    def move_to(self, kind: Kind[T]) -> None:
        """Decode the following objects as this kind."""
        self._kind = kind
        self.restores = RestoreDetector(kind)

    # --- lists ----------------------------------------------------------------------------------

    def begin_list(self) -> None:
        """Begin a list; `end_list` removes the known objects that it does not contain."""
        self._unnamed = dict.fromkeys((*self._store, *self._reports.malformed_keys))

    async def take_items(self, items: Sequence[msgspec.Raw]) -> None:
        """Decode and store objects of the list."""
        self.taken += len(items)
        for item in items:
            self._take_item(item)
            if self.pacer.is_due:
                await self.pacer.pause()

    def _take_item(self, raw: msgspec.Raw) -> None:
        try:
            obj = self._kind.decode(raw)
        except MalformedObjectError as problem:
            seen = peek_metadata(raw)
            self.malformed(seen, problem)
            # Keep the last state that was decoded: the pod still uses the resources of its node.
            self._unnamed.pop(key_of(seen), None)
            return
        self._store.apply(obj)
        if self._unnamed:
            self._unnamed.pop(self._store.key_of(obj), None)
        self.restores.saw(self._kind.meta_of(obj))

    async def end_list(self) -> None:
        """Remove the objects that the list has not contained: they were deleted."""
        unnamed, self._unnamed = self._unnamed, {}
        for key in unnamed:
            self._store.remove(key)
            self._reports.forget(key)
            if self.pacer.is_due:
                await self.pacer.pause()

    # --- watches --------------------------------------------------------------------------------

    def take_line(self, line: bytes) -> str:
        """Decode and apply a line of a watch.

        Returns:
            The version that the watch has reached; empty if the line has none.

        Raises:
            ApiError: the line is an ERROR event, or no event.
        """
        kind, store = self._kind, self._store
        try:
            event_type, obj = kind.decode_event(line)
        except MalformedObjectError as problem:
            return self._take_unusual(line, problem)
        meta = kind.meta_of(obj)
        if event_type == DELETED:
            store.remove(store.key_of(obj))
        elif event_type in CHANGES:
            store.apply(obj)
            self.restores.saw(meta)
        else:
            return self._take_unusual(line, ValueError(f"unknown event type {event_type!r}"))
        return meta.resource_version

    def _take_unusual(self, line: bytes, problem: Exception) -> str:
        """Handle a line that is no readable change: bookmark, error, malformed object, no event."""
        if not line.strip():
            return ""
        seen, about = peek_metadata(line), f"watch {self._kind.name}"
        if not seen.type:
            raise UnavailableError(about, message=f"not an event: {problem}")
        if seen.type == ERROR:
            raise error_from_event(about, _object_of(line))
        if seen.type == BOOKMARK:
            return _version_of_bookmark(line)
        if seen.type == DELETED and seen.name:
            self._store.remove(key_of(seen))
        else:
            self.malformed(seen, problem)
        return seen.resource_version


def _object_of(line: bytes) -> bytes:
    try:
        return bytes(event_decoder.decode(line).object)
    except UNREADABLE:
        return b""


def _version_of_bookmark(line: bytes) -> str:
    """Return the version of a bookmark; empty if it cannot be decoded."""
    try:
        return bookmark_decoder.decode(_object_of(line)).metadata.resource_version
    except UNREADABLE:
        return ""

"""Splits a page of a list into its objects while the page arrives."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from scheduler.daemon.client.errors import TooLargeError, UnavailableError, cut
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.wire import UNREADABLE
from scheduler.daemon.informers.kinds import Kind
from scheduler.daemon.informers.metadata_peek import peek_metadata
from scheduler.daemon.informers.paging import PageSize
from scheduler.daemon.informers.wire import ListMeta, Page, items_decoder, list_query, page_decoder

MAX_HELD_BYTES: Final = 2**25
"""Bytes at most of a page that cannot be split, or of one object."""

_HEAD_BYTES: Final = 2**16
_ITEMS: Final = b'"items":['
_BETWEEN: Final = b'},{"metadata":{'
"""The bytes between two objects. They cannot occur in a string, where quotes are escaped."""

Take = Callable[[Sequence[msgspec.Raw]], Awaitable[None]]


class PageReader:
    """Reads one page and delivers its objects as they arrive; the rest is held in memory.

    A page can be split if its kind and version precede its objects, and each object begins with its
    metadata. API servers' lists of built-in kinds are such pages. Other pages, and the rest of a
    page after unreadable bytes, are held until the end.

    Args:
        kind: the kind to list; a page of another kind is not split.
        size: the number of objects to request.
        continue_: the continue token of the page, or empty.

    Attributes:
        path: the path of the request.
        received: number of bytes received, unpacked.
    """

    def __init__(self, kind: Kind[Any], size: PageSize, continue_: str) -> None:
        self.path = f"{kind.path}?{list_query(kind.field_selector, size.now, continue_)}"
        self.received = 0
        self._kind = kind
        self._size = size
        self._head = b""
        self._held = bytearray()
        self._can_split: bool | None = None
        """Whether the page can be split; None while unknown."""

    async def read(self, session: ApiSession, timeout: float, take: Take) -> bytes:
        """Deliver the objects to `take`; return the page with the objects not delivered yet.

        Raises:
            TooLargeError: more than `MAX_HELD_BYTES` would be held.
            ApiError: there is no answer, or it broke off; then the page size was reduced.
        """
        try:
            async with session.download(self.path, timeout=timeout) as body:
                while part := await body.read():
                    self.received += len(part)
                    await take(self._split(part))
        except UnavailableError:
            if self.received:
                self._size.shrink()
            raise
        return self._head + self._held

    def page(self, body: bytes) -> tuple[Page, Exception | None]:
        """Return the decoded page, and the error if its objects cannot be decoded.

        Raises:
            UnavailableError: the page is no list; taken for an empty one, it would empty the store.
        """
        problem: Exception | None = None
        try:
            page = page_decoder.decode(body)
        except UNREADABLE as broken:
            seen, problem = peek_metadata(body), broken
            page = Page(seen.kind, ListMeta(seen.resource_version, seen.continue_))
        wanted = self._kind.list_kind
        if page.kind != wanted or not page.metadata.resource_version:
            what = problem or f"expected {wanted} with a version, got {page.kind!r}"
            raise UnavailableError(f"GET {self.path}", message=cut(f"not a list: {what}"))
        return page, problem

    def _split(self, part: bytes) -> Sequence[msgspec.Raw]:
        """Return the objects that are complete with this part, except the last one."""
        # The bytes held before contain no boundary, except one that ends in the new part.
        searched = max(0, len(self._held) - len(_BETWEEN))
        self._held += part
        if len(self._held) > MAX_HELD_BYTES:
            why = f"the answer is longer than {MAX_HELD_BYTES} bytes"
            raise TooLargeError(f"GET {self.path}", message=why)
        if self._can_split is None:
            self._look_at_head()
            searched = 0
        end = self._held.rfind(_BETWEEN, searched) if self._can_split else -1
        if end < 0:
            return ()
        try:
            items = items_decoder.decode(b"".join((b"[", self._held[:end], b"}]")))
        except UNREADABLE:
            self._can_split = False
            return ()
        del self._held[: end + 2]
        return items

    def _look_at_head(self) -> None:
        place = self._held.find(_ITEMS, 0, _HEAD_BYTES)
        if place < 0:
            self._can_split = False if len(self._held) > _HEAD_BYTES else None
            return
        head = bytes(self._held[: place + len(_ITEMS)])
        try:
            page = page_decoder.decode(head + b"]}")
        except UNREADABLE:
            self._can_split = False
            return
        self._can_split = page.kind == self._kind.list_kind and bool(page.metadata.resource_version)
        if self._can_split:
            self._head = head
            del self._held[: len(head)]

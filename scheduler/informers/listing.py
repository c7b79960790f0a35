"""All objects of a kind, asked for once; for commands that look at a cluster and end."""

from contextlib import suppress
from typing import Any, Final, TypeVar

from scheduler.client.errors import GoneError, TooLargeError, UnavailableError
from scheduler.client.session import ApiSession
from scheduler.client.wire import UNREADABLE
from scheduler.informers.glimpse import glimpse
from scheduler.informers.kinds import Kind, MalformedObjectError
from scheduler.informers.paging import FIRST, PageSize
from scheduler.informers.store import key_of
from scheduler.informers.wire import Page, list_query, page_decoder

T = TypeVar("T")

_TRIES: Final = 3


async def list_all(session: ApiSession, kind: Kind[T]) -> tuple[list[T], list[str]]:
    """The objects of a kind, and what is wrong with those that cannot be read.

    Raises:
        ApiError: the server refuses, cannot be reached, or answers something else.
    """
    for _ in range(_TRIES - 1):
        # A list may be so long that its version is forgotten on the way.
        with suppress(GoneError):
            return await _pages(session, kind)
    return await _pages(session, kind)


async def _pages(session: ApiSession, kind: Kind[T]) -> tuple[list[T], list[str]]:
    objects: list[T] = []
    problems: list[str] = []
    size, continue_ = PageSize(FIRST), ""
    while True:
        path = f"{kind.path}?{list_query(kind.field_selector, size.now, continue_)}"
        try:
            body = (await session.request("GET", path)).body
        except TooLargeError:
            if size.shrink():
                continue
            raise
        page = _page(path, body, kind)
        for raw in page.items or ():
            try:
                objects.append(kind.decode(raw))
            except MalformedObjectError as problem:
                problems.append(f"{kind.name} {key_of(glimpse(raw))} cannot be read: {problem}")
        size.took(len(page.items or ()), len(body))
        continue_ = page.metadata.continue_
        if not continue_:
            return objects, problems


def _page(path: str, body: bytes, kind: Kind[Any]) -> Page:
    try:
        page = page_decoder.decode(body)
    except UNREADABLE as problem:
        raise UnavailableError(f"GET {path}", message=f"not a list: {problem}") from problem
    if page.kind != kind.list_kind:
        what = f"expected {kind.list_kind}, got {page.kind!r}"
        raise UnavailableError(f"GET {path}", message=f"not a list: {what}")
    return page

"""Lists all objects of a kind once, for commands that read a cluster and exit."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from scheduler.daemon.client.errors import GoneError, NotFoundError, TooLargeError, UnavailableError
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.informers.kinds import Kind, MalformedObjectError
from scheduler.daemon.informers.metadata_peek import peek_metadata
from scheduler.daemon.informers.pages import PageReader
from scheduler.daemon.informers.paging import FIRST, PageSize
from scheduler.daemon.informers.store import key_of
from scheduler.daemon.informers.wire import Page

T = TypeVar("T")

_TRIES: Final = 3
_TIMEOUT_SECONDS: Final = 60.0
"""Time limit for one page."""


async def list_all(session: ApiSession, kind: Kind[T]) -> tuple[list[T], list[str]]:
    """Return the objects of a kind, and a description of each that cannot be decoded.

    Both are empty if the server does not serve the kind and the kind may be absent.

    Raises:
        ApiError: the server refuses, cannot be reached, or does not answer with a list.
    """
    for place in kind.places or (kind,):
        try:
            return await _whole(session, place)
        except NotFoundError:
            if not kind.may_be_absent:
                raise
    return [], []


async def check_list(session: ApiSession, kind: Kind[Any]) -> None:
    """Check that a kind can be listed, by its first object.

    Raises:
        ApiError: as `list_all`.
    """

    async def skip(_: Sequence[msgspec.Raw]) -> None:
        pass

    reader = PageReader(kind, PageSize(1), "")
    _readable(reader, await reader.read(session, _TIMEOUT_SECONDS, skip))


async def _whole(session: ApiSession, kind: Kind[T]) -> tuple[list[T], list[str]]:
    for _ in range(_TRIES - 1):
        # The continue token of a long list may expire before its last page.
        with suppress(GoneError):
            return await _pages(session, kind)
    return await _pages(session, kind)


async def _pages(session: ApiSession, kind: Kind[T]) -> tuple[list[T], list[str]]:
    objects: list[T] = []
    problems: list[str] = []
    size, continue_ = PageSize(FIRST), ""

    async def take(items: Sequence[msgspec.Raw]) -> None:
        for raw in items:
            try:
                objects.append(kind.decode(raw))
            except MalformedObjectError as problem:
                problems.append(
                    f"{kind.name} {key_of(peek_metadata(raw))} cannot be read: {problem}"
                )

    while True:
        before = len(objects), len(problems)
        reader = PageReader(kind, size, continue_)
        try:
            page = _readable(reader, await reader.read(session, _TIMEOUT_SECONDS, take))
        except TooLargeError:
            if size.shrink():
                del objects[before[0] :], problems[before[1] :]
                continue
            raise
        await take(page.items or ())
        size.took(len(objects) - before[0], reader.received)
        continue_ = page.metadata.continue_
        if not continue_:
            return objects, problems


def _readable(reader: PageReader, body: bytes) -> Page:
    page, problem = reader.page(body)
    if problem is not None:
        raise UnavailableError(f"GET {reader.path}", message=f"not a list: {problem}")
    return page

"""Answers to list requests: which objects, of which version, in which pages.

Source: k8s.io/apiserver pkg/storage (ListOptions, continue tokens) and
pkg/apis/meta/internalversion/validation.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from scheduler.sandbox.field_errors import forbidden, not_supported
from scheduler.sandbox.kinds import Kind
from scheduler.sandbox.selectors import (
    Predicate,
    SelectorError,
    parse_fields,
    parse_labels,
    predicate,
)
from scheduler.sandbox.status import (
    StatusError,
    bad_request,
    expired,
    invalid_options,
    too_large_resource_version,
    too_old_resource_version,
)
from scheduler.sandbox.store import Collection, Entry, Key, Store

_MATCHES: Final = ("", "Exact", "NotOlderThan")
_EXPIRED_PAGES: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter."
)


class _Token(msgspec.Struct, frozen=True):
    """What a continue token holds: the version the list is of, and the last key shown."""

    version: int
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind a request is about."""

    namespace: str
    """Empty for all."""
    matches: Predicate | None
    """None when every object is wanted."""


@dataclass(frozen=True, slots=True)
class Page:
    """One answer to a list request."""

    entries: list[Entry]
    version: int
    next_token: str = ""
    remaining: int | None = None


def selection(kind: Kind, namespace: str, query: Mapping[str, str]) -> Selection:
    """What the selectors of a request ask for.

    Raises:
        StatusError: 400, a selector does not parse or names a field that is not selectable.
    """
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not labels and not fields and not namespace:
        return Selection(namespace, None)
    try:
        requirements = parse_labels(labels)
        terms = parse_fields(fields, kind.field_positions)
    except SelectorError as error:
        raise bad_request(str(error)) from error
    return Selection(namespace, predicate(requirements, terms, namespace))


def version_number(text: str) -> int:
    """A resourceVersion as a number, 0 when it is not given.

    Raises:
        StatusError: 400, it is not a number.
    """
    if not text:
        return 0
    if not text.isdigit():
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def list_page(
    store: Store, collection: Collection, wanted: Selection, query: Mapping[str, str]
) -> Page:
    """The objects a list request asks for.

    Raises:
        StatusError: 400 for contradictory parameters, 410 for a version that is forgotten, 504 for
            one that is yet to come.
    """
    asked, match = version_number(query.get("resourceVersion", "")), _match(query)
    limit = version_number(query.get("limit", ""))
    if query.get("continue"):
        token = _read_token(query["continue"])
        if token.version < collection.floor:
            raise expired(_EXPIRED_PAGES)
        entries = _selected(collection.as_of(token.version), wanted)
        start = Key(token.namespace, token.name)
        remaining = (entry for entry in entries if entry.key > start)
        return _paged(remaining, token.version, limit)
    if asked > store.version:
        raise too_large_resource_version(asked, store.version)
    if match == "Exact" and asked < store.version:
        if asked < collection.floor:
            raise too_old_resource_version(asked, collection.floor)
        return _paged(_selected(collection.as_of(asked), wanted), asked, limit)
    return _paged(current(collection, wanted), store.version, limit)


def current(collection: Collection, wanted: Selection) -> Iterable[Entry]:
    """The objects as they are now, sorted by namespace and name."""
    if wanted.namespace:
        return _selected(collection.in_namespace(wanted.namespace), wanted)
    return _selected(collection.entries(), wanted)


def _match(query: Mapping[str, str]) -> str:
    match = query.get("resourceVersionMatch", "")
    if match not in _MATCHES:
        fault = not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", ""))
        raise invalid_options("ListOptions", fault)
    if match and not query.get("resourceVersion"):
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise invalid_options("ListOptions", forbidden("resourceVersionMatch", why))
    return match


def _selected(entries: Iterator[Entry], wanted: Selection) -> Iterator[Entry]:
    matches = wanted.matches
    return entries if matches is None else (entry for entry in entries if matches(entry))


def _paged(entries: Iterable[Entry], version: int, limit: int) -> Page:
    if not limit:
        return Page(list(entries), version)
    iterator = iter(entries)
    shown = list(islice(iterator, limit))
    remaining = sum(1 for _ in iterator)
    if not remaining:
        return Page(shown, version)
    last = shown[-1].key
    token = msgspec.json.encode(_Token(version, last.namespace, last.name))
    return Page(shown, version, base64.urlsafe_b64encode(token).decode().rstrip("="), remaining)


def _read_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise _bad_token(error) from error


def _bad_token(error: Exception) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {error}")

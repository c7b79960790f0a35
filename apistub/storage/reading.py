"""Answers to list requests: which objects, of which version, in which pages.

Source: k8s.io/apiserver pkg/storage (ListOptions, continue tokens).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from apistub.storage.kinds import Kind
from apistub.storage.selectors import Predicate, parse_fields, parse_labels, predicate
from apistub.storage.status import StatusError, bad_request, expired
from apistub.storage.store import Collection, Entry, Key, Store


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
    """Version, namespace and name up to which the pages so far go; none on the last one."""


def selection(kind: Kind, namespace: str, query: Mapping[str, str]) -> Selection:
    """What the selectors of a request ask for.

    Raises:
        StatusError: 400, a selector does not parse or names a field that is not selectable.
    """
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not labels and not fields and not namespace:
        return Selection(namespace, None)
    terms = parse_fields(fields, kind.field_positions)
    return Selection(namespace, predicate(parse_labels(labels), terms, namespace))


def number_in(query: Mapping[str, str], name: str) -> int:
    """A parameter that is a number, 0 when it is not given.

    Raises:
        StatusError: 400, it is not a number.
    """
    text = query.get(name, "")
    if text and not text.isdigit():
        raise bad_request(f"{name}: expected a number, not {text!r}")
    return int(text or 0)


def list_page(store: Store, kind: Kind, wanted: Selection, query: Mapping[str, str]) -> Page:
    """The objects a list request asks for.

    Raises:
        StatusError: 400 for broken parameters, 410 for a version that is forgotten, 504 for one
            that is yet to come.
    """
    collection, limit = store.collection(kind), number_in(query, "limit")
    if token := query.get("continue"):
        version, start = _read_token(token)
        if version < collection.floor:
            raise expired(f"version {version} is forgotten; list again from the start")
        later = (entry for entry in collection.as_of(version) if entry.key > start)
        return _paged(_selected(later, wanted), version, limit)
    asked = number_in(query, "resourceVersion")
    if asked > store.version:
        text = f"version {asked} is yet to come; it is {store.version} now"
        cause = {"reason": "ResourceVersionTooLarge", "message": text}
        raise StatusError(504, text, {"causes": [cause], "retryAfterSeconds": 1})
    return _paged(current(collection, wanted), store.version, limit)


def current(collection: Collection, wanted: Selection) -> Iterable[Entry]:
    """The objects as they are now, sorted by namespace and name."""
    if wanted.namespace:
        return _selected(collection.in_namespace(wanted.namespace), wanted)
    return _selected(collection.entries(), wanted)


def _selected(entries: Iterator[Entry], wanted: Selection) -> Iterator[Entry]:
    matches = wanted.matches
    return entries if matches is None else (entry for entry in entries if matches(entry))


def _paged(entries: Iterable[Entry], version: int, limit: int) -> Page:
    iterator = iter(entries)
    shown = list(islice(iterator, limit or None))
    if not limit or next(iterator, None) is None:
        return Page(shown, version)
    last = shown[-1].key
    return Page(shown, version, f"{version}/{last.namespace}/{last.name}")


def _read_token(text: str) -> tuple[int, Key]:
    version, *key = text.split("/")
    if not version.isdigit() or len(key) != len(Key._fields):
        raise bad_request(f"{text!r} does not continue any list")
    return int(version), Key(*key)

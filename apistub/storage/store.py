"""What the stand-in holds: objects as JSON bytes, one version counter, and a history of changes.

A collection holds the objects of one kind. An entry never changes; a write puts a new one in its
place and appends a change to the history, from which watches and reads of old versions live.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from apistub.storage.kinds import KINDS, FieldPath, Kind, Object

DEFAULT_HISTORY: Final = 50_000
"""How many changes each collection remembers at least."""
_SLACK: Final = 1.25
_NO_LABELS: Final[Mapping[str, str]] = {}

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class Key(NamedTuple):
    """Where an object is in its collection; the namespace is empty for cluster-scoped kinds."""

    namespace: str
    name: str


class ChangeType(Enum):
    """What happened to an object, as a watch names it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One version of one object."""

    key: Key
    uid: str
    version: int
    body: bytes
    """The object as JSON, without the opening brace, kind and apiVersion."""
    labels: Mapping[str, str]
    fields: tuple[str, ...]
    """The values its kind can be selected by, see `Kind.field_positions`."""

    def content(self) -> Object:
        """A fresh copy of the object, without kind and apiVersion."""
        content: Object = _decode(b"{" + self.body)
        return content


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One write."""

    version: int
    type: ChangeType
    entry: Entry
    """The object afterwards; for a deletion its last state, at the version of the deletion."""
    old: Entry | None
    """The object before; none for a creation."""


class Collection:
    """All objects of one kind, and the changes that led to them.

    Invariant:
        `changes` is in the order of versions and holds every change above `floor`.
    """

    def __init__(self, kind: Kind, history_limit: int) -> None:
        self.kind = kind
        self.changes: list[Change] = []
        self.first_cursor = 0
        """The number of changes that are forgotten; cursors count from the first ever."""
        self.floor = 0
        """The newest version that is forgotten."""
        self._history_limit = history_limit
        self._entries: dict[Key, Entry] = {}
        self._namespaces: dict[str, dict[str, Entry]] = {}
        self._sorted: list[Key] | None = None
        self._listeners: dict[object, Callable[[], None]] = {}

    def get(self, key: Key) -> Entry | None:
        """The object of that name, if it is there."""
        return self._entries.get(key)

    def entries(self) -> Iterator[Entry]:
        """All objects, sorted by namespace and name."""
        if self._sorted is None:
            self._sorted = sorted(self._entries)
        return map(self._entries.__getitem__, self._sorted)

    def in_namespace(self, namespace: str) -> Iterator[Entry]:
        """The objects of one namespace, sorted by name."""
        entries = self._namespaces.get(namespace, {})
        return map(entries.__getitem__, sorted(entries))

    def as_of(self, version: int) -> Iterator[Entry]:
        """All objects as they were at a version above the floor, sorted by namespace and name.

        Cost: O(objects + changes since then).
        """
        then: dict[Key, Entry | None] = dict(self._entries)
        for change in reversed(self.changes):
            if change.version <= version:
                break
            then[change.entry.key] = change.old
        return (entry for key in sorted(then) if (entry := then[key]) is not None)

    def cursor_after(self, version: int) -> int:
        """The cursor of the first change that is newer than a version above the floor."""
        position = bisect_right(self.changes, version, key=lambda change: change.version)
        return self.first_cursor + position

    @property
    def end_cursor(self) -> int:
        """The cursor of the next change to come."""
        return self.first_cursor + len(self.changes)

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Has `listener` called after every change; calling the answer ends that."""
        token = object()
        self._listeners[token] = listener

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe

    def forget_changes(self) -> None:
        """Drops the whole history, as a compaction of the store would."""
        self._drop(len(self.changes))

    def apply(self, change: Change) -> None:
        """Takes over a write; only the store calls this."""
        key, entry = change.entry.key, change.entry
        if change.type is ChangeType.DELETED:
            del self._entries[key]
            del self._namespaces[key.namespace][key.name]
            self._sorted = None
        else:
            if change.old is None:
                self._sorted = None
            self._entries[key] = entry
            self._namespaces.setdefault(key.namespace, {})[key.name] = entry
        self.changes.append(change)
        if len(self.changes) > self._history_limit * _SLACK:
            self._drop(len(self.changes) - self._history_limit)
        for listener in tuple(self._listeners.values()):
            listener()

    def set_back(self, entries: Mapping[Key, Entry], version: int) -> None:
        """Replaces all objects by those of an earlier version; watches are not told."""
        self._entries, self._sorted = dict(entries), None
        self._namespaces = {}
        for key, entry in entries.items():
            self._namespaces.setdefault(key.namespace, {})[key.name] = entry
        self.changes = [change for change in self.changes if change.version <= version]

    def _drop(self, count: int) -> None:
        if count:
            self.floor = self.changes[count - 1].version
            self.first_cursor += count
            del self.changes[:count]


@dataclass(frozen=True, slots=True, eq=False)
class Backup:
    """All objects at one version."""

    version: int
    entries: Mapping[str, Mapping[Key, Entry]]


class Store:
    """All collections under one version counter."""

    def __init__(self, history_limit: int = DEFAULT_HISTORY) -> None:
        self.version = 1
        self._collections = {
            kind.key: Collection(kind, history_limit) for kind in KINDS if not kind.stored_as
        }

    def collection(self, kind: Kind) -> Collection:
        """Where a kind's objects are."""
        return self._collections[kind.storage_key]

    def collections(self) -> Iterator[Collection]:
        """All collections."""
        return iter(self._collections.values())

    def back_up(self) -> Backup:
        """All objects as they are."""
        collections = self._collections.items()
        entries = {name: {e.key: e for e in each.entries()} for name, each in collections}
        return Backup(self.version, entries)

    def restore(self, backup: Backup) -> None:
        """Goes back to a backup: versions count up again from there."""
        self.version = backup.version
        for name, entries in backup.entries.items():
            self._collections[name].set_back(entries, backup.version)

    def find(self, kind: Kind, name: str) -> Object | None:
        """The content of one object of the cluster, if it is there."""
        entry = self.collection(kind).get(Key("", name))
        return entry.content() if entry else None

    def put(self, collection: Collection, key: Key, content: Object) -> Entry:
        """Stores an object under the next version; it must not be used by the caller afterwards."""
        old = collection.get(key)
        self.version += 1
        entry = make_entry(collection.kind, key, content, self.version)
        kind = ChangeType.ADDED if old is None else ChangeType.MODIFIED
        collection.apply(Change(self.version, kind, entry, old))
        return entry

    def remove(self, collection: Collection, key: Key) -> Entry:
        """Deletes an object that is there; the answer is its last state at the new version."""
        old = collection.get(key)
        if old is None:
            raise KeyError(key)
        self.version += 1
        last = make_entry(collection.kind, key, old.content(), self.version)
        collection.apply(Change(self.version, ChangeType.DELETED, last, old))
        return last


def make_entry(kind: Kind, key: Key, content: Object, version: int) -> Entry:
    """An entry for an object's content; sets the version in it."""
    metadata = content["metadata"]
    metadata["resourceVersion"] = str(version)
    return Entry(
        key=key,
        uid=metadata["uid"],
        version=version,
        body=_encode(content)[1:],
        labels=metadata.get("labels") or _NO_LABELS,
        fields=tuple([_field_text(content, path) for path in kind.stored_paths]),
    )


def _field_text(content: Object, path: FieldPath) -> str:
    value: object = content
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if path == ("spec", "unschedulable"):
        return "true" if value else "false"
    return "" if value is None else str(value)

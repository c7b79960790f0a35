"""The rules of writing: what happens between a request's object and the store.

Source: k8s.io/apiserver pkg/registry/generic/registry/store.go (Create, Update) and
pkg/registry/rest (BeforeCreate, BeforeUpdate).
"""

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from apistub.rules.checks import metadata_faults
from apistub.rules.others import rules_of, warnings_about
from apistub.storage.event_forms import shown, stored_form
from apistub.storage.kinds import NAMESPACES, NODES, Kind, Object
from apistub.storage.status import (
    Fault,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from apistub.storage.store import Collection, Entry, Key, Store
from apistub.storage.timestamps import time_text
from scheduler.clock import Clock

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_NAME_MAX: Final = 63
_SERVER_OWNED: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write."""

    entry: Entry
    created: bool = False
    warnings: tuple[str, ...] = ()


class Registry:
    """Creates and updates objects by the rules of their kinds."""

    def __init__(self, store: Store, clock: Clock, random: Random) -> None:
        self.store = store
        self._clock = clock
        self._random = random

    def now(self) -> str:
        """The time as objects carry it."""
        return time_text(self._clock.wall())

    def get(self, kind: Kind, key: Key) -> Entry:
        """One object.

        Raises:
            StatusError: 404.
        """
        entry = self.store.collection(kind).get(key)
        if entry is None:
            raise not_found(kind, key.name)
        return entry

    def create(
        self,
        kind: Kind,
        namespace: str,
        given: Object,
        *,
        keep_status: bool = False,
    ) -> Written:
        """Adds an object.

        Args:
            kind: what it is.
            namespace: where it goes; empty takes the object's own, or `default`.
            given: the object as a client sends it.
            keep_status: whether the status comes along although clients may not set it.

        Raises:
            StatusError: the object is refused.
        """
        content = self._typed(kind, given)
        with _readable(kind):
            return self._create(kind, namespace, content, keep_status=keep_status)

    def _create(self, kind: Kind, namespace: str, content: Object, *, keep_status: bool) -> Written:
        meta = content.setdefault("metadata", {})
        self._check_new_metadata(kind, namespace, meta)
        rules, collection = rules_of(kind), self.store.collection(kind)
        self._name(collection, meta)
        meta["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        meta["creationTimestamp"] = self.now()
        if kind.has_generation:
            meta["generation"] = 1
        # Nodes come with the status of their kubelet.
        status = content.get("status") if kind is NODES else content.pop("status", None)
        rules.default(content)
        _refuse(kind, content, [*metadata_faults(meta), *rules.validate(content)])
        rules.admit(content, self.store)
        if keep_status and status:
            content["status"] = {**content.get("status", {}), **status}
        key = Key(meta.get("namespace", ""), meta["name"])
        if collection.get(key) is not None:
            raise already_exists(kind, key.name)
        warnings = warnings_about(kind, content)
        entry = self.store.put(collection, key, content)
        return Written(entry, created=True, warnings=warnings)

    def update(
        self, kind: Kind, key: Key, given: Object, subresource: str = "", *, is_patch: bool = False
    ) -> Written:
        """Replaces an object, or only its status.

        Raises:
            StatusError: 404, 409 when it is based on another version, or what breaks the rules.
        """
        old_entry = self.get(kind, key)
        content, old = self._typed(kind, given), old_entry.content()
        with _readable(kind):
            meta = content.setdefault("metadata", {})
            _check_identity(kind, key, meta, old_entry, is_patch=is_patch)
            new = _succeed(kind, content, old, subresource)
        warnings = warnings_about(kind, new)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new == old:
            return Written(old_entry, warnings=warnings)
        collection = self.store.collection(kind)
        if _is_finished(new["metadata"]):
            return Written(self.store.remove(collection, key), warnings=warnings)
        return Written(self.store.put(collection, key, new), warnings=warnings)

    def transform(
        self,
        kind: Kind,
        key: Key,
        change: Callable[[Object], Object],
        subresource: str = "",
    ) -> Written:
        """Replaces an object by what `change` makes of it, as a patch does."""
        before = shown(kind, self.get(kind, key))
        with _readable(kind):
            after = change(before)
        return self.update(kind, key, after, subresource, is_patch=True)

    def _typed(self, kind: Kind, given: Object) -> Object:
        """The stored form of an object that says, if anything, that it is of the kind."""
        content: Object = _without_nulls(given)
        version, name = content.pop("apiVersion", ""), content.pop("kind", "")
        if version not in {"", kind.api_version} or name not in {"", kind.kind}:
            raise bad_request(
                f"expected a {kind.kind} of {kind.api_version}, not a {name} of {version}"
            )
        return stored_form(kind, content)

    def _check_new_metadata(self, kind: Kind, namespace: str, meta: Object) -> None:
        for name in ("resourceVersion", *_SERVER_OWNED, "managedFields"):
            meta.pop(name, None)
        if not kind.namespaced:
            meta.pop("namespace", None)
            return
        namespace = namespace or meta.get("namespace") or "default"
        if meta.setdefault("namespace", namespace) != namespace:
            raise bad_request(f"the object says namespace {meta['namespace']}, not {namespace}")
        found = self.store.collection(NAMESPACES).get(Key("", namespace))
        if found is None:
            raise not_found(NAMESPACES, namespace)
        if "Terminating" in found.fields:
            raise forbidden(kind, meta.get("name", ""), f"namespace {namespace} is about to go")

    def _name(self, collection: Collection, meta: Object) -> None:
        stem = meta.get("generateName", "")[: _NAME_MAX - _SUFFIX_LENGTH]
        while stem and not meta.get("name"):
            name = stem + "".join(self._random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
            if collection.get(Key(meta.get("namespace", ""), name)) is None:
                meta["name"] = name


@contextmanager
def _readable(kind: Kind) -> Iterator[None]:
    """Refuse objects with parts of types that the rules, which trust them, do not expect."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise bad_request(f"not the shape of a {kind.kind}: {error}") from error


def _without_nulls(value: Any) -> Any:
    """A value without the fields that are null, which mean the same as those left out."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _check_identity(kind: Kind, key: Key, meta: Object, old: Entry, *, is_patch: bool) -> None:
    name = meta.setdefault("name", key.name)
    if name != key.name or (meta.get("namespace") or key.namespace) != key.namespace:
        raise bad_request(f"the object is another one than {key.name} of the path")
    if (meta.get("uid") or old.uid) != old.uid:
        if is_patch:
            # Elsewhere the UID is a precondition; in a patch it is an immutable field.
            raise invalid(kind, name, [Fault("metadata.uid", "field is immutable")])
        raise conflict(kind, name, f"its uid is {old.uid}, not {meta['uid']}")
    if meta.get("resourceVersion", "") not in {"", "0", str(old.version)}:
        raise conflict(kind, name)


def _succeed(kind: Kind, content: Object, old: Object, subresource: str) -> Object:
    """The object that follows the old one, checked."""
    meta, old_meta = content["metadata"], old["metadata"]
    meta.pop("managedFields", None)
    for name in _SERVER_OWNED:
        meta.pop(name, None)
        if name in old_meta:
            meta[name] = old_meta[name]
    if kind.namespaced:
        meta["namespace"] = old_meta["namespace"]
    rules = rules_of(kind)
    if subresource == "status":
        return {**old, "metadata": meta, "status": content.get("status", {})}
    if kind.has_status:
        content.pop("status", None)
        if "status" in old:
            content["status"] = old["status"]
    rules.default(content)
    rules.prepare_update(content, old)
    if kind.has_generation and content.get("spec") != old.get("spec"):
        meta["generation"] = old_meta.get("generation", 0) + 1
    faults = (
        *metadata_faults(meta),
        *rules.validate(content),
        *rules.validate_update(content, old),
    )
    _refuse(kind, content, faults)
    return content


def _refuse(kind: Kind, content: Object, faults: Iterable[Fault]) -> None:
    found = list(faults)
    if found:
        raise invalid(kind, content["metadata"].get("name", ""), found)


def _is_finished(meta: Object) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
    )

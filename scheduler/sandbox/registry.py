"""The rules of writing: what happens between a request's object and the store.

Source: k8s.io/apiserver pkg/registry/generic/registry/store.go (Create, Update) and
pkg/registry/rest (BeforeCreate, BeforeUpdate).
"""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from scheduler.clock import Clock
from scheduler.sandbox.event_forms import shown_form, stored_form
from scheduler.sandbox.field_errors import FieldError, invalid as invalid_value
from scheduler.sandbox.kinds import NAMESPACES, Kind, kind_of
from scheduler.sandbox.rules.checks import IMMUTABLE, metadata as metadata_faults
from scheduler.sandbox.rules.table import rules_of
from scheduler.sandbox.schema.codec import FieldValidation, Object
from scheduler.sandbox.status import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from scheduler.sandbox.store import Collection, Entry, Key, Store, make_entry
from scheduler.sandbox.timestamps import time_text

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_NAME_ATTEMPTS: Final = 8
_NAME_MAX: Final = 63
_SERVER_OWNED: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a client says about a write beside the object."""

    dry_run: bool = False
    field_validation: FieldValidation = FieldValidation.WARN


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write."""

    entry: Entry
    created: bool = False
    warnings: list[str] = field(default_factory=list)


class Registry:
    """Creates and updates objects by the rules of their kinds.

    Args:
        store: where they are.
        clock: for creation and deletion times.
        random: for uids and generated names.
    """

    def __init__(self, store: Store, clock: Clock, random: Random) -> None:
        self.store = store
        self._clock = clock
        self._random = random

    def now(self) -> str:
        """The time as objects carry it."""
        return time_text(self._clock.wall())

    def find(self, kind_key: str, namespace: str, name: str) -> Object | None:
        """See `rules.contract.Cluster`."""
        entry = self.store.collection(kind_of(kind_key)).get(Key(namespace, name))
        return entry.content() if entry else None

    def all_of(self, kind_key: str) -> Iterable[Object]:
        """See `rules.contract.Cluster`."""
        return (entry.content() for entry in self.store.collection(kind_of(kind_key)).entries())

    def get(self, kind: Kind, key: Key) -> Entry:
        """One object.

        Raises:
            StatusError: 404.
        """
        entry = self.store.collection(kind).get(key)
        if entry is None:
            raise not_found(kind.resource, kind.group, key.name)
        return entry

    def shown(self, kind: Kind, entry: Entry) -> Object:
        """An entry as clients of the kind see it, with kind and apiVersion."""
        content = shown_form(kind, entry.content())
        return {"kind": kind.kind, "apiVersion": kind.api_version, **content}

    def create(
        self,
        kind: Kind,
        namespace: str,
        given: bytes | Object,
        options: WriteOptions = WriteOptions(),
        *,
        keep_status: bool = False,
    ) -> Written:
        """Adds an object.

        Args:
            kind: what it is.
            namespace: where it goes; empty takes the object's own, or `default`.
            given: the object as a client sends it.
            options: see there.
            keep_status: whether the status comes along although clients may not set it.

        Raises:
            StatusError: the object is refused.
        """
        content, warnings = self._decoded(kind, given, options)
        meta = content.setdefault("metadata", {})
        self._check_new_metadata(kind, namespace, meta)
        rules, collection = rules_of(kind), self.store.collection(kind)
        self._name(collection, meta)
        meta["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        meta["creationTimestamp"] = self.now()
        if kind.has_generation:
            meta["generation"] = 1
        status = content.get("status")
        if kind.has_status and not kind.status_on_create:
            content.pop("status", None)
        rules.default(content)
        rules.admit(content, self)
        rules.prepare_create(content)
        if keep_status and status:
            content["status"] = {**content.get("status", {}), **status}
        self._refuse(kind, content, [*metadata_faults(kind, content), *rules.validate(content)])
        key = Key(meta.get("namespace", ""), meta["name"])
        if collection.get(key) is not None:
            raise already_exists(kind.resource, kind.group, key.name)
        entry = self._stored(collection, key, content, options)
        return Written(entry, created=True, warnings=warnings)

    def update(
        self,
        kind: Kind,
        key: Key,
        given: bytes | Object,
        options: WriteOptions = WriteOptions(),
        *,
        subresource: str = "",
    ) -> Written:
        """Replaces an object, or only its status.

        Raises:
            StatusError: 404, 409 when it is based on another version, or what breaks the rules.
        """
        collection = self.store.collection(kind)
        old_entry = collection.get(key)
        if old_entry is None:
            if kind.create_on_update and not subresource:
                return self.create(kind, key.namespace, given, options)
            raise not_found(kind.resource, kind.group, key.name)
        content, warnings = self._decoded(kind, given, options)
        self._check_identity(kind, key, content.setdefault("metadata", {}), old_entry)
        old = old_entry.content()
        new = self._succeed(kind, content, old, subresource)
        if _same(new, old):
            return Written(old_entry, warnings=warnings)
        if _is_finished(new):
            entry = old_entry if options.dry_run else self.store.remove(collection, key)
            return Written(entry, warnings=warnings)
        return Written(self._stored(collection, key, new, options), warnings=warnings)

    def transform(
        self,
        kind: Kind,
        key: Key,
        change: Callable[[Object], Object],
        options: WriteOptions = WriteOptions(),
        *,
        subresource: str = "",
    ) -> Written:
        """Replaces an object by what `change` makes of it, as a patch does."""
        before = self.shown(kind, self.get(kind, key))
        uid = before["metadata"]["uid"]
        after = change(before)
        changed = after.get("metadata", {}).get("uid", uid)
        if changed != uid:
            fault = invalid_value("metadata.uid", changed, IMMUTABLE)
            raise invalid(kind.kind, kind.group, key.name, [fault])
        return self.update(kind, key, after, options, subresource=subresource)

    def _decoded(
        self, kind: Kind, given: bytes | Object, options: WriteOptions
    ) -> tuple[Object, list[str]]:
        if isinstance(given, bytes):
            content, warnings = kind.codec.decode(given, options.field_validation)
        else:
            content, warnings = kind.codec.convert(given, options.field_validation)
        version, name = content.pop("apiVersion", ""), content.pop("kind", "")
        if version and version != kind.api_version:
            raise bad_request(
                f"the API version in the data ({version}) does not match the expected API version "
                f"({kind.api_version})"
            )
        if name and name != kind.kind:
            raise bad_request(
                f"the object provided is unrecognized (must be of type {kind.kind}): it is a {name}"
            )
        return stored_form(kind, content), warnings

    def _check_new_metadata(self, kind: Kind, namespace: str, meta: Object) -> None:
        if meta.pop("resourceVersion", "") not in {"", "0"}:
            raise bad_request("resourceVersion should not be set on objects to be created")
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
            meta.pop(name, None)
        if not kind.namespaced:
            meta.pop("namespace", None)
            return
        own = meta.get("namespace", "")
        namespace = namespace or own or "default"
        if own and own != namespace:
            raise _other_namespace()
        meta["namespace"] = namespace
        found = self.store.collection(NAMESPACES).get(Key("", namespace))
        if found is None:
            raise not_found(NAMESPACES.resource, "", namespace)
        if "Terminating" in found.fields:
            raise forbidden(
                kind.resource,
                kind.group,
                meta.get("name", ""),
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated",
            )

    def _name(self, collection: Collection, meta: Object) -> None:
        prefix = meta.get("generateName", "")
        if meta.get("name") or not prefix:
            return
        stem = prefix[: _NAME_MAX - _SUFFIX_LENGTH]
        for _ in range(_NAME_ATTEMPTS):
            letters = self._random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH)
            meta["name"] = stem + "".join(letters)
            if collection.get(Key(meta.get("namespace", ""), meta["name"])) is None:
                return

    def _check_identity(self, kind: Kind, key: Key, meta: Object, old: Entry) -> None:
        name, namespace = meta.setdefault("name", key.name), meta.get("namespace", "")
        if name != key.name:
            raise bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({key.name})"
            )
        if kind.namespaced and namespace and namespace != key.namespace:
            raise _other_namespace()
        version, uid = meta.get("resourceVersion", ""), meta.get("uid", "")
        if uid and uid != old.uid:
            raise conflict(
                kind.resource, kind.group, name, precondition_failed("UID", uid, old.uid)
            )
        if version in {"", "0"}:
            if not kind.unconditional_update:
                fault = invalid_value(
                    "metadata.resourceVersion", 0, "must be specified for an update"
                )
                raise invalid(kind.resource, kind.group, name, [fault])
        elif version != str(old.version):
            raise conflict(kind.resource, kind.group, name)

    def _succeed(self, kind: Kind, content: Object, old: Object, subresource: str) -> Object:
        """The object that follows the old one, checked."""
        meta, old_meta = content["metadata"], old["metadata"]
        for name in _SERVER_OWNED:
            if name in old_meta:
                meta[name] = old_meta[name]
            else:
                meta.pop(name, None)
        meta.pop("managedFields", None)
        if kind.namespaced:
            meta["namespace"] = old_meta["namespace"]
        rules = rules_of(kind)
        if subresource == "status":
            new = {**old, "metadata": {**meta}, "status": content.get("status", {})}
            if "ownerReferences" in old_meta:
                new["metadata"]["ownerReferences"] = old_meta["ownerReferences"]
            rules.prepare_update(new, old)
            self._refuse(kind, new, metadata_faults(kind, new))
            return new
        if kind.has_status:
            content.pop("status", None)
            if "status" in old:
                content["status"] = old["status"]
        rules.default(content)
        rules.prepare_update(content, old)
        if kind.has_generation and _specification(content) != _specification(old):
            meta["generation"] = old_meta.get("generation", 0) + 1
        faults = [
            *metadata_faults(kind, content),
            *rules.validate(content),
            *rules.validate_update(content, old),
        ]
        self._refuse(kind, content, faults)
        return content

    @staticmethod
    def _refuse(kind: Kind, content: Object, faults: Iterable[FieldError]) -> None:
        found = list(faults)
        if found:
            name = content["metadata"].get("name", "")
            # Events of either group are checked, and reported, as those of the core group.
            raise invalid(kind.kind, "" if kind.stored_as else kind.group, name, found)

    def _stored(
        self, collection: Collection, key: Key, content: Object, options: WriteOptions
    ) -> Entry:
        if options.dry_run:
            return make_entry(collection.kind, key, content, self.store.version)
        return self.store.put(collection, key, content)


def precondition_failed(what: str, wanted: str, found: str) -> str:
    """Why a write with a precondition is refused."""
    return f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"


def _other_namespace() -> Exception:
    return bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def _specification(content: Object) -> Object:
    return {name: value for name, value in content.items() if name not in {"metadata", "status"}}


def _same(new: Object, old: Object) -> bool:
    """Whether a write would change nothing but the version."""
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    return new == old


def _is_finished(content: Object) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    meta = content["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
    )

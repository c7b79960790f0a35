"""Deleting objects: preconditions, graceful termination, finalizers, namespaces with all in them.

Source: k8s.io/apiserver pkg/registry/rest/delete.go (BeforeDelete) and
pkg/registry/core/pod/strategy.go (CheckGracefulDelete).
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from apistub.rules.registry import Registry
from apistub.storage.kinds import NAMESPACES, PODS, Kind, Object
from apistub.storage.status import conflict, forbidden
from apistub.storage.store import Entry, Key
from apistub.storage.timestamps import time_text
from scheduler.clock import Clock

_PERMANENT_NAMESPACES: Final = ("default", "kube-system", "kube-public")
_DEFAULT_GRACE_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What a client says about a deletion."""

    grace_seconds: int | None = None
    """How long the object may take; none leaves it to the object."""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome of a deletion."""

    entry: Entry
    gone: bool
    """False while the object waits for its kubelet or its finalizers."""


class Deleter:
    """Deletes objects by the rules of their kinds."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._store = registry.store
        self._clock = clock

    def delete(self, kind: Kind, key: Key, options: DeleteOptions = DeleteOptions()) -> Deleted:
        """Removes an object, or marks it as being deleted.

        Raises:
            StatusError: 404, 409 when a precondition fails, 403 for a permanent namespace.
        """
        entry = self._registry.get(kind, key)
        if options.uid and options.uid != entry.uid:
            raise conflict(kind, key.name, f"its uid is {entry.uid}, not {options.uid}")
        if kind is NAMESPACES:
            return self._delete_namespace(entry)
        content, collection = entry.content(), self._store.collection(kind)
        grace = _grace_seconds(content, options) if kind is PODS else 0
        meta = content["metadata"]
        if grace == 0 and not meta.get("finalizers"):
            return Deleted(self._store.remove(collection, key), gone=True)
        if not self._mark(kind, meta, grace):
            return Deleted(entry, gone=False)
        return Deleted(self._store.put(collection, key, content), gone=False)

    def _mark(self, kind: Kind, meta: Object, grace: int) -> bool:
        """Writes down that the object is to go; false when that is written down already."""
        marked = meta.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in meta and (marked or 0) <= grace:
            return False
        due = self._clock.wall() + timedelta(seconds=grace)
        meta["deletionTimestamp"] = time_text(due)
        meta["deletionGracePeriodSeconds"] = grace
        if kind.has_generation:
            meta["generation"] = meta.get("generation", 0) + 1
        return True

    def _delete_namespace(self, entry: Entry) -> Deleted:
        """Deletes a namespace and at once everything in it, as its controller does in time."""
        name = entry.key.name
        if name in _PERMANENT_NAMESPACES:
            raise forbidden(NAMESPACES, name, "it stays")
        content = entry.content()
        content["status"]["phase"] = "Terminating"
        content["metadata"].setdefault("deletionTimestamp", self._registry.now())
        marked = self._store.put(self._store.collection(NAMESPACES), entry.key, content)
        waiting = False
        for collection in self._store.collections():
            if collection.kind.namespaced:
                for inside in list(collection.in_namespace(name)):
                    at_once = DeleteOptions(grace_seconds=0)
                    waiting |= not self.delete(collection.kind, inside.key, at_once).gone
        if waiting:
            return Deleted(marked, gone=False)
        self._store.remove(self._store.collection(NAMESPACES), entry.key)
        return Deleted(marked, gone=True)


def _grace_seconds(pod: Object, options: DeleteOptions) -> int:
    spec = pod["spec"]
    if not spec.get("nodeName"):
        return 0
    if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    grace = options.grace_seconds
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS)
    return int(grace) if grace >= 0 else 1

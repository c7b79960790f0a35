"""A stand-in for the controller of ResourceClaims: templates become claims, unused ones are freed.

Source: pkg/controller/resourceclaim/controller.go (syncPod, syncClaim, handleClaim) v1.36.
Differs: it also deletes the claims of pods that are gone, as the garbage collector would.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from apistub.controllers.background import BackgroundLoop
from apistub.rules.deletion import Deleter
from apistub.rules.registry import Registry
from apistub.storage.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Object
from apistub.storage.status import StatusError
from apistub.storage.store import Entry, Key

_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_CLAIM_OF_POD: Final = "resource.kubernetes.io/pod-claim-name"
_MENTION: Final = b'"resourceClaims":'
_ENDED: Final = ("Succeeded", "Failed")


class ResourceClaims:
    """Gives pods the claims that their templates describe, and frees claims that no pod uses."""

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        self._pods = registry.store.collection(PODS)
        self._claims = registry.store.collection(RESOURCE_CLAIMS)
        templates = registry.store.collection(RESOURCE_CLAIM_TEMPLATES)
        self._waiting: set[Key] = set()
        """Pods whose claims are not all there: a template may be missing."""
        self._cursor = self._pods.end_cursor
        self.loop = BackgroundLoop([self._pods, self._claims, templates], self._reconcile)
        """Where it runs."""

    def _reconcile(self) -> bool:
        before = self._registry.store.version
        self._waiting.update(self._changed_pods())
        for key in sorted(self._waiting):
            entry = self._pods.get(key)
            if entry is None or self._has_its_claims(entry):
                self._waiting.discard(key)
        for entry in list(self._claims.entries()):
            with suppress(StatusError):
                self._attend(entry, entry.content())
        return self._registry.store.version != before

    def _changed_pods(self) -> Iterator[Key]:
        pods = self._pods
        start = max(self._cursor - pods.first_cursor, 0)
        changes = pods.changes[start:]
        self._cursor = pods.first_cursor + start + len(changes)
        return (change.entry.key for change in changes if _MENTION in change.entry.body)

    def _has_its_claims(self, entry: Entry) -> bool:
        pod = entry.content()
        if _is_over(pod):
            return True
        claims = pod["spec"]["resourceClaims"]
        wanted = [claim for claim in claims if "resourceClaimTemplateName" in claim]
        known = (pod.get("status") or {}).get("resourceClaimStatuses") or []
        missing = [c for c in wanted if c["name"] not in {one["name"] for one in known}]
        if not missing:
            return True
        try:
            made = [{"name": c["name"], "resourceClaimName": self._claim(pod, c)} for c in missing]
            content = {
                "metadata": pod["metadata"],
                "status": {**pod["status"], "resourceClaimStatuses": [*known, *made]},
            }
            self._registry.update(PODS, entry.key, content, "status")
        except StatusError:
            return False
        return True

    def _claim(self, pod: Object, claim: Object) -> str:
        """The name of the pod's claim of this name, which is made if it is not there."""
        meta = pod["metadata"]
        for entry in self._claims.in_namespace(meta["namespace"]):
            found = entry.content()["metadata"]
            annotations = found.get("annotations") or {}
            if annotations.get(_CLAIM_OF_POD) == claim["name"] and _owner_of(found) == meta["uid"]:
                return str(found["name"])
        key = Key(meta["namespace"], claim["resourceClaimTemplateName"])
        template = self._registry.get(RESOURCE_CLAIM_TEMPLATES, key).content()["spec"]
        given = template.get("metadata") or {}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        metadata = {
            "generateName": f"{meta['name']}-{claim['name']}-",
            "labels": given.get("labels") or {},
            "annotations": {**(given.get("annotations") or {}), _CLAIM_OF_POD: claim["name"]},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        content = {"metadata": metadata, "spec": template["spec"]}
        made = self._registry.create(RESOURCE_CLAIMS, meta["namespace"], content)
        return made.entry.key.name

    def _attend(self, entry: Entry, claim: Object) -> None:
        """Forget pods that use a claim no longer; free and delete what no pod uses."""
        meta, status = claim["metadata"], claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        users = [one for one in reserved if not self._is_gone(entry.key.namespace, one)]
        if len(users) < len(reserved):
            kept = {name: value for name, value in status.items() if name != "reservedFor"}
            if users:
                kept["reservedFor"] = users
            else:
                kept.pop("allocation", None)
                kept.pop("devices", None)
            content = {"metadata": meta, "status": kept}
            written = self._registry.update(RESOURCE_CLAIMS, entry.key, content, "status")
            if not users:
                self._unprotect(entry.key, written.entry.content())
            return
        if "deletionTimestamp" in meta:
            if not reserved:
                self._unprotect(entry.key, claim)
        elif self._is_ownerless(entry.key.namespace, meta):
            self._deleter.delete(RESOURCE_CLAIMS, entry.key)

    def _unprotect(self, key: Key, claim: Object) -> None:
        """Let a claim go that no pod uses."""
        meta = claim["metadata"]
        if _FINALIZER in (meta.get("finalizers") or ()):
            finalizers = [one for one in meta["finalizers"] if one != _FINALIZER]
            content = {**claim, "metadata": {**meta, "finalizers": finalizers}}
            self._registry.update(RESOURCE_CLAIMS, key, content)

    def _is_gone(self, namespace: str, user: Object) -> bool:
        return user.get("resource") == "pods" and not self._runs(
            Key(namespace, user["name"]), user["uid"]
        )

    def _is_ownerless(self, namespace: str, meta: Object) -> bool:
        owners = [one for one in meta.get("ownerReferences") or () if one["kind"] == "Pod"]
        return bool(owners) and not any(
            self._runs(Key(namespace, one["name"]), one["uid"]) for one in owners
        )

    def _runs(self, key: Key, uid: str) -> bool:
        entry = self._pods.get(key)
        return entry is not None and entry.uid == uid and not _is_over(entry.content())


def _is_over(pod: Object) -> bool:
    """Whether a pod needs its claims no longer."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in _ENDED or (
        "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
    )


def _owner_of(meta: Object) -> str:
    """The uid of the controlling pod, or empty."""
    owners = meta.get("ownerReferences") or ()
    return next(
        (one["uid"] for one in owners if one.get("controller") and one["kind"] == "Pod"), ""
    )

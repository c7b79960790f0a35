"""A stand-in for the controllers of Deployments and ReplicaSets: templates become pods.

Differs: a changed template replaces all pods at once, and nothing waits for readiness.
"""

import hashlib
from contextlib import suppress
from typing import Final

import msgspec

from apistub.controllers.background import BackgroundLoop
from apistub.rules.deletion import Deleter
from apistub.rules.registry import Registry
from apistub.storage.kinds import DEPLOYMENTS, PODS, REPLICA_SETS, Kind, Object
from apistub.storage.status import StatusError
from apistub.storage.store import Entry

_HASH_LABEL: Final = "pod-template-hash"
_HASH_LETTERS: Final = 10
_ENDED: Final = ("Succeeded", "Failed")


class Workloads:
    """Keeps the pods of all Deployments and ReplicaSets as they are wanted."""

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        self._store = registry.store
        self._owners: set[str] = set()
        """The uids of the owners seen last time; an object of an owner that is gone goes too."""
        kinds = (DEPLOYMENTS, REPLICA_SETS, PODS)
        collections = [self._store.collection(kind) for kind in kinds]
        self.loop = BackgroundLoop(collections, self._reconcile)
        """Where it runs."""

    def _reconcile(self) -> bool:
        before = self._store.version
        owners: set[str] = set()
        for kind, reconcile in (
            (DEPLOYMENTS, self._reconcile_deployment),
            (REPLICA_SETS, self._reconcile_replica_set),
        ):
            for entry in list(self._store.collection(kind).entries()):
                owners.add(entry.uid)
                with suppress(StatusError):
                    reconcile(entry, entry.content())
        gone, self._owners = self._owners - owners, owners
        for kind in (REPLICA_SETS, PODS) if gone else ():
            for entry in list(self._store.collection(kind).entries()):
                if _owner_of(entry.content()) in gone:
                    self._deleter.delete(kind, entry.key)
        return self._store.version != before

    def _reconcile_deployment(self, entry: Entry, deployment: Object) -> None:
        spec = deployment["spec"]
        text = msgspec.json.encode(spec["template"], order="deterministic")
        digest = hashlib.sha256(text).hexdigest()[:_HASH_LETTERS]
        name = f"{entry.key.name}-{digest}"
        sets = self._owned(REPLICA_SETS, entry)
        if all(one["metadata"]["name"] != name for one in sets):
            labels = {**spec["template"]["metadata"]["labels"], _HASH_LABEL: digest}
            template = {**spec["template"], "metadata": {"labels": labels}}
            selector = {"matchLabels": {**spec["selector"]["matchLabels"], _HASH_LABEL: digest}}
            content = {
                "metadata": {"name": name, "labels": labels, **_owned_by(DEPLOYMENTS, deployment)},
                "spec": {
                    "replicas": spec["replicas"],
                    "selector": selector,
                    "template": template,
                },
            }
            self._registry.create(REPLICA_SETS, entry.key.namespace, content)
        for one in sets:
            wanted = spec["replicas"] if one["metadata"]["name"] == name else 0
            if one["spec"]["replicas"] != wanted:
                one["spec"]["replicas"] = wanted
                key = entry.key._replace(name=one["metadata"]["name"])
                self._registry.update(REPLICA_SETS, key, one)
        totals = {
            field: sum(one.get("status", {}).get(field, 0) for one in sets)
            for field in ("replicas", "readyReplicas", "availableReplicas")
        }
        current = sum(
            one.get("status", {}).get("replicas", 0)
            for one in sets
            if one["metadata"]["name"] == name
        )
        is_available = totals["availableReplicas"] >= spec["replicas"]
        available = {"type": "Available", "status": str(is_available)}
        status = {**totals, "updatedReplicas": current, "conditions": [available]}
        self._report(DEPLOYMENTS, entry, deployment, status)

    def _reconcile_replica_set(self, entry: Entry, replica_set: Object) -> None:
        spec = replica_set["spec"]
        pods = [pod for pod in self._owned(PODS, entry) if pod["status"]["phase"] not in _ENDED]
        for _ in range(spec["replicas"] - len(pods)):
            metadata = {
                **spec["template"]["metadata"],
                "generateName": f"{entry.key.name}-",
                **_owned_by(REPLICA_SETS, replica_set),
            }
            content = {"metadata": metadata, "spec": spec["template"]["spec"]}
            self._registry.create(PODS, entry.key.namespace, content)
        # Those that run go last.
        pods.sort(key=lambda pod: bool(pod["spec"].get("nodeName")))
        for pod in pods[: max(len(pods) - spec["replicas"], 0)]:
            self._deleter.delete(PODS, entry.key._replace(name=pod["metadata"]["name"]))
        ready = sum(pod["status"]["phase"] == "Running" for pod in pods)
        status = {"replicas": len(pods), "readyReplicas": ready, "availableReplicas": ready}
        self._report(REPLICA_SETS, entry, replica_set, status)

    def _report(self, kind: Kind, entry: Entry, content: Object, status: Object) -> None:
        status["observedGeneration"] = content["metadata"]["generation"]
        if content.get("status") != status:
            metadata = {**content["metadata"], "resourceVersion": ""}
            changed = {**content, "metadata": metadata, "status": status}
            self._registry.update(kind, entry.key, changed, "status")

    def _owned(self, kind: Kind, owner: Entry) -> list[Object]:
        """The objects that an owner made and that are not about to go."""
        contents = (
            entry.content()
            for entry in self._store.collection(kind).in_namespace(owner.key.namespace)
            if entry.key.name.startswith(f"{owner.key.name}-")
        )
        return [content for content in contents if _owner_of(content) == owner.uid]


def _owned_by(kind: Kind, owner: Object) -> Object:
    meta = owner["metadata"]
    reference = {"apiVersion": kind.api_version, "kind": kind.kind, "controller": True}
    return {"ownerReferences": [{**reference, "name": meta["name"], "uid": meta["uid"]}]}


def _owner_of(content: Object) -> str:
    """The uid of an object's controller; empty once the object is about to be deleted."""
    meta = content["metadata"]
    owners = () if "deletionTimestamp" in meta else meta.get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")

"""A stand-in for the controllers of Deployments and ReplicaSets: templates become pods.

Differs: a changed template replaces all pods at once, and nothing waits for readiness.
"""

import hashlib
from collections.abc import Iterator
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
    """Keeps the pods of all Deployments and ReplicaSets as they are wanted.

    Args:
        registry: where objects are read and written.
        deleter: how surplus pods go.
    """

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        self._store = registry.store
        self._owners: set[str] = set()
        """The owners seen last time, by uid; whose owner is gone goes too."""
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
                    reconcile(entry)
        gone, self._owners = self._owners - owners, owners
        if gone:
            self._collect(gone)
        return self._store.version != before

    def _reconcile_deployment(self, entry: Entry) -> None:
        deployment = entry.content()
        spec = deployment["spec"]
        template = spec["template"]
        text = msgspec.json.encode(template, order="deterministic")
        digest = hashlib.sha256(text).hexdigest()[:_HASH_LETTERS]
        name = f"{entry.key.name}-{digest}"
        sets = list(self._owned(REPLICA_SETS, entry))
        if not any(owned["metadata"]["name"] == name for owned in sets):
            labels = {**template["metadata"]["labels"], _HASH_LABEL: digest}
            selector = {"matchLabels": {**spec["selector"]["matchLabels"], _HASH_LABEL: digest}}
            metadata = {"name": name, "labels": labels, **_owner(DEPLOYMENTS, deployment)}
            labelled = {**template, "metadata": {**template["metadata"], "labels": labels}}
            content = {
                "metadata": metadata,
                "spec": {"replicas": spec["replicas"], "selector": selector, "template": labelled},
            }
            self._registry.create(REPLICA_SETS, entry.key.namespace, content)
        for owned in sets:
            wanted = spec["replicas"] if owned["metadata"]["name"] == name else 0
            if owned["spec"]["replicas"] != wanted:
                owned["spec"]["replicas"] = wanted
                key = entry.key._replace(name=owned["metadata"]["name"])
                self._registry.update(REPLICA_SETS, key, owned)
        self._report(DEPLOYMENTS, entry, deployment, _sums(deployment, sets, name))

    def _reconcile_replica_set(self, entry: Entry) -> None:
        replica_set = entry.content()
        spec = replica_set["spec"]
        pods = [
            pod
            for pod in self._owned(PODS, entry)
            if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in _ENDED
        ]
        for _ in range(spec["replicas"] - len(pods)):
            metadata = {
                **spec["template"]["metadata"],
                "generateName": f"{entry.key.name}-",
                **_owner(REPLICA_SETS, replica_set),
            }
            content = {"metadata": metadata, "spec": spec["template"]["spec"]}
            self._registry.create(PODS, entry.key.namespace, content)
        surplus = len(pods) - spec["replicas"]
        if surplus > 0:
            pods.sort(key=lambda pod: bool(pod["spec"].get("nodeName")))
            for pod in pods[:surplus]:
                self._deleter.delete(PODS, entry.key._replace(name=pod["metadata"]["name"]))
        ready = sum(1 for pod in pods if _is_ready(pod))
        status = {"replicas": len(pods), "readyReplicas": ready, "availableReplicas": ready}
        self._report(REPLICA_SETS, entry, replica_set, status)

    def _report(self, kind: Kind, entry: Entry, content: Object, counts: dict[str, int]) -> None:
        status: Object = {name: count for name, count in counts.items() if count}
        status["observedGeneration"] = content["metadata"]["generation"]
        status.setdefault("replicas", 0)
        if content.get("status") != status:
            content["status"] = status
            content["metadata"].pop("resourceVersion")
            self._registry.update(kind, entry.key, content, "status")

    def _owned(self, kind: Kind, owner: Entry) -> Iterator[Object]:
        labels = owner.content()["spec"]["selector"].get("matchLabels", {}).items()
        for entry in self._store.collection(kind).in_namespace(owner.key.namespace):
            if labels <= entry.labels.items():
                content = entry.content()
                if owner.uid in _owner_uids(content):
                    yield content

    def _collect(self, gone: set[str]) -> None:
        """Deletes what belonged to owners that are no more."""
        for kind in (REPLICA_SETS, PODS):
            for entry in list(self._store.collection(kind).entries()):
                content = entry.content()
                if gone & _owner_uids(content) and "deletionTimestamp" not in content["metadata"]:
                    self._deleter.delete(kind, entry.key)


def _owner(kind: Kind, content: Object) -> Object:
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": content["metadata"]["name"],
        "uid": content["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"ownerReferences": [reference]}


def _owner_uids(content: Object) -> set[str]:
    return {owner["uid"] for owner in content["metadata"].get("ownerReferences") or ()}


def _is_ready(pod: Object) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions") or ()
    )


def _sums(deployment: Object, sets: list[Object], current: str) -> dict[str, int]:
    """The counts of a deployment's status."""

    def total(field: str) -> int:
        return sum(owned.get("status", {}).get(field, 0) for owned in sets)

    updated = sum(
        owned.get("status", {}).get("replicas", 0)
        for owned in sets
        if owned["metadata"]["name"] == current
    )
    return {
        "replicas": total("replicas"),
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": total("availableReplicas"),
        "updatedReplicas": updated,
        "unavailableReplicas": max(deployment["spec"]["replicas"] - total("availableReplicas"), 0),
    }

"""Creates storage objects, and simulates a dynamic provisioner."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import ClientError

from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.objects import Json
from e2e.support.waiting import PATIENCE_SECONDS, wait_for

CONTROLLERS = (
    "persistentvolume-binder-controller",
    "ephemeral-volume-controller",
    "statefulset-controller",
    "serviceaccount-controller",
    "node-lifecycle-controller",
)
"""Controllers that bind volumes, create ephemeral claims, and create the pods of StatefulSets."""
STORAGE = "/apis/storage.k8s.io/v1"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "e2e.stowage.dev"
HOSTNAME = "kubernetes.io/hostname"


class Storage:
    """Creates and reads storage objects."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._paths: list[str] = []

    def create(self, path: str, body: Json) -> Json:
        """Create an object that ``remove`` deletes."""
        made = self._cluster.run(self._cluster.api.post(path, body))
        self._paths.append(f"{path}/{made['metadata']['name']}")
        return made

    def get(self, path: str) -> Json:
        return self._cluster.run(self._cluster.api.get(path))

    def patch(self, path: str, body: Json) -> Json:
        """Send a JSON merge patch."""
        return self._cluster.run(self._cluster.api.patch(path, body))

    def delete(self, path: str) -> None:
        """Delete an object with grace period 0."""
        try:
            self.patch(path, {"metadata": {"finalizers": None}})
            self._cluster.run(self._cluster.api.delete(path))
        except ApiRefusedError as error:
            if error.status not in (404, 409):
                raise

    def remove(self) -> None:
        """Delete all created objects."""
        for path in reversed(self._paths):
            self.delete(path)

    def storage_class(self, name: str, provisioner: str = "kubernetes.io/no-provisioner") -> str:
        """Create a StorageClass with ``volumeBindingMode: WaitForFirstConsumer``."""
        body = {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        self.create(f"{STORAGE}/storageclasses", body)
        return name

    def volume(self, name: str, class_name: str, node: str, **spec: Any) -> None:
        """Create a local PersistentVolume on a node."""
        term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
        body = {
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": class_name,
                "local": {"path": "/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
                **spec,
            },
        }
        self.create("/api/v1/persistentvolumes", body)
        path = f"/api/v1/persistentvolumes/{name}"
        wait_for(lambda: self.get(path)["status"].get("phase") != "Pending", f"{name} to be seen")

    def claim(self, namespace: str, name: str, class_name: str, **spec: Any) -> None:
        """Create a PersistentVolumeClaim."""
        body = {"metadata": {"name": name}, "spec": {**claim_spec(class_name), **spec}}
        self.create(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", body)

    def claims(self, namespace: str) -> dict[str, Json]:
        """Return the claims of a namespace by name."""
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        found = self._cluster.run(self._cluster.api.list_items(path))
        return {claim["metadata"]["name"]: claim for claim in found}

    def node_of(self, volume: str) -> str:
        """Return the node in the local volume's node affinity."""
        affinity = self.get(f"/api/v1/persistentvolumes/{volume}")["spec"]["nodeAffinity"]
        (term,) = affinity["required"]["nodeSelectorTerms"]
        return str(term["matchExpressions"][0]["values"][0])


def claim_spec(class_name: str) -> Json:
    """Return the spec of a claim for a storage class."""
    return {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class_name,
    }


def uses(*claims: str) -> list[Json]:
    """Return pod volumes that refer to these claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


@contextmanager
def provisioner(
    cluster: Cluster, storage: Storage, namespace: str, *, refusals: int = 0, seconds: float = 0
) -> Iterator[list[str]]:
    """Provision volumes for claims with a selected node; reject the first, or delay all.

    Yield the list of requested node names, including rejected ones.

    Raises:
        Exception: the provisioner has ended with this error.
    """
    asked: list[str] = []
    in_hand: set[str] = set()
    done: set[str] = set()
    ended = threading.Event()
    problems: list[BaseException] = []

    def look() -> None:
        for name, claim in storage.claims(namespace).items():
            node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
            if node is None or name in done:
                continue
            if name not in in_hand:
                in_hand.add(name)
                asked.append(node)
            path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
            if len(asked) <= refusals:
                storage.patch(path, {"metadata": {"annotations": {SELECTED_NODE: None}}})
                in_hand.remove(name)
                continue
            ended.wait(seconds)
            meta = claim["metadata"]
            reference = {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": namespace,
                "name": name,
                "uid": meta["uid"],
            }
            class_name = claim["spec"]["storageClassName"]
            try:
                storage.volume(f"made-{meta['uid']}", class_name, node, claimRef=reference)
            except ApiRefusedError as error:
                if error.status != 409:  # An earlier attempt has created it.
                    raise
            done.add(name)

    def run() -> None:
        try:
            while not ended.wait(0.1):
                try:
                    look()
                except (ApiRefusedError, ClientError) as refusal:
                    # As a provisioner does, it tries again.
                    print("provisioner:", repr(refusal), file=sys.stderr)
        except BaseException as problem:  # noqa: BLE001 -- told by the thread of the test
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        ended.set()
        thread.join(PATIENCE_SECONDS)
        if problems:
            raise problems[0]
        assert not thread.is_alive(), "the provisioner does not end"

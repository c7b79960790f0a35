"""StorageClasses, volumes and claims of a workload."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from bench.workload import MEASURED, Size, StorageKind, Workload
from e2e.support.api import Api, Call
from e2e.support.objects import Json

CLASSES: Final[dict[StorageKind, tuple[str, str]]] = {
    "local": ("bench-local", "kubernetes.io/no-provisioner"),
    "made": ("bench-made", "bench.stowage.dev/binder"),
}
"""Name and provisioner of the class of each kind; both bind at the first consumer."""

CLAIMS: Final = f"/api/v1/namespaces/{MEASURED}/persistentvolumeclaims"
VOLUMES: Final = "/api/v1/persistentvolumes"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_HOSTNAME: Final = "kubernetes.io/hostname"
_BOUND: Final = "bench-bound"
_SHOWN: Final = 3


def classes_of(workload: Workload) -> Iterator[Json]:
    """Yield the storage class of the workload's claims."""
    if workload.storage is not None:
        name, provisioner = CLASSES[workload.storage]
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }


def volumes_of(workload: Workload, nodes: Sequence[str], count: int) -> Iterator[Json]:
    """Yield ``count`` unbound local volumes, distributed over the nodes."""
    if workload.storage == "local":
        for index in range(count):
            node = nodes[index % len(nodes)]
            yield make_volume(f"local-{index:06}", CLASSES["local"][0], node)


def claims_of(workload: Workload, first: int, count: int) -> Iterator[Json]:
    """Yield the claims of the measured pods, which refer to them by number."""
    if workload.storage is not None:
        for index in range(first, first + count):
            yield make_claim(f"claim-{index:06}", CLASSES[workload.storage][0])


def bound_pairs(size: Size, nodes: Sequence[str]) -> Iterator[tuple[Json, Json]]:
    """Yield claims that no measured pod uses, each with its bound volume."""
    for index in range(size.bound):
        claim = make_claim(f"bound-{index:06}", _BOUND)
        volume = make_volume(f"bound-{index:06}", _BOUND, nodes[index % len(nodes)])
        volume["spec"]["claimRef"] = reference(claim)
        claim["metadata"]["annotations"] = {BIND_COMPLETED: "yes"}
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        yield claim, volume


def make_claim(name: str, class_name: str) -> Json:
    """Build a claim in the measured namespace."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": MEASURED},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": class_name,
        },
        "status": {"phase": "Pending"},
    }


def make_volume(name: str, class_name: str, node: str) -> Json:
    """Build a local volume on a node."""
    term = {"matchExpressions": [{"key": _HOSTNAME, "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": class_name,
            "volumeMode": "Filesystem",
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Available"},
    }


def reference(claim: Json) -> Json:
    """Return the ``claimRef`` of a claim."""
    meta = claim["metadata"]
    found = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    return found | {key: meta[key] for key in ("namespace", "name", "uid") if key in meta}


async def create_storage(api: Api, workload: Workload, size: Size, nodes: Sequence[str]) -> None:
    """Create all storage objects, but not the measured pods."""
    await api.create_all("/apis/storage.k8s.io/v1/storageclasses", classes_of(workload))
    volumes = list(volumes_of(workload, nodes, max(size.nodes, size.pods)))
    await api.create_all(VOLUMES, volumes)
    # The API server creates volumes as Pending, and no volume controller makes them Available.
    await api.call_all(
        Call("PATCH", f"{VOLUMES}/{volume['metadata']['name']}/status",
             {"status": volume["status"]}, "application/merge-patch+json")
        for volume in volumes
    )  # fmt: skip
    await api.create_all(CLAIMS, claims_of(workload, size.running, size.pods))
    for path, bodies in (
        (CLAIMS, (claim for claim, _ in bound_pairs(size, nodes))),
        (VOLUMES, (volume for _, volume in bound_pairs(size, nodes))),
    ):
        await api.create_all(path, bodies)


async def storage_violations(api: Api) -> tuple[str, ...]:
    """Return some errors in the volumes of the measured pods."""
    volumes = {each["metadata"]["name"]: each for each in await api.list_items(VOLUMES)}
    claims = {each["metadata"]["name"]: each for each in await api.list_items(CLAIMS)}
    pods = await api.list_items(f"/api/v1/namespaces/{MEASURED}/pods")
    return tuple(islice(violations_of(pods, claims, volumes), _SHOWN))


def violations_of(
    pods: Iterable[Json], claims: Mapping[str, Json], volumes: Mapping[str, Json]
) -> Iterator[str]:
    """Yield volumes bound to two claims, and pods on another node than their volume."""
    owners = Counter(name for each in claims.values() if (name := each["spec"].get("volumeName")))
    yield from (f"volume {name} has {count} claims" for name, count in owners.items() if count > 1)
    for pod in pods:
        for claim in claim_names(pod):
            node = pod["spec"].get("nodeName")
            volume = volumes.get(claims[claim]["spec"].get("volumeName", ""))
            if node is not None and (volume is None or node_of(volume) != node):
                yield f"pod {pod['metadata']['name']} is on {node}, where its claim has no volume"


def claim_names(pod: Json) -> list[str]:
    """Return the names of a pod's claims."""
    sources = (each.get("persistentVolumeClaim") for each in pod["spec"].get("volumes", ()))
    return [source["claimName"] for source in sources if source is not None]


def node_of(volume: Json) -> str:
    """Return the node of a local volume of this module."""
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return str(term["matchExpressions"][0]["values"][0])

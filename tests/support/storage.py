"""Storage objects for tests: only what a test is about needs to be written."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from scheduler.api.objects import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
)
from scheduler.api.pods import PodInfo
from scheduler.api.storage import (
    MIGRATED_PLUGINS,
    ClaimReference,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.api.volume_sources import PersistentVolumeClaimVolumeSource, Volume
from scheduler.kernel.snapshot import NodeSet, PodAdded, Snapshot
from scheduler.kernel.volumes.catalog import (
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_ATTACHMENT,
    VolumeCatalog,
)
from tests.support.builders import HOSTNAME, make_node_info

GI = 2**30
KINDS = {
    PersistentVolumeClaim: CLAIM,
    PersistentVolume: VOLUME,
    StorageClass: STORAGE_CLASS,
    CSINode: CSI_NODE,
    CSIDriver: CSI_DRIVER,
    CSIStorageCapacity: CSI_STORAGE_CAPACITY,
    VolumeAttachment: VOLUME_ATTACHMENT,
}


def make_claim(name: str = "claim", *, gi: int | None = 1, **fields: Any) -> PersistentVolumeClaim:
    """A claim of the class `local` in the namespace `default`."""
    meta = ObjectMeta(
        name=name,
        namespace=fields.pop("namespace", "default"),
        uid=fields.pop("uid", f"uid-of-{name}"),
        resource_version=fields.pop("version", "1"),
        deletion_timestamp=fields.pop("deleted", None),
    )
    request = None if gi is None else Decimal(gi * GI)
    return PersistentVolumeClaim(
        metadata=meta, **{"class_name": "local", "request": request, **fields}
    )


def bound_claim(name: str, volume_name: str, **fields: Any) -> PersistentVolumeClaim:
    """A claim that has its volume."""
    return make_claim(
        name, volume_name=volume_name, is_bind_completed=True, is_annotated=True, **fields
    )


def make_volume(
    name: str = "volume",
    *,
    gi: int = 1,
    hosts: Iterable[str] | None = None,
    claim: PersistentVolumeClaim | None = None,
    **fields: Any,
) -> PersistentVolume:
    """An available volume of the class `local`; on some hosts, or everywhere."""
    meta = ObjectMeta(
        name=name,
        uid=f"uid-of-{name}",
        resource_version=fields.pop("version", "1"),
        labels=fields.pop("labels", {}),
    )
    reference = None
    if claim is not None:
        reference = ClaimReference(
            claim.metadata.name, claim.metadata.namespace, claim.metadata.uid
        )
    return PersistentVolume(
        metadata=meta,
        claim=reference,
        affinity=None if hosts is None else affinity_in(HOSTNAME, *hosts),
        **{
            "class_name": "local",
            "capacity": Decimal(gi * GI),
            "is_available": True,
            **fields,
        },
    )


def affinity_in(key: str, *values: str) -> NodeSelector:
    """Nodes of which a label has one of the values."""
    requirement = NodeSelectorRequirement(key, "In", values)
    return NodeSelector((NodeSelectorTerm((requirement,)),))


def make_class(name: str = "local", **fields: Any) -> StorageClass:
    """A class that waits for its first consumer and provisions nothing."""
    return StorageClass(
        ObjectMeta(name=name),
        **{
            "provisioner": "kubernetes.io/no-provisioner",
            "volume_binding_mode": "WaitForFirstConsumer",
            **fields,
        },
    )


def make_csi_node(
    name: str, limits: Mapping[str, int | None] | None = None, migrated: str = ""
) -> CSINode:
    """The drivers of a node with their limits."""
    drivers = [
        {"name": driver, "allocatable": {"count": limit}}
        for driver, limit in (limits or {}).items()
    ]
    wire = {
        "metadata": {"name": name, "annotations": {MIGRATED_PLUGINS: migrated} if migrated else {}},
        "spec": {"drivers": drivers},
    }
    return msgspec.convert(wire, CSINode)


def make_attachment(volume_name: str, node_name: str, driver: str) -> VolumeAttachment:
    """A volume that is attached to a node."""
    source = {"persistentVolumeName": volume_name}
    wire = {
        "metadata": {"name": f"{volume_name}-on-{node_name}"},
        "spec": {"attacher": driver, "nodeName": node_name, "source": source},
    }
    return msgspec.convert(wire, VolumeAttachment)


def make_catalog(*objects: Any) -> VolumeCatalog:
    """The storage of a cluster with these objects."""
    catalog = VolumeCatalog()
    for obj in objects:
        tell(catalog, None, obj)
    return catalog


def tell(catalog: VolumeCatalog, old: Any, new: Any) -> None:
    """Let something happen to an object."""
    catalog.on_event(KINDS[type(new if old is None else old)], old, new)


def claims_of(*names: str) -> tuple[Volume, ...]:
    """Volumes of a pod that name these claims."""
    return tuple(
        Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(name))
        for name in names
    )


def cluster_of(nodes: Sequence[Node], pods: Sequence[PodInfo] = ()) -> Snapshot:
    """A snapshot whose nodes know their pods."""
    snapshot = Snapshot()
    for node in nodes:
        here = [pod for pod in pods if pod.node_name == node.metadata.name]
        info = make_node_info(node, here)
        snapshot.update((NodeSet(info, node), *(PodAdded(pod) for pod in here)))
    return snapshot

"""Storage objects as scheduling reads them: claims, volumes, classes, drivers, attachments.

Source: k8s.io/api core/v1, storage/v1 types.go (v0.36).
"""

from decimal import Decimal
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.api.objects import AnnotatedMeta, LabelSelector, NodeSelector, ObjectMeta, Quantity
from scheduler.api.quantity import QuantityError, parse
from scheduler.api.volume_sources import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    GCEPersistentDiskVolumeSource,
    NamedDiskVolumeSource,
    UnreadVolumeSource,
)
from scheduler.api.wire import ApiStruct

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"

READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
FILESYSTEM: Final = "Filesystem"
_ZERO: Final = Decimal(0)


class InvalidStorageError(ValueError):
    """A storage object whose fields cannot be read; the message says which and why."""


# --- sources of volumes ---------------------------------------------------------------------------


class CSISource(ApiStruct, frozen=True):
    """A volume by its CSI driver and volume handle."""

    driver: str = ""
    volume_handle: str = ""


class MigratableSources(ApiStruct, frozen=True):
    """In-tree sources that CSI drivers have taken over; at most one is set."""

    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    cinder: NamedDiskVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    portworx_volume: NamedDiskVolumeSource | None = None
    azure_file: UnreadVolumeSource | None = None
    vsphere_volume: UnreadVolumeSource | None = None


# --- claims ---------------------------------------------------------------------------------------


class PersistentVolumeClaim(msgspec.Struct, frozen=True, gc=False):
    """A claim to storage.

    Attributes:
        metadata: identity; labels are not kept.
        class_name: the storage class it requests, empty for none.
        volume_name: the volume it is bound, or pre-bound, to.
        selected_node: the node a volume is to be provisioned for, or None.
        is_annotated: whether it has any annotation.
        is_bind_completed: whether the binding controller is done with it.
        is_lost: whether its volume was deleted.
        request: requested bytes, or None.
        access_modes: the access modes that the volume must allow.
        volume_mode: Filesystem or Block.
        attributes_class: the VolumeAttributesClass, empty for none.
        selector: labels the volume must have, or None.
        controller_uid: the UID of the controlling owner, or empty.
    """

    metadata: ObjectMeta
    class_name: str = ""
    volume_name: str = ""
    selected_node: str | None = None
    is_annotated: bool = False
    is_bind_completed: bool = False
    is_lost: bool = False
    request: Decimal | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = FILESYSTEM
    attributes_class: str = ""
    selector: LabelSelector | None = None
    controller_uid: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_fully_bound(self) -> bool:
        """Whether the claim has its volume and the binding controller is done."""
        return self.is_bind_completed and bool(self.volume_name)


# --- volumes --------------------------------------------------------------------------------------


class ClaimReference(ApiStruct, frozen=True):
    """The claim a volume is bound, or reserved, to."""

    name: str = ""
    namespace: str = ""
    uid: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PersistentVolume(msgspec.Struct, frozen=True, gc=False):
    """A persistent volume.

    Attributes:
        metadata: identity and labels.
        class_name: its storage class, empty for none.
        claim: the claim it is bound, or reserved, to.
        affinity: the nodes that reach it; None for all.
        capacity: bytes.
        access_modes: the access modes that it allows.
        volume_mode: Filesystem or Block.
        attributes_class: the VolumeAttributesClass, empty for none.
        is_available: whether its phase is Available.
        is_bound_by_controller: whether a controller, not its user, chose the claim.
        csi: driver and handle, for volumes of CSI drivers.
        in_tree: the source, for volumes of types that CSI drivers have taken over.
    """

    metadata: ObjectMeta
    class_name: str = ""
    claim: ClaimReference | None = None
    affinity: NodeSelector | None = None
    capacity: Decimal = _ZERO
    access_modes: tuple[str, ...] = ()
    volume_mode: str = FILESYSTEM
    attributes_class: str = ""
    is_available: bool = False
    is_bound_by_controller: bool = False
    csi: CSISource | None = None
    in_tree: MigratableSources | None = None

    @property
    def key(self) -> str:
        """The name."""
        return self.metadata.name

    def is_bound_to(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the volume is bound, or reserved, to the claim; an empty UID matches any UID."""
        ref, meta = self.claim, claim.metadata
        return (
            ref is not None
            and (ref.name, ref.namespace) == (meta.name, meta.namespace)
            and ref.uid in ("", meta.uid)
        )


# --- classes, and drivers with their nodes --------------------------------------------------------


class TopologyRequirement(ApiStruct, frozen=True):
    """A label of which the node must have one of the values."""

    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(ApiStruct, frozen=True):
    """Requirements that must all hold; an empty term matches nothing."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(ApiStruct, frozen=True):
    """The provisioner of a class of volumes, the time of their binding, and their topology."""

    metadata: ObjectMeta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class VolumeNodeResources(ApiStruct, frozen=True):
    """The number of volumes of a driver that a node can hold; None for any number."""

    count: int | None = None


class CSINodeDriver(ApiStruct, frozen=True):
    """A driver that runs on a node."""

    name: str
    allocatable: VolumeNodeResources | None = None

    @property
    def limit(self) -> int | None:
        """Volumes the node can hold, or None for any number."""
        return None if self.allocatable is None else self.allocatable.count


class _CSINodeSpec(ApiStruct, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiStruct, frozen=True):
    """The drivers of the node of the same name."""

    metadata: AnnotatedMeta
    spec: _CSINodeSpec = _CSINodeSpec()

    @property
    def migration(self) -> str:
        """The in-tree plugins whose volumes the node mounts through CSI drivers, as written."""
        return self.metadata.annotations.get(MIGRATED_PLUGINS, "")

    @property
    def migrated_plugins(self) -> frozenset[str]:
        """The in-tree plugins whose volumes the node mounts through CSI drivers."""
        return frozenset(self.migration.split(","))

    def of(self, node: str) -> "CSINode":
        """The drivers of a new node, which are the same as these."""
        return replace(self, metadata=replace(self.metadata, name=node, uid=f"csi-of-{node}"))


class _CSIDriverSpec(ApiStruct, frozen=True):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None
    """Only with the feature gate VolumeLimitScaling."""


class CSIDriver(ApiStruct, frozen=True):
    """A driver of the cluster."""

    metadata: ObjectMeta
    spec: _CSIDriverSpec = _CSIDriverSpec()


class CSIStorageCapacity(ApiStruct, frozen=True):
    """The capacity that a driver can still provide for a class on some nodes."""

    metadata: ObjectMeta
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None

    @property
    def limit(self) -> Decimal | None:
        """The largest volume, in bytes; the size of one is more exact than the total."""
        written = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        return None if written is None else parse(written)


class _AttachmentSource(ApiStruct, frozen=True):
    persistent_volume_name: str | None = None


class _AttachmentSpec(ApiStruct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: _AttachmentSource = _AttachmentSource()


class VolumeAttachment(ApiStruct, frozen=True):
    """A volume that is attached, or is to be attached, to a node."""

    metadata: ObjectMeta
    spec: _AttachmentSpec = _AttachmentSpec()


def checked_capacity(capacity: CSIStorageCapacity) -> CSIStorageCapacity:
    """Check a freshly decoded capacity and return it.

    Raises:
        InvalidStorageError: a quantity does not parse.
    """
    try:
        for written in (capacity.capacity, capacity.maximum_volume_size):
            if written is not None:
                parse(written)
    except QuantityError as problem:
        raise InvalidStorageError(f"capacity: {problem}") from problem
    return capacity

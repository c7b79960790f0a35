"""The volumes of a pod, with the sources that scheduling reads.

Source: k8s.io/api core/v1 types.go (v0.36).
"""

import msgspec

from scheduler.api.wire import ApiStruct


class PersistentVolumeClaimVolumeSource(ApiStruct, frozen=True):
    """A reference to a claim in the pod's namespace."""

    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(ApiStruct, frozen=True):
    """A generic ephemeral volume; its claim is `<pod>-<volume>`, its template is not read."""


class GCEPersistentDiskVolumeSource(ApiStruct, frozen=True):
    """An inline disk, one writer or many readers."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(ApiStruct, frozen=True):
    """An inline disk for one pod."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class ISCSIVolumeSource(ApiStruct, frozen=True):
    """An inline disk, one writer or many readers."""

    iqn: str = ""
    read_only: bool = False


class RBDVolumeSource(ApiStruct, frozen=True):
    """An inline disk, one writer or many readers."""

    monitors: tuple[str, ...] = ()
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class NamedDiskVolumeSource(ApiStruct, frozen=True):
    """A Cinder or Portworx volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class AzureDiskVolumeSource(ApiStruct, frozen=True):
    """An Azure disk; the default kind is the API server's."""

    disk_uri: str = msgspec.field(name="diskURI", default="")
    kind: str = "Shared"


class CSIVolumeSource(ApiStruct, frozen=True):
    """A CSI ephemeral volume, whose lifetime is that of the pod."""

    driver: str = ""


class UnreadVolumeSource(ApiStruct, frozen=True):
    """A volume source of which scheduling reads only the presence."""


class ImageVolumeSource(ApiStruct, frozen=True):
    """An OCI image mounted as a volume."""

    reference: str = ""


class Volume(ApiStruct, frozen=True):
    """A volume; sources that scheduling does not read decode to none."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    cinder: NamedDiskVolumeSource | None = None
    portworx_volume: NamedDiskVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: UnreadVolumeSource | None = None
    vsphere_volume: UnreadVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    image: ImageVolumeSource | None = None

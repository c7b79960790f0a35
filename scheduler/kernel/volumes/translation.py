"""In-tree volume types that CSI drivers have taken over: their drivers, handles and topology.

Source: k8s.io/csi-translation-lib translate.go, plugins/*.go (v0.36); pkg/scheduler
nodevolumelimits/utils.go, volumebinding/binder.go (isCSIMigrationOn, v1.36).
"""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from scheduler.api.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.storage import CSISource, MigratableSources, PersistentVolume
from scheduler.api.volume_sources import AzureDiskVolumeSource, Volume

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
ZONE_SEPARATOR: Final = "__"

_UNSPECIFIED: Final = "UNSPECIFIED"
_EBS_VOLUME: Final = re.compile(r"vol-[^/]*")
_GCE_ZONE_PARTS: Final = 3


class TranslationError(ValueError):
    """A volume of a migrated type that has no counterpart; the message has the reason."""


class InTreePlugin(msgspec.Struct, frozen=True, gc=False):
    """A volume type that a CSI driver has taken over.

    Attributes:
        field: the field of a volume's source for this type.
        name: the in-tree name.
        driver: the CSI driver's name.
        topology_key: the driver's node label for zones, empty for none.
        is_migrated: whether scheduling counts and places its volumes as the driver's.
    """

    field: str
    name: str
    driver: str
    topology_key: str = ""
    is_migrated: bool = True


PLUGINS: Final = (
    InTreePlugin(
        "gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io",
        "topology.gke.io/zone",
    ),
    InTreePlugin(
        "aws_elastic_block_store", "kubernetes.io/aws-ebs", "ebs.csi.aws.com",
        "topology.ebs.csi.aws.com/zone",
    ),
    InTreePlugin(
        "cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
    ),
    InTreePlugin("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    InTreePlugin("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
    InTreePlugin(
        "azure_file", "kubernetes.io/azure-file", "file.csi.azure.com", is_migrated=False
    ),
    InTreePlugin(
        "vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com",
        is_migrated=False,
    ),
)  # fmt: skip
BY_NAME: Final[Mapping[str, InTreePlugin]] = {plugin.name: plugin for plugin in PLUGINS}


Sources: TypeAlias = Volume | MigratableSources
"""A volume inside a pod, or the source of a persistent one."""


def plugin_of(sources: Sources | None) -> InTreePlugin | None:
    """The type of an in-tree volume, if a CSI driver has taken it over."""
    if sources is None:
        return None
    return next((p for p in PLUGINS if getattr(sources, p.field) is not None), None)


def inline_volume(sources: Sources) -> CSISource | None:
    """The CSI source of a volume inside a pod; None for types that are not migrated.

    Raises:
        TranslationError: it has no counterpart.
    """
    return _source(sources, "")


def csi_source(volume: PersistentVolume) -> CSISource | None:
    """The CSI source of an in-tree volume; None for types that are not migrated.

    Raises:
        TranslationError: it has no counterpart.
    """
    if volume.in_tree is None:
        return None
    labels = volume.metadata.labels
    return _source(volume.in_tree, labels.get(BETA_ZONE) or labels.get(ZONE, ""))


def csi_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """The nodes that reach an in-tree volume through its CSI driver.

    Raises:
        TranslationError: the volume has no counterpart.
    """
    csi_source(volume)
    plugin = plugin_of(volume.in_tree)
    if plugin is None or not plugin.topology_key:
        return volume.affinity
    zone, region = _topology_labels(volume)
    affinity = volume.affinity
    if _has_values(affinity, zone):
        affinity = _renamed(affinity, zone, plugin.topology_key)
    elif zone in volume.metadata.labels:
        zones = volume.metadata.labels[zone].split(ZONE_SEPARATOR)
        affinity = _with_zones(affinity, plugin.topology_key, zones)
    if region == BETA_REGION and _has_values(affinity, region):
        affinity = _renamed(affinity, region, REGION)
    return affinity


# --- handles --------------------------------------------------------------------------------------


def _source(sources: Sources, zones: str) -> CSISource | None:
    plugin = plugin_of(sources)
    if plugin is None or not plugin.is_migrated:
        return None
    return CSISource(plugin.driver, _handle(sources, zones))


def _handle(sources: Sources, zones: str) -> str:
    if sources.gce_persistent_disk is not None:
        return _gce_handle(sources.gce_persistent_disk.pd_name, zones)
    if sources.aws_elastic_block_store is not None:
        return _ebs_handle(sources.aws_elastic_block_store.volume_id)
    if sources.azure_disk is not None:
        return _azure_handle(sources.azure_disk)
    named = sources.cinder or sources.portworx_volume
    return named.volume_id if named is not None else ""


def _gce_handle(name: str, label: str) -> str:
    zones = label.split(ZONE_SEPARATOR)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{name}"
    parts = [zone.split("-") for zone in zones]
    if any(len(part) != _GCE_ZONE_PARTS for part in parts):
        raise TranslationError(f"zones {label!r}: expected {{locale}}-{{region}}-{{zone}}")
    regions = {"-".join(part[:2]) for part in parts}
    if len(regions) != 1:
        raise TranslationError(f"zones {label!r} lie in several regions")
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{name}"


def _ebs_handle(volume_id: str) -> str:
    if not volume_id.startswith("aws://"):
        return volume_id
    try:
        found = urlsplit(volume_id).path.strip("/")
    except ValueError as problem:
        raise TranslationError(f"{volume_id!r} is no URL: {problem}") from problem
    if _EBS_VOLUME.fullmatch(found) is None:
        raise TranslationError(f"{volume_id!r} names no EBS volume")
    return found


def _azure_handle(disk: AzureDiskVolumeSource) -> str:
    if disk.kind.lower() != "managed":
        raise TranslationError(f"an Azure disk of kind {disk.kind!r} is not migrated")
    return disk.disk_uri


# --- topology -------------------------------------------------------------------------------------


def _topology_labels(volume: PersistentVolume) -> tuple[str, str]:
    """The keys for zone and region that the volume uses: in its affinity, else in its labels."""
    keys = {r.key for term in _terms(volume.affinity) for r in term.match_expressions}
    for used in (keys, volume.metadata.labels):
        if ZONE in used:
            break
        if BETA_ZONE in used:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _terms(affinity: NodeSelector | None) -> tuple[NodeSelectorTerm, ...]:
    return () if affinity is None else affinity.node_selector_terms


def _has_values(affinity: NodeSelector | None, key: str) -> bool:
    return any(
        r.key == key and r.values for term in _terms(affinity) for r in term.match_expressions
    )


def _renamed(affinity: NodeSelector | None, old: str, new: str) -> NodeSelector:
    return NodeSelector(
        tuple(
            NodeSelectorTerm(
                tuple(
                    NodeSelectorRequirement(new if r.key == old else r.key, r.operator, r.values)
                    for r in term.match_expressions
                ),
                term.match_fields,
            )
            for term in _terms(affinity)
        )
    )


def _with_zones(affinity: NodeSelector | None, key: str, zones: list[str]) -> NodeSelector | None:
    """Add a requirement of one of the zones to each term of the affinity."""
    named = sorted({zone.strip() for zone in zones} - {""})
    if not named:
        return affinity
    demand = NodeSelectorRequirement(key, "In", tuple(named))
    return NodeSelector(
        tuple(
            NodeSelectorTerm((*term.match_expressions, demand), term.match_fields)
            for term in _terms(affinity) or (NodeSelectorTerm(),)
        )
    )

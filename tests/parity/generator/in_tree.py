"""Volumes of all types that CSI drivers have taken over, some of them spelled oddly.

Scheduling counts and places some types as the driver's, and leaves others alone.
"""

from collections.abc import Mapping
from typing import Final

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import NODE_LABELS, ZONE, Draw, Object
from tests.parity.generator.storage import BETA_ZONE, Storage, azure_uri, drop_odd_zones

DRIVERS: Final[Mapping[str, str]] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""The drivers by the names of the types that they have taken over."""
TOPOLOGIES: Final = (
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "topology.cinder.csi.openstack.org/zone",
    "topology.disk.csi.azure.com/zone",
)
"""The labels that drivers give nodes."""
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_NOT_INLINE: Final = ("local", "hostPath")


class InTreeStorage(Storage):
    """Storage in which most volumes are of such a type."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        super().shape_cluster(draw, cluster)
        for each in cluster.others:
            if each["kind"] == "StorageClass" and draw.maybe(0.7):
                each["provisioner"] = draw.pick((*DRIVERS, *DRIVERS.values()))
            elif each["kind"] == "CSINode":
                _install(draw, each)

    @override
    def shape_node(self, draw: Draw, node: Object) -> None:
        super().shape_node(draw, node)
        labels = node["metadata"]["labels"]
        for key in TOPOLOGIES:
            if draw.maybe(0.5):
                labels[key] = draw.pick((labels.get(ZONE, "z1"), *NODE_LABELS[ZONE]))

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        super().shape_pod(draw, pod, cluster)
        if draw.maybe(self.density / 2):
            source = _source(draw, draw.pick(("one", "two", "three")))
            if not any(name in source for name in _NOT_INLINE):
                _inline(source)
                pod["spec"].setdefault("volumes", []).append({"name": "in-tree", **source})

    @override
    def _volume(self, draw: Draw, nodes: list[str]) -> Object:
        volume = super()._volume(draw, nodes)
        spec = volume["spec"]
        if draw.maybe(0.2):
            return volume
        for old in ("csi", "hostPath", "awsElasticBlockStore", "gcePersistentDisk", "cinder"):
            spec.pop(old, None)
        spec.pop("volumeAttributesClassName", None)
        spec |= _source(draw, f"v{self._count}" if draw.maybe(0.8) else "one")
        if "local" in spec:
            spec.setdefault(
                "nodeAffinity", {"required": {"nodeSelectorTerms": [_in_zone(draw, ZONE)]}}
            )
        elif draw.maybe(0.3):
            key = draw.pick((ZONE, BETA_ZONE, *TOPOLOGIES))
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_in_zone(draw, key)]}}
        drop_odd_zones(volume)
        return volume


def _in_zone(draw: Draw, key: str) -> Object:
    values = draw.some(NODE_LABELS[ZONE], 1, 2)
    return {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}


def _install(draw: Draw, node: Object) -> None:
    """Install drivers on a node, with limits, and tell which types they have taken over."""
    known = {each["name"] for each in node["spec"]["drivers"]}
    for driver in draw.some([each for each in DRIVERS.values() if each not in known], 0, 4):
        entry: Object = {"name": driver, "nodeID": node["metadata"]["name"], "topologyKeys": []}
        if draw.maybe(0.8):
            entry["allocatable"] = {"count": draw.pick((0, 1, 1, 2, 3))}
        node["spec"]["drivers"].append(entry)
    if draw.maybe(0.7):
        migrated = ",".join(draw.some(tuple(DRIVERS), 0, 7))
        node["metadata"].setdefault("annotations", {})[_MIGRATED] = migrated


def _source(draw: Draw, name: str) -> Object:
    return draw.pick(
        (
            {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}},
            {"awsElasticBlockStore": {"volumeID": f"aws://us-east-1a/vol-{name}"}},
            {"gcePersistentDisk": {"pdName": name, "partition": 1}},
            {"cinder": {"volumeID": name}},
            {"azureDisk": _azure_disk(draw, name)},
            {"azureDisk": _azure_disk(draw, name)},
            {"azureFile": {"secretName": "s", "shareName": name, "secretNamespace": "default"}},
            {"portworxVolume": {"volumeID": name}},
            {"portworxVolume": {"volumeID": name, "readOnly": True}},
            {"vsphereVolume": {"volumePath": f"[store] {name}.vmdk"}},
            {"local": {"path": f"/mnt/{name}"}},
            {"nfs": {"server": "files.example", "path": f"/{name}"}},
            {"fc": {"targetWWNs": ["500a0982991b8dc5"], "lun": 2}},
        )
    )


def _azure_disk(draw: Draw, name: str) -> Object:
    # A disk of another kind has no counterpart.
    disk: Object = {"diskName": name, "diskURI": azure_uri(name), "kind": "Managed"}
    if draw.maybe(0.3):
        disk["cachingMode"] = draw.pick(("None", "ReadOnly"))
    return disk


def _inline(source: Object) -> None:
    """Change the source of a persistent volume into that of a volume in a pod."""
    source.get("azureFile", {}).pop("secretNamespace", None)

"""Storage: claims in every state, volumes of every kind, classes, drivers, limits, attachments.

Volumes that a claim could take differ in size: of equally large ones kube-scheduler takes any.
"""

from typing import ClassVar

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import HOSTNAME, NODE_LABELS, RACK, REGION, ZONE, Draw, Object
from tests.parity.generator.feature import Feature

DRIVER = "csi.example.com"
EBS_DRIVER = "ebs.csi.aws.com"
EBS, GCE, CINDER = "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/cinder"
PROVISIONERS = {
    "fast": DRIVER,
    "local": "kubernetes.io/no-provisioner",
    "now": DRIVER,
    "ebs": EBS,
    "other": "csi.other.example",
}
"""Storage classes; all but `now` wait for their first consumer."""
CLASSES = ("fast", "fast", "fast", "local", "local", "local", "ebs", "other", "now", "gone")
SIZES = ("1Gi", "2Gi", "4Gi", "5Gi", "5000M", "8Gi", "12Gi")
MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")
ONCE_POD = "ReadWriteOncePod"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_LABELS = {
    ZONE: ("z1", "z2", "z1__z2", "z3__z4", "z1____z2", "us-east1-a__us-east1-b"),
    REGION: ("r1", "r2"),
    BETA_ZONE: ("z1", "z2__z3"),
    BETA_REGION: ("r1",),
}
VOLUME_LABELS = {"tier": ("gold", "tin")}
MIGRATED = ("", EBS, f"{EBS},{GCE}", f"{GCE},{CINDER},{EBS}")
STATES = (
    *("bound",) * 8,
    *("waiting",) * 9,
    *("selected",) * 2,
    "immediate",
    "pre-bound",
    "lost",
    "deleting",
    "no-volume",
    "missing",
)


class Storage(Feature):
    """Pods with volumes; `density` is how many of the pods have any."""

    annotated = 0.08
    """How many of the claims name their class in an annotation."""
    states: ClassVar[tuple[str, ...]] = STATES
    """Of which a claim has one."""
    told = 0.75
    """How many of the drivers that say it tell their room."""

    def __init__(self, density: float = 0.8, *, configured: float = 0.0) -> None:
        super().__init__(density, configured=configured)
        self._made: set[str] = set()
        self._count = 0

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        if draw.maybe(self.configured):
            cluster.plugin_args["VolumeBinding"] = {
                "bindTimeoutSeconds": draw.pick((0, 1, 30, 600))
            }
        for name in PROVISIONERS:
            if draw.maybe(0.95):
                cluster.others.append(_class(draw, name))
        for name in (DRIVER, EBS_DRIVER):
            if draw.maybe(0.8):
                cluster.others.append(_driver(draw, name, self.told))
        names = [node["metadata"]["name"] for node in cluster.nodes]
        cluster.others.extend(self._capacities(draw, names))
        for _ in range(draw.pick((0, 2, 4, 8, 12))):
            cluster.others.append(self._free_volume(draw, names))
        for name in names:
            if draw.maybe(0.75):
                cluster.others.append(_csi_node(draw, name))

    def _capacities(self, draw: Draw, nodes: list[str]) -> list[Object]:
        return [_capacity(draw, f"cap-{i}", nodes) for i in range(draw.pick((0, 0, 2, 4, 8)))]

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        if not draw.maybe(self.density):
            return
        volumes = pod["spec"].setdefault("volumes", [])
        if draw.maybe(0.85):
            for i in range(draw.pick((1, 1, 1, 2, 2, 3))):
                volumes.append(self._claimed(draw, f"data-{i}", pod, cluster))
        if draw.maybe(0.15):
            volumes.append({"name": "scratch", **_ephemeral(draw)})
            self._ephemeral_claim(draw, pod, cluster)
        if draw.maybe(0.35):
            volumes.append({"name": "disk", **_inline(draw)})
        if draw.maybe(0.2):
            volumes.append({"name": "settings", "configMap": {"name": "settings"}})

    def _claimed(self, draw: Draw, volume: str, pod: Object, cluster: Cluster) -> Object:
        meta = pod["metadata"]
        is_shared = draw.maybe(0.3)
        name = draw.pick(("shared-a", "shared-b")) if is_shared else f"{meta['name']}-{volume}"
        if f"{meta['namespace']}/{name}" not in self._made:
            self._make_claim(draw, name, meta["namespace"], cluster)
        return {"name": volume, "persistentVolumeClaim": {"claimName": name}}

    def _ephemeral_claim(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        meta = pod["metadata"]
        # One pod on a node with somebody else's claim would fail every attempt of kube-scheduler.
        is_running = "nodeName" in pod["spec"] or "nominatedNodeName" in pod["status"]
        if not is_running and draw.maybe(0.15):
            return
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta["name"],
            "uid": f"Pod/{meta['namespace']}/{meta['name']}",
            "controller": True,
        }
        if not is_running and draw.maybe(0.15):
            owner["uid"] = "somebody-else"
        name = f"{meta['name']}-scratch"
        self._make_claim(draw, name, meta["namespace"], cluster, owner=owner)

    def _make_claim(
        self, draw: Draw, name: str, namespace: str, cluster: Cluster, owner: Object | None = None
    ) -> None:
        self._made.add(f"{namespace}/{name}")
        state = draw.pick(self.states)
        if state == "missing" and owner is None:
            return
        claim = _claim(draw, name, namespace, self.annotated)
        if owner is not None:
            claim["metadata"]["ownerReferences"] = [owner]
        nodes = [node["metadata"]["name"] for node in cluster.nodes]
        match state:
            case "bound":
                self._bind(draw, claim, cluster, nodes)
            case "selected":
                claim["spec"]["storageClassName"] = draw.pick(("fast", "fast", "local", "other"))
                annotations = claim["metadata"].setdefault("annotations", {})
                annotations["volume.kubernetes.io/selected-node"] = draw.pick([*nodes, "gone"])
            case "immediate":
                claim["spec"]["storageClassName"] = draw.pick(("now", "", "gone"))
            case "pre-bound":
                claim["spec"]["volumeName"] = "pv-somewhere"
            case "lost":
                claim["spec"]["volumeName"] = "pv-lost"
                claim["status"]["phase"] = "Lost"
            case "deleting":
                claim["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
                claim["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
            case "no-volume":
                _complete(claim, "pv-gone")
            case _ if draw.maybe(0.25):
                cluster.others.append(self._reserved_volume(draw, claim, nodes))
        cluster.others.append(claim)

    def _bind(self, draw: Draw, claim: Object, cluster: Cluster, nodes: list[str]) -> None:
        volume = self._volume(draw, nodes)
        volume["status"]["phase"] = "Bound"
        volume["spec"]["claimRef"] = _reference(claim)
        _complete(claim, volume["metadata"]["name"])
        cluster.others.append(volume)
        if nodes and draw.maybe(0.15):
            cluster.others.append(_attachment(draw, volume["metadata"]["name"], nodes))

    def _free_volume(self, draw: Draw, nodes: list[str]) -> Object:
        volume = self._volume(draw, nodes)
        volume["status"]["phase"] = draw.pick(
            ("Available", "Available", "Available", "Available", "Available", "Released", "Pending")
        )
        if draw.maybe(0.07):
            volume["spec"]["claimRef"] = {
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "elsewhere",
            }
        if draw.maybe(0.05):
            volume["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
            volume["metadata"]["finalizers"] = ["kubernetes.io/pv-protection"]
        return volume

    def _reserved_volume(self, draw: Draw, claim: Object, nodes: list[str]) -> Object:
        volume = self._volume(draw, nodes)
        volume["spec"]["claimRef"] = _reference(claim)
        if draw.maybe(0.5):
            del volume["spec"]["claimRef"]["uid"]
        elif draw.maybe(0.2):
            volume["spec"]["claimRef"]["uid"] = "an-older-claim"
        if draw.maybe(0.8):
            volume["spec"]["storageClassName"] = claim["spec"].get("storageClassName", "")
        volume["status"]["phase"] = draw.pick(("Available", "Bound", "Pending"))
        return volume

    def _volume(self, draw: Draw, nodes: list[str]) -> Object:
        self._count += 1
        spec: Object = {
            "capacity": {"storage": f"{self._count + draw.randint(0, 3)}{self._count:03}M"},
            "accessModes": draw.some(MODES, 1, 3),
            "storageClassName": draw.pick(("fast", "local", "local", "local", "ebs", "")),
            "persistentVolumeReclaimPolicy": "Retain",
            **_source(draw, self._count),
        }
        spec["accessModes"] = sorted(set(spec["accessModes"]))
        if draw.maybe(0.06):
            spec["accessModes"] = [ONCE_POD]
        if draw.maybe(0.1):
            spec["volumeMode"] = "Block"
        if "csi" in spec and draw.maybe(0.1):
            spec["volumeAttributesClassName"] = "gold"
        if draw.maybe(0.7):
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": _terms(draw, nodes)}}
        labels = draw.labels(VOLUME_LABELS, 0.5)
        if draw.maybe(0.3):
            labels.update(draw.labels(ZONE_LABELS, 0.4))
        volume: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"pv-{self._count}", "labels": labels},
            "spec": spec,
            "status": {},
        }
        drop_odd_zones(volume)
        return volume


class ScoredStorage(Storage):
    """Storage whose room decides between nodes, behind the gate StorageCapacityScoring.

    A node has one pool of a class at most: of several kube-scheduler takes any for the score. Each
    tells its size, and no claim names its class in the old annotation: kube-scheduler's score
    panics over such.
    """

    annotated = 0.0
    states: ClassVar[tuple[str, ...]] = ("waiting",) * 14 + ("bound", "bound", "selected", "lost")
    told = 0.95

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        super().shape_cluster(draw, cluster)
        args = cluster.plugin_args.get("VolumeBinding")
        if args is not None and draw.maybe(0.7):
            points = sorted(draw.some((0, 10, 35, 50, 80, 100), 1, 4))
            args["shape"] = [
                {"utilization": point, "score": draw.randint(0, 10)} for point in points
            ]

    @override
    def _capacities(self, draw: Draw, nodes: list[str]) -> list[Object]:
        return [
            {
                **_capacity(draw, f"cap-{class_name}-{node}", nodes),
                "storageClassName": class_name,
                "nodeTopology": {"matchLabels": {HOSTNAME: node}},
                "capacity": draw.pick(("8Gi", "20Gi", "25000M", "60Gi", "100Gi")),
            }
            for class_name in ("fast", "other", "ebs")
            for node in nodes
            if draw.maybe(0.7)
        ]


class DemandingStorage(Storage):
    """Storage of which one driver may demand to be installed where its volumes go.

    Behind the gate VolumeLimitScaling. Of several such drivers that a node lacks, kube-scheduler
    names any.
    """

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        super().shape_cluster(draw, cluster)
        drivers = [each for each in cluster.others if each["kind"] == "CSIDriver"]
        if drivers and draw.maybe(0.9):
            draw.pick(drivers)["spec"]["preventPodSchedulingIfMissing"] = draw.maybe(0.9)


def drop_odd_zones(volume: Object) -> None:
    """Drop lists of zones that have no region: they fail attempts, as told in docs/parity.md."""
    labels = volume["metadata"].get("labels", {})
    if "gcePersistentDisk" in volume["spec"]:
        for key in [k for k, v in labels.items() if "__" in v and not v.startswith("us-")]:
            del labels[key]


def _claim(draw: Draw, name: str, namespace: str, annotated: float) -> Object:
    spec: Object = {
        "accessModes": [ONCE_POD] if draw.maybe(0.3) else [draw.pick(MODES)],
        "resources": {"requests": {"storage": draw.pick(SIZES)}},
        "storageClassName": draw.pick(CLASSES),
    }
    if draw.maybe(0.08):
        spec["volumeMode"] = "Block"
    if draw.maybe(0.04):
        spec["volumeAttributesClassName"] = "gold"
    if draw.maybe(0.15):
        spec["selector"] = draw.label_selector(VOLUME_LABELS)
    metadata: Object = {"name": name, "namespace": namespace}
    if draw.maybe(annotated):
        key = "volume.beta.kubernetes.io/storage-class"
        metadata["annotations"] = {key: draw.pick(CLASSES)}
        del spec["storageClassName"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _complete(claim: Object, volume_name: str) -> None:
    claim["spec"]["volumeName"] = volume_name
    annotations = claim["metadata"].setdefault("annotations", {})
    annotations["pv.kubernetes.io/bind-completed"] = "yes"
    claim["status"]["phase"] = "Bound"


def _reference(claim: Object) -> Object:
    meta = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": f"PersistentVolumeClaim/{meta['namespace']}/{meta['name']}",
    }


def _ephemeral(draw: Draw) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": draw.pick(SIZES)}},
        "storageClassName": "fast",
    }
    return {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def _inline(draw: Draw) -> Object:
    read_only = draw.maybe(0.5)
    name = draw.pick(("one", "two"))
    return draw.pick(
        (
            {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": f"vol-{name}", "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": f"aws://us-east-1a/vol-{name}"}},
            {
                "iscsi": {
                    "targetPortal": "10.0.0.1:3260",
                    "iqn": f"iqn.2026-01.com.example:{name}",
                    "lun": 0,
                    "readOnly": read_only,
                }
            },
            {
                "rbd": {
                    "monitors": draw.some(("m1", "m2", "m3"), 1, 2),
                    "image": name,
                    "pool": draw.pick(("rbd", "other")),
                    "readOnly": read_only,
                }
            },
            {"cinder": {"volumeID": name}},
            {"azureDisk": {"diskName": name, "diskURI": azure_uri(name), "kind": "Managed"}},
            {"csi": {"driver": DRIVER}},
        )
    )


def azure_uri(name: str) -> str:
    """The URI of a disk."""
    return f"/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/{name}"


def _source(draw: Draw, number: int) -> Object:
    handle = draw.pick((f"handle-{number}", f"handle-{number}", "handle-shared"))
    return draw.pick(
        (
            {"csi": {"driver": draw.pick((DRIVER, DRIVER, EBS_DRIVER)), "volumeHandle": handle}},
            {"csi": {"driver": DRIVER, "volumeHandle": handle}},
            {"hostPath": {"path": "/data"}},
            {"awsElasticBlockStore": {"volumeID": f"vol-{number}"}},
            {"gcePersistentDisk": {"pdName": f"pd-{number}"}},
            {"cinder": {"volumeID": f"c-{number}"}},
        )
    )


def _terms(draw: Draw, nodes: list[str]) -> list[Object]:
    return [_term(draw, nodes) for _ in range(draw.pick((1, 1, 1, 2)))]


def _term(draw: Draw, nodes: list[str]) -> Object:
    if nodes and draw.maybe(0.5):
        return {"matchExpressions": [_in(HOSTNAME, draw.some(nodes, 1, 2))]}
    expressions = []
    for _ in range(draw.pick((1, 1, 2))):
        key = draw.pick((ZONE, ZONE, BETA_ZONE, BETA_REGION, RACK, "disk", "rank"))
        operator = draw.pick(("In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt"))
        if operator == "Gt":
            expressions.append({"key": "rank", "operator": "Gt", "values": ["3"]})
        elif operator in ("In", "NotIn"):
            known = NODE_LABELS.get(key) or ZONE_LABELS.get(key, ("x",))
            plain = [value for value in known if "__" not in value]
            expressions.append({**_in(key, draw.some(plain, 1, 2)), "operator": operator})
        else:
            expressions.append({"key": key, "operator": operator})
    term: Object = {"matchExpressions": expressions}
    if nodes and draw.maybe(0.05):
        field = {"key": "metadata.name", "operator": "In", "values": [draw.pick(nodes)]}
        term["matchFields"] = [field]
    return term


def _in(key: str, values: list[str]) -> Object:
    return {"key": key, "operator": "In", "values": values}


def _class(draw: Draw, name: str) -> Object:
    found: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": PROVISIONERS[name],
        "volumeBindingMode": "Immediate" if name == "now" else "WaitForFirstConsumer",
    }
    if draw.maybe(0.3):
        found["allowedTopologies"] = [
            {"matchLabelExpressions": [{"key": key, "values": draw.some(values, 1, 2)}]}
            for key, values in draw.some(
                ((ZONE, NODE_LABELS[ZONE]), (RACK, ("a", "b")), ("disk", ("ssd",))), 1, 2
            )
        ]
    return found


def _driver(draw: Draw, name: str, told: float) -> Object:
    spec: Object = {"attachRequired": True}
    if draw.maybe(0.7):
        spec["storageCapacity"] = draw.maybe(told)
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": spec,
    }


def _capacity(draw: Draw, name: str, nodes: list[str]) -> Object:
    found: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": draw.pick(("fast", "fast", "other", "ebs")),
    }
    if nodes and draw.maybe(0.4):
        found["nodeTopology"] = {"matchLabels": {HOSTNAME: draw.pick(nodes)}}
    elif draw.maybe(0.85):
        found["nodeTopology"] = draw.label_selector({k: NODE_LABELS[k] for k in (ZONE, "disk")})
    if draw.maybe(0.85):
        found["capacity"] = draw.pick(SIZES)
    if draw.maybe(0.35):
        found["maximumVolumeSize"] = draw.pick(SIZES)
    return found


def _csi_node(draw: Draw, name: str) -> Object:
    drivers = []
    for driver in draw.some((DRIVER, EBS_DRIVER, "cinder.csi.openstack.org"), 0, 3):
        entry: Object = {"name": driver, "nodeID": name, "topologyKeys": []}
        if draw.maybe(0.75):
            entry["allocatable"] = {"count": draw.pick((0, 1, 1, 2, 3, 5))}
        drivers.append(entry)
    metadata: Object = {"name": name}
    migrated = draw.pick(MIGRATED)
    if migrated:
        metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {"drivers": drivers},
    }


def _attachment(draw: Draw, volume: str, nodes: list[str]) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": f"attached-{volume}"},
        "spec": {
            "attacher": draw.pick((DRIVER, DRIVER, EBS_DRIVER)),
            "nodeName": draw.pick(nodes),
            "source": {"persistentVolumeName": volume},
        },
        "status": {"attached": True},
    }

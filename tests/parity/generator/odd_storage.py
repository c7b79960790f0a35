"""Storage objects with what few have: no class, no topology, empty lists, contradicting states."""

from collections.abc import Callable, Sequence

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import HOSTNAME, RACK, ZONE, Draw, Object
from tests.parity.generator.feature import Feature
from tests.parity.generator.storage import DRIVER, EBS_DRIVER

LONG_AGO = "2026-01-02T03:04:05Z"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BOUND_BY = "pv.kubernetes.io/bound-by-controller"
COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"


class OddStorage(Feature):
    """Changes objects that `Storage` has made; `density` is how often one is changed.

    Comes last: it changes all storage objects of the case when the first waiting pod is shaped.
    """

    def __init__(self, density: float = 0.8, *, configured: float = 0.0) -> None:
        super().__init__(density, configured=configured)
        self._seen: set[int] = set()

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        nodes = [node["metadata"]["name"] for node in cluster.nodes]
        for found in cluster.others:
            if id(found) not in self._seen:
                self._seen.add(id(found))
                changes = CHANGES.get(found["kind"])
                if changes and draw.maybe(self.density):
                    draw.pick(changes)(draw, found, nodes)
        for volume in pod["spec"].get("volumes", ()):
            if "persistentVolumeClaim" in volume and draw.maybe(0.1):
                volume["persistentVolumeClaim"]["readOnly"] = True
        if draw.maybe(0.1) and len(pod["spec"].get("volumes", ())) > 0:
            # Two volumes of one claim.
            again = {**draw.pick(pod["spec"]["volumes"]), "name": "again"}
            if "ephemeral" not in again:
                pod["spec"]["volumes"].append(again)


def _class_without_mode(draw: Draw, found: Object, nodes: list[str]) -> None:
    del found["volumeBindingMode"]


def _odd_topologies(draw: Draw, found: Object, nodes: list[str]) -> None:
    found["allowedTopologies"] = draw.pick(
        (
            [],
            [
                {
                    "matchLabelExpressions": [
                        {"key": ZONE, "values": ["z1", "z2"]},
                        {"key": RACK, "values": ["a", ""]},
                    ]
                },
                {"matchLabelExpressions": [{"key": HOSTNAME, "values": nodes[:2] or ["n0"]}]},
            ],
            [{"matchLabelExpressions": [{"key": "absent", "values": [""]}]}],
        )
    )


def _default_class(draw: Draw, found: Object, nodes: list[str]) -> None:
    annotations = found["metadata"].setdefault("annotations", {})
    annotations["storageclass.kubernetes.io/is-default-class"] = "true"


def _leaving(draw: Draw, found: Object, nodes: list[str]) -> None:
    found["metadata"]["deletionTimestamp"] = LONG_AGO
    found["metadata"]["finalizers"] = ["example.com/keep"]


def _no_class(draw: Draw, found: Object, nodes: list[str]) -> None:
    """Name no class, or the empty one, in one of the two ways or in both."""
    spec, annotations = found["spec"], found["metadata"].setdefault("annotations", {})
    choice = draw.random()
    if choice < 0.3:
        spec.pop("storageClassName", None)
    elif choice < 0.5:
        spec["storageClassName"] = ""
    elif choice < 0.75:
        spec["storageClassName"] = draw.pick(("fast", "local"))
        annotations[BETA_CLASS] = draw.pick(("", "local", "now", "gone"))
    else:
        spec.pop("storageClassName", None)
        annotations[BETA_CLASS] = ""


def _volume_class(draw: Draw, found: Object, nodes: list[str]) -> None:
    annotations = found["metadata"].setdefault("annotations", {})
    annotations[BETA_CLASS] = draw.pick(("", "local", "fast"))


def _half_bound(draw: Draw, found: Object, nodes: list[str]) -> None:
    """Say that binding is complete without a volume, or the other way round."""
    annotations = found["metadata"].setdefault("annotations", {})
    if draw.maybe(0.4):
        annotations.pop(COMPLETED, None)
    else:
        annotations[COMPLETED] = draw.pick(("yes", "", "no"))
    if draw.maybe(0.3):
        annotations[BOUND_BY] = "yes"
    if draw.maybe(0.2):
        found["spec"].pop("volumeName", None)


def _phase(draw: Draw, found: Object, nodes: list[str]) -> None:
    phases = {
        "PersistentVolume": ("Available", "Pending", "Bound", "Released", "Failed"),
        "PersistentVolumeClaim": ("Pending", "Bound", "Lost"),
    }
    found["status"] = {"phase": draw.pick(phases[found["kind"]])} if draw.maybe(0.8) else {}


def _selected(draw: Draw, found: Object, nodes: list[str]) -> None:
    annotations = found["metadata"].setdefault("annotations", {})
    annotations[SELECTED] = draw.pick([*nodes[:2], "", "gone"])


def _odd_claim(draw: Draw, found: Object, nodes: list[str]) -> None:
    spec = found["spec"]
    change = draw.random()
    if change < 0.25:
        spec["selector"] = draw.pick(
            (
                {},
                {"matchLabels": {}},
                {"matchLabels": {"tier": ""}},
                {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
                {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["tin"]}]},
            )
        )
    elif change < 0.5:
        spec["accessModes"] = draw.pick(
            (
                ["ReadWriteOnce", "ReadOnlyMany"],
                ["ReadWriteMany", "ReadWriteOnce"],
                ["ReadWriteOnce", "ReadWriteOnce"],
            )
        )
    elif change < 0.7:
        size = draw.pick(("1", "1e9", "0.5Gi", "1500000001m", "9Ei", "4Ti"))
        spec["resources"] = {"requests": {"storage": size}, "limits": {"storage": "9Ei"}}
    elif change < 0.85:
        spec["volumeMode"] = draw.pick(("Block", "Filesystem"))
    else:
        snapshot = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
        spec["dataSource"] = snapshot


def _odd_volume(draw: Draw, found: Object, nodes: list[str]) -> None:
    spec, labels = found["spec"], found["metadata"].setdefault("labels", {})
    change = draw.random()
    if change < 0.4:
        key = draw.pick((ZONE, "failure-domain.beta.kubernetes.io/zone", HOSTNAME, RACK))
        labels[key] = draw.pick(("", "z1", "z1__z2__z3", "a", "n0"))
    elif change < 0.6:
        spec["nodeAffinity"] = {
            "required": {
                "nodeSelectorTerms": draw.pick(
                    (
                        [{}],
                        [{}, {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}],
                        [{"matchExpressions": [_rank("x")]}],
                        [{"matchExpressions": [_rank("00")]}, {}],
                        [{"matchExpressions": [{"key": ZONE, "operator": "DoesNotExist"}]}],
                        [{"matchExpressions": [{"key": RACK, "operator": "In", "values": [""]}]}],
                    )
                )
            }
        }
    elif change < 0.75:
        spec.pop("claimRef", None)
    elif change < 0.9 and "claimRef" in spec:
        reference = spec["claimRef"]
        other = draw.pick(({"uid": ""}, {"uid": "other"}, {"namespace": "team-b"}, {"kind": ""}))
        spec["claimRef"] = {**reference, **other}
    else:
        spec["accessModes"] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"]


def _rank(value: str) -> Object:
    return {"key": "rank", "operator": "Gt", "values": [value]}


def _odd_drivers(draw: Draw, found: Object, nodes: list[str]) -> None:
    drivers = found["spec"]["drivers"]
    for driver in drivers:
        driver["allocatable"] = draw.pick(({}, {"count": 0}, {"count": 2**31 - 1}, {"count": 1}))
        if draw.maybe(0.3):
            del driver["allocatable"]
        if draw.maybe(0.3):
            driver["topologyKeys"] = [ZONE]
    if draw.maybe(0.3):
        found["metadata"]["name"] = f"{found['metadata']['name']}-gone"
    if draw.maybe(0.3):
        annotations = found["metadata"].setdefault("annotations", {})
        annotations["storage.alpha.kubernetes.io/migrated-plugins"] = draw.pick(
            ("", ",", "kubernetes.io/aws-ebs,", " kubernetes.io/gce-pd", "unknown/plugin")
        )


def _odd_attachment(draw: Draw, found: Object, nodes: list[str]) -> None:
    spec = found["spec"]
    change = draw.random()
    if change < 0.25:
        spec["source"] = {"persistentVolumeName": "pv-gone"}
    elif change < 0.5:
        spec["nodeName"] = "node-gone"
    elif change < 0.75:
        found["status"] = {"attached": False}
    else:
        spec["source"] = {
            "inlineVolumeSpec": {
                "accessModes": ["ReadWriteOnce"],
                "csi": {
                    "driver": draw.pick((DRIVER, EBS_DRIVER)),
                    "volumeHandle": "inline",
                },
            }
        }


def _odd_capacity(draw: Draw, found: Object, nodes: list[str]) -> None:
    change = draw.random()
    if change < 0.35:
        found["nodeTopology"] = draw.pick(
            (
                {},
                {"matchLabels": {}},
                {"matchExpressions": [{"key": ZONE, "operator": "DoesNotExist"}]},
                {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["", "a"]}]},
            )
        )
    elif change < 0.5:
        found.pop("nodeTopology", None)
    elif change < 0.8:
        found["capacity"] = draw.pick(("0", "1", "1e9", "9Ei"))
    else:
        found["maximumVolumeSize"] = draw.pick(("0", "1", "9Ei"))


def _odd_driver(draw: Draw, found: Object, nodes: list[str]) -> None:
    found["spec"]["attachRequired"] = draw.maybe(0.3)
    found["spec"]["podInfoOnMount"] = True


CHANGES: dict[str, Sequence[Callable[[Draw, Object, list[str]], None]]] = {
    "StorageClass": (
        _class_without_mode,
        _odd_topologies,
        _odd_topologies,
        _default_class,
        _leaving,
    ),
    "PersistentVolumeClaim": (
        _no_class,
        _half_bound,
        _phase,
        _selected,
        _odd_claim,
        _odd_claim,
        _leaving,
    ),
    "PersistentVolume": (_volume_class, _phase, _odd_volume, _odd_volume, _odd_volume, _leaving),
    "CSINode": (_odd_drivers,),
    "VolumeAttachment": (_odd_attachment, _leaving),
    "CSIStorageCapacity": (_odd_capacity,),
    "CSIDriver": (_odd_driver,),
}

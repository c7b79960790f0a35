"""Objects for histories with volumes: claims in every state, few volumes, and room that changes.

They are those of the family `volumes`. No two volumes are equally large.
"""

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.histories import make_case_of
from tests.parity.generator.history_more import OddLives
from tests.parity.generator.in_tree import InTreeStorage
from tests.parity.generator.resources import Resources
from tests.parity.generator.storage import DRIVER, EBS, Storage
from tests.parity.generator.storage_changes import STORAGE_KINDS

PREEMPTING = 0.3
"""The share of cases whose pods may preempt others."""
WITH_MORE = 0.3
"""The share of cases whose pods ask for all sorts of resources, and have odd values."""
IN_TREE = 0.3
"""The share of cases whose volumes are of types that CSI drivers have taken over."""


class LivingStorage(Storage):
    """Storage in which most claims wait for their pod, and few are broken for good."""

    annotated = 0.02
    states = (
        *("bound",) * 5,
        *("waiting",) * 24,
        *("selected",) * 2,
        *("immediate",) * 2,
        "deleting",
        "no-volume",
        "missing",
    )

    @override
    def _make_claim(
        self, draw: Draw, name: str, namespace: str, cluster: Cluster, owner: Object | None = None
    ) -> None:
        before = len(cluster.others)
        super()._make_claim(draw, name, namespace, cluster, owner)
        for made in cluster.others[before:]:
            spec = made["spec"]
            if made["kind"] != "PersistentVolumeClaim" or "volumeName" in spec or draw.maybe(0.2):
                continue
            if "storageClassName" in spec:
                spec["storageClassName"] = draw.pick(("fast", "fast", "local", "local", "ebs"))
            spec["accessModes"] = ["ReadWriteOnce"]
            spec.pop("selector", None)


class LivingInTree(LivingStorage, InTreeStorage):
    """The same with volumes of types that CSI drivers have taken over."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        super().shape_cluster(draw, cluster)
        for node in cluster.nodes:
            self.shape_node(draw, node)
        for each in cluster.others:
            if each["kind"] == "StorageClass" and draw.maybe(0.6):
                # The controller makes volumes for these.
                each["provisioner"] = draw.pick((DRIVER, EBS))


def make_volumes_history_case(seed: int) -> Object:
    """Make the objects of one seed; the same seed always makes the same objects."""
    preemption = Draw(f"history with volumes and preemption:{seed}")
    draw, may = Draw(f"history with volumes:{seed}"), preemption.maybe(PREEMPTING)
    more = [Resources(0.3, configured=0.4), OddLives(0.25)] if draw.maybe(WITH_MORE) else []
    case = make_case_of(seed, preemption if may else None, more)
    objects = case["objects"]
    cluster = Cluster(nodes=[each for each in objects if each["kind"] == "Node"])
    density, is_in_tree = draw.pick((0.4, 0.7, 0.9)), Draw(f"in-tree:{seed}").maybe(IN_TREE)
    storage = LivingInTree(density) if is_in_tree else LivingStorage(density)
    storage.shape_cluster(draw, cluster)
    for pod in objects:
        if pod["kind"] == "Pod":
            # What a pod of one profile takes in memory is free for those of others.
            pod["spec"].pop("schedulerName", None)
            storage.shape_pod(draw, pod, cluster)
    added = cluster.others
    draw.shuffle(added)
    return {**case, "objects": [*added, *objects]}


def has_volumes(case: Object) -> bool:
    """Whether a case is one of those with volumes."""
    return any(each["kind"] in STORAGE_KINDS for each in case["objects"])

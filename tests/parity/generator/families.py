"""The families of cases: which features meet in one cluster, and how dense each is.

Adding a feature to a family changes the cases of its seeds, so recorded cases are made again
(see `tests.parity.record`).
"""

from collections.abc import Callable, Mapping, Sequence

from tests.parity.generator.cluster import Cluster, bind, new_namespaces, new_node, new_pod
from tests.parity.generator.configuration import Configuration
from tests.parity.generator.devices import Devices, RuledDevices
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.errors import Halves
from tests.parity.generator.extenders import AskedExtenders, OddExtenders
from tests.parity.generator.feature import Feature
from tests.parity.generator.in_tree import InTreeStorage
from tests.parity.generator.odd import OddBudgets, OddNodes, OddPods
from tests.parity.generator.odd_devices import OddDevices
from tests.parity.generator.odd_profiles import OddProfiles
from tests.parity.generator.odd_storage import OddStorage
from tests.parity.generator.placement import (
    ComparedTaints,
    DeclaredFeatures,
    Images,
    NodeAffinity,
    NodeLabels,
    Ports,
    Taints,
)
from tests.parity.generator.preemption import EqualTimes, Preemption
from tests.parity.generator.queueing import Queueing
from tests.parity.generator.resources import Resources
from tests.parity.generator.storage import DemandingStorage, ScoredStorage, Storage
from tests.parity.generator.topology import PodAffinity, Spread
from tests.parity.generator.wide_devices import WideDevices

FAMILIES: dict[str, Callable[[], Sequence[Feature]]] = {
    "resources": lambda: (Resources(0.8, configured=0.6), Queueing(0.15)),
    "taints": lambda: (Taints(0.75), Queueing(0.05)),
    "node-affinity": lambda: (NodeLabels(0.6), NodeAffinity(0.85, configured=0.35)),
    "ports": lambda: (Ports(0.8), Queueing(0.3)),
    "images": lambda: (Images(0.85),),
    "spread": lambda: (
        NodeLabels(0.75),
        Spread(0.75, configured=0.35, owned=0.4),
        Taints(0.2),
        NodeAffinity(0.2, configured=0.05),
        Queueing(0.15),
    ),
    "inter-pod": lambda: (NodeLabels(0.7), PodAffinity(0.75, configured=0.4), Queueing(0.15)),
    "declared-features": lambda: (DeclaredFeatures(0.6), Taints(0.1)),
    "nominated": lambda: (
        Queueing(0.7, gated=0.1, foreign=0.1),
        NodeLabels(0.7),
        Resources(0.6),
        Ports(0.3),
        Spread(0.3, owned=0.1),
        PodAffinity(0.3),
    ),
    "preemption": lambda: (
        Queueing(0.25, gated=0.02, foreign=0.02),
        NodeLabels(0.7),
        Resources(0.45),
        Taints(0.1),
        Ports(0.35),
        Spread(0.3, owned=0.05),
        PodAffinity(0.3),
        Preemption(0.8, configured=0.1),
    ),
    "configuration": lambda: (
        Configuration(0.95),
        NodeLabels(0.7),
        Resources(0.5, configured=0.3),
        Taints(0.3),
        NodeAffinity(0.3, configured=0.3),
        Ports(0.15),
        Images(0.3),
        Spread(0.25, configured=0.3),
        PodAffinity(0.25, configured=0.3),
        DeclaredFeatures(0.05),
    ),
    "errors": lambda: (
        Halves(0.7),
        NodeLabels(0.7),
        Resources(0.4),
        Taints(0.3),
        NodeAffinity(0.3),
        Ports(0.3),
        Spread(0.4),
        PodAffinity(0.4),
    ),
    "devices": lambda: (
        Queueing(0.05),
        NodeLabels(0.7),
        Devices(0.9),
    ),
    "devices-extended": lambda: (
        NodeLabels(0.6),
        Resources(0.1),
        Devices(0.5, asked=0.75, configured=0.4),
    ),
    "devices-wide": lambda: (NodeLabels(0.6), WideDevices(0.9, asked=0.1)),
    "mixed": lambda: (
        Queueing(0.2),
        NodeLabels(0.7),
        Resources(0.5, configured=0.1),
        Taints(0.3),
        NodeAffinity(0.25, configured=0.05),
        Ports(0.15),
        Images(0.3),
        Spread(0.3, configured=0.1),
        PodAffinity(0.3, configured=0.1),
        DeclaredFeatures(0.05),
        Storage(0.35, configured=0.05),
        Devices(0.25, asked=0.1),
    ),
    "volumes": lambda: (
        Queueing(0.15),
        NodeLabels(0.75),
        Taints(0.1),
        Configuration(0.25),
        Storage(0.85, configured=0.3),
    ),
    "extenders": lambda: (
        NodeLabels(0.7),
        Resources(0.4),
        Taints(0.1),
        Ports(0.15),
        Spread(0.15),
        PodAffinity(0.1),
        Preemption(0.5),
        AskedExtenders(0.97),
    ),
    "storage-scores": lambda: (
        NodeLabels(0.75),
        Taints(0.1),
        ScoredStorage(0.9, configured=0.5),
    ),
    "compared-taints": lambda: (
        NodeLabels(0.7),
        ComparedTaints(0.8),
        Spread(0.5, configured=0.1, owned=0.2),
    ),
    "in-tree": lambda: (
        Queueing(0.1),
        NodeLabels(0.75),
        Taints(0.1),
        InTreeStorage(0.9, configured=0.1),
    ),
    "everything-preempts": lambda: (
        Queueing(0.15, gated=0.02, foreign=0.02),
        NodeLabels(0.8),
        Resources(0.2),
        Taints(0.1),
        Ports(0.15),
        Spread(0.45, owned=0.2),
        PodAffinity(0.45),
        Storage(0.45),
        Devices(0.35, asked=0.1),
        Preemption(0.85, configured=0.1),
    ),
    "demanding-drivers": lambda: (
        NodeLabels(0.75),
        Taints(0.1),
        DemandingStorage(0.9, configured=0.2),
    ),
    "device-taint-rules": lambda: (NodeLabels(0.6), RuledDevices(0.85)),
    "odd": lambda: (
        Queueing(0.1),
        NodeLabels(0.7),
        Resources(0.2),
        Taints(0.2),
        Spread(0.1),
        PodAffinity(0.1),
        DeclaredFeatures(0.05),
        OddNodes(0.2),
        OddPods(0.5),
    ),
    "odd-storage": lambda: (
        Queueing(0.1),
        NodeLabels(0.75),
        Storage(0.85, configured=0.1),
        OddNodes(0.05),
        OddStorage(0.3),
    ),
    "odd-profiles": lambda: (
        NodeLabels(0.7),
        Resources(0.4),
        Taints(0.2),
        NodeAffinity(0.2),
        Images(0.2),
        Spread(0.2, owned=0.3),
        PodAffinity(0.2),
        OddPods(0.05),
        OddProfiles(0.97),
    ),
    "odd-preemption": lambda: (
        Queueing(0.1, gated=0.02, foreign=0.02),
        NodeLabels(0.7),
        Resources(0.35),
        Taints(0.1),
        NodeAffinity(0.2),
        Ports(0.2),
        Spread(0.15, owned=0.1),
        PodAffinity(0.15),
        Storage(0.25),
        Devices(0.2, asked=0.05),
        Preemption(0.7, configured=0.1),
        OddNodes(0.05),
        OddPods(0.1),
        OddBudgets(0.5),
    ),
    "odd-extenders": lambda: (
        Queueing(0.15),
        NodeLabels(0.7),
        Resources(0.35),
        Taints(0.1),
        Spread(0.1),
        PodAffinity(0.1),
        Storage(0.25),
        Devices(0.25, asked=0.3),
        Preemption(0.5, configured=0.1),
        OddPods(0.05),
        EqualTimes(0.8),
        OddExtenders(0.97),
    ),
    "odd-mixed": lambda: (
        Queueing(0.2),
        NodeLabels(0.7),
        Resources(0.35, configured=0.3),
        Taints(0.15),
        NodeAffinity(0.15, configured=0.15),
        Ports(0.15),
        Images(0.3),
        Spread(0.15, configured=0.3, owned=0.4),
        PodAffinity(0.15, configured=0.4),
        DeclaredFeatures(0.05),
        Storage(0.25, configured=0.1),
        Devices(0.25, asked=0.2),
        Preemption(0.5, configured=0.2),
        OddNodes(0.1),
        OddPods(0.4),
        OddBudgets(0.5),
        OddStorage(0.1),
        OddDevices(0.1),
    ),
    "odd-devices": lambda: (
        Queueing(0.05),
        NodeLabels(0.7),
        Devices(0.85, asked=0.15),
        OddNodes(0.05),
        OddDevices(0.2),
    ),
}
FLAGS: Mapping[str, tuple[str, ...]] = {
    "preemption": ("--preempt",),
    "odd-preemption": ("--preempt",),
    "everything-preempts": ("--preempt",),
    "odd-mixed": ("--preempt",),
    "extenders": ("--preempt",),
    "odd-extenders": ("--preempt",),
    "storage-scores": ("--feature-gates=StorageCapacityScoring=true",),
    "compared-taints": ("--feature-gates=TaintTolerationComparisonOperators=true",),
    "device-taint-rules": ("--feature-gates=DRADeviceTaintRules=true",),
    "demanding-drivers": ("--feature-gates=VolumeLimitScaling=true",),
}
"""Flags with which the cases of a family are answered, by the oracle and by `stowage explain`."""
PREEMPTING = frozenset(
    {"preemption", "extenders", "odd-extenders", "odd-preemption", "everything-preempts"}
)
"""Families in which pods that fit nowhere preempt; their nodes hold more pods."""
NODE_COUNTS = (5, 5, 6, 8, 8, 12, 20, 60)


def make_case(family: str, seed: int) -> Object:
    """Make the case of one seed; the same family and seed always make the same case."""
    draw = Draw(f"{family}:{seed}")
    features = FAMILIES[family]()
    cluster = Cluster(others=new_namespaces(draw))
    node_count = draw.pick(NODE_COUNTS) if draw.maybe(0.95) else draw.randint(0, 2)
    most = (6 if family in PREEMPTING else 2) * node_count
    fill(draw, cluster, features, node_count, most)
    return cluster.case()


def fill(
    draw: Draw, cluster: Cluster, features: Sequence[Feature], node_count: int, most: int
) -> None:
    """Make the nodes and pods of a cluster, at most so many of which run already."""
    cluster.nodes = [new_node(draw, f"n{i}") for i in range(node_count)]
    for feature in features:
        feature.shape_cluster(draw, cluster)
    for node in cluster.nodes:
        for feature in features:
            feature.shape_node(draw, node)
    running = [new_pod(draw, f"run-{i}") for i in range(draw.randint(0, most))]
    for pod in running:
        bind(draw, pod, cluster.nodes)
    pending = [new_pod(draw, f"wait-{i}") for i in range(draw.randint(2, 7))]
    for pod in (*running, *pending):
        for feature in features:
            feature.shape_pod(draw, pod, cluster)
    cluster.running, cluster.pending = running, pending

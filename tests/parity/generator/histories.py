"""Objects for histories: nodes with little room, and pods that are there, come, or wait at gates.

No two pods are equal: each has a label of its own. Of equal pods Stowage tries one, and the others
follow only if it is not rejected like them (`scheduler.kernel.queue.equivalent_pods`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tests.parity.generator.cluster import Cluster, new_namespaces, new_node, new_pod
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.feature import Feature
from tests.parity.generator.placement import NodeAffinity, NodeLabels, Ports, Taints
from tests.parity.generator.preemption import budget
from tests.parity.generator.topology import PodAffinity, Spread

OWN = "example.com/pod"
"""The label that makes each pod another."""
GATES = ("example.com/a", "example.com/b")
PRIORITIES = (0, 0, 0, 5, 10)
PREEMPTION = "DefaultPreemption"
PREEMPTING = 0.4
"""The share of cases whose pods may preempt others."""
LOW = (0, 0, 5, 5, 10)
HIGH = (5, 10, 10, 50, 50, 100)
FIRST_START = datetime(2026, 1, 1, tzinfo=UTC)
CPU = ("250m", "500m", "1", "1", "2")
ALLOCATABLE_CPU = ("1", "1", "2", "2", "3", "4")
ALLOCATABLE_PODS = ("1", "2", "3", "4", "110")
OTHERS = ("second", "second", "second", "unserved")
"""Scheduler names of some pods; the last one is of no profile."""
WITHOUT = ("PodTopologySpread", "InterPodAffinity", "TaintToleration", "NodeResourcesFit")
"""Plugins of which the second profile lacks one."""


def make_history_case(seed: int) -> Object:
    """Make the objects of one seed; the same seed always makes the same objects."""
    preemption = Draw(f"history with preemption:{seed}")
    return make_case_of(seed, preemption if preemption.maybe(PREEMPTING) else None)


def make_case_of(
    seed: int,
    preemption: Draw | None,
    more: Sequence[Feature] = (),
    nodes: tuple[int, int] = (3, 12),
) -> Object:
    """Make the objects of one seed, without preemption if that has no draw.

    `more` are further aspects of all pods and nodes; `nodes` are the least and most nodes.
    """
    draw, preempts = Draw(f"history:{seed}"), preemption is not None
    off = () if preempts else (PREEMPTION,)
    profiles = [_profile("default-scheduler", *off), _profile("second", *off, draw.pick(WITHOUT))]
    cluster = Cluster(others=new_namespaces(draw), profiles=profiles)
    kinds = {type(feature) for feature in more}
    features = [*(each for each in _features(draw) if type(each) not in kinds), *more]
    cluster.nodes = [new_node(draw, f"n{i}") for i in range(draw.randint(*nodes))]
    for feature in features:
        feature.shape_cluster(draw, cluster)
    for node in cluster.nodes:
        shape_room(draw, node)
        for feature in features:
            feature.shape_node(draw, node)
    running = [new_pod(draw, f"run-{i}") for i in range(draw.randint(0, 6))]
    for pod in running:
        pod["spec"]["nodeName"] = draw.pick(cluster.nodes)["metadata"]["name"]
        pod["status"]["phase"] = "Running"
    pending = [new_pod(draw, f"p-{i}") for i in range(draw.randint(10, 30))]
    for pod in (*running, *pending):
        _shape_pod(draw, pod)
        for feature in features:
            # Pods that run may not use the same host port: see `tests.parity.history`.
            if "nodeName" not in pod["spec"] or not isinstance(feature, Ports):
                feature.shape_pod(draw, pod, cluster)
    for pod in pending:
        if draw.maybe(0.15):
            pod["spec"]["schedulingGates"] = [{"name": gate} for gate in draw.some(GATES, 1, 2)]
        if draw.maybe(0.08):
            pod["status"]["nominatedNodeName"] = draw.pick(("n0", "n1", "n2", "gone"))
    cluster.running, cluster.pending = running, pending
    if preemption is not None:
        _shape_preemption(preemption, cluster)
    case = cluster.case()
    if draw.maybe(0.4):
        initial = draw.pick((1, 2, 5))
        case["config"]["podInitialBackoffSeconds"] = initial
        case["config"]["podMaxBackoffSeconds"] = initial * draw.pick((1, 3, 8, 100))
    return case


def _profile(name: str, *without: str) -> Object:
    disabled = [{"name": plugin} for plugin in without]
    return {"schedulerName": name, "plugins": {"multiPoint": {"disabled": disabled}}}


def may_preempt(case: Object) -> bool:
    """Whether the profiles of a case have DefaultPreemption."""
    return PREEMPTION not in str(case["config"])


def _shape_preemption(draw: Draw, cluster: Cluster) -> None:
    """Give pods priorities, the later ones higher ones, and budgets; no two started together."""
    cluster.nodes = cluster.nodes[: draw.randint(2, 4)]
    pods = [*cluster.running, *cluster.pending]
    for pod in cluster.running:
        pod["spec"]["nodeName"] = draw.pick(cluster.nodes)["metadata"]["name"]
    for at, (minutes, pod) in enumerate(zip(draw.sample(range(99), len(pods)), pods, strict=True)):
        start_at(pod, minutes)
        pod["spec"]["priority"] = draw.pick(LOW if at < len(pods) // 2 else HIGH)
        if draw.maybe(0.05):
            pod["spec"]["preemptionPolicy"] = "Never"
    cluster.others += [budget(draw, f"pdb{i}") for i in range(draw.pick((0, 0, 1, 2)))]


def start_at(pod: Object, minutes: int) -> None:
    """Give a pod a start time of its own: kube-scheduler's choice among equals is chance."""
    start = FIRST_START + timedelta(minutes=minutes)
    pod["status"]["startTime"] = start.strftime("%Y-%m-%dT%H:%M:%SZ")


def shape_room(draw: Draw, node: Object) -> None:
    """Give a node little room."""
    allocatable = node["status"].setdefault("allocatable", {})
    allocatable["cpu"] = draw.pick(ALLOCATABLE_CPU)
    allocatable["pods"] = draw.pick(ALLOCATABLE_PODS)
    node["status"]["capacity"] = dict(allocatable)


def _features(draw: Draw) -> list[Feature]:
    """A few aspects of pods and nodes beside room, so that each meets others often."""
    all_of_them = [
        Taints(0.3),
        NodeAffinity(0.3),
        Ports(0.3),
        Spread(0.4, owned=0.1),
        PodAffinity(0.4),
    ]
    return [NodeLabels(0.7), *draw.some(all_of_them, 0, 3)]


def _shape_pod(draw: Draw, pod: Object) -> None:
    pod["metadata"]["labels"][OWN] = pod["metadata"]["name"]
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": draw.pick(CPU)}}
    if draw.maybe(0.5):
        pod["spec"]["priority"] = draw.pick(PRIORITIES)
    if draw.maybe(0.2):
        pod["spec"]["schedulerName"] = draw.pick(OTHERS)

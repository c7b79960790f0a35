"""Pod groups: gangs and basic groups on few nodes with little room, beside single pods.

Two differences that are meant are kept out. Waiting pods never preempt: kube-scheduler 1.36 evicts
for a member before it knows whether its group fits, and Stowage does not. And on each node runs a
pod with anti-affinity, which matches nothing: only on such nodes kube-scheduler 1.36 hears of the
terms of the members that it has placed in the same attempt.

Cases with extenders leave out, besides, what makes a node fit because a member was placed: spread
and affinity. Stowage asks about all members before any is placed.
"""

from tests.parity.generator.cluster import Cluster, bind, new_namespaces, new_node, new_pod
from tests.parity.generator.draw import HOSTNAME, NAMESPACES, ZONE, Draw, Object
from tests.parity.generator.extenders import AskedAboutMembers
from tests.parity.generator.feature import Feature
from tests.parity.generator.placement import NodeAffinity, NodeLabels, Ports, Taints
from tests.parity.generator.resources import Resources
from tests.parity.generator.topology import PodAffinity, Spread

GROUP_API = "scheduling.k8s.io/v1alpha2"
MEMBER = "member-of"
"""The label that members of a group share, for rules between them."""
RACK = "example.com/rack"
PRIORITIES = (0, 0, 0, 0, 5, 5, 10)
CPU = ("500m", "1", "1", "1", "2")


IN_RACKS = (2, 3, 4, 6, 6, 8, 10, 12)
"""How many nodes there are where groups must run in racks."""


def make_topology_case(seed: int) -> Object:
    """Make the case of one seed with racks, in one of which most groups must run."""
    draw = Draw(f"topology:{seed}")
    case = make_case_with(draw, draw.pick(IN_RACKS), features_of_groups(draw))
    add_racks(draw, case["objects"], share=0.85)
    return case


def add_racks(draw: Draw, objects: list[Object], share: float) -> None:
    """Have nodes in racks, and a share of the groups run in one each."""
    racks = draw.pick((1, 2, 2, 3, 3, 4))
    for each in objects:
        if each["kind"] == "Node" and draw.maybe(0.93):
            each["metadata"]["labels"][RACK] = f"r{draw.randint(1, racks)}"
        elif each["kind"] == "PodGroup" and draw.maybe(share):
            each["spec"]["schedulingConstraints"] = {"topology": [{"key": RACK}]}


def make_groups_case(seed: int) -> Object:
    """Make the case of one seed; the same seed always makes the same case."""
    draw = Draw(f"groups:{seed}")
    return make_case_with(draw, 0, features_of_groups(draw))


def make_asking_case(seed: int) -> Object:
    """Make the case of one seed with extenders, which are asked about members."""
    draw = Draw(f"asking:{seed}")
    return make_case_with(draw, 0, _asking(draw))


def make_asking_topology_case(seed: int) -> Object:
    """Make the case of one seed with extenders and racks."""
    draw = Draw(f"asking-topology:{seed}")
    case = make_case_with(draw, draw.pick(IN_RACKS), _asking(draw))
    add_racks(draw, case["objects"], share=0.85)
    return case


def make_case_with(draw: Draw, nodes: int, features: list[Feature]) -> Object:
    """A case with so many nodes, or with as many as are drawn."""
    cluster = Cluster(others=new_namespaces(draw))
    count = nodes or draw.pick((1, 2, 3, 3, 4, 4, 6, 8))
    cluster.nodes = [new_node(draw, f"n{i}") for i in range(count)]
    for feature in features:
        feature.shape_cluster(draw, cluster)
    for node in cluster.nodes:
        _shape_node(draw, node)
        for feature in features:
            feature.shape_node(draw, node)
    running = [new_pod(draw, f"run-{i}") for i in range(draw.randint(0, 3))]
    for pod in running:
        bind(draw, pod, cluster.nodes)
        _shape_pod(draw, pod)
    pending = [new_pod(draw, f"single-{i}") for i in range(draw.randint(0, 4))]
    for pod in pending:
        _shape_pod(draw, pod)
        _wait(draw, pod)
        if draw.maybe(0.2):
            pod["status"]["nominatedNodeName"] = draw.pick(("n0", "n1", "n2", "gone"))
    for pod in (*running, *pending):
        for feature in features:
            feature.shape_pod(draw, pod, cluster)
    for i in range(draw.pick((1, 1, 2, 2, 3, 4))):
        members = _group(draw, f"g{i}", cluster, features)
        running += [pod for pod in members if "nodeName" in pod["spec"]]
        pending += [pod for pod in members if "nodeName" not in pod["spec"]]
    draw.shuffle(pending)
    for i, pod in enumerate(pending):
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{i:02}Z"
    sentinels = [sentinel(node) for node in cluster.nodes]
    cluster.running, cluster.pending = [*sentinels, *running], pending
    return cluster.case()


def features_of_groups(draw: Draw) -> list[Feature]:
    """A few aspects of pods and nodes beside room, so that each meets groups often."""
    all_of_them = [
        Taints(0.3),
        NodeAffinity(0.3),
        Ports(0.3),
        Spread(0.4, owned=0.1),
        PodAffinity(0.4),
        Resources(0.5),
    ]
    return [NodeLabels(0.7), *draw.some(all_of_them, 0, 2)]


def _asking(draw: Draw) -> list[Feature]:
    """Extenders, and a few aspects of pods and nodes."""
    beside = [Taints(0.3), NodeAffinity(0.3), Ports(0.3), Resources(0.5)]
    return [NodeLabels(0.7), *draw.some(beside, 0, 2), AskedAboutMembers()]


def _shape_node(draw: Draw, node: Object) -> None:
    allocatable = node["status"]["allocatable"]
    allocatable["cpu"] = draw.pick(("1", "1", "2", "2", "3", "4"))
    allocatable["pods"] = draw.pick(("2", "3", "4", "6", "110", "110"))
    node["status"]["capacity"] = dict(allocatable)


def _shape_pod(draw: Draw, pod: Object) -> None:
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": draw.pick(CPU)}}
    if draw.maybe(0.5):
        pod["spec"]["priority"] = draw.pick(PRIORITIES)


def sentinel(node: Object) -> Object:
    """A pod with anti-affinity that takes nothing of its node but its place among the pods."""
    name = node["metadata"]["name"]
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"never": "there"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"sentinel-{name}", "namespace": "default", "labels": {}},
        "spec": {
            "nodeName": name,
            "affinity": {"podAntiAffinity": rule},
            "containers": [{"name": "main", "image": "registry.example/main:1"}],
        },
        "status": {"phase": "Running"},
    }


def _wait(draw: Draw, pod: Object) -> None:
    pod["spec"]["preemptionPolicy"] = "Never"
    if draw.maybe(0.08):
        pod["spec"]["schedulingGates"] = [{"name": "example.com/a"}]


def _group(draw: Draw, name: str, cluster: Cluster, features: list[Feature]) -> list[Object]:
    """Add a group's object, with some probability, and return its members."""
    namespace = draw.pick(NAMESPACES) if draw.maybe(0.3) else "default"
    count = draw.pick((1, 2, 2, 3, 3, 4, 4, 5, 6))
    if draw.maybe(0.95):
        cluster.others.append(_pod_group(draw, name, namespace, count))
    rule = _rule(draw, name, cluster) if draw.maybe(0.3) else None
    equal = draw.maybe(0.6)
    model = _member(draw, name, namespace, 0, cluster, features)
    members = []
    for i in range(count):
        pod = _member(draw, name, namespace, i, cluster, features)
        if equal:
            pod["spec"] = _copy(model["spec"])
            pod["metadata"]["labels"] = dict(model["metadata"]["labels"])
        if rule is not None and draw.maybe(0.85):
            pod["spec"].setdefault("affinity", {}).update(_copy(rule))
        members.append(pod)
        if draw.maybe(0.12):
            pod["spec"].pop("schedulingGates", None)
            bind(draw, pod, cluster.nodes)
        elif draw.maybe(0.04):
            pod["spec"]["schedulerName"] = "other-scheduler"
    return members


def _member(
    draw: Draw, group: str, namespace: str, i: int, cluster: Cluster, features: list[Feature]
) -> Object:
    pod = new_pod(draw, f"{group}-{i}")
    pod["metadata"]["namespace"] = namespace
    _shape_pod(draw, pod)
    _wait(draw, pod)
    for feature in features:
        feature.shape_pod(draw, pod, cluster)
    pod["metadata"]["namespace"] = namespace
    pod["metadata"]["labels"][MEMBER] = group
    pod["spec"]["schedulingGroup"] = {"podGroupName": group}
    return pod


def _pod_group(draw: Draw, name: str, namespace: str, count: int) -> Object:
    policy: Object = {"basic": {}}
    if draw.maybe(0.8):
        least = count if draw.maybe(0.5) else draw.randint(1, count + 1)
        policy = {"gang": {"minCount": least}}
    return {
        "apiVersion": GROUP_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": policy},
    }


def _rule(draw: Draw, group: str, cluster: Cluster) -> Object:
    """A required rule between the members of a group."""
    term = {
        "topologyKey": draw.pick((HOSTNAME, HOSTNAME, ZONE)),
        "labelSelector": {"matchLabels": {MEMBER: group}},
    }
    kind = draw.pick(("podAffinity", "podAntiAffinity", "podAntiAffinity"))
    if cluster.extenders:
        kind = "podAntiAffinity"
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _copy(part: Object) -> Object:
    """A copy that shares nothing, so that one member can be changed alone."""
    return {
        key: _copy(value)
        if isinstance(value, dict)
        else list(value)
        if isinstance(value, list)
        else value
        for key, value in part.items()
    }

"""Placement by the node's own properties: taints, labels, names, features, ports and images."""

from typing import ClassVar

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import HOSTNAME, NODE_LABELS, Draw, Object
from tests.parity.generator.feature import Feature

TAINT_KEYS = ("dedicated", "node.kubernetes.io/unschedulable", "example.com/spot")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NUMBERS = ("0", "5", "10", "100", f"{2**63 - 1}")


class NodeLabels(Feature):
    """Labels on nodes; `density` is how often a node has each key."""

    @override
    def shape_node(self, draw: Draw, node: Object) -> None:
        labels = draw.labels(NODE_LABELS, self.density)
        node["metadata"]["labels"] = {**labels, **node["metadata"]["labels"]}


class Taints(Feature):
    """Taints of all effects, cordoned nodes, and tolerations of all operators but Gt and Lt."""

    values: ClassVar[tuple[str, ...]] = ("", "blue", "red")
    operators: ClassVar[tuple[str | None, ...]] = (None, "Equal", "Exists")

    @override
    def shape_node(self, draw: Draw, node: Object) -> None:
        if draw.maybe(0.15):
            node["spec"]["unschedulable"] = True
        taints: dict[tuple[str, str], Object] = {}
        if draw.maybe(self.density):
            for _ in range(draw.randint(1, 3)):
                key, effect = draw.pick(TAINT_KEYS), draw.pick(EFFECTS)
                value = draw.pick(self.values)
                taints[key, effect] = {
                    "key": key,
                    "effect": effect,
                    **({"value": value} if value else {}),
                }
        if node["spec"].get("unschedulable") and draw.maybe(0.7):
            taints[UNSCHEDULABLE, "NoSchedule"] = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
        if taints:
            node["spec"]["taints"] = list(taints.values())

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        if draw.maybe(self.density):
            pod["spec"]["tolerations"] = [self._toleration(draw) for _ in range(draw.randint(1, 4))]

    def _toleration(self, draw: Draw) -> Object:
        toleration: Object = {}
        if draw.maybe(0.9):
            toleration["key"] = draw.pick(TAINT_KEYS)
            operator = draw.pick(self.operators)
        else:
            operator = "Exists"
        if operator:
            toleration["operator"] = operator
        if operator in ("Gt", "Lt"):
            toleration["value"] = draw.pick(NUMBERS)
        elif operator != "Exists" and draw.maybe(0.7):
            toleration["value"] = draw.pick(self.values)
        if draw.maybe(0.6):
            toleration["effect"] = draw.pick(EFFECTS)
        if toleration.get("effect") == "NoExecute" and draw.maybe(0.5):
            toleration["tolerationSeconds"] = 300
        return toleration


class ComparedTaints(Taints):
    """Taints with numbers and other values, for tolerations that compare (Gt, Lt)."""

    values: ClassVar[tuple[str, ...]] = (*NUMBERS, "", "blue", "07", "1e3", f"{2**63}")
    operators: ClassVar[tuple[str | None, ...]] = ("Equal", "Exists", "Gt", "Lt", "Gt", "Lt")


class NodeAffinity(Feature):
    """nodeSelector, required and preferred terms, matchFields, and the profile's addedAffinity."""

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        if not draw.maybe(self.density):
            return
        spec = pod["spec"]
        if draw.maybe(0.3):
            key = draw.pick([k for k in NODE_LABELS if k != "rank"])
            spec["nodeSelector"] = {key: draw.pick(NODE_LABELS[key])}
        affinity = node_affinity(draw, [n["metadata"]["name"] for n in cluster.nodes])
        if affinity:
            spec.setdefault("affinity", {})["nodeAffinity"] = affinity

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        if draw.maybe(self.configured):
            affinity = node_affinity(draw, [f"n{i}" for i in range(5)])
            cluster.plugin_args["NodeAffinity"] = {"addedAffinity": affinity} if affinity else {}


def node_affinity(draw: Draw, names: list[str]) -> Object:
    """Make a NodeAffinity with required terms, preferred ones, both or neither."""
    affinity: Object = {}
    if draw.maybe(0.6):
        by_name = draw.maybe(0.25)
        terms = [_term(draw, names, by_name=by_name) for _ in range(draw.randint(1, 3))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if draw.maybe(0.6):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": draw.pick((1, 2, 7, 50, 100)),
                "preference": _term(draw, names, by_name=False),
            }
            for _ in range(draw.randint(1, 3))
        ]
    return affinity


def _term(draw: Draw, names: list[str], *, by_name: bool) -> Object:
    term: Object = {}
    if by_name or draw.maybe(0.08):
        term["matchFields"] = [
            {
                "key": "metadata.name",
                "operator": "In" if by_name and draw.maybe(0.9) else draw.pick(("In", "NotIn")),
                "values": [draw.pick([*names, "no-such-node"])],
            }
            for _ in range(draw.pick((1, 1, 1, 2)))
        ]
    if not term or draw.maybe(0.3):
        term["matchExpressions"] = [_expression(draw) for _ in range(draw.randint(1, 2))]
    if draw.maybe(0.03):
        return {}
    return term


def _expression(draw: Draw) -> Object:
    key = draw.pick([*NODE_LABELS, HOSTNAME, "unknown"])
    operator = draw.pick(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    expression: Object = {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        expression["key"] = draw.pick(("rank", "rank", "disk"))
        expression["values"] = [draw.pick(("0", "3", "5", "8", "007"))]
    elif operator in ("In", "NotIn"):
        expression["values"] = draw.some((*NODE_LABELS.get(key, ()), "n1", "n2"), 1, 3)
    return expression


class Ports(Feature):
    """Host ports that collide by number, protocol and address."""

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        spec = pod["spec"]
        if draw.maybe(0.3):
            spec["containers"].append({"name": "ports2", "image": "registry.example/p:1"})
        if draw.maybe(0.25):
            sidecar: Object = {"name": "portinit", "image": "registry.example/p:1"}
            if draw.maybe(0.6):
                sidecar["restartPolicy"] = "Always"
            spec.setdefault("initContainers", []).append(sidecar)
        host_network = draw.maybe(0.15)
        if host_network:
            spec["hostNetwork"] = True
        taken: set[tuple[object, ...]] = set()
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for _ in range(draw.randint(0, 2) if draw.maybe(self.density) else 0):
                port = _port(draw, host_network=host_network)
                identity = (port["hostPort"], port.get("hostIP"), port.get("protocol", "TCP"))
                if identity not in taken:
                    taken.add(identity)
                    container.setdefault("ports", []).append(port)


def _port(draw: Draw, *, host_network: bool) -> Object:
    number = draw.pick((80, 443, 8080))
    port: Object = {"containerPort": number if host_network else 8000, "hostPort": number}
    if draw.maybe(0.5):
        port["hostIP"] = draw.pick(("0.0.0.0", "127.0.0.1", "10.0.0.1", "::"))  # noqa: S104
    if draw.maybe(0.4):
        port["protocol"] = draw.pick(("TCP", "UDP", "SCTP"))
    return port


IMAGES = (
    "registry.example/main:1",
    "registry.example/big:latest",
    "registry.example/big",
    "registry.example:5000/tiny",
    "registry.example:5000/tiny:latest",
    "registry.example/pinned@sha256:" + "ab" * 32,
    "short",
    "short:latest",
)
MIB = 1024 * 1024


class Images(Feature):
    """Images on nodes under several names, whose sizes even disagree between nodes."""

    @override
    def shape_node(self, draw: Draw, node: Object) -> None:
        if draw.maybe(self.density):
            node["status"]["images"] = [
                {
                    "names": draw.some(IMAGES, 1, 4),
                    "sizeBytes": draw.pick((1, 20, 23, 24, 120, 500, 999, 2500)) * MIB
                    + draw.randint(0, 9999),
                }
                for _ in range(draw.randint(1, 5))
            ]

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        spec = pod["spec"]
        for i in range(draw.randint(0, 2)):
            spec["containers"].append({"name": f"img{i}", "image": ""})
        if draw.maybe(0.3):
            spec.setdefault("initContainers", []).append({"name": "imginit", "image": ""})
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container["image"] = draw.pick(IMAGES)
        if draw.maybe(0.3):
            spec["volumes"] = [
                {"name": f"image-{i}", "image": {"reference": draw.pick(IMAGES)}}
                for i in range(draw.randint(1, 2))
            ]


DECLARED = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")


class DeclaredFeatures(Feature):
    """Features that kubelets declare and pods turn out to need."""

    @override
    def shape_node(self, draw: Draw, node: Object) -> None:
        declared = draw.some((*DECLARED, "SomethingElse"), 0, 3)
        if declared:
            node["status"]["declaredFeatures"] = sorted(declared)

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        if not draw.maybe(self.density):
            return
        container = draw.pick([*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())])
        container.setdefault("restartPolicy", "Always")
        container["restartPolicyRules"] = [
            {
                "action": draw.pick(("RestartAllContainers", "Restart")),
                "exitCodes": {"operator": "In", "values": [42]},
            }
        ]

"""Small random clusters in which every row-local rule has something to say."""

import random
from typing import Any

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    ContainerRestartRule,
    Node,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Taint,
    Toleration,
)
from scheduler.api.pods import PodInfo
from scheduler.api.volume_sources import ImageVolumeSource, Volume
from scheduler.kernel.snapshot import NodeRemoved, NodeSet, PodAdded, PodRemoved, Snapshot
from tests.support.builders import make_node, make_node_info, make_pod_info
from tests.unit.plugins.scalar_reference import EXTENDED, HUGE, OTHER_EXTENDED, Place

MEBIBYTE = 1024 * 1024
KEYS = ("disk", "zone", "cores")
VALUES = {"disk": ("ssd", "hdd"), "zone": ("a", "b", "c"), "cores": ("4", "8", "16", "many")}
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
IMAGES = {
    "app:1": 1500,
    "reg.example:5000/base:latest": 90,
    "side@sha256:0": 333,
    "tool:latest": 7,
    "data:2": 1,
}
"""Sizes in MiB; the same on all nodes, as the first report of a size is the one that counts."""
WANTED_IMAGES = ("app:1", "reg.example:5000/base", "side@sha256:0", "tool", "unknown")
FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "Other")


class RandomCluster:
    """Nodes with pods on them, in a snapshot that has seen changes, and pods to ask about."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, list[PodInfo]] = {}
        self._infos: dict[str, NodeInfo] = {}
        self.snapshot = Snapshot()
        names = [f"n{i}" for i in range(self.draw.randint(1, 7))]
        for name in names:
            self.set_node(name)
        for _ in range(self.draw.randint(0, 14)):
            self.change(names)

    def change(self, names: list[str]) -> None:
        """Something random happens."""
        name = self.draw.choice(names)
        roll = self.draw.random()
        if name not in self.nodes or roll < 0.2:
            self.set_node(name)
        elif roll < 0.3:
            self.remove_node(name)
        elif roll < 0.4 and self.pods[name]:
            gone = self.pods[name].pop(self.draw.randrange(len(self.pods[name])))
            self.snapshot.update([PodRemoved(gone)])
        else:
            added = self.pod(node_name=name)
            self.pods[name].append(added)
            self.snapshot.update([PodAdded(added)])

    def set_node(self, name: str) -> None:
        """A node is new or different."""
        node = self.nodes[name] = self._node(name)
        self.pods.setdefault(name, [])
        info = self._infos.setdefault(name, make_node_info(node))
        info.node = node
        self.snapshot.update([NodeSet(info, node)])

    def remove_node(self, name: str) -> None:
        """A node is gone, and so are its pods."""
        self.snapshot.update(PodRemoved(pod) for pod in self.pods.pop(name))
        self.snapshot.update([NodeRemoved(name)])
        del self.nodes[name]
        del self._infos[name]

    def places(self) -> dict[str, Place]:
        """Every node as the reference wants it; all nodes in the order of arrival."""
        nodes = list(self.nodes.values())
        return {n: Place(node, self.pods[n], nodes) for n, node in self.nodes.items()}

    def pod(self, **fields: Any) -> PodInfo:
        """A random pod."""
        draw = self.draw
        name = f"pod-{draw.getrandbits(60)}"
        containers = [self._container(f"c{i}") for i in range(draw.randint(1, 2))]
        pod_level = None
        if draw.random() < 0.15:
            pod_level = ResourceRequirements(requests={"cpu": f"{draw.randint(1, 3000)}m"})
        return make_pod_info(
            name,
            containers=containers,
            init_containers=[self._container("init")] if draw.random() < 0.2 else (),
            overhead={"cpu": "50m"} if draw.random() < 0.1 else None,
            resources=pod_level,
            tolerations=[self._toleration() for _ in range(draw.randint(0, 3))],
            node_selector={"disk": draw.choice(VALUES["disk"])} if draw.random() < 0.2 else None,
            affinity=self._affinity() if draw.random() < 0.6 else None,
            volumes=[Volume("v", image=ImageVolumeSource(draw.choice(WANTED_IMAGES)))]
            if draw.random() < 0.2
            else (),
            host_network=draw.random() < 0.4,
            host_users=draw.choice((None, True, False)),
            **fields,
        )

    def _node(self, name: str) -> Node:
        draw = self.draw
        labels = {key: draw.choice(VALUES[key]) for key in KEYS if draw.random() < 0.7}
        allocatable: dict[str, str | int | float] = {
            "cpu": f"{draw.choice((0, 999, 2000, 4000))}m",
            "memory": draw.choice((0, 4 * 1024**3, 4 * 1024**3 + 12345)),
            "pods": draw.choice((0, 2, 110)),
        }
        for resource in ("ephemeral-storage", EXTENDED, HUGE, OTHER_EXTENDED):
            if draw.random() < 0.5:
                allocatable[resource] = draw.choice((0, 3, 1000))
        return make_node(
            name,
            labels=labels,
            allocatable=allocatable,
            taints=[self._taint() for _ in range(draw.randint(0, 3))],
            unschedulable=draw.random() < 0.2,
            images=[
                ContainerImage((image,), IMAGES[image] * MEBIBYTE + 7)
                for image in draw.sample(list(IMAGES), draw.randint(0, 4))
            ],
            declared_features=draw.sample(FEATURES, draw.randint(0, 3)),
        )

    def _container(self, name: str) -> Container:
        draw = self.draw
        requests: dict[str, str | int | float] = {}
        if draw.random() < 0.6:
            requests["cpu"] = f"{draw.choice((0, 1, 100, 333, 2500))}m"
        if draw.random() < 0.6:
            requests["memory"] = draw.choice((0, 1, 512 * MEBIBYTE, 3 * 1024**3, 9 * 1024**3))
        for resource in ("ephemeral-storage", EXTENDED, HUGE, OTHER_EXTENDED):
            if draw.random() < 0.2:
                requests[resource] = draw.choice((0, 1, 2, 700))
        ports = [
            ContainerPort(
                host_port=draw.choice((0, 80, 81)),
                host_ip=draw.choice(("", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::")),  # noqa: S104 - the wildcard
                protocol=draw.choice(("", "TCP", "UDP")),
            )
            for _ in range(draw.choice((0, 0, 1, 2)))
        ]
        rules = (ContainerRestartRule("RestartAllContainers"),) if draw.random() < 0.1 else ()
        return Container(
            name=name,
            image=draw.choice(WANTED_IMAGES),
            resources=ResourceRequirements(requests=requests),
            ports=tuple(ports),
            restart_policy=draw.choice((None, "Always")) if name == "init" else None,
            restart_policy_rules=rules,
        )

    def _taint(self) -> Taint:
        draw = self.draw
        return Taint(draw.choice("ab"), draw.choice(("", "x", "y")), draw.choice(EFFECTS))

    def _toleration(self) -> Toleration:
        draw = self.draw
        if draw.random() < 0.1:
            return Toleration(operator="Exists", effect=draw.choice(("", *EFFECTS)))
        if draw.random() < 0.1:
            key = "node.kubernetes.io/unschedulable"
            return Toleration(key, "Exists", effect=draw.choice(("", *EFFECTS)))
        operator = draw.choice(("", "Equal", "Exists"))
        value = "" if operator == "Exists" else draw.choice(("", "x", "y"))
        return Toleration(draw.choice("ab"), operator, value, draw.choice(("", *EFFECTS)))

    def _affinity(self) -> Affinity:
        draw = self.draw
        required = None
        if draw.random() < 0.6:
            required = NodeSelector(tuple(self._term() for _ in range(draw.randint(1, 3))))
        preferred = tuple(
            PreferredSchedulingTerm(draw.choice((1, 7, 100)), self._term())
            for _ in range(draw.randint(0, 3))
        )
        return Affinity(node_affinity=NodeAffinitySpec(required, preferred))

    def _term(self) -> NodeSelectorTerm:
        draw = self.draw
        fields = ()
        if draw.random() < 0.15:
            operator = draw.choice(("In", "NotIn"))
            name = f"n{draw.randint(0, 7)}"
            fields = (NodeSelectorRequirement("metadata.name", operator, (name,)),)
        return NodeSelectorTerm(
            match_expressions=tuple(self._requirement() for _ in range(draw.choice((0, 1, 1, 2)))),
            match_fields=fields,
        )

    def _requirement(self) -> NodeSelectorRequirement:
        draw = self.draw
        operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            return NodeSelectorRequirement("cores", operator, (draw.choice(("0", "4", "7")),))
        key = draw.choice(KEYS)
        values = ()
        if operator in ("In", "NotIn"):
            values = tuple(draw.sample(VALUES[key], draw.randint(1, 2)))
        return NodeSelectorRequirement(key, operator, values)

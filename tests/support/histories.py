"""Random histories of a cluster, told change by change; for laws about what follows them."""

import random
from collections.abc import Callable, Iterator

from scheduler.api.host_ports import HostPort
from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import (
    Affinity,
    ContainerImage,
    ContainerPort,
    LabelSelector,
    LabelSelectorRequirement,
    PodAffinitySpec,
    PodAffinityTerm,
    Taint,
    WeightedPodAffinityTerm,
)
from scheduler.api.pods import PodInfo
from scheduler.kernel.snapshot import (
    Change,
    NamespaceChanged,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRemoved,
)
from scheduler.kernel.snapshot.row_counts import WILDCARD_IP
from tests.support.builders import HOSTNAME, ZONE, make_node, make_node_info, make_pod_info

NAMESPACES = ("red", "green", "blue")
APPS = ("web", "db", "cache")
RACK = "example.com/rack"
KEYS = (HOSTNAME, ZONE, RACK)
PORTS = (
    HostPort(WILDCARD_IP, "TCP", 80),
    HostPort("10.0.0.1", "TCP", 80),
    HostPort(WILDCARD_IP, "UDP", 80),
)
IMAGES = tuple(ContainerImage((f"image-{i}", f"alias-{i % 2}"), 10) for i in range(4))
RESOURCES = ("cpu", "memory", "example.com/gpu")


class History:
    """A cluster that changes at random and says how."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.random = random.Random(seed)
        self.names = [f"node-{i}" for i in range(nodes)]
        self.nodes: dict[str, NodeInfo] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self._serial = 0

    def change(self) -> Iterator[Change]:
        """One random event, as the changes the cache would report."""
        events: tuple[tuple[int, Callable[[], Iterator[Change]]], ...] = (
            (12, self._add_pod),
            (6, self._remove_pod),
            (2, self._relabel_pod),
            (4, self._set_node),
            (1, self._remove_node),
            (1, self._change_namespace),
        )
        weights = [weight for weight, _ in events]
        _, event = self.random.choices(events, weights)[0]
        yield from event()

    def rebuild(self) -> Iterator[Change]:
        """The changes that build the cluster as it is now."""
        for name, labels in self.namespaces.items():
            yield NamespaceChanged(name, labels)
        for info in self.nodes.values():
            if info.node is not None:
                yield NodeSet(info, info.node)
        for info in self.nodes.values():
            yield from map(PodAdded, info.pods.values())

    def _set_node(self) -> Iterator[Change]:
        draw = self.random
        name = draw.choice(self.names)
        self._serial += 1
        labels = {RACK: draw.choice(("", "r1", "r2"))} if draw.random() < 0.7 else {}
        if draw.random() < 0.5:
            labels[HOSTNAME] = f"host-{self._serial}"
        node = make_node(
            name,
            zone=draw.choice(("", "a", "b", "c")),
            labels=labels,
            allocatable={"example.com/gpu": draw.randint(0, 2)} if draw.random() < 0.3 else None,
            taints=draw.choice(((), (Taint("dedicated", "x", "NoSchedule"),))),
            unschedulable=draw.random() < 0.2,
            images=draw.sample(IMAGES, draw.randint(0, 3)),
            declared_features=draw.choice(((), ("F",))),
        )
        info = self.nodes.setdefault(name, make_node_info(node))
        info.node = node
        yield NodeSet(info, node)

    def _remove_node(self) -> Iterator[Change]:
        if self.nodes:
            info = self.nodes.pop(self.random.choice(list(self.nodes)))
            yield from map(PodRemoved, info.pods.values())
            yield NodeRemoved(info.name)

    def _add_pod(self) -> Iterator[Change]:
        if self.nodes:
            info = self.nodes[self.random.choice(list(self.nodes))]
            pod = self.new_pod().on_node(info.name)
            info.pods[pod.uid] = pod
            yield PodAdded(pod)

    def _remove_pod(self) -> Iterator[Change]:
        info = self._busy_node()
        if info is not None:
            yield PodRemoved(info.pods.pop(self.random.choice(list(info.pods))))

    def _relabel_pod(self) -> Iterator[Change]:
        info = self._busy_node()
        if info is not None:
            old = info.pods.pop(self.random.choice(list(info.pods)))
            new = self.new_pod().on_node(info.name)
            info.pods[new.uid] = new
            yield PodRemoved(old)
            yield PodAdded(new)

    def _change_namespace(self) -> Iterator[Change]:
        name = self.random.choice(NAMESPACES)
        labels = self.random.choice((None, {}, {"team": "a"}, {"team": "b"}))
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        yield NamespaceChanged(name, labels)

    def _busy_node(self) -> NodeInfo | None:
        busy = [info for info in self.nodes.values() if info.pods]
        return self.random.choice(busy) if busy else None

    def new_pod(self) -> PodInfo:
        draw = self.random
        self._serial += 1
        labels = {"app": draw.choice(APPS)}
        if draw.random() < 0.5:
            labels["tier"] = draw.choice(("front", "back"))
        ports = [p for p in PORTS if draw.random() < 0.1]
        return make_pod_info(
            f"pod-{self._serial}",
            namespace=draw.choice(NAMESPACES),
            labels=labels,
            requests={draw.choice(RESOURCES): draw.randint(0, 3)},
            host_ports=[ContainerPort(p.port, p.host_ip, p.protocol) for p in ports],
            affinity=self._affinity() if draw.random() < 0.5 else None,
            deletion_timestamp="2026-01-01T00:00:00Z" if draw.random() < 0.1 else None,
        )

    def _affinity(self) -> Affinity:
        return Affinity(pod_affinity=self._terms(), pod_anti_affinity=self._terms())

    def _terms(self) -> PodAffinitySpec | None:
        draw = self.random
        if draw.random() < 0.3:
            return None
        return PodAffinitySpec(
            required_during_scheduling_ignored_during_execution=tuple(
                self._term() for _ in range(draw.randint(0, 2))
            ),
            preferred_during_scheduling_ignored_during_execution=tuple(
                WeightedPodAffinityTerm(draw.choice((1, 5)), self._term())
                for _ in range(draw.randint(0, 2))
            ),
        )

    def _term(self) -> PodAffinityTerm:
        draw = self.random
        return PodAffinityTerm(
            topology_key=draw.choice(KEYS),
            label_selector=draw.choice(
                (
                    None,
                    LabelSelector(),
                    LabelSelector({"app": draw.choice(APPS)}),
                    LabelSelector(
                        match_expressions=(LabelSelectorRequirement("app", "In", ("web", "db")),)
                    ),
                )
            ),
            namespaces=draw.choice(((), (), ("red",), ("green", "blue"))),
            namespace_selector=draw.choice(
                (None, None, LabelSelector(), LabelSelector({"team": "a"}))
            ),
        )

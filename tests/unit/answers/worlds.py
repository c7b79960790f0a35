"""Small random clusters in which a pod fits nowhere, as plain parts that a test can change."""

import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    Node,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinitySpec,
    PodAffinityTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap import FrameworkBuilder
from scheduler.kernel.answers.edits import (
    AddNodes,
    AddToleration,
    DropRule,
    Edit,
    EvictPod,
    LowerRequest,
    SetLabel,
    Uncordon,
)
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.snapshot import Snapshot
from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod_info
from tests.unit.preemption.naive import placed

FRAMEWORK = FrameworkBuilder(lambda: 0.0, class_cache_bytes=0).build(
    default_configuration("stowage")
)["stowage"]

APPS = ("web", "db")
TAINTS = (
    Taint("gpu", "true", "NoSchedule"),
    Taint("team", "a", "NoExecute"),
    Taint("team", "b", "NoSchedule"),
)
EXTENDED = "example.com/gpu"


class World(NamedTuple):
    """A cluster, and the fields of a pod that is to get into it."""

    nodes: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    pod: dict[str, Any]
    nominated: tuple[dict[str, Any], str] | None

    def built(self) -> tuple[Snapshot, NominatedPods, PodInfo]:
        """All of it as the engine has it, made anew."""
        nodes: list[Node] = [make_node(**fields) for fields in self.nodes]
        _, snapshot = placed(nodes, [make_pod_info(**fields) for fields in self.pods])
        nominated = NominatedPods()
        if self.nominated is not None:
            nominated.nominate(make_pod_info(**self.nominated[0]), self.nominated[1])
        return snapshot, nominated, make_pod_info(**self.pod)

    def fitting(self) -> set[str]:
        """The nodes on which the pod fits."""
        snapshot, nominated, pod = self.built()
        found = FRAMEWORK.filtering.find_nodes_that_fit(pod, snapshot, nominated)
        return {snapshot.table.names[row] for row in found.feasible_rows().tolist()}

    def after(self, edits: Iterable[Edit]) -> "World":
        """The world once all edits are made."""
        world = self
        edits = list(edits)
        for edit in edits:
            world = world._after(edit)
        dropped = {edit.path for edit in edits if isinstance(edit, DropRule)}
        return world._replace(pod=without(world.pod, dropped)) if dropped else world

    def _after(self, edit: Edit) -> "World":  # noqa: PLR0911 - one case per kind of edit
        pod = self.pod
        match edit:
            case LowerRequest():
                requests = {**pod["requests"], edit.resource: edit.at_most}
                return self._replace(pod={**pod, "requests": requests})
            case AddToleration():
                added = Toleration(edit.key, "Equal", edit.value, edit.effect)
                return self._replace(pod={**pod, "tolerations": [*pod["tolerations"], added]})
            case SetLabel():
                return self._with_node(edit.node, labels={edit.key: edit.value})
            case Uncordon():
                return self._with_node(edit.node, unschedulable=False)
            case EvictPod():
                left = [p for p in self.pods if f"{p['namespace']}/{p['name']}" != edit.pod]
                assert len(left) == len(self.pods) - 1
                return self._replace(pods=left)
            case AddNodes():
                like = next(n for n in self.nodes if n["name"] == edit.like)
                more = [{**like, "name": f"new-{i}"} for i in range(edit.count)]
                return self._replace(nodes=[*self.nodes, *more])
            case DropRule():
                return self

    def _with_node(self, name: str, **changed: Any) -> "World":
        def changed_node(fields: dict[str, Any]) -> dict[str, Any]:
            if fields["name"] != name:
                return fields
            labels = {**fields["labels"], **changed.get("labels", {})}
            kept = {key: value for key, value in labels.items() if value is not None}
            zone = "" if ZONE in labels and labels[ZONE] is None else fields["zone"]
            return {**fields, **changed, "labels": kept, "zone": zone}

        return self._replace(nodes=[changed_node(fields) for fields in self.nodes])


def without(pod: dict[str, Any], paths: set[str]) -> dict[str, Any]:
    """The pod's fields without what is written at some paths, found out from the paths alone."""
    selector = {
        k: v for k, v in pod["node_selector"].items() if f"spec.nodeSelector[{k}]" not in paths
    }
    spread = [
        each
        for i, each in enumerate(pod["topology_spread_constraints"])
        if f"spec.topologySpreadConstraints[{i}]" not in paths
    ]
    ports = [
        port
        for i, port in enumerate(pod["host_ports"])
        if f"spec.containers[0].ports[{i}].hostPort" not in paths
    ]
    affinity: Affinity = pod["affinity"]
    node = affinity.node_affinity
    if node is not None:
        selector_of_nodes = node.required_during_scheduling_ignored_during_execution
        assert selector_of_nodes is not None
        terms = []
        for i, term in enumerate(selector_of_nodes.node_selector_terms):
            at = f"{_required('nodeAffinity')}.nodeSelectorTerms[{i}].matchExpressions"
            kept = tuple(
                e for j, e in enumerate(term.match_expressions) if f"{at}[{j}]" not in paths
            )
            terms.append(kept)
        # Nothing asked for in one of the terms: every node will do.
        required = None
        if all(terms):
            required = NodeSelector(tuple(NodeSelectorTerm(kept) for kept in terms))
        node = NodeAffinitySpec(required)
    return {
        **pod,
        "node_selector": selector,
        "topology_spread_constraints": spread,
        "host_ports": ports,
        "affinity": Affinity(
            node,
            _without_terms(affinity.pod_affinity, "podAffinity", paths),
            _without_terms(affinity.pod_anti_affinity, "podAntiAffinity", paths),
        ),
    }


def _without_terms(
    spec: PodAffinitySpec | None, kind: str, paths: set[str]
) -> PodAffinitySpec | None:
    if spec is None:
        return None
    terms = spec.required_during_scheduling_ignored_during_execution
    return PodAffinitySpec(
        tuple(t for i, t in enumerate(terms) if f"{_required(kind)}[{i}]" not in paths)
    )


def _required(kind: str) -> str:
    return f"spec.affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution"


def random_world(seed: int, most_nodes: int = 6) -> World:
    """A cluster whose nodes are small, tainted, cordoned, labelled and full in all ways."""
    draw = random.Random(seed)
    nodes = [
        {
            "name": f"n{i}",
            "zone": draw.choice(("a", "b", "")),
            "labels": {"disk": draw.choice(("ssd", "hdd")), "cores": draw.choice(("4", "8"))}
            if draw.random() < 0.8
            else {},
            "allocatable": {
                "cpu": draw.choice(("1", "1500m", "2")),
                "memory": draw.choice(("1Gi", "3000000007")),
                "pods": draw.choice((3, 110)),
                **({EXTENDED: 2} if draw.random() < 0.3 else {}),
            },
            "taints": draw.sample(TAINTS, draw.choice((0, 0, 1, 1, 2))),
            "unschedulable": draw.random() < 0.25,
        }
        for i in range(draw.randint(1, most_nodes))
    ]
    names = [node["name"] for node in nodes]
    pods = [
        {
            "name": f"run-{i}",
            "namespace": draw.choice(("red", "red", "blue")),
            "labels": {"app": draw.choice(APPS)},
            "node_name": draw.choice(names),
            "priority": draw.choice((-3, 0, 5)),
            "requests": {"cpu": f"{draw.choice((0, 100, 333, 700))}m", "memory": 2**27},
            "host_ports": (1000 + i,) if draw.random() < 0.3 else (),
            "affinity": Affinity(pod_anti_affinity=_pod_terms(draw, 1))
            if draw.random() < 0.15
            else None,
            "start_time": f"2026-01-01T00:00:{i:02}Z",
        }
        for i in range(draw.randint(0, 4 * len(nodes)))
    ]
    nominated = None
    if draw.random() < 0.2:
        guest = {"name": "guest", "namespace": "red", "requests": {"cpu": "400m"}, "priority": 9}
        nominated = (guest, draw.choice(names))
    return World(nodes, pods, _waiting(draw), nominated)


def _waiting(draw: random.Random) -> dict[str, Any]:
    requests = {"cpu": f"{draw.choice((0, 100, 100, 800, 1700))}m"}
    if draw.random() < 0.5:
        requests["memory"] = draw.choice(("100Mi", "100Mi", "4Gi"))
    if draw.random() < 0.15:
        requests[EXTENDED] = str(draw.choice((1, 3)))
    return {
        "name": "waiting",
        "namespace": "red",
        "labels": {"app": draw.choice(APPS)},
        "priority": draw.choice((0, 9)),
        "requests": requests,
        "tolerations": [Toleration("gpu", "Exists")] if draw.random() < 0.3 else [],
        "node_selector": {"disk": draw.choice(("ssd", "sdd"))} if draw.random() < 0.25 else {},
        "host_ports": draw.sample((1000, 1001, 1002), draw.choice((0, 0, 0, 1, 2))),
        "affinity": Affinity(
            _node_affinity(draw) if draw.random() < 0.25 else None,
            _pod_terms(draw, draw.choice((0, 0, 0, 0, 1, 2))),
            _pod_terms(draw, draw.choice((0, 0, 0, 0, 1, 2))),
        ),
        "topology_spread_constraints": [
            TopologySpreadConstraint(
                1,
                draw.choice((ZONE, HOSTNAME)),
                "DoNotSchedule",
                LabelSelector({"app": draw.choice(APPS)}),
                min_domains=draw.choice((None, None, 3)),
                node_taints_policy=draw.choice((None, "Honor")),
            )
            for _ in range(draw.choice((0, 0, 1)))
        ],
    }


def _node_affinity(draw: random.Random) -> NodeAffinitySpec:
    def term() -> NodeSelectorTerm:
        choices = (
            NodeSelectorRequirement("disk", "In", (draw.choice(("ssd", "nvme")),)),
            NodeSelectorRequirement("disk", "NotIn", ("hdd",)),
            NodeSelectorRequirement("cores", "Gt", (draw.choice(("4", "8")),)),
            NodeSelectorRequirement("cores", "DoesNotExist"),
            NodeSelectorRequirement("rack", "Exists"),
        )
        return NodeSelectorTerm(tuple(draw.sample(choices, draw.randint(1, 3))))

    return NodeAffinitySpec(NodeSelector(tuple(term() for _ in range(draw.randint(1, 2)))))


def _pod_terms(draw: random.Random, count: int) -> PodAffinitySpec:
    return PodAffinitySpec(
        tuple(
            PodAffinityTerm(
                draw.choice((ZONE, HOSTNAME)), LabelSelector({"app": draw.choice(APPS)})
            )
            for _ in range(count)
        )
    )

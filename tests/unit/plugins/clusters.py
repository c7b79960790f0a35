"""Small random clusters, and how a column plugin judges them; for comparison with naive rules.

A cluster is kept as plain objects: the naive rules walk over its nodes and pods one by one.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    Toleration,
)
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.status import Code
from scheduler.kernel.snapshot import Change, NamespaceChanged, NodeSet, PodAdded, Snapshot
from scheduler.kernel.snapshot.pod_kinds import OtherPods
from tests.support.builders import HOSTNAME, ZONE, make_node, make_node_info, make_pod_info

T = TypeVar("T")

RACK = "example.com/rack"
KEYS = (HOSTNAME, ZONE, RACK)
NAMESPACES = ("red", "blue", "green")
"""The last one never exists as an object."""


@dataclass
class Cluster:
    """Nodes with the pods on them, and the labels of namespaces."""

    nodes: list[NodeInfo]
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def snapshot(self) -> Snapshot:
        snapshot = Snapshot()
        snapshot.update(self.changes())
        return snapshot

    def changes(self) -> list[Change]:
        changes: list[Change] = [NamespaceChanged(n, ls) for n, ls in self.namespaces.items()]
        changes.extend(NodeSet(info, node_of(info)) for info in self.nodes)
        changes.extend(PodAdded(pod) for info in self.nodes for pod in info.pods.values())
        return changes


def labels_of(info: NodeInfo) -> Mapping[str, str]:
    return node_of(info).metadata.labels


def node_of(info: NodeInfo) -> Node:
    assert info.node is not None
    return info.node


# --- what a plugin says ---------------------------------------------------------------------------


@dataclass
class Answer:
    """All verdicts and scores of one plugin for one pod; node names as keys."""

    skips_filter: bool
    rejected: dict[str, tuple[Code, str]]
    skips_score: bool
    scores: dict[str, int]
    normalized: dict[str, int]


def judge(plugin: Any, pod: PodInfo, snapshot: Snapshot, candidates: set[str] | None) -> Answer:
    """What a column plugin answers, all nodes filtered at once and the candidates scored."""
    state = CycleState()
    _, status = plugin.pre_filter(state, pod, snapshot)
    assert status.code in (Code.SUCCESS, Code.SKIP), status
    skips_filter = status.code is Code.SKIP
    rejected = {} if skips_filter else rejections(plugin, state, pod, snapshot)
    rows = scored_rows(snapshot, candidates)
    status = plugin.pre_score(state, pod, snapshot, rows)
    assert status.code in (Code.SUCCESS, Code.SKIP), status
    if status.code is Code.SKIP:
        return Answer(skips_filter, rejected, skips_score=True, scores={}, normalized={})
    raw = plugin.score(state, pod, snapshot, rows)
    scores = by_name(snapshot, rows, raw)
    normalized = plugin.normalize_score(state, pod, raw)
    return Answer(
        skips_filter,
        rejected,
        skips_score=False,
        scores=scores,
        normalized=by_name(snapshot, rows, normalized),
    )


def rejections(
    plugin: Any, state: CycleState, pod: PodInfo, snapshot: Snapshot
) -> dict[str, tuple[Code, str]]:
    """The first reason per rejected node; asked for all rows at once and row by row."""
    reasons = plugin.reasons(state, pod, snapshot)
    together = plugin.filter(state, pod, snapshot, snapshot.table.all_rows)
    found = {}
    for row in snapshot.table.live_rows():
        alone = plugin.filter(state, pod, snapshot, np.array([row]))
        bits = 0 if together is None else int(together[row])
        assert bits == (0 if alone is None else int(alone[0]))
        assert bits.bit_count() <= 1
        if bits:
            reason = reasons[bits.bit_length() - 1]
            found[snapshot.table.names[row]] = (reason.code, reason.text)
    return found


def rejection_if(
    plugin: Any,
    state: CycleState,
    pod: PodInfo,
    snapshot: Snapshot,
    row: int,
    *changes: tuple[PodInfo, int],
) -> tuple[Code, str] | None:
    """The first reason to reject a row if pods came to it (1) or went from it (-1)."""
    numbers = np.array([snapshot.kinds.number_of(other) for other, _ in changes], np.intp)
    others = OtherPods(snapshot.kinds, numbers)
    counting = plugin.counting(state, pod, snapshot, np.array([row]), others)
    signs = np.array([[sign] for _, sign in changes], np.float64)
    answer = counting.judge(np.array([0]), counting.weights @ signs)
    bits = 0 if answer is None else int(answer[0])
    if not bits:
        return None
    reason = plugin.reasons(state, pod, snapshot)[bits.bit_length() - 1]
    return reason.code, reason.text


def scored_rows(snapshot: Snapshot, candidates: set[str] | None) -> Any:
    table = snapshot.table
    if candidates is None:
        assert table.count == table.size
        return table.all_rows if table.size % 2 else table.live_rows()
    return np.array(sorted(table.row_of[name] for name in candidates), np.intp)


def by_name(snapshot: Snapshot, rows: Any, column: Any) -> dict[str, int]:
    names = [snapshot.table.names[row] for row in np.arange(snapshot.table.size)[rows]]
    assert all(float(value).is_integer() for value in column)
    return dict(zip(names, map(int, column), strict=True))


# --- random clusters ------------------------------------------------------------------------------

# Values that come up more often are listed more often: cases should bite.
_NAMESPACES = ("red", "red", "red", *NAMESPACES)
LABEL_SETS = (
    {"app": "web"},
    {"app": "web"},
    {"app": "web", "tier": "a"},
    {"app": "web", "tier": "b"},
    {"app": "db", "tier": "a"},
    {"tier": "b"},
    {},
)
LABEL_SELECTORS = (
    LabelSelector({"app": "web"}),
    LabelSelector({"app": "web"}),
    LabelSelector({"tier": "a"}),
    LabelSelector({"app": "web", "tier": "b"}),
    LabelSelector(),
    None,
    *(
        LabelSelector(match_expressions=expressions)
        for expressions in (
            (LabelSelectorRequirement("app", "In", ("web", "db")),),
            (LabelSelectorRequirement("app", "NotIn", ("db",)),),
            (
                LabelSelectorRequirement("app", "Exists"),
                LabelSelectorRequirement("tier", "DoesNotExist"),
            ),
        )
    ),
)
NAMESPACE_LABELS = ({}, {"team": "a"}, {"team": "b"})

_DEDICATED = Taint("dedicated", "x", "NoSchedule")
_FLAKY = Taint("flaky", "", "PreferNoSchedule")
_TAINTS = ((), (), (_DEDICATED,), (_FLAKY,), (_FLAKY, _DEDICATED))
_TOLERATIONS = ((), (Toleration("dedicated", "Exists"),), (Toleration("other", "Exists"),))
_NODE_TERMS = tuple(
    NodeSelectorTerm((NodeSelectorRequirement(key, operator, values),))
    for key, operator, values in (
        (ZONE, "In", ("z1", "z2")),
        (ZONE, "NotIn", ("z1",)),
        (RACK, "Exists", ()),
    )
)


class Draw(random.Random):
    """Random objects; the same seed gives the same ones."""

    def pick(self, values: Sequence[T]) -> T:
        return self.choice(values)

    def maybe(self, probability: float) -> bool:
        return self.random() < probability

    def namespace(self) -> str:
        return self.pick(_NAMESPACES)

    def labels(self) -> dict[str, str]:
        return self.pick(LABEL_SETS)

    def selector(self) -> LabelSelector | None:
        return self.pick(LABEL_SELECTORS)

    def cluster(
        self, nodes: int, pods: int, affinity: Callable[["Draw"], Affinity | None]
    ) -> Cluster:
        """Nodes, keys missing here and there, with pods that have such affinity."""
        infos = [make_node_info(self._node(f"node-{i}")) for i in range(nodes)]
        for i in range(pods):
            info = self.pick(infos)
            pod = self.running_pod(f"pod-{i}", info.name, affinity(self))
            info.pods[pod.uid] = pod
        return Cluster(infos, {name: self.pick(NAMESPACE_LABELS) for name in NAMESPACES[:2]})

    def running_pod(self, name: str, node_name: str, affinity: Affinity | None = None) -> PodInfo:
        return make_pod_info(
            name,
            namespace=self.namespace(),
            labels=self.labels(),
            node_name=node_name,
            affinity=affinity,
            deletion_timestamp="2026-01-01T00:00:00Z" if self.maybe(0.15) else None,
        )

    def node_demands(self) -> dict[str, Any]:
        """Arguments of a pod that chooses nodes by label and tolerates taints."""
        affinity = None
        if self.maybe(0.25):
            terms = tuple(self.sample(_NODE_TERMS, self.randint(1, 2)))
            affinity = Affinity(node_affinity=NodeAffinitySpec(NodeSelector(terms)))
        return {
            "node_selector": {ZONE: "z1"} if self.maybe(0.25) else {},
            "affinity": affinity,
            "tolerations": self.pick(_TOLERATIONS),
        }

    def candidates(self, cluster: Cluster) -> set[str] | None:
        """Which nodes are scored; None means all of them."""
        if self.maybe(0.5):
            return None
        names = [info.name for info in cluster.nodes]
        return set(self.sample(names, self.randint(1, len(names))))

    def _node(self, name: str) -> Node:
        values = {
            ZONE: self.pick(("z1", "z1", "z2", "z2", "z3", "", None)),
            RACK: self.pick(("r1", "r1", "r2", "", None)),
            HOSTNAME: self.pick((name, name, name, "shared", None)),
        }
        node = make_node(
            name,
            labels={key: value for key, value in values.items() if value is not None},
            taints=self.pick(_TAINTS),
            unschedulable=self.maybe(0.3),
        )
        if values[HOSTNAME] is None:
            del node.metadata.labels[HOSTNAME]
        return node


node_counts = st.integers(1, 6)
pod_counts = st.integers(0, 14)
draws = st.integers(0, 2**32).map(Draw)

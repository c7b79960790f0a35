"""Small random clusters, and how a column plugin judges them; for comparison with naive rules.

A cluster is kept as plain objects: the naive rules walk over its nodes and pods one by one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code
from scheduler.snapshot import Change, NamespaceChanged, NodeSet, PodAdded, Snapshot
from tests.support.builders import HOSTNAME, ZONE, make_node, make_node_info, make_pod_info

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

label_sets = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(("web", "db")), "tier": st.sampled_from(("a", "b"))}
)

_expressions = st.one_of(
    st.builds(
        LabelSelectorRequirement,
        key=st.sampled_from(("app", "tier")),
        operator=st.sampled_from(("In", "NotIn")),
        values=st.sampled_from((("web",), ("db", "web"), ("a",))),
    ),
    st.builds(
        LabelSelectorRequirement,
        key=st.sampled_from(("app", "tier")),
        operator=st.sampled_from(("Exists", "DoesNotExist")),
    ),
)
label_selectors = st.one_of(
    st.builds(LabelSelector, match_labels=label_sets),
    st.builds(
        LabelSelector,
        match_labels=label_sets,
        match_expressions=st.lists(_expressions, max_size=2).map(tuple),
    ),
    st.none(),
)

_DEDICATED = Taint("dedicated", "x", "NoSchedule")
_FLAKY = Taint("flaky", "", "PreferNoSchedule")
tolerations = st.lists(
    st.sampled_from((Toleration("dedicated", "Exists"), Toleration("other", "Exists"))), max_size=1
)
_node_terms = st.lists(
    st.builds(
        NodeSelectorRequirement,
        key=st.sampled_from((ZONE, RACK)),
        operator=st.sampled_from(("In", "NotIn", "Exists")),
        values=st.just(("z1",)),
    ),
    max_size=2,
).map(lambda requirements: NodeSelectorTerm(tuple(requirements)))
node_affinities = st.one_of(
    st.none(),
    st.lists(_node_terms, min_size=1, max_size=2).map(
        lambda terms: NodeAffinitySpec(NodeSelector(tuple(terms)))
    ),
)


@st.composite
def clusters(draw: st.DrawFn, affinities: st.SearchStrategy[Affinity | None]) -> Cluster:
    """Up to six nodes, keys missing here and there, with up to twelve pods."""
    count = draw(st.integers(1, 6))
    infos = [make_node_info(draw(_nodes(f"node-{i}"))) for i in range(count)]
    for i in range(draw(st.integers(0, 12))):
        info = draw(st.sampled_from(infos))
        pod = draw(running_pods(f"pod-{i}", info.name, affinities))
        info.pods[pod.uid] = pod
    namespaces = {
        name: draw(st.sampled_from(({}, {"team": "a"}, {"team": "b"}))) for name in NAMESPACES[:2]
    }
    return Cluster(infos, namespaces)


@st.composite
def running_pods(
    draw: st.DrawFn, name: str, node_name: str, affinities: st.SearchStrategy[Affinity | None]
) -> PodInfo:
    return make_pod_info(
        name,
        namespace=draw(st.sampled_from(NAMESPACES)),
        labels=draw(label_sets),
        node_name=node_name,
        affinity=draw(affinities),
        deletion_timestamp=draw(st.sampled_from((None, None, None, "2026-01-01T00:00:00Z"))),
    )


@st.composite
def _nodes(draw: st.DrawFn, name: str) -> Node:
    labels = {}
    if draw(st.booleans()):
        labels[RACK] = draw(st.sampled_from(("", "r1", "r2")))
    if draw(st.integers(0, 4)) == 0:
        labels[HOSTNAME] = "shared"
    labels[ZONE] = draw(st.sampled_from(("z1", "z2", "z3", "", "absent")))
    node = make_node(
        name,
        labels=labels,
        taints=draw(st.lists(st.sampled_from((_DEDICATED, _FLAKY)), unique=True, max_size=2)),
        unschedulable=draw(st.booleans()),
    )
    if labels[ZONE] == "absent":
        del node.metadata.labels[ZONE]
    if draw(st.integers(0, 5)) == 0:
        del node.metadata.labels[HOSTNAME]
    return node


@st.composite
def candidate_sets(draw: st.DrawFn, cluster: Cluster) -> set[str] | None:
    """Which nodes are scored; None means all of them."""
    names = [info.name for info in cluster.nodes]
    if draw(st.booleans()):
        return None
    return set(draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))

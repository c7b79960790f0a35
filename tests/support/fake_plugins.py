"""Plugins that answer what a test tells them, and profiles made of them."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Pod
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import (
    Bits,
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    NormalizeScorePlugin,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.framework.results import PreFilterResult, Reason
from scheduler.kernel.framework.runtime import Framework, ProfilePlugins
from scheduler.kernel.framework.runtime.bound import row_indices
from scheduler.kernel.framework.runtime.plugin_calls import PluginCalls
from scheduler.kernel.framework.runtime.plugin_set import IMPLEMENTS, extension_points
from scheduler.kernel.framework.status import SKIP, SUCCESS, Status, unschedulable
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.snapshot import NodeSet, PodAdded, Rows, Snapshot
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments
from tests.support.builders import make_node, make_node_info

# Fakes have names of their own, per instance, where real plugins have one per class.


class Sort(QueueSortPlugin):
    NAME = "Sort"

    @override
    def sort_key(self, queued: QueuedPodInfo) -> Any:
        return queued.timestamp


class ColumnFilter(FilterPlugin, SignPlugin):
    """Rejects the nodes it is told to, each with a set of reasons given as bits."""

    def __init__(
        self,
        name: str,
        rejected: Mapping[str, int],
        *,
        reads: Reads = Reads.NODE,
        reasons: Sequence[Reason] | None = None,
    ) -> None:
        self.NAME = name
        self.READS = reads
        self.rejected = rejected
        self.texts = reasons or [Reason(f"{name} says no"), Reason(f"{name} says never")]
        self.rows_asked: list[Rows] = []

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        self.rows_asked.append(rows)
        names = [snapshot.table.names[row] for row in row_indices(rows)]
        return np.array([self.rejected.get(name, 0) for name in names], np.uint64)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return self.texts


class PodLimit(FilterPlugin, SignPlugin):
    """Rejects nodes with too many pods: reads what runs on the row."""

    NAME = "PodLimit"
    READS = Reads.PODS

    def __init__(self, most: int) -> None:
        self._most = most

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        return (snapshot.table.pod_count[rows] >= self._most).astype(np.uint64)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Sequence[Reason]:
        return [Reason("full")]


class NodeFilter(NodeFilterPlugin):
    """Judges node by node, as it is told."""

    def __init__(self, name: str, judge: Callable[[NodeInfo], Any]) -> None:
        self.NAME = name
        self._judge = judge
        self.asked: list[str] = []

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self.asked.append(node.name)
        status: Status = self._judge(node)
        return status


class PreFilter(PreFilterPlugin):
    """Answers PreFilter as it is told."""

    def __init__(
        self, name: str, status: Status = SUCCESS, nodes: Sequence[str] | None = None
    ) -> None:
        self.NAME = name
        self._answer = (None if nodes is None else PreFilterResult(frozenset(nodes)), status)
        self.calls = 0

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        self.calls += 1
        return self._answer


class Neighbours(PreFilterPlugin, PreFilterExtensions, NodeFilterPlugin):
    """Rejects nodes that pods were tried on, as PreFilter extensions count them."""

    def __init__(self, name: str = "Neighbours", status: Status = SUCCESS) -> None:
        self.NAME = name
        self._status = status
        self.heard: list[tuple[str, str, int]] = []
        self._tried: dict[str, int] = {}

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        return None, self._status

    @override
    def add_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, added: PodInfo, row: int
    ) -> Status:
        self.heard.append(("add", added.name, row))
        self._tried[snapshot.table.names[row]] = self._tried.get(snapshot.table.names[row], 0) + 1
        return SUCCESS

    @override
    def remove_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, removed: PodInfo, row: int
    ) -> Status:
        self.heard.append(("remove", removed.name, row))
        return SUCCESS

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return unschedulable("crowded") if self._tried.pop(node.name, 0) else SUCCESS


class ColumnScore(ScorePlugin, PreScorePlugin, SignPlugin):
    """Gives nodes the scores it is told to."""

    def __init__(
        self,
        name: str,
        scores: Mapping[str, float],
        *,
        reads: Reads = Reads.NODE,
        skips: bool = False,
        log: list[str] | None = None,
    ) -> None:
        self.NAME = name
        self.READS = reads
        self.scores = scores
        self.skips = skips
        self._log = log if log is not None else []

    @override
    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    @override
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        self._log.append(f"{self.NAME}.pre_score")
        return SKIP if self.skips else SUCCESS

    @override
    def score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Scores:
        self._log.append(f"{self.NAME}.score")
        names = [snapshot.table.names[row] for row in row_indices(rows)]
        return np.array([self.scores.get(name, 0) for name in names], np.float64)


class RelativeScore(ColumnScore, NormalizeScorePlugin):
    """The same, relative to the best node that fits."""

    @override
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        highest = scores.max(initial=0.0)
        return np.floor(100 * scores / highest) if highest else scores


class NodeScore(NodeScorePlugin):
    """Scores node by node, as it is told."""

    def __init__(self, name: str, score: Callable[[NodeInfo], Any]) -> None:
        self.NAME = name
        self._score = score

    @override
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        score: int = self._score(node)
        return score


def make_plugin_set(
    plugins: Sequence[Plugin],
    weights: Mapping[str, int] | None = None,
    *,
    trusted: Sequence[str] = (),
    **calls: Any,
) -> ProfilePlugins:
    """The plugins at all points they implement, in the order given."""
    by_name: dict[str, Plugin] = {plugin.NAME: plugin for plugin in (Sort(), *plugins)}
    enabled = {
        point: [
            (name, (weights or {}).get(name, 1))
            for name, plugin in by_name.items()
            if point in extension_points(type(plugin))
        ]
        for point in IMPLEMENTS
    }
    return ProfilePlugins(enabled, by_name.__getitem__, make_calls(**calls), trusted=trusted)


def make_framework(
    *plugins: Plugin,
    weights: Mapping[str, int] | None = None,
    trusted: Sequence[str] = (),
    class_cache_bytes: int = 1 << 24,
    **calls: Any,
) -> Framework:
    """A profile of these plugins."""
    return Framework(
        make_plugin_set(plugins, weights, trusted=trusted, **calls),
        class_cache_bytes=class_cache_bytes,
    )


def make_calls(
    profile: str = "test", now: Callable[[], float] = lambda: 0.0, **options: Any
) -> PluginCalls:
    """How plugins are called; measured for nobody but the test."""
    return PluginCalls(profile, FrameworkMetrics(Instruments()), now, **options)


def make_snapshot(*names: str, pods: Sequence[PodInfo] = ()) -> Snapshot:
    """Nodes of these names, with the pods that name them."""
    snapshot = Snapshot()
    for name in names:
        node = make_node(name)
        running = [pod for pod in pods if pod.node_name == name]
        snapshot.update([NodeSet(make_node_info(node, running), node), *map(PodAdded, running)])
    return snapshot

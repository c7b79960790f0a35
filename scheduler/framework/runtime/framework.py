"""One profile: its plugins, and how an attempt runs through them.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go,
pkg/scheduler/schedule_one.go (findNodesThatFitPod, prioritizeNodes) v1.36.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interface import (
    FilterPlugin,
    NormalizeScorePlugin,
    PostFilterResult,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    Reason,
    Scores,
)
from scheduler.framework.runtime.adapters import (
    NodeFilterAdapter,
    NodeScoreAdapter,
    check_range,
)
from scheduler.framework.runtime.diagnosis import FEASIBLE, Diagnosis, NodeVerdicts
from scheduler.framework.runtime.equivalence import (
    IndexedFilter,
    PodClass,
    PodClasses,
    merge_verdicts,
)
from scheduler.framework.runtime.instrumentation import PluginCalls, PluginError, PluginObserver
from scheduler.framework.runtime.plugin_set import PluginSet, Weighted, is_row_local
from scheduler.framework.status import SUCCESS, Code, Status, unresolvable, unschedulable
from scheduler.snapshot import Snapshot

DEFAULT_CLASS_CACHE_BYTES: Final = 64 * 1024 * 1024


class Feasibility(msgspec.Struct):
    """What filtering found out about one pod.

    Attributes:
        state: the state of the attempt, for scoring.
        pod_class: the row-local columns the verdicts started from.
        verdicts: the first rejection per row looked at; None when the pod as a whole is rejected.
        pre_filter: the rejection of the pod as a whole, or success.
        absent: the status of nodes that were not looked at, or None.
        restricting: plugins that narrowed the search to a set of nodes.
        is_row_local: whether the verdicts are the class's own columns and nothing else.
    """

    state: CycleState
    pod_class: PodClass
    verdicts: NodeVerdicts | None
    pre_filter: Status = SUCCESS
    absent: Status | None = None
    restricting: frozenset[str] = frozenset()
    is_row_local: bool = False

    def feasible_rows(self) -> NDArray[np.intp]:
        """The rows no filter rejects."""
        if self.verdicts is None:
            return np.zeros(0, np.intp)
        found = np.flatnonzero(self.verdicts.first == FEASIBLE)
        return found if self.verdicts.rows is None else self.verdicts.rows[found]

    def diagnosis(self, snapshot: Snapshot) -> Diagnosis:
        """Why no node fits."""
        if self.verdicts is None:
            return Diagnosis(
                snapshot, pre_filter=self.pre_filter, restricting_plugins=self.restricting
            )
        return Diagnosis(
            snapshot,
            verdicts=self.verdicts,
            absent=self.absent,
            restricting_plugins=self.restricting,
        )


class Framework:
    """The plugins of one profile.

    Attributes:
        profile_name: the profile's schedulerName.
        plugins: its plugins by extension point.
        percentage_of_nodes_to_score: of this profile, or None for all nodes.
        classes: the pod classes seen, with their columns.
        calls: how plugins are called.
    """

    def __init__(
        self,
        profile_name: str,
        plugins: PluginSet,
        *,
        now: Callable[[], float],
        observer: PluginObserver | None = None,
        percentage_of_nodes_to_score: int | None = None,
        class_cache_bytes: int = DEFAULT_CLASS_CACHE_BYTES,
    ) -> None:
        self.profile_name = profile_name
        self.plugins = plugins
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.calls = PluginCalls(observer, now)
        self.classes = PodClasses(plugins, self.calls, class_cache_bytes)
        self._cluster_filters = [
            IndexedFilter(i, p) for i, p in enumerate(plugins.filter) if not is_row_local(p)
        ]
        self._cluster_scores = [s for s in plugins.score if not is_row_local(s.plugin)]
        self._filter_names = [p.NAME for p in plugins.filter]
        self._extensions = [p for p in plugins.pre_filter if PreFilterExtensions in type(p).__mro__]

    # --- before the queue -----------------------------------------------------------------------

    def run_pre_enqueue_plugins(self, pod: PodInfo) -> Status:
        """Success, or the first rejection."""
        for plugin in self.plugins.pre_enqueue:
            status = self.calls.call(plugin, "PreEnqueue", plugin.pre_enqueue, pod)
            if not status.is_success:
                return status.by(plugin.NAME)
        return SUCCESS

    # --- filtering ------------------------------------------------------------------------------

    def find_nodes_that_fit(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        nominated: Mapping[str, Sequence[PodInfo]] | None = None,
    ) -> Feasibility:
        """Which nodes can take the pod, and why the others cannot.

        Args:
            pod: the pod.
            snapshot: the cluster.
            nominated: by node, the pods that are to be thought of as running there already.

        Raises:
            PluginError: a plugin failed.
        """
        pod_class = self.classes.class_of(pod, snapshot)
        state = CycleState(pod_class.state)
        names, status, restricting, skipped = self._run_pre_filter(state, pod, snapshot, pod_class)
        if not status.is_success:
            return Feasibility(state, pod_class, None, pre_filter=status, restricting=restricting)
        cluster_filters = [f for f in self._cluster_filters if f.plugin.NAME not in skipped]
        verdicts = self._row_local_verdicts(pod_class, snapshot, names)
        if cluster_filters or nominated:
            verdicts.first = verdicts.first.copy()
            verdicts.bits = verdicts.bits.copy()
        for active in cluster_filters:
            self._filter_cluster(state, pod, snapshot, active, verdicts)
        if nominated:
            self._filter_with_nominated(
                state, pod, snapshot, pod_class, cluster_filters, verdicts, nominated
            )
        verdicts.reasons = self._reasons(state, pod, snapshot, pod_class, cluster_filters)
        absent = None
        if names is not None:
            listed = " ".join(sorted(restricting))
            absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{listed}]")
        return Feasibility(
            state,
            pod_class,
            verdicts,
            absent=absent,
            restricting=restricting,
            is_row_local=names is None and not cluster_filters and not nominated,
        )

    def _run_pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, pod_class: PodClass
    ) -> tuple[frozenset[str] | None, Status, frozenset[str], set[str]]:
        """Node names or None, a status, who restricted, who skips."""
        names: frozenset[str] | None = None
        restricting: set[str] = set()
        skipped: set[str] = set()
        rejection = SUCCESS
        for plugin in self.plugins.pre_filter:
            result, status = self._pre_filter(plugin, state, pod, snapshot, pod_class)
            if status.code is Code.SKIP:
                skipped.add(plugin.NAME)
                continue
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return None, status.by(plugin.NAME), frozenset(), skipped
            if status.code is Code.UNSCHEDULABLE:
                rejection = status.by(plugin.NAME)
                continue
            if not status.is_success:
                raise PluginError(plugin.NAME, "PreFilter", status.message)
            if result is None or result.node_names is None:
                continue
            restricting.add(plugin.NAME)
            names = result.node_names if names is None else names & result.node_names
            if not names:
                return names, _nothing_left(restricting), frozenset(restricting), skipped
        return names, rejection, frozenset(restricting), skipped

    def _pre_filter(
        self,
        plugin: PreFilterPlugin,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        pod_class: PodClass,
    ) -> tuple[PreFilterResult | None, Status]:
        known = pod_class.pre_filter.get(plugin.NAME)
        if known is not None:
            return known
        return self.calls.call(plugin, "PreFilter", plugin.pre_filter, state, pod, snapshot)

    def _row_local_verdicts(
        self, pod_class: PodClass, snapshot: Snapshot, names: frozenset[str] | None
    ) -> NodeVerdicts:
        """Verdicts of the row-local filters: the class's columns, or some rows looked at anew."""
        if names is not None:
            row_of = snapshot.table.row_of
            rows = np.array(sorted(row_of[n] for n in names if n in row_of), np.intp)
            first, bits = pod_class.evaluate(self.calls, snapshot, rows)
            return NodeVerdicts(first, bits, self._filter_names, {}, rows)
        pod_class.refresh(self.calls, snapshot)
        size = snapshot.table.size
        return NodeVerdicts(pod_class.first[:size], pod_class.bits[:size], self._filter_names, {})

    def _filter_cluster(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        active: IndexedFilter,
        verdicts: NodeVerdicts,
    ) -> None:
        plugin = active.plugin
        if isinstance(plugin, NodeFilterAdapter):
            self._filter_candidates(state, pod, snapshot, active, verdicts)
            return
        rows = snapshot.table.all_rows if verdicts.rows is None else verdicts.rows
        answer = self.calls.call(plugin, "Filter", plugin.filter, state, pod, snapshot, rows)
        if answer is not None:
            merge_verdicts(active.index, answer, verdicts.first, verdicts.bits)

    def _filter_candidates(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        active: IndexedFilter,
        verdicts: NodeVerdicts,
    ) -> None:
        """Ask a node-form plugin about the nodes nobody before it rejects."""
        candidates = np.flatnonzero(verdicts.first > active.index)
        rows = candidates if verdicts.rows is None else verdicts.rows[candidates]
        plugin = active.plugin
        answer = self.calls.call(plugin, "Filter", plugin.filter, state, pod, snapshot, rows)
        if answer is not None:
            hit = candidates[answer != 0]
            verdicts.first[hit] = active.index
            verdicts.bits[hit] = answer[answer != 0]

    def _filter_with_nominated(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        pod_class: PodClass,
        cluster_filters: Sequence[IndexedFilter],
        verdicts: NodeVerdicts,
        nominated: Mapping[str, Sequence[PodInfo]],
    ) -> None:
        """Reject nodes that would not fit once the pods nominated to them run there.

        Source: framework.go RunFilterPluginsWithNominatedPods: the pass with the nominated pods
        comes first, so its rejection is the one reported.
        """
        row_of = snapshot.table.row_of
        looked_at = None if verdicts.rows is None else set(verdicts.rows.tolist())
        present = {name: pods for name, pods in nominated.items() if name in row_of}
        fork = snapshot.fork(p.on_node(name) for name, pods in present.items() for p in pods)
        for name, pods in present.items():
            row = row_of[name]
            if looked_at is not None and row not in looked_at:
                continue
            trial = state.clone()
            for added in pods:
                self.add_pod(trial, pod, snapshot, added.on_node(name), row)
            one = np.array([row], np.intp)
            first, bits = pod_class.evaluate(self.calls, fork, one)
            single = NodeVerdicts(first, bits, self._filter_names, {}, one)
            for active in cluster_filters:
                self._filter_cluster(trial, pod, fork, active, single)
            if single.first[0] != FEASIBLE:
                at = row if verdicts.rows is None else int(np.flatnonzero(verdicts.rows == row)[0])
                verdicts.first[at] = single.first[0]
                verdicts.bits[at] = single.bits[0]

    def add_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, added: PodInfo, row: int
    ) -> None:
        """Account for a pod as if it ran on the row.

        Raises:
            PluginError: a plugin failed.
        """
        for plugin in self._extensions:
            extension = cast("PreFilterExtensions", plugin)
            status = self.calls.call(
                plugin, "PreFilterExtensionAddPod", extension.add_pod, state, pod, snapshot,
                added, row,
            )  # fmt: skip
            if not status.is_success:
                raise PluginError(plugin.NAME, "PreFilterExtensionAddPod", status.message)

    def _reasons(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        pod_class: PodClass,
        cluster_filters: Iterable[IndexedFilter],
    ) -> Mapping[int, Sequence[Reason]]:
        """What the bits mean; asked only when somebody reads them."""
        active = (*pod_class.active_filters(), *cluster_filters)
        return _LazyReasons({f.index: f.plugin for f in active}, state, pod, snapshot)

    # --- after filtering ------------------------------------------------------------------------

    def run_post_filter_plugins(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """The first success, or all reasons together."""
        result: PostFilterResult | None = None
        reasons: list[str] = []
        for plugin in self.plugins.post_filter:
            found, status = self.calls.call(
                plugin, "PostFilter", plugin.post_filter, state, pod, snapshot, diagnosis
            )
            if not status.is_rejection or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return found, status.by(plugin.NAME)
            result = found or result
            reasons.extend(status.reasons)
        return result, unschedulable(*reasons)

    # --- scoring --------------------------------------------------------------------------------

    def totals(
        self, found: Feasibility, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Scores:
        """The weighted sum of all scores for the feasible rows given.

        Raises:
            PluginError: a plugin failed, or answered a score out of range.
        """
        pod_class = found.pod_class
        if found.verdicts is not None and found.verdicts.rows is not None:
            pod_class.refresh(self.calls, snapshot)
        total = pod_class.total[rows]
        for raw in pod_class.raw_scores:
            if raw.varies:
                column = self._normalized(raw.scored, found.state, pod, raw.column[rows])
                total += column * raw.scored.weight
            else:
                total += raw.constant
        for scored, column in self._cluster_columns(found.state, pod, snapshot, rows):
            total += column * scored.weight
        return total

    def is_total_cached(self, found: Feasibility) -> bool:
        """Whether the class's total column ranks all rows as the full sum would."""
        return (
            found.is_row_local
            and not self._cluster_scores
            and not any(raw.varies for raw in found.pod_class.raw_scores)
        )

    def score_table(
        self, found: Feasibility, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> list[tuple[str, int, Scores]]:
        """Every score plugin that takes part: name, weight, and its normalised scores by row.

        For people and for comparison; the daemon adds up without keeping the parts.
        """
        table = []
        for scored in self.plugins.score:
            plugin = scored.plugin
            if is_row_local(plugin):
                column = self._row_local_column(found, pod, snapshot, scored, rows)
            else:
                column = self._cluster_column(found.state, pod, snapshot, scored, rows)
            if column is not None:
                table.append((plugin.NAME, scored.weight, column))
        return table

    def _row_local_column(
        self,
        found: Feasibility,
        pod: PodInfo,
        snapshot: Snapshot,
        scored: Weighted,
        rows: NDArray[np.intp],
    ) -> Scores | None:
        if self._skips_score(found.state, pod, snapshot, scored, rows):
            return None
        plugin = scored.plugin
        column = self.calls.call(plugin, "Score", plugin.score, found.state, pod, snapshot, rows)
        return self._normalized(scored, found.state, pod, column)

    def _cluster_columns(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Iterable[tuple[Weighted, Scores]]:
        for scored in self._cluster_scores:
            column = self._cluster_column(state, pod, snapshot, scored, rows)
            if column is not None:
                yield scored, column

    def _cluster_column(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        scored: Weighted,
        rows: NDArray[np.intp],
    ) -> Scores | None:
        if self._skips_score(state, pod, snapshot, scored, rows):
            return None
        plugin = scored.plugin
        column = self.calls.call(plugin, "Score", plugin.score, state, pod, snapshot, rows)
        return self._normalized(scored, state, pod, column)

    def _skips_score(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        scored: Weighted,
        rows: NDArray[np.intp],
    ) -> bool:
        plugin = scored.plugin
        pre_score = self.plugins.pre_score.get(plugin.NAME)
        if pre_score is None:
            return False
        status = self.calls.call(
            plugin, "PreScore", pre_score.pre_score, state, pod, snapshot, rows
        )
        if status.code is Code.SKIP:
            return True
        if not status.is_success:
            raise PluginError(plugin.NAME, "PreScore", status.message)
        return False

    def _normalized(
        self, scored: Weighted, state: CycleState, pod: PodInfo, column: Scores
    ) -> Scores:
        plugin = scored.plugin
        if NormalizeScorePlugin in type(plugin).__mro__:
            normalizer = cast("NormalizeScorePlugin", plugin)
            column = self.calls.call(
                plugin, "ScoreExtensionNormalize", normalizer.normalize_score, state, pod, column
            )
        if isinstance(plugin, NodeScoreAdapter):
            self.calls.call(plugin, "Score", check_range, column)
        return column

    # --- reserving ------------------------------------------------------------------------------

    def run_reserve_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success, or the first failure; on failure the caller must unreserve."""
        for plugin in self.plugins.reserve:
            status = self.calls.call(plugin, "Reserve", plugin.reserve, state, pod, node_name)
            if not status.is_success:
                return status.by(plugin.NAME)
        return SUCCESS

    def run_unreserve_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Unreserve all, in reverse order."""
        for plugin in reversed(self.plugins.reserve):
            self.calls.call(plugin, "Unreserve", plugin.unreserve, state, pod, node_name)

    def run_permit_plugins(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status, dict[str, float]]:
        """Success, a rejection, or Wait with the time limit of every plugin that waits."""
        waits: dict[str, float] = {}
        for plugin in self.plugins.permit:
            status, timeout = self.calls.call(
                plugin, "Permit", plugin.permit, state, pod, node_name
            )
            if status.code is Code.WAIT:
                waits[plugin.NAME] = timeout
            elif not status.is_success:
                return status.by(plugin.NAME), {}
        return (Status(Code.WAIT), waits) if waits else (SUCCESS, waits)

    # --- binding --------------------------------------------------------------------------------

    async def run_pre_bind_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success, or the first failure.

        Raises:
            PluginError: a plugin failed.
        """
        for plugin in self.plugins.pre_bind:
            flight = self.calls.call(
                plugin, "PreBindPreFlight", plugin.pre_bind_pre_flight, state, pod, node_name
            )
            if flight.code is Code.SKIP:
                continue
            status = await plugin.pre_bind(state, pod, node_name)
            if not status.is_success:
                return status.by(plugin.NAME)
        return SUCCESS

    async def run_bind_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """The answer of the first plugin that does not skip."""
        for plugin in self.plugins.bind:
            status = await plugin.bind(state, pod, node_name)
            if status.code is not Code.SKIP:
                return status.by(plugin.NAME)
        return Status(Code.SKIP)

    def run_post_bind_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Tell everybody who wants to know."""
        for plugin in self.plugins.post_bind:
            self.calls.call(plugin, "PostBind", plugin.post_bind, state, pod, node_name)


class _LazyReasons(Mapping[int, Sequence[Reason]]):
    """Reasons by filter index, asked from the plugin when read."""

    def __init__(
        self,
        plugins: Mapping[int, FilterPlugin],
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
    ) -> None:
        self._plugins = plugins
        self._arguments = (state, pod, snapshot)
        self._known: dict[int, Sequence[Reason]] = {}

    @override
    def __getitem__(self, index: int) -> Sequence[Reason]:
        if index not in self._known:
            self._known[index] = self._plugins[index].reasons(*self._arguments)
        return self._known[index]

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(self._plugins)

    @override
    def __len__(self) -> int:
        return len(self._plugins)


def _nothing_left(restricting: set[str]) -> Status:
    listed = sorted(restricting)
    if len(listed) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {listed[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(listed)}] simultaneously")

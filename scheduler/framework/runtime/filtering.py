"""From PreFilter to the verdict on every node.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go (RunPreFilterPlugins,
RunFilterPluginsWithNominatedPods), pkg/scheduler/schedule_one.go (findNodesThatFitPod,
evaluateNominatedNode) v1.36.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.interface import (
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
)
from scheduler.framework.runtime import answers
from scheduler.framework.runtime.diagnosis import Diagnosis
from scheduler.framework.runtime.judging import IndexedFilter, Reasons, judge
from scheduler.framework.runtime.plugin_calls import PluginCalls
from scheduler.framework.runtime.plugin_set import PluginSet, is_row_local
from scheduler.framework.runtime.pod_class import PodClass
from scheduler.framework.runtime.pod_classes import PodClasses
from scheduler.framework.runtime.verdicts import FEASIBLE, Verdicts, blank_verdicts
from scheduler.framework.status import SUCCESS, Code, Status, unresolvable
from scheduler.snapshot import Snapshot

_SKIPPED: Final[StateKey[frozenset[str]]] = StateKey("runtime/skipped")
"""The plugins whose PreFilter skipped the pod: they neither filter nor hear of pods tried on."""


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
    verdicts: Verdicts | None
    pre_filter: Status = SUCCESS
    absent: Status | None = None
    restricting: frozenset[str] = frozenset()
    is_row_local: bool = False

    def feasible_rows(self) -> NDArray[np.intp]:
        """The rows no filter rejects."""
        return np.zeros(0, np.intp) if self.verdicts is None else self.verdicts.feasible_rows()

    def diagnosis(self, snapshot: Snapshot) -> Diagnosis:
        """Why no node fits.

        Raises:
            PluginError: a plugin that rejects nodes cannot say why.
        """
        return Diagnosis(
            snapshot,
            pre_filter=self.pre_filter if self.verdicts is None else None,
            verdicts=self.verdicts,
            absent=self.absent,
            restricting_plugins=self.restricting,
        )


class PreFiltered(msgspec.Struct, frozen=True):
    """What PreFilter plugins said.

    Attributes:
        status: success, or the rejection of the pod as a whole.
        node_names: the only nodes worth looking at; None means all.
        restricting: the plugins that said so.
    """

    status: Status
    node_names: frozenset[str] | None = None
    restricting: frozenset[str] = frozenset()


class Filtering:
    """The PreFilter and Filter plugins of one profile."""

    def __init__(self, plugins: PluginSet, calls: PluginCalls, classes: PodClasses) -> None:
        self._calls = calls
        self._classes = classes
        self._cluster_filters = [
            IndexedFilter(i, p, plugins.is_trusted(p.NAME))
            for i, p in enumerate(plugins.filter)
            if not is_row_local(p)
        ]
        self._extensions = [p for p in plugins.pre_filter if PreFilterExtensions in type(p).__mro__]

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
        start = self._calls.now()
        pod_class, state, found = self._begin(pod, snapshot)
        start = self._calls.point_done("PreFilter", found.status.code, start)
        if not found.status.is_success:
            return Feasibility(
                state, pod_class, None, pre_filter=found.status, restricting=found.restricting
            )
        cluster_filters = self._active_cluster_filters(state)
        filters = (*pod_class.filters, *cluster_filters)
        table = Reasons(self._calls, filters, state, pod, snapshot)
        rows = _rows_to_look_at(found.node_names, pod, snapshot)
        if rows is None:
            # The columns of the class are not ours to change.
            is_changed = bool(cluster_filters or nominated)
            verdicts = pod_class.verdicts(self._calls, snapshot, table, copied=is_changed)
            if cluster_filters:
                judge(self._calls, cluster_filters, state, pod, snapshot, verdicts)
        else:
            verdicts = blank_verdicts(snapshot, rows, table)
            judge(self._calls, filters, state, pod, snapshot, verdicts)
        if nominated:
            self._look_again_with_nominated_pods(filters, state, pod, snapshot, verdicts, nominated)
        verdicts.raise_failure()
        self._calls.point_done("Filter", Code.SUCCESS, start)
        return Feasibility(
            state,
            pod_class,
            verdicts,
            absent=_absent_status(found, pod, snapshot, verdicts),
            restricting=found.restricting,
            is_row_local=rows is None and not cluster_filters and not nominated,
        )

    def run_filters(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        node_names: Iterable[str],
        *,
        add: Iterable[PodInfo] = (),
        remove: Iterable[PodInfo] = (),
    ) -> dict[str, Status]:
        """What the filters say about a pod on some nodes of a fork of the snapshot.

        Args:
            pod: the pod.
            snapshot: the cluster; it stays as it is.
            node_names: which nodes; those that do not exist are left out.
            add: pods that are to be thought of as running on the nodes they name.
            remove: pods that are to be thought of as gone from theirs.

        Raises:
            PluginError: a plugin failed.
        """
        row_of = snapshot.table.row_of
        names = [name for name in node_names if name in row_of]
        pod_class, state, found = self._begin(pod, snapshot)
        if not found.status.is_success:
            return dict.fromkeys(names, found.status)
        added = [other for other in add if other.node_name in row_of]
        removed = [other for other in remove if other.node_name in row_of]
        fork = snapshot.fork(added, removed)
        for other in added:
            self.add_pod(state, pod, snapshot, other, row_of[other.node_name])
        for other in removed:
            self.remove_pod(state, pod, snapshot, other, row_of[other.node_name])
        filters = (*pod_class.filters, *self._active_cluster_filters(state))
        rows = np.array([row_of[name] for name in names], np.intp)
        table = Reasons(self._calls, filters, state, pod, fork)
        verdicts = blank_verdicts(fork, rows, table)
        judge(self._calls, filters, state, pod, fork, verdicts)
        verdicts.raise_failure()
        absent = _absent_status(found, pod, snapshot, verdicts)
        return {
            name: verdicts.status(position)
            if absent is None or name in (found.node_names or ())
            else absent
            for position, name in enumerate(names)
        }

    def every_verdict(
        self,
        found: Feasibility,
        pod: PodInfo,
        snapshot: Snapshot,
        nominated: Mapping[str, Sequence[PodInfo]] | None = None,
    ) -> list[Verdicts]:
        """What each filter says about every row, whoever else rejects it. For people.

        Args:
            found: of the same pod; its `verdicts` must not be None.
            pod: the pod.
            snapshot: the cluster.
            nominated: as in `find_nodes_that_fit`.

        Raises:
            PluginError: a plugin failed.
        """
        filters = [*found.pod_class.filters, *self._active_cluster_filters(found.state)]
        every = []
        for each in sorted(filters, key=lambda f: f.index):
            table = Reasons(self._calls, (each,), found.state, pod, snapshot)
            verdicts = blank_verdicts(snapshot, None, table)
            judge(self._calls, (each,), found.state, pod, snapshot, verdicts)
            if nominated:
                self._look_again_with_nominated_pods(
                    (each,), found.state, pod, snapshot, verdicts, nominated
                )
            verdicts.raise_failure()
            every.append(verdicts)
        return every

    def _begin(self, pod: PodInfo, snapshot: Snapshot) -> tuple[PodClass, CycleState, PreFiltered]:
        """Run PreFilter, with what is known of the pod's class."""
        pod_class = self._classes.class_of(pod, snapshot)
        state = CycleState(pod_class.state)
        return pod_class, state, self.pre_filter(state, pod, snapshot, pod_class)

    def _active_cluster_filters(self, state: CycleState) -> list[IndexedFilter]:
        skipped = state.read(_SKIPPED)
        return [f for f in self._cluster_filters if f.plugin.NAME not in skipped]

    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, pod_class: PodClass
    ) -> PreFiltered:
        """Run the PreFilter plugins.

        One that says UnschedulableAndUnresolvable ends the attempt; after one that says
        Unschedulable the others still run, and the last such rejection counts.

        Raises:
            PluginError: a plugin failed.
        """
        names: frozenset[str] | None = None
        restricting: set[str] = set()
        skipped: list[str] = []
        rejection = SUCCESS
        for plugin in pod_class.asked:
            result, status = self._pre_filter(plugin, state, pod, snapshot, pod_class)
            if status.code is Code.SKIP:
                skipped.append(plugin.NAME)
                continue
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PreFiltered(status.by(plugin.NAME))
            if status.code is Code.UNSCHEDULABLE:
                rejection = status.by(plugin.NAME)
                continue
            if result is None or result.node_names is None:
                continue
            restricting.add(plugin.NAME)
            names = result.node_names if names is None else names & result.node_names
            if not names:
                return PreFiltered(_nothing_left(restricting), names, frozenset(restricting))
        state.write(_SKIPPED, pod_class.skipped.union(skipped))
        return PreFiltered(rejection, names, frozenset(restricting))

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
        return self._calls.call(
            plugin, "PreFilter", answers.pre_filter, None, plugin.pre_filter, state, pod, snapshot
        )

    def add_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, added: PodInfo, row: int
    ) -> None:
        """Account for a pod as if it ran on the row.

        Raises:
            PluginError: a plugin failed.
        """
        self._change_pod(state, pod, snapshot, added, row)

    def remove_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, removed: PodInfo, row: int
    ) -> None:
        """Account for a pod on the row as if it were gone.

        Raises:
            PluginError: a plugin failed.
        """
        self._change_pod(state, pod, snapshot, removed, row, removed=True)

    def _change_pod(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        other: PodInfo,
        row: int,
        *,
        removed: bool = False,
    ) -> None:
        skipped = state.read(_SKIPPED)
        point = f"PreFilterExtension{'RemovePod' if removed else 'AddPod'}"
        for plugin in self._extensions:
            if plugin.NAME in skipped:
                continue
            extension = cast("PreFilterExtensions", plugin)
            method = extension.remove_pod if removed else extension.add_pod
            expected = answers.OK_ONLY
            self._calls.call(
                plugin, point, answers.status, expected, method, state, pod, snapshot, other, row
            )

    def _look_again_with_nominated_pods(
        self,
        filters: Sequence[IndexedFilter],
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        verdicts: Verdicts,
        nominated: Mapping[str, Sequence[PodInfo]],
    ) -> None:
        """Reject nodes that would not fit once the pods nominated to them run there.

        Upstream looks with these pods first and without them only when that passes. So where they
        are in the way, their verdict is the one reported, whatever was found without them.
        """
        row_of = snapshot.table.row_of
        present = [(row_of[name], name) for name in nominated if name in row_of]
        fork = snapshot.fork(p.on_node(name) for _, name in present for p in nominated[name])
        for row, name in present:
            position = verdicts.position_of(row)
            if position is None:
                continue
            trial = state.clone()
            for added in nominated[name]:
                self.add_pod(trial, pod, snapshot, added.on_node(name), row)
            single = blank_verdicts(fork, np.array([row], np.intp))
            judge(self._calls, filters, trial, pod, fork, single)
            single.raise_failure()
            if single.first[0] != FEASIBLE:
                verdicts.first[position] = single.first[0]
                verdicts.bits[position] = single.bits[0]
        # Numbers are told as they are with the nominated pods.
        verdicts.table = Reasons(self._calls, filters, state, pod, fork)


def _rows_to_look_at(
    names: frozenset[str] | None, pod: PodInfo, snapshot: Snapshot
) -> NDArray[np.intp] | None:
    """The rows of the nodes named, and of the pod's own nominated node; None means all."""
    if names is None:
        return None
    row_of = snapshot.table.row_of
    wanted = {row_of[name] for name in names if name in row_of}
    nominated_row = row_of.get(pod.pod.status.nominated_node_name)
    if nominated_row is not None:
        # The scheduler tries it before it looks at the set.
        wanted.add(nominated_row)
    return np.array(sorted(wanted), np.intp)


def _absent_status(
    found: PreFiltered, pod: PodInfo, snapshot: Snapshot, verdicts: Verdicts
) -> Status | None:
    """The verdict on the nodes not looked at.

    Whoever rejects the pod's own nominated node is named as well, because upstream keeps both in
    one set.
    """
    if found.node_names is None:
        return None
    plugins = set(found.restricting)
    row = snapshot.table.row_of.get(pod.pod.status.nominated_node_name)
    if row is not None and (position := verdicts.position_of(row)) is not None:
        status = verdicts.status(position)
        if not status.is_success:
            plugins.add(status.plugin)
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]")


def _nothing_left(restricting: set[str]) -> Status:
    listed = sorted(restricting)
    if len(listed) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {listed[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(listed)}] simultaneously")

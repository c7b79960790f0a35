"""From PreFilter to the verdict on every node.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go (RunPreFilterPlugins,
RunFilterPluginsWithNominatedPods), pkg/scheduler/schedule_one.go (findNodesThatFitPod,
evaluateNominatedNode) v1.36.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import EVERY_NEED, PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import NOT_REACHED, SKIPPED
from scheduler.kernel.framework.runtime.bound import BoundFilter
from scheduler.kernel.framework.runtime.diagnosis import AttemptDiagnosis
from scheduler.kernel.framework.runtime.judging import FilterAttempt, Reasons, judge
from scheduler.kernel.framework.runtime.nominated_layer import with_nominated_pods
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.runtime.plugin_set import ProfilePlugins
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.framework.runtime.pod_classes import PodClasses
from scheduler.kernel.framework.runtime.verdicts import (
    DEAD,
    FEASIBLE,
    Verdicts,
    blank_verdicts,
)
from scheduler.kernel.framework.status import SUCCESS, Code, Status, unresolvable
from scheduler.kernel.snapshot import Snapshot


class Feasibility(msgspec.Struct):
    """What filtering found out about one pod.

    Attributes:
        state: the state of the attempt, for scoring.
        pod_class: the row-local columns the verdicts started from.
        verdicts: the first rejection per row looked at; None when the pod as a whole is rejected.
        pre_filter: the rejection of the pod as a whole, or success.
        absent: the status of nodes that were not looked at, or None.
        restricting: plugins that narrowed the search to a set of nodes.
        attempt: the filters that looked at nodes; None when PreFilter ended the attempt for good.
        is_row_local: whether nothing but the class's own columns was asked, and they say it all.
    """

    state: CycleState
    pod_class: PodClass
    verdicts: Verdicts | None
    pre_filter: Status = SUCCESS
    absent: Status | None = None
    restricting: frozenset[str] = frozenset()
    attempt: FilterAttempt | None = None
    is_row_local: bool = False

    @property
    def is_of_class(self) -> bool:
        """Whether the class's own columns hold here: whatever else was asked rejects no row."""
        return self.verdicts is not None and self.verdicts.is_shared

    def feasible_rows(self) -> NDArray[np.intp]:
        """The rows no filter rejects."""
        return np.zeros(0, np.intp) if self.verdicts is None else self.verdicts.feasible_rows()

    def diagnosis(
        self, snapshot: Snapshot, refused: Mapping[str, Status | None] | None = None
    ) -> AttemptDiagnosis:
        """Why no node fits.

        Args:
            snapshot: the cluster.
            refused: by node, what extenders have against it; they need not say why.

        Raises:
            PluginError: a plugin that rejects nodes cannot say why.
        """
        return AttemptDiagnosis(
            snapshot,
            pre_filter=self.pre_filter if self.verdicts is None else None,
            verdicts=self.verdicts,
            absent=self.absent,
            restricting_plugins=self.restricting,
            attempt=self.attempt,
            refused=refused,
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

    def __init__(self, plugins: ProfilePlugins, classes: PodClasses) -> None:
        self._pre_filter_names = [p.name for p in plugins.pre_filter]
        self._spared = [
            [p.name for p in plugins.pre_filter if p.needs & ~needs]
            for needs in range(EVERY_NEED + 1)
        ]
        self._calls = plugins.calls
        self._classes = classes
        self._cluster_filters = [p for p in plugins.filter if not p.is_row_local]

    def find_nodes_that_fit(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        nominated: NominatedPods | None = None,
    ) -> Feasibility:
        """Which nodes can take the pod, and why the others cannot.

        Args:
            pod: the pod.
            snapshot: the cluster.
            nominated: pods that wait for a node to be cleared; those of no lower priority than the
                pod are to be thought of as running there already.

        Raises:
            PluginError: a plugin failed.
        """
        start = self._calls.now()
        pod_class, state, found = self._begin(pod, snapshot)
        start = self._calls.point_done("PreFilter", found.status.code, start)
        if found.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return Feasibility(
                state, pod_class, None, pre_filter=found.status, restricting=found.restricting
            )
        cluster_filters = self._active_cluster_filters(state)
        attempt = _attempt((*pod_class.filters, *cluster_filters), state, pod, snapshot)
        if not found.status.is_success:
            return Feasibility(
                state,
                pod_class,
                None,
                pre_filter=found.status,
                restricting=found.restricting,
                attempt=attempt,
            )
        rows = None
        if found.node_names is not None:
            rows = _rows_to_look_at(found.node_names, pod, snapshot)
        if rows is None:
            alone = pod_class.verdicts(snapshot, attempt.reasons)
            judge(cluster_filters, state, pod, snapshot, alone)
        else:
            alone = blank_verdicts(snapshot, rows, attempt.reasons)
            judge(attempt.filters, state, pod, snapshot, alone)
        own_class = pod_class if rows is None and not cluster_filters else None
        verdicts = with_nominated_pods(attempt, snapshot, alone, nominated, own_class)
        verdicts.raise_failure()
        self._calls.point_done("Filter", Code.SUCCESS, start)
        return Feasibility(
            state,
            pod_class,
            verdicts,
            absent=None if rows is None else _absent_status(found, pod, snapshot, verdicts),
            restricting=found.restricting,
            attempt=attempt,
            is_row_local=own_class is not None and verdicts is alone,
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
        fork = snapshot.fork(
            [other for other in add if other.node_name in row_of],
            [other for other in remove if other.node_name in row_of],
        )
        pod_class = self._classes.class_of(pod, snapshot)
        state = CycleState(pod_class.state)
        found = self.pre_filter(state, pod, fork, pod_class)
        if not found.status.is_success:
            return dict.fromkeys(names, found.status)
        filters = (*pod_class.filters, *self._active_cluster_filters(state))
        rows = np.array([row_of[name] for name in names], np.intp)
        verdicts = blank_verdicts(fork, rows, Reasons(filters, state, pod, fork))
        judge(filters, state, pod, fork, verdicts)
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
        nominated: NominatedPods | None = None,
    ) -> list[Verdicts]:
        """Judge every row by each filter, even where another filter rejects it. For people.

        Args:
            found: of the same pod; its `verdicts` must not be None.
            pod: the pod.
            snapshot: the cluster.
            nominated: as in `find_nodes_that_fit`.

        Raises:
            PluginError: a plugin failed.
        """
        every = []
        filters = () if found.attempt is None else found.attempt.filters
        first_to_reject = _first_to_reject(found, pod, snapshot, nominated)
        for each in sorted(filters, key=lambda f: f.index):
            attempt = _attempt((each,), found.state, pod, snapshot)
            if found.verdicts is not None and each.index <= first_to_reject:
                every.append(found.verdicts.of_filter(each.index, attempt.reasons))
                continue
            verdicts = blank_verdicts(snapshot, None, attempt.reasons)
            judge((each,), found.state, pod, snapshot, verdicts)
            verdicts = with_nominated_pods(attempt, snapshot, verdicts, nominated)
            verdicts.raise_failure()
            every.append(verdicts)
        return every

    def _begin(self, pod: PodInfo, snapshot: Snapshot) -> tuple[PodClass, CycleState, PreFiltered]:
        """Run PreFilter, with what is known of the pod's class."""
        pod_class = self._classes.class_of(pod, snapshot)
        state = CycleState(pod_class.state)
        return pod_class, state, self.pre_filter(state, pod, snapshot, pod_class)

    def _active_cluster_filters(self, state: CycleState) -> list[BoundFilter]:
        skipped = state.read(SKIPPED)
        return [f for f in self._cluster_filters if f.name not in skipped]

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
        needs = pod.needs
        skipped = self._spared[needs].copy()
        for name in skipped:
            self._calls.spared(name, "PreFilter", Code.SKIP)
        rejection = SUCCESS
        for plugin in pod_class.asked[needs]:
            known = pod_class.pre_filter.get(plugin.name)
            result, status = known or plugin.call(state, pod, snapshot)
            if status.code is Code.SKIP:
                skipped.append(plugin.name)
                continue
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                self._end_pre_filter(state, plugin.name)
                return PreFiltered(status.by(plugin.name))
            if status.code is Code.UNSCHEDULABLE:
                rejection = status.by(plugin.name)
                continue
            if result is None or result.node_names is None:
                continue
            restricting.add(plugin.name)
            names = result.node_names if names is None else names & result.node_names
            if not names:
                self._end_pre_filter(state, plugin.name)
                return PreFiltered(_nothing_left(restricting), names, frozenset(restricting))
        state.write(SKIPPED, pod_class.skipped.union(skipped))
        return PreFiltered(rejection, names, frozenset(restricting))

    def _end_pre_filter(self, state: CycleState, last: str) -> None:
        names = self._pre_filter_names
        state.write(NOT_REACHED, frozenset(names[names.index(last) + 1 :]))


def _attempt(
    filters: Sequence[BoundFilter], state: CycleState, pod: PodInfo, snapshot: Snapshot
) -> FilterAttempt:
    return FilterAttempt(filters, state, pod, Reasons(filters, state, pod, snapshot))


def _first_to_reject(
    found: Feasibility, pod: PodInfo, snapshot: Snapshot, nominated: NominatedPods | None
) -> int:
    """Index of the first filter that rejects any row: all verdicts up to it are known.

    If they are not known, the answer is DEAD, which is less than any index. They are unknown if
    rows were left out, a filter failed, or rows were judged again with nominated pods. In the last
    case, the filter that rejects a row without these pods hides the one that would reject it with
    them.
    """
    verdicts = found.verdicts
    if verdicts is None or verdicts.rows is not None or verdicts.failures:
        return DEAD
    if nominated is not None and nominated.before(pod, snapshot) is not None:
        return DEAD
    return int(verdicts.first[snapshot.table.alive].min(initial=FEASIBLE))


def _rows_to_look_at(names: frozenset[str], pod: PodInfo, snapshot: Snapshot) -> NDArray[np.intp]:
    """The rows of the nodes named, and of the pod's own nominated node."""
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
    """The verdict on the nodes that were not looked at.

    It also names the plugin that rejects the pod's own nominated node: upstream keeps both in one
    set.
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

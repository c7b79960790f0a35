"""From PreFilter to the verdict on every node.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go (RunPreFilterPlugins,
RunFilterPluginsWithNominatedPods), pkg/scheduler/schedule_one.go (findNodesThatFitPod,
evaluateNominatedNode) v1.36.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod_shape import EVERY_NEED
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import NOT_REACHED, SKIPPED, CycleState
from scheduler.kernel.framework.runtime.diagnosis import Feasibility
from scheduler.kernel.framework.runtime.nominated_layer import with_nominated_pods
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.runtime.plugin_set import ProfilePlugins
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.framework.runtime.pod_classes import PodClasses
from scheduler.kernel.framework.runtime.verdicts import (
    DEAD,
    FilterAttempt,
    Verdicts,
    judge,
)
from scheduler.kernel.framework.status import Code, Status, unresolvable
from scheduler.kernel.snapshot import Snapshot


class Filtering:
    """The PreFilter and Filter plugins of one profile. One that fails raises `PluginError`."""

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
        *,
        nominated_first: bool = False,
    ) -> Feasibility:
        """Find the nodes that can take the pod, and the rejections of the others.

        Nominated pods of no lower priority than the pod count as running on their nodes already.
        With `nominated_first`, the pod's own nominated node is the only one that is judged if it
        fits and a filter fails on others.
        """
        start = self._calls.now()
        found = self._pre_filtered(pod, snapshot, self._classes.class_of(pod, snapshot))
        start = self._calls.point_done("PreFilter", found.pre_filter.code, start)
        attempt, pod_class, layer = found.attempt, found.pod_class, None
        if attempt is None or not found.pre_filter.is_success:
            return found
        if found.node_names is None:
            alone = pod_class.verdicts(attempt)
            cluster_filters = attempt.filters[len(pod_class.plugins.filters) :]
            judge(cluster_filters, found.state, pod, snapshot, alone)
            layer = None if cluster_filters else pod_class.nominated_layer
        else:
            alone = attempt.verdicts(_rows_to_look_at(found.node_names, pod, snapshot))
        verdicts = alone
        if nominated:
            verdicts = with_nominated_pods(attempt, alone, nominated, layer)
            if verdicts.failures:
                verdicts = _without_failures(verdicts, alone, nominated)
        if verdicts.failures and nominated_first:
            verdicts = _nominated_node(attempt, nominated) or verdicts
        verdicts.raise_failure()
        self._calls.point_done("Filter", Code.SUCCESS, start)
        found.verdicts = verdicts
        if found.node_names is not None:
            found.absent = _absent_status(found, pod, snapshot, verdicts)
        found.is_row_local = layer is not None and verdicts is alone
        return found

    def run_filters(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        node_names: Iterable[str],
        *,
        add: Iterable[PodInfo] = (),
        remove: Iterable[PodInfo] = (),
    ) -> dict[str, Status]:
        """Run the filters on some nodes of a fork of the snapshot; see `Handle.run_filters`."""
        row_of = snapshot.table.row_of
        names = [name for name in node_names if name in row_of]
        fork = snapshot.fork(
            [other for other in add if other.node_name in row_of],
            [other for other in remove if other.node_name in row_of],
        )
        found = self._pre_filtered(pod, fork, self._classes.class_of(pod, snapshot))
        if found.attempt is None or not found.pre_filter.is_success:
            return dict.fromkeys(names, found.pre_filter)
        verdicts = found.attempt.verdicts(np.array([row_of[name] for name in names], np.intp))
        verdicts.raise_failure()
        absent = None
        if found.node_names is not None:
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
        """Judge every row by each filter, even where another filter rejects it; for `explain`.

        `found` is the result for the same pod.
        """
        every = []
        filters = () if found.attempt is None else found.attempt.filters
        for each in sorted(filters, key=lambda f: f.index):
            attempt = FilterAttempt((each,), found.state, pod, snapshot)
            verdicts = attempt.verdicts()
            if nominated:
                verdicts = with_nominated_pods(attempt, verdicts, nominated)
            verdicts.raise_failure()
            every.append(verdicts)
        return every

    def _pre_filtered(self, pod: PodInfo, snapshot: Snapshot, pod_class: PodClass) -> Feasibility:  # noqa: C901, PLR0912 - PreFilter as upstream runs it
        """Run the PreFilter plugins, except those whose answer for the pod's class is known.

        UnschedulableAndUnresolvable ends the attempt; after Unschedulable the other plugins still
        run, and the last such rejection counts.
        """
        of_class, needs = pod_class.plugins, pod.needs
        state = CycleState(of_class.state)
        found = Feasibility(state, pod_class)
        skipped = self._spared[needs].copy()
        if self._calls.sampled:
            for name in skipped:
                self._calls.spared(name, "PreFilter", Code.SKIP)
        for plugin in of_class.remaining_pre_filters[needs]:
            if plugin.skips_all is not None and plugin.skips_all(pod, snapshot):
                found.silent.append(plugin.name)
                if self._calls.sampled:
                    self._calls.spared(plugin.name, "PreFilter", Code.SKIP)
                continue
            known = of_class.pre_filter.get(plugin.name)
            result, status = known or plugin.call(state, pod, snapshot)
            if status.code is Code.SKIP:
                skipped.append(plugin.name)
                continue
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                # The nodes that other plugins left no longer matter.
                found.node_names, found.restricting = None, frozenset()
                return self._ended(found, plugin.name, status.by(plugin.name))
            if status.code is Code.UNSCHEDULABLE:
                found.pre_filter = status.by(plugin.name)
                continue
            if result is None or result.node_names is None:
                continue
            found.restrict(plugin.name, result.node_names)
            if not found.node_names:
                return self._ended(found, plugin.name, _nothing_left(found.restricting))
        all_skipped = of_class.skipped.union(skipped, found.silent)
        state.write(SKIPPED, all_skipped)
        others = [each for each in self._cluster_filters if each.name not in all_skipped]
        found.attempt = FilterAttempt((*of_class.filters, *others), state, pod, snapshot)
        return found

    def _ended(self, found: Feasibility, last: str, rejection: Status) -> Feasibility:
        names = self._pre_filter_names
        found.state.write(NOT_REACHED, frozenset(names[names.index(last) + 1 :]))
        found.pre_filter = rejection
        return found


def _rows_to_look_at(names: frozenset[str], pod: PodInfo, snapshot: Snapshot) -> NDArray[np.intp]:
    """The rows of the nodes named, and of the pod's own nominated node."""
    row_of = snapshot.table.row_of
    wanted = {row_of[name] for name in names if name in row_of}
    nominated_row = row_of.get(pod.pod.status.nominated_node_name)
    if nominated_row is not None:
        # The scheduler tries the nominated node before the others.
        wanted.add(nominated_row)
    return np.array(sorted(wanted), np.intp)


def _without_failures(verdicts: Verdicts, alone: Verdicts, nominated: NominatedPods) -> Verdicts:
    """Judge the rows again that nominated pods leave, as a filter failed on one row or more.

    Upstream filters with nominated pods first: a row that they exclude reaches no later filter.
    """
    attempt = verdicts.attempt
    excluded = verdicts.first != alone.first
    if attempt is None or not excluded.any():
        return verdicts
    left = np.flatnonzero(~excluded & (alone.first != DEAD))
    rows = left if alone.rows is None else alone.rows[left]
    again = with_nominated_pods(attempt, attempt.verdicts(rows), nominated)
    first, bits = verdicts.first.copy(), verdicts.bits.copy()
    first[left], bits[left] = again.first, again.bits
    return Verdicts(first, bits, alone.rows, attempt, again.failures)


def _nominated_node(attempt: FilterAttempt, nominated: NominatedPods | None) -> Verdicts | None:
    """Judge the pod's own nominated node alone; None if it does not fit.

    Upstream tries it first: if it fits, no filter runs, and none fails, on other nodes.
    """
    pod = attempt.pod
    row = attempt.snapshot.table.row_of.get(pod.pod.status.nominated_node_name)
    if row is None:
        return None
    alone = attempt.verdicts(np.array([row], np.intp))
    if nominated:
        alone = with_nominated_pods(attempt, alone, nominated)
    return alone if len(alone.feasible_rows()) else None


def _absent_status(
    found: Feasibility, pod: PodInfo, snapshot: Snapshot, verdicts: Verdicts
) -> Status:
    """The status of the nodes that were not judged, because plugins limit the search to others.

    The status also names the plugin that rejects the pod's nominated node: upstream keeps both in
    one set.
    """
    plugins = set(found.restricting)
    row = snapshot.table.row_of.get(pod.pod.status.nominated_node_name)
    if row is not None and (position := verdicts.position_of(row)) is not None:
        status = verdicts.status(position)
        if not status.is_success:
            plugins.add(status.plugin)
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]")


def _nothing_left(restricting: frozenset[str]) -> Status:
    listed = sorted(restricting)
    if len(listed) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {listed[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(listed)}] simultaneously")

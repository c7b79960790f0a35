"""One profile: its plugins, and how an attempt runs through them.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go v1.36.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interface import PostFilterResult, PreBindPlugin, Scores
from scheduler.framework.runtime.diagnosis import Diagnosis, NodeVerdicts
from scheduler.framework.runtime.filtering import Feasibility, Filtering
from scheduler.framework.runtime.instrumentation import PluginCalls, PluginError, PluginObserver
from scheduler.framework.runtime.plugin_set import PluginSet
from scheduler.framework.runtime.pod_classes import PodClasses
from scheduler.framework.runtime.scoring import Scoring
from scheduler.framework.status import SUCCESS, Code, Status, unschedulable
from scheduler.snapshot import Snapshot

DEFAULT_CLASS_CACHE_BYTES: Final = 256 * 1024 * 1024
"""Room for hundreds of classes at 15,000 nodes. Classes that do not fit are computed every time."""


class Framework:
    """The plugins of one profile.

    Attributes:
        profile_name: the profile's schedulerName.
        plugins: its plugins by extension point.
        percentage_of_nodes_to_score: of this profile; None leaves it to the configuration.
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
        self._filtering = Filtering(plugins, self.calls, self.classes)
        self._scoring = Scoring(plugins, self.calls)

    # --- before the queue -----------------------------------------------------------------------

    def run_pre_enqueue_plugins(self, pod: PodInfo) -> Status:
        """Success, or the first rejection.

        Raises:
            PluginError: a plugin failed.
        """
        for plugin in self.plugins.pre_enqueue:
            status = self.calls.call(plugin, "PreEnqueue", plugin.pre_enqueue, pod)
            if not status.is_success:
                return status.by(plugin.NAME)
        return SUCCESS

    # --- filtering and scoring ------------------------------------------------------------------

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
        return self._filtering.find_nodes_that_fit(pod, snapshot, nominated)

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
        return self._filtering.run_filters(pod, snapshot, node_names, add=add, remove=remove)

    def every_verdict(
        self,
        found: Feasibility,
        pod: PodInfo,
        snapshot: Snapshot,
        nominated: Mapping[str, Sequence[PodInfo]] | None = None,
    ) -> list[NodeVerdicts]:
        """What each filter says about every row, whoever else rejects it. For people.

        Args:
            found: of the same pod; its `verdicts` must not be None.
            pod: the pod.
            snapshot: the cluster.
            nominated: as in `find_nodes_that_fit`.

        Raises:
            PluginError: a plugin failed.
        """
        return self._filtering.every_verdict(found, pod, snapshot, nominated)

    def add_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, added: PodInfo, row: int
    ) -> None:
        """Account for a pod as if it ran on the row.

        Raises:
            PluginError: a plugin failed.
        """
        self._filtering.change_pod(state, pod, snapshot, added, row)

    def remove_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, removed: PodInfo, row: int
    ) -> None:
        """Account for a pod on the row as if it were gone.

        Raises:
            PluginError: a plugin failed.
        """
        self._filtering.change_pod(state, pod, snapshot, removed, row, removed=True)

    def totals(
        self, found: Feasibility, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> Scores:
        """The weighted sum of all scores for the feasible rows given.

        Raises:
            PluginError: a plugin failed, or answered a score out of range.
        """
        return self._scoring.totals(found, pod, snapshot, rows)

    def is_total_cached(self, found: Feasibility, pod: PodInfo, snapshot: Snapshot) -> bool:
        """Whether the class's total column ranks all rows as the full sum would."""
        return self._scoring.is_total_cached(found, pod, snapshot)

    def scored_from_cache(self, start: float) -> None:
        """Report PreScore and Score of a pod whose totals were known; `start` as of `calls.now`."""
        start = self.calls.point_done("PreScore", Code.SUCCESS, start)
        self.calls.point_done("Score", Code.SUCCESS, start)

    def score_table(
        self, found: Feasibility, pod: PodInfo, snapshot: Snapshot, rows: NDArray[np.intp]
    ) -> list[tuple[str, int, Scores]]:
        """Every score plugin that takes part: name, weight, and its normalised scores by row.

        For people and for comparison; the daemon adds up without keeping the parts.

        Raises:
            PluginError: a plugin failed, or answered a score out of range.
        """
        return self._scoring.table(found, pod, snapshot, rows)

    # --- after filtering -------------------------------------------------------------------------

    def run_post_filter_plugins(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """The first success, or all reasons together."""
        start = self.calls.now()
        result, status = self._post_filter(state, pod, snapshot, diagnosis)
        self.calls.point_done("PostFilter", status.code, start)
        return result, status

    def _post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
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

    # --- reserving ------------------------------------------------------------------------------

    def run_reserve_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success, or the first failure; on failure the caller must unreserve."""
        start = self.calls.now()
        ended = SUCCESS
        for plugin in self.plugins.reserve:
            status = self.calls.call(plugin, "Reserve", plugin.reserve, state, pod, node_name)
            if not status.is_success:
                ended = status.by(plugin.NAME)
                break
        self.calls.point_done("Reserve", ended.code, start)
        return ended

    def run_unreserve_plugins(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> list[PluginError]:
        """Unreserve all, in reverse order; returns what failed, none of which stops the others."""
        failures: list[PluginError] = []
        for plugin in reversed(self.plugins.reserve):
            try:
                self.calls.call(plugin, "Unreserve", plugin.unreserve, state, pod, node_name)
            except PluginError as problem:
                failures.append(problem)
        return failures

    def run_permit_plugins(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status, dict[str, float]]:
        """Success, a rejection, or Wait with the time limit of every plugin that waits."""
        start = self.calls.now()
        status, waits = self._permit(state, pod, node_name)
        self.calls.point_done("Permit", status.code, start)
        return status, waits

    def _permit(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status, dict[str, float]]:
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

    def needs_pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        """Whether any PreBind plugin has work to do for the pod.

        Raises:
            PluginError: a plugin failed.
        """
        return any(
            self._has_work(plugin, state, pod, node_name) for plugin in self.plugins.pre_bind
        )

    def _has_work(
        self, plugin: PreBindPlugin, state: CycleState, pod: PodInfo, node_name: str
    ) -> bool:
        method = plugin.pre_bind_pre_flight
        flight = self.calls.call(plugin, "PreBindPreFlight", method, state, pod, node_name)
        return flight.code is not Code.SKIP

    async def run_pre_bind_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success, or the first failure.

        Raises:
            PluginError: a plugin failed.
        """
        start = self.calls.now()
        status = await self._pre_bind(state, pod, node_name)
        self.calls.point_done("PreBind", status.code, start)
        return status

    async def _pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        for plugin in self.plugins.pre_bind:
            if not self._has_work(plugin, state, pod, node_name):
                continue
            status = await self.calls.call_async(
                plugin, "PreBind", plugin.pre_bind, state, pod, node_name
            )
            if not status.is_success:
                return status.by(plugin.NAME)
        return SUCCESS

    @property
    def binds_plainly(self) -> bool:
        """Whether all that its Bind plugins do is to write the binding."""
        return all(plugin.IS_PLAIN for plugin in self.plugins.bind)

    def bound_plainly(self, code: Code, seconds: float) -> None:
        """Report a Bind that was carried out without asking the plugin."""
        self.calls.point_took("Bind", code, seconds)

    async def run_bind_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """The answer of the first plugin that does not skip.

        Raises:
            PluginError: a plugin failed.
        """
        start = self.calls.now()
        ended = Status(Code.SKIP)
        for plugin in self.plugins.bind:
            status = await self.calls.call_async(plugin, "Bind", plugin.bind, state, pod, node_name)
            if status.code is not Code.SKIP:
                ended = status.by(plugin.NAME)
                break
        self.calls.point_done("Bind", ended.code, start)
        return ended

    def run_post_bind_plugins(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> list[PluginError]:
        """Tell everybody who wants to know; returns what failed, none of which stops the others."""
        start = self.calls.now()
        failures: list[PluginError] = []
        for plugin in self.plugins.post_bind:
            try:
                self.calls.call(plugin, "PostBind", plugin.post_bind, state, pod, node_name)
            except PluginError as problem:
                failures.append(problem)
        self.calls.point_done("PostBind", Code.SUCCESS, start)
        return failures

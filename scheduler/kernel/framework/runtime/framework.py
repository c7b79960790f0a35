"""One profile: its plugins, and the runs of their extension points.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go v1.36.
"""

from collections.abc import Awaitable, Callable, Container, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ALL_EVENTS, ClusterEventWithHint, QueueingHint
from scheduler.kernel.framework.interface import Scores
from scheduler.kernel.framework.placements import ALL_NODES, FeasiblePlacements, Placements
from scheduler.kernel.framework.results import PostFilterResult, Write
from scheduler.kernel.framework.runtime.bound import BoundPlugin
from scheduler.kernel.framework.runtime.diagnosis import AttemptDiagnosis
from scheduler.kernel.framework.runtime.filtering import Filtering
from scheduler.kernel.framework.runtime.plugin_calls import PluginCalls, PluginError
from scheduler.kernel.framework.runtime.plugin_set import ProfilePlugins
from scheduler.kernel.framework.runtime.pod_classes import PodClasses
from scheduler.kernel.framework.runtime.pre_bind import RunTogether, one_after_another
from scheduler.kernel.framework.runtime.scoring import Scoring
from scheduler.kernel.framework.status import EXTENDER, SUCCESS, Code, Status, error, unschedulable
from scheduler.kernel.framework.types import PreBindWork, QueuedPodInfo
from scheduler.kernel.snapshot import Snapshot

MAX_WAIT_SECONDS: Final = 15 * 60.0
"""A pod is held by Permit no longer than this, whatever timeout a plugin returns."""

NO_PLACEMENTS: Final = "no feasible placements found"

DEFAULT_CLASS_CACHE_BYTES: Final = 256 * 1024 * 1024
"""Room for hundreds of classes at 15,000 nodes. Classes that do not fit are computed every time."""

BESIDE_CACHE_BYTES: Final = 32 * 1024 * 1024
"""Room for the pod classes of one simulation on a hypothetical cluster."""


class Framework:
    """The plugins of one profile. Methods raise only `PluginError`, when a plugin failed.

    Attributes:
        profile_name: the profile's schedulerName.
        plugins: its plugins by extension point.
        percentage_of_nodes_to_score: the profile's own; None leaves it to the configuration.
        classes: the pod classes seen, with their columns.
        filtering: from PreFilter to the verdict on every node.
        scoring: from feasible nodes to their totals.
        calls: the guarded and measured calls of plugins.
    """

    def __init__(
        self,
        plugins: ProfilePlugins,
        *,
        percentage_of_nodes_to_score: int | None = None,
        class_cache_bytes: int = DEFAULT_CLASS_CACHE_BYTES,
        has_extenders: bool = False,
    ) -> None:
        self._has_extenders = has_extenders
        self.calls = plugins.calls
        self.profile_name = plugins.calls.profile
        self.plugins = plugins
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.classes = PodClasses(plugins, class_cache_bytes)
        self.filtering = Filtering(plugins, self.classes)
        self.scoring = Scoring(plugins, has_extenders=has_extenders)

    def aside(self, without: Container[str] = ()) -> Filtering:
        """Return the same filters without some plugins, to be run outside of attempts.

        No answer is cached; no call is timed or counted.
        """
        plugins = self.plugins.filters_only(PluginCalls(self.profile_name), without)
        return Filtering(plugins, PodClasses(plugins, 0))

    def beside(self) -> "Framework":
        """Return a framework with the same plugins, for decisions about a hypothetical cluster.

        It has a class cache of its own; calls of plugins are not timed or counted.
        """
        return Framework(
            self.plugins.called_by(PluginCalls(self.profile_name)),
            percentage_of_nodes_to_score=self.percentage_of_nodes_to_score,
            class_cache_bytes=BESIDE_CACHE_BYTES,
            has_extenders=self._has_extenders,
        )

    # --- for the queue --------------------------------------------------------------------------

    def run_pre_enqueue_plugins(self, pod: PodInfo, first: str = "") -> Status:
        """Return Success, or the first rejection; a plugin that fails rejects with code ERROR.

        The plugin `first`, which rejected the pod before, runs before the others.
        """
        start = self.calls.now()
        ended, plugins, needs = SUCCESS, self.plugins.pre_enqueue, pod.needs
        for plugin in sorted(plugins, key=lambda p: p.name != first) if first else plugins:
            if plugin.needs & ~needs:
                if self.calls.sampled:
                    self.calls.spared(plugin.name, "PreEnqueue", Code.SUCCESS)
                continue
            try:
                ended = plugin.call(pod)
            except PluginError as problem:
                self._failed(problem, pod)
                ended = error(str(problem)).by(plugin.name)
            if not ended.is_success:
                break
        self.calls.point_done("PreEnqueue", ended.code, start, is_step=False)
        return ended

    def shares_rejections(self, pod: PodInfo) -> bool:
        """Whether a node that rejects this pod rejects every pod equal to it.

        Equal means equal in shape, labels, namespace and controller. Pods with volumes or resource
        claims share no rejections. With an untrusted plugin, which may read anything, no pod does.
        """
        return self.plugins.judges_alike and not pod.has_own_objects

    @property
    def tries_placements(self) -> bool:
        """Whether groups are placed within parts of the cluster."""
        return bool(self.plugins.placement_generate)

    def is_member(self, pod: PodInfo) -> bool:
        """Whether a pod is to be placed together with the others of its pod group."""
        return bool(self.plugins.group_plugins and pod.group_name)

    def decides_alike(self, pod: PodInfo) -> bool:
        """Whether decisions about equal pods hold for this pod while the cluster does not change.

        False for a nominated pod, whose nominated node is tried first.
        """
        is_nominated = bool(pod.pod.status.nominated_node_name)
        return self.plugins.are_trusted and not is_nominated and self.shares_rejections(pod)

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        """The key of the active queue; pods for which the plugin fails come last, by timestamp."""
        try:
            return self.plugins.sort_key(queued)
        except PluginError as problem:
            self._failed(problem, queued.pod_info)
            return 1, queued.timestamp

    def events_to_register(self) -> dict[str, tuple[ClusterEventWithHint, ...]]:
        """The events each plugin that can reject pods registers for; called once, at start."""
        # Extenders do not register the events that could change their answers.
        of_extenders = {EXTENDER: ALL_EVENTS} if self._has_extenders else {}
        return {**of_extenders, **self.plugins.events_to_register()}

    def run_queueing_hint(
        self,
        plugin: str,
        registered: ClusterEventWithHint,
        event: str,
        pod: PodInfo,
        old: object,
        new: object,
    ) -> QueueingHint:
        """Return a plugin's hint for an event, given by its label; Queue if the hint fails."""
        ask = registered.queueing_hint
        if ask is None:
            return QueueingHint.QUEUE
        start = self.calls.now()
        try:
            hint = ask(pod, old, new)
            outcome = hint.value
        except PluginError as problem:
            # With Skip, a hint that always fails would keep the pod unschedulable.
            self._failed(problem, pod)
            hint, outcome = QueueingHint.QUEUE, "Error"
        duration = self.calls.metrics.queueing_hint_execution_duration
        duration[plugin, event, outcome].observe(self.calls.now() - start)
        return hint

    def _failed(self, problem: PluginError, pod: PodInfo) -> None:
        """Report a failure that fails no attempt."""
        problem.pod = pod.key
        self.calls.on_failed(problem)

    # --- after filtering -------------------------------------------------------------------------

    def run_post_filter_plugins(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: AttemptDiagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Return the first answer that is no mere rejection, or all reasons together."""
        start = self.calls.now()
        if self.plugins.places_together:
            diagnosis.places_together = self.places_together
        result: PostFilterResult | None = None
        writes: tuple[Write, ...] = ()
        reasons: list[str] = []
        for plugin in self.plugins.post_filter:
            found, ended = plugin.call(state, pod, snapshot, diagnosis)
            writes += () if found is None else found.writes
            if not ended.is_rejection or ended.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                result = None if ended.code is Code.ERROR else found
                ended = ended.by(plugin.name)
                break
            if found is not None and found.nominated_node_name is not None:
                result = found
            reasons.extend(ended.reasons)
        else:
            ended = unschedulable(*reasons)
        self.calls.point_done("PostFilter", ended.code, start)
        if writes:
            result = replace(result or PostFilterResult(None), writes=writes)
        return result, ended

    def places_together(self, pod: PodInfo) -> bool:
        """Whether a Permit plugin places a pod together with others."""
        return any(ask(pod) for ask in self.plugins.places_together)

    # --- placements of groups -------------------------------------------------------------------

    def run_placement_generate_plugins(
        self, pods: Sequence[PodInfo], snapshot: Snapshot
    ) -> tuple[Placements, Status]:
        """The placements to try for a group; all nodes where no plugin makes any."""
        start = self.calls.now()
        placements, status = ALL_NODES, SUCCESS
        for plugin in self.plugins.placement_generate[:1]:
            placements, status = plugin.call(pods, snapshot)
            if status.is_success and not len(placements.numbers):
                status = unschedulable(NO_PLACEMENTS)
            status = status.by(plugin.name)
        self.calls.point_done("PlacementGenerate", status.code, start)
        return placements, status

    def run_placement_score_plugins(
        self, pods: Sequence[PodInfo], candidates: FeasiblePlacements, snapshot: Snapshot
    ) -> Scores:
        """Return the weighted sum of all scores by placement."""
        start = self.calls.now()
        total = np.zeros(len(candidates.placements.numbers))
        plugins = zip(self.plugins.placement_score, self.plugins.placement_weights, strict=True)
        for plugin, weight in plugins:
            total += plugin.call(pods, candidates, snapshot) * weight
        self.calls.point_done("PlacementScore", Code.SUCCESS, start)
        return total

    # --- reserving ------------------------------------------------------------------------------

    def run_reserve_plugins(self, state: CycleState, pod: PodInfo) -> Status:
        """Return Success, or the first failure; on failure the caller must unreserve.

        Raises:
            PluginError: a plugin failed; the caller must unreserve.
        """
        start = self.calls.now()
        ended, needs = SUCCESS, pod.needs
        for plugin in self.plugins.reserve:
            if plugin.needs & ~needs:
                if self.calls.sampled:
                    self.calls.spared(plugin.name, "Reserve", Code.SUCCESS)
                continue
            ended = _named(plugin.call(state, pod, pod.node_name), "Reserve", plugin.name)
            if not ended.is_success:
                break
        self.calls.point_done("Reserve", ended.code, start)
        return ended

    def run_unreserve_plugins(
        self, state: CycleState, pod: PodInfo
    ) -> tuple[list[PluginError], list[Write]]:
        """Call Unreserve of all plugins in reverse order, also after one has failed.

        Returns:
            The failures, and the writes to send.
        """
        start = self.calls.now()
        failures: list[PluginError] = []
        writes: list[Write] = []
        for plugin in reversed(self.plugins.unreserve):
            try:
                writes.extend(plugin.call(state, pod, pod.node_name))
            except PluginError as problem:
                failures.append(problem)
        self.calls.point_done("Unreserve", Code.SUCCESS, start, is_step=False)
        return failures, writes

    def run_permit_plugins(
        self, state: CycleState, pod: PodInfo
    ) -> tuple[Status, dict[str, float]]:
        """Return Success, a rejection, or Wait with a timeout in seconds for each plugin."""
        start = self.calls.now()
        ended, waits = SUCCESS, dict[str, float]()
        for plugin in self.plugins.permit:
            status, seconds = plugin.call(state, pod, pod.node_name)
            if status.code is Code.WAIT:
                waits[plugin.name] = min(seconds, MAX_WAIT_SECONDS)
                ended = status
            elif not status.is_success:
                ended, waits = _named(status.by(plugin.name), "Permit", plugin.name), {}
                break
        self.calls.point_done("Permit", ended.code, start)
        return ended, waits

    # --- binding --------------------------------------------------------------------------------

    def pre_bind_work(self, state: CycleState, pod: PodInfo) -> PreBindWork:
        """The work that PreBind plugins have for the pod."""
        needs, work = pod.needs, PreBindWork.NOTHING
        for plugin in self.plugins.pre_flight:
            if plugin.needs & ~needs:
                if self.calls.sampled:
                    self.calls.spared(plugin.name, "PreBindPreFlight", Code.SKIP)
            elif plugin.call(state, pod, pod.node_name).code is not Code.SKIP:
                only_writes = self.plugins.only_writes.get(plugin.name)
                if only_writes is None or not only_writes(state, pod, pod.node_name):
                    return PreBindWork.ANYTHING
                work = PreBindWork.WRITES
        return work

    async def run_pre_bind_plugins(
        self,
        state: CycleState,
        pod: PodInfo,
        together: RunTogether = one_after_another,
    ) -> Status:
        """Return Success, or the first failure.

        Args:
            state: that of the attempt.
            pod: the pod, on its node.
            together: runs the plugins of a group.

        Source: runtime/framework.go (RunPreBindPlugins, getPreBindPluginGroups) v1.36.3.
        Differs: the pre-flight of a group is called when its turn comes.
        """
        start, ended = self.calls.now(), SUCCESS
        for group in self.plugins.pre_bind_groups:
            works = []
            for pre_flight, pre_bind in group:
                flight = pre_flight.call(state, pod, pod.node_name)
                if flight.is_success:
                    works.append(partial(_pre_bind, pre_bind, state, pod, pod.node_name))
                elif flight.code is not Code.SKIP:
                    ended = _named(flight, "PreBindPreFlight", pre_flight.name)
                    break
            if ended.is_success and works:
                ended = await (together(works) if len(works) > 1 else works[0]())
            if not ended.is_success:
                break
        self.calls.point_done("PreBind", ended.code, start)
        return ended

    def bound_plainly(self, code: Code, seconds: float) -> None:
        """Report a Bind that was carried out without calling the plugin."""
        duration = self.calls.metrics.extension_point_duration
        duration["Bind", code.upstream_name, self.profile_name].observe(seconds)

    async def run_bind_plugins(self, state: CycleState, pod: PodInfo) -> Status:
        """Return the answer of the first plugin that does not skip."""
        start = self.calls.now()
        ended = Status(Code.SKIP)
        for plugin in self.plugins.bind:
            status = await plugin.call(state, pod, pod.node_name)
            if status.code is not Code.SKIP:
                ended = _named(status.by(plugin.name), "Bind", plugin.name)
                break
        self.calls.point_done("Bind", ended.code, start)
        return ended

    def run_post_bind_plugins(self, state: CycleState, pod: PodInfo) -> list[PluginError]:
        """Call all PostBind plugins and return their failures, which do not undo the binding."""
        start, failures = self.calls.now(), []
        for plugin in self.plugins.post_bind:
            try:
                plugin.call(state, pod, pod.node_name)
            except PluginError as problem:
                failures.append(problem)
        self.calls.point_done("PostBind", Code.SUCCESS, start)
        return failures


async def _pre_bind(
    plugin: BoundPlugin[Callable[[CycleState, PodInfo, str], Awaitable[Status]]],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
) -> Status:
    return _named(await plugin.call(state, pod, node_name), "PreBind", plugin.name)


def _named(status: Status, point: str, plugin: str) -> Status:
    """Name plugin and extension point in an error, as if the plugin had raised it."""
    if status.code is not Code.ERROR:
        return status
    return replace(status, reasons=(str(PluginError(plugin, point, status.message)),))

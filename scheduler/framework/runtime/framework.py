"""One profile: its plugins, and how an attempt runs through them.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go v1.36.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any, Final

from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.events import (
    ALL_EVENTS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    ObjectKind,
    QueueingHint,
)
from scheduler.framework.handle import watched_kinds
from scheduler.framework.interface import Plugin, PostFilterResult, PreBindPlugin
from scheduler.framework.runtime import answers
from scheduler.framework.runtime.answers import BIND, OK_OR_NOT, WrongAnswerError
from scheduler.framework.runtime.diagnosis import Diagnosis
from scheduler.framework.runtime.filtering import Filtering
from scheduler.framework.runtime.plugin_calls import PluginCalls, PluginError
from scheduler.framework.runtime.plugin_set import PluginSet
from scheduler.framework.runtime.pod_classes import PodClasses
from scheduler.framework.runtime.scoring import Scoring
from scheduler.framework.status import EXTENDER, SUCCESS, Code, Status, error, unschedulable
from scheduler.framework.types import QueuedPodInfo
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments
from scheduler.snapshot import Snapshot

MAX_WAIT_SECONDS: Final = 15 * 60.0
"""A pod is held by Permit no longer than this, whatever a plugin says."""

DEFAULT_CLASS_CACHE_BYTES: Final = 256 * 1024 * 1024
"""Room for hundreds of classes at 15,000 nodes. Classes that do not fit are computed every time."""

_UNSEEN: Final = FrameworkMetrics(Instruments())
"""What is counted here is shown to nobody."""


class Framework:
    """The plugins of one profile. No method raises anything but `PluginError`.

    What filters and scores is bound here from `Filtering` and `Scoring`.

    Attributes:
        profile_name: the profile's schedulerName.
        plugins: its plugins by extension point.
        binds_plainly: whether all that its Bind plugins do is to write the binding.
        percentage_of_nodes_to_score: of this profile; None leaves it to the configuration.
        classes: the pod classes seen, with their columns.
        calls: how plugins are called.
    """

    def __init__(
        self,
        plugins: PluginSet,
        calls: PluginCalls,
        *,
        percentage_of_nodes_to_score: int | None = None,
        class_cache_bytes: int = DEFAULT_CLASS_CACHE_BYTES,
        has_extenders: bool = False,
    ) -> None:
        self._has_extenders = has_extenders
        self.profile_name = calls.profile
        self.plugins = plugins
        self.binds_plainly = all(plugin.IS_PLAIN for plugin in plugins.bind)
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.calls = calls
        self._key_shape: object = None
        self._judges_alike = plugins.judges_alike
        self._are_trusted = plugins.are_trusted
        self.classes = PodClasses(plugins, calls, class_cache_bytes)
        filtering = Filtering(plugins, calls, self.classes)
        self.find_nodes_that_fit = filtering.find_nodes_that_fit
        self.run_filters = filtering.run_filters
        self.every_verdict = filtering.every_verdict
        scoring = Scoring(plugins, calls, has_extenders=has_extenders)
        self.best_nodes = scoring.best_nodes
        self.best_of_class = scoring.best_of_class
        self.totals = scoring.totals
        self.score_table = scoring.score_table

    def aside(self, without: Container[str] = ()) -> Filtering:
        """The same filters, but for some, to be asked beside the decisions.

        Nothing that they say is remembered, timed or counted.
        """
        calls = PluginCalls(self.profile_name, _UNSEEN, _no_time)
        plugins = self.plugins.filters_only(without)
        return Filtering(plugins, calls, PodClasses(plugins, calls, 0))

    # --- for the queue --------------------------------------------------------------------------

    def run_pre_enqueue_plugins(self, pod: PodInfo, first: str = "") -> Status:
        """Success, or the first rejection; a plugin that fails rejects with code ERROR.

        Args:
            pod: the pod.
            first: the plugin to ask before the others, because it rejected the pod before.
        """
        start = self.calls.now()
        plugins = self.plugins.pre_enqueue
        if first:
            plugins = sorted(plugins, key=lambda plugin: first != plugin.NAME)
        ended = SUCCESS
        for plugin in plugins:
            try:
                ended = self.calls.call(
                    plugin, "PreEnqueue", answers.status, OK_OR_NOT, plugin.pre_enqueue, pod
                )
            except PluginError as problem:
                self.calls.on_failed(problem)
                ended = error(str(problem))
            if not ended.is_success:
                ended = ended.by(plugin.NAME)
                break
        self.calls.point_done("PreEnqueue", ended.code, start, is_step=False)
        return ended

    def shares_rejections(self, pod: PodInfo) -> bool:
        """Whether pods that are equal to this one fit nowhere where it does not.

        Equal means in shape, labels, namespace and controller. Storage and claims of devices are a
        pod's own, and who knows what other people's plugins look at.
        """
        return self._judges_alike and not (pod.pod.volumes or pod.spec.resource_claims)

    def decides_alike(self, pod: PodInfo) -> bool:
        """Whether what is found out about this pod holds for equal ones while nothing happens."""
        return self._are_trusted and self.shares_rejections(pod)

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        """What orders the active queue; pods whose key fails come last, in order of arrival.

        Keys must be of one shape: what cannot be compared with the first one is no key.
        """
        plugin = self.plugins.queue_sort
        if self.plugins.is_trusted(plugin.NAME):
            return plugin.sort_key(queued)
        try:
            key = self.calls.call(
                plugin, "QueueSort", answers.sort_key, None, plugin.sort_key, queued
            )
            shape = answers.shape_of_key(key)
            if self._key_shape is None:
                self._key_shape = shape
            if shape == self._key_shape:
                return 0, key
            told = WrongAnswerError("returned a key that cannot be compared with the first one")
            problem = self.calls.failed(plugin.NAME, "QueueSort", told)
        except PluginError as raised:
            problem = raised
        self.calls.on_failed(problem)
        return 1, queued.timestamp

    def events_to_register(self) -> dict[str, tuple[ClusterEventWithHint, ...]]:
        """What each plugin that can reject pods wants to be woken by; asked once, at start.

        Hints of plugins that are not trusted are asked for every pod, whatever they declare: an
        author who has not read about `reads_pod_shape_only` must not get another pod's answer.

        Raises:
            PluginError: a plugin failed.
        """
        events: dict[str, tuple[ClusterEventWithHint, ...]] = {}
        if self._has_extenders:
            # They cannot say what would change their minds.
            events[EXTENDER] = ALL_EVENTS
        for plugin in self.plugins.rejecting():
            name = plugin.NAME
            register = getattr(plugin, "events_to_register", None)
            if register is None:
                events[name] = (*ALL_EVENTS, *map(everything_about, watched_kinds(plugin)))
                continue
            wanted = self.calls.call(plugin, "EventsToRegister", answers.events, None, register)
            if not self.plugins.is_trusted(name):
                wanted = tuple(replace(event, reads_pod_shape_only=False) for event in wanted)
            events[name] = wanted
        return events

    def run_queueing_hint(
        self,
        plugin: str,
        registered: ClusterEventWithHint,
        event: str,
        pod: PodInfo,
        old: object,
        new: object,
    ) -> QueueingHint:
        """Whether an event, given by its label, may help a pod; a hint that fails says Queue."""
        ask = registered.queueing_hint
        if ask is None:
            return QueueingHint.QUEUE
        start = self.calls.now()
        try:
            hint = answers.hint(ask(pod, old, new), None)
            told = hint.value
        except Exception as problem:  # noqa: BLE001 - foreign code; a broken hint must not strand pods
            self.calls.on_failed(self.calls.failed(plugin, "QueueingHint", problem))
            hint, told = QueueingHint.QUEUE, "Error"
        duration = self.calls.metrics.queueing_hint_execution_duration
        duration[plugin, event, told].observe(self.calls.now() - start)
        return hint

    # --- after filtering -------------------------------------------------------------------------

    def run_post_filter_plugins(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """The first success, or all reasons together.

        Raises:
            PluginError: a plugin failed.
        """
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
                plugin,
                "PostFilter",
                answers.post_filter,
                None,
                plugin.post_filter,
                state,
                pod,
                snapshot,
                diagnosis,
            )
            if not status.is_rejection or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return found, status.by(plugin.NAME)
            result = found or result
            reasons.extend(status.reasons)
        return result, unschedulable(*reasons)

    # --- reserving ------------------------------------------------------------------------------

    def run_reserve_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success, or the first failure; on failure the caller must unreserve.

        Raises:
            PluginError: a plugin failed; the caller must unreserve.
        """
        start = self.calls.now()
        ended = SUCCESS
        plugins = self.plugins
        every = self.calls.asks_about_volumes(pod)
        for plugin in plugins.reserve if every else plugins.reserve_without_volumes:
            ended = self._status(
                plugin, "Reserve", OK_OR_NOT, plugin.reserve, state, pod, node_name
            )
            if not ended.is_success:
                break
        self.calls.point_done("Reserve", ended.code, start)
        return ended

    def run_unreserve_plugins(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> list[PluginError]:
        """Unreserve all, in reverse order; what failed is answered and stops no other."""
        return self._tell_all(
            "Unreserve",
            [(plugin, plugin.unreserve) for plugin in reversed(self.plugins.reserve)],
            state,
            pod,
            node_name,
        )

    def run_permit_plugins(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status, dict[str, float]]:
        """Success, a rejection, or Wait with the seconds that every plugin waits at most.

        Raises:
            PluginError: a plugin failed.
        """
        start = self.calls.now()
        status, waits = self._permit(state, pod, node_name)
        self.calls.point_done("Permit", status.code, start)
        return status, waits

    def _permit(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status, dict[str, float]]:
        waits: dict[str, float] = {}
        for plugin in self.plugins.permit:
            status, seconds = self.calls.call(
                plugin, "Permit", answers.permit, None, plugin.permit, state, pod, node_name
            )
            if status.code is Code.WAIT:
                waits[plugin.NAME] = min(seconds, MAX_WAIT_SECONDS)
            elif not status.is_success:
                return status.by(plugin.NAME), {}
        return (Status(Code.WAIT), waits) if waits else (SUCCESS, waits)

    # --- binding --------------------------------------------------------------------------------

    def needs_pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        """Whether any PreBind plugin has work to do for the pod.

        Raises:
            PluginError: a plugin failed.
        """
        plugins = self.plugins
        every = self.calls.asks_about_volumes(pod)
        for plugin in plugins.pre_bind if every else plugins.pre_bind_without_volumes:
            if self._flight(plugin, state, pod, node_name).code is not Code.SKIP:
                return True
        return False

    def _flight(
        self, plugin: PreBindPlugin, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status:
        method = plugin.pre_bind_pre_flight
        return self._status(plugin, "PreBindPreFlight", BIND, method, state, pod, node_name)

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
            flight = self._flight(plugin, state, pod, node_name)
            if flight.code is Code.SKIP:
                continue
            if not flight.is_success:
                return flight
            status = await self.calls.call_async(
                plugin,
                "PreBind",
                answers.status,
                OK_OR_NOT,
                plugin.pre_bind,
                state,
                pod,
                node_name,
            )
            if not status.is_success:
                return status.by(plugin.NAME)
        return SUCCESS

    def bound_plainly(self, code: Code, seconds: float) -> None:
        """Report a Bind that was carried out without asking the plugin."""
        duration = self.calls.metrics.extension_point_duration
        duration["Bind", code.upstream_name, self.profile_name].observe(seconds)

    async def run_bind_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """The answer of the first plugin that does not skip.

        Raises:
            PluginError: a plugin failed.
        """
        start = self.calls.now()
        ended = Status(Code.SKIP)
        for plugin in self.plugins.bind:
            status = await self.calls.call_async(
                plugin,
                "Bind",
                answers.status,
                BIND,
                plugin.bind,
                state,
                pod,
                node_name,
            )
            if status.code is not Code.SKIP:
                ended = status.by(plugin.NAME)
                break
        self.calls.point_done("Bind", ended.code, start)
        return ended

    def run_post_bind_plugins(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> list[PluginError]:
        """Tell everybody who wants to know; what failed is answered and undoes nothing."""
        start = self.calls.now()
        plugins = [(plugin, plugin.post_bind) for plugin in self.plugins.post_bind]
        failures = self._tell_all("PostBind", plugins, state, pod, node_name)
        self.calls.point_done("PostBind", Code.SUCCESS, start)
        return failures

    # --- calling --------------------------------------------------------------------------------

    def _status(
        self,
        plugin: Plugin,
        point: str,
        codes: answers.Codes,
        method: Callable[..., Any],
        *args: Any,
    ) -> Status:
        said = self.calls.call(plugin, point, answers.status, codes, method, *args)
        return said if said.is_success else said.by(plugin.NAME)

    def _tell_all(
        self, point: str, plugins: Iterable[tuple[Plugin, Callable[..., object]]], *args: Any
    ) -> list[PluginError]:
        failures: list[PluginError] = []
        for plugin, method in plugins:
            try:
                self.calls.call(plugin, point, answers.nothing, None, method, *args)
            except PluginError as problem:
                failures.append(problem)
        return failures


def _no_time() -> float:
    return 0.0


def everything_about(kind: ObjectKind) -> ClusterEventWithHint:
    """A registration for whatever happens to objects of a kind."""
    return ClusterEventWithHint(ClusterEvent(kind.event_resource, ActionType.ALL))

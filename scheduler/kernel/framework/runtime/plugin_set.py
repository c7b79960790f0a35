"""The plugins of one profile by extension point; their methods are bound when it is built."""

from collections.abc import Awaitable, Callable, Container, Hashable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import (
    ALL_EVENTS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
)
from scheduler.kernel.framework.handle import watched_kinds
from scheduler.kernel.framework.interface import (
    BindPlugin,
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    Scores,
    SignPlugin,
)
from scheduler.kernel.framework.placements import (
    FeasiblePlacements,
    PlacementGeneratePlugin,
    Placements,
    PlacementScorePlugin,
)
from scheduler.kernel.framework.results import Diagnosis, PostFilterResult, PreFilterResult, Write
from scheduler.kernel.framework.runtime import answers
from scheduler.kernel.framework.runtime.answers import (
    BIND,
    OK_OR_NOT,
    OK_OR_SKIP,
    AllowedCodes,
    Check,
)
from scheduler.kernel.framework.runtime.bound import (
    BoundFilter,
    BoundPlugin,
    BoundScore,
    is_row_local,
    needs_of,
)
from scheduler.kernel.framework.runtime.plugin_calls import PluginCalls
from scheduler.kernel.framework.runtime.pre_bind import groups_of
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import Status
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.snapshot import Rows, Snapshot

R = TypeVar("R")

IMPLEMENTS: Final[Mapping[str, tuple[type, ...]]] = {
    "preEnqueue": (PreEnqueuePlugin,),
    "queueSort": (QueueSortPlugin,),
    "preFilter": (PreFilterPlugin,),
    "filter": (FilterPlugin, NodeFilterPlugin),
    "postFilter": (PostFilterPlugin,),
    "preScore": (PreScorePlugin,),
    "score": (ScorePlugin, NodeScorePlugin),
    "reserve": (ReservePlugin,),
    "permit": (PermitPlugin,),
    "preBind": (PreBindPlugin,),
    "bind": (BindPlugin,),
    "postBind": (PostBindPlugin,),
    "placementGenerate": (PlacementGeneratePlugin,),
    "placementScore": (PlacementScorePlugin,),
}
"""The protocols that make a plugin eligible for an extension point of the configuration."""

OnNode: TypeAlias = BoundPlugin[Callable[[CycleState, PodInfo, str], R]]
"""A method that takes a pod and the node chosen for it."""


class PluginSetError(SchedulerError):
    """A profile that cannot be built from its plugins."""


@cache
def extension_points(plugin_type: type) -> frozenset[str]:
    """The extension points a plugin class declares by subclassing their protocols."""
    bases = set(plugin_type.__mro__)
    return frozenset(
        point for point, protocols in IMPLEMENTS.items() if bases.intersection(protocols)
    )


class ProfilePlugins:
    """The plugins of one profile by extension point, in the order they run, ready to be called.

    Attributes:
        calls: binds the plugins' methods, and measures their calls.
        by_name: every plugin of the profile, one instance each.
        placement_weights: the weights of `placement_score`.
        places_together: `places_together` of the Permit plugins that have it.
        pre_flight: `pre_bind_pre_flight` of the plugins of `pre_bind`.
        pre_bind_groups: the plugins of `pre_bind` with their `pre_flight`; those of one group run
            at the same time.
        only_writes: `only_writes` of the PreBind plugins that have it, by name.
        signs_under: `signs_under` of the plugins that have it.
        signs: `sign` of the row-local plugins; None where one of them lacks it.
        signs_kinds: whether these plugins are trusted; they sign all pods of a kind alike.
        judges_alike: whether all plugins from PreEnqueue to PostFilter are trusted; these give
            equal pods equal answers.
        are_trusted: whether all plugins are trusted.
        group_plugins: the names of plugins that have members of a pod group placed together.
        binds_plainly: whether Bind plugins do nothing but write the binding.
    """

    def __init__(  # noqa: PLR0915 - one line per extension point
        self,
        enabled: Mapping[Any, Sequence[tuple[str, int]]],
        build: Callable[[str], Plugin],
        calls: PluginCalls,
        *,
        trusted: Container[str] = (),
    ) -> None:
        """Build the plugins, each with `build`.

        `enabled` has the names of plugins by extension point, as a configuration spells it, with
        weights (used for score only). The columns of `trusted` plugins need no check.

        Raises:
            PluginSetError: the profile has no QueueSort plugin, or has two.
        """
        names = dict.fromkeys(name for plugins in enabled.values() for name, _ in plugins)
        self.by_name: dict[str, Any] = {name: build(name) for name in names}
        self.calls = calls
        self._enabled = enabled
        self._trusted = trusted
        wait, at = calls.bound_async, self._at
        self.pre_enqueue: list[BoundPlugin[Callable[[PodInfo], Status]]] = at(
            "preEnqueue", lambda p: p.pre_enqueue, OK_OR_NOT
        )
        self.sort_key = self._sort_key()
        self.pre_filter: list[
            BoundPlugin[
                Callable[[CycleState, PodInfo, Snapshot], tuple[PreFilterResult | None, Status]]
            ]
        ] = at("preFilter", lambda p: p.pre_filter, answers.pre_filter)
        self.filter = [
            BoundFilter.of(plugin, index, calls, is_trusted=plugin.NAME in trusted)
            for index, plugin in enumerate(self._list("filter"))
        ]
        self.post_filter: list[
            BoundPlugin[
                Callable[
                    [CycleState, PodInfo, Snapshot, Diagnosis],
                    tuple[PostFilterResult | None, Status],
                ]
            ]
        ] = at("postFilter", lambda p: p.post_filter, answers.post_filter)
        self.pre_score: list[
            BoundPlugin[Callable[[CycleState, PodInfo, Snapshot, Rows], Status]]
        ] = at("preScore", lambda p: p.pre_score, OK_OR_SKIP)
        self.score = self._scores()
        self.reserve: list[OnNode[Status]] = at("reserve", lambda p: p.reserve, OK_OR_NOT)
        self.unreserve: list[OnNode[Sequence[Write]]] = at(
            "reserve", lambda p: p.unreserve, answers.writes, label="Unreserve"
        )
        self.permit: list[OnNode[tuple[Status, float]]] = at(
            "permit", lambda p: p.permit, answers.permit
        )
        self.places_together = [
            calls.guarded(plugin, "Permit", plugin.places_together, answers.yes_or_no)
            for plugin in self._list("permit")
            if type(plugin).places_together is not PermitPlugin.places_together
        ]
        self.pre_flight: list[OnNode[Status]] = at(
            "preBind", lambda p: p.pre_bind_pre_flight, BIND, label="PreBindPreFlight"
        )
        self.only_writes: dict[str, Callable[[CycleState, PodInfo, str], bool]] = {
            plugin.NAME: calls.guarded(
                plugin, "PreBindPreFlight", plugin.only_writes, answers.yes_or_no
            )
            for plugin in self._list("preBind")
            if type(plugin).only_writes is not PreBindPlugin.only_writes
        }
        self.pre_bind: list[OnNode[Awaitable[Status]]] = at(
            "preBind", lambda p: p.pre_bind, OK_OR_NOT, bind=wait
        )
        allow = [plugin.ALLOW_PARALLEL for plugin in self._list("preBind")]
        self.pre_bind_groups: list[list[tuple[OnNode[Status], OnNode[Awaitable[Status]]]]] = (
            groups_of(zip(zip(self.pre_flight, self.pre_bind, strict=True), allow, strict=True))
        )
        self.bind: list[OnNode[Awaitable[Status]]] = at("bind", lambda p: p.bind, BIND, bind=wait)
        self.post_bind: list[OnNode[None]] = at("postBind", lambda p: p.post_bind, answers.nothing)
        self.placement_generate: list[
            BoundPlugin[Callable[[Sequence[PodInfo], Snapshot], tuple[Placements, Status]]]
        ] = at("placementGenerate", lambda p: p.generate_placements, answers.placements)
        self.placement_score: list[
            BoundPlugin[Callable[[Sequence[PodInfo], FeasiblePlacements, Snapshot], Scores]]
        ] = at(
            "placementScore",
            lambda p: p.score_placements,
            answers.placement_scores,
            gives_column=True,
        )
        self.placement_weights = [weight or 1 for _, weight in enabled.get("placementScore", ())]
        self.signs, self.signs_kinds = self._signs()
        self.signs_under = [
            calls.guarded(plugin, "Sign", plugin.signs_under, answers.fragment)
            for plugin in self.by_name.values()
            if getattr(type(plugin), "signs_under", None) not in (None, SignPlugin.signs_under)
        ]
        before = (self.pre_enqueue, self.pre_filter, self.filter, self.post_filter)
        self.judges_alike = all(plugin.name in trusted for point in before for plugin in point)
        self.are_trusted = all(name in trusted for name in self.by_name)
        self.group_plugins = frozenset(n for n, p in self.by_name.items() if p.SCHEDULES_GROUPS)
        self.binds_plainly = all(getattr(p, "ONLY_BINDS", False) for p in self._list("bind"))

    def filters_only(self, calls: PluginCalls, without: Container[str] = ()) -> "ProfilePlugins":
        """Return the set with only QueueSort, PreFilter and Filter; the latter two without some."""
        kept = {
            point: [each for each in self._enabled.get(point, ()) if each[0] not in without]
            for point in ("preFilter", "filter")
        }
        kept["queueSort"] = [*self._enabled["queueSort"]]
        return ProfilePlugins(kept, self.by_name.__getitem__, calls, trusted=self._trusted)

    def called_by(self, calls: PluginCalls) -> "ProfilePlugins":
        """Return the same plugins, with methods bound by `calls`."""
        return ProfilePlugins(self._enabled, self.by_name.__getitem__, calls, trusted=self._trusted)

    def events_to_register(self) -> dict[str, tuple[ClusterEventWithHint, ...]]:
        """The events each plugin that can reject pods registers for; called once, at start.

        The queue calls the hint of an untrusted plugin for every pod, whatever the plugin declares.
        Its author may not know `reads_pod_shape_only`, and its hint may read the whole pod.

        Raises:
            PluginError: a plugin failed.
        """
        before = (self.pre_enqueue, self.placement_generate, self.pre_filter, self.filter)
        points = (*before, self.reserve, self.permit)
        names = dict.fromkeys(plugin.name for point in points for plugin in point)
        return {name: self._events_of(name, self.by_name[name]) for name in names}

    def _events_of(self, name: str, plugin: Any) -> tuple[ClusterEventWithHint, ...]:
        register = getattr(plugin, "events_to_register", None)
        if register is None:
            everything = (ClusterEvent(each, ActionType.ALL) for each in watched_kinds(plugin))
            return (*ALL_EVENTS, *map(ClusterEventWithHint, everything))
        bound, guarded = self.calls.bound, self.calls.guarded
        wanted: tuple[ClusterEventWithHint, ...]
        check = answers.events_of(watched_kinds(plugin))
        wanted = bound(plugin, "EventsToRegister", register, check)()
        is_trusted = name in self._trusted
        return tuple(
            replace(
                event,
                queueing_hint=event.queueing_hint
                and guarded(plugin, "QueueingHint", event.queueing_hint, answers.hint),
                reads_pod_shape_only=is_trusted and event.reads_pod_shape_only,
            )
            for event in wanted
        )

    def post_filter_as(self, protocol: object) -> Any:
        """The first PostFilter plugin that implements a further protocol; None without one."""
        named = (self.by_name[each.name] for each in self.post_filter)
        return next((each for each in named if protocol in type(each).__mro__), None)

    def _list(self, point: str) -> list[Any]:
        return [self.by_name[name] for name, _ in self._enabled.get(point, ())]

    def _at(
        self,
        point: str,
        method: Callable[[Any], Callable[..., Any]],
        check: Check[Any] | AllowedCodes,
        *,
        label: str = "",
        bind: Callable[..., Any] | None = None,
        gives_column: bool = False,
    ) -> list[Any]:
        """The plugins of an extension point, each with its `method`.

        `check` may be the codes that a status may have. `label` is the name of the point in
        messages and metrics, where it differs. With `gives_column`, answers of trusted plugins are
        not checked.
        """
        label, bind = label or point[0].upper() + point[1:], bind or self.calls.bound

        def check_of(plugin: Any) -> Check[Any] | None:
            if gives_column and plugin.NAME in self._trusted:
                return None
            return answers.status_of(check, plugin.NAME) if isinstance(check, frozenset) else check

        return [
            BoundPlugin(
                plugin.NAME,
                bind(plugin, label, method(plugin), check_of(plugin)),
                needs_of(plugin),
                is_row_local(plugin),
                self._skips_all(plugin, label),
            )
            for plugin in self._list(point)
        ]

    def _skips_all(self, plugin: Any, label: str) -> Callable[[PodInfo, Snapshot], bool] | None:
        says = getattr(plugin, "skips_all", None)
        if says is None or type(plugin).skips_all is Shortcuts.skips_all:
            return None
        check = None if plugin.NAME in self._trusted else answers.yes_or_no
        return self.calls.guarded(plugin, label, says, check)

    def _sort_key(self) -> Callable[[QueuedPodInfo], Any]:
        found = self._list("queueSort")
        if len(found) != 1:
            names = ", ".join(p.NAME for p in found) or "none"
            raise PluginSetError(f"exactly one queueSort plugin is needed, got {names}")
        check = None if found[0].NAME in self._trusted else answers.SortKeys()
        return self.calls.guarded(found[0], "QueueSort", found[0].sort_key, check)

    def _scores(self) -> list[BoundScore]:
        prepare = {each.name: each.call for each in self.pre_score}
        return [
            BoundScore.of(
                self.by_name[name],
                weight or 1,
                self.calls,
                prepare.get(name),
                is_trusted=name in self._trusted,
            )
            for name, weight in self._enabled.get("score", ())
        ]

    def _signs(self) -> tuple[list[Callable[[PodInfo], Hashable]] | None, bool]:
        plugins = [p for p in self.by_name.values() if hasattr(p, "READS") and is_row_local(p)]
        are_trusted = all(plugin.NAME in self._trusted for plugin in plugins)
        if not all(SignPlugin in type(p).__mro__ for p in plugins):
            return None, are_trusted
        signs = [
            self.calls.bound(
                plugin,
                "Sign",
                plugin.sign,
                None if plugin.NAME in self._trusted else answers.fragment,
            )
            for plugin in plugins
        ]
        return signs, are_trusted

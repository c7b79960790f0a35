"""The plugins of one profile, sorted by extension point once, when the profile is built."""

from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from typing import Any, Final, cast

import msgspec

from scheduler.errors import SchedulerError
from scheduler.framework.interface import (
    BindPlugin,
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    NormalizeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
)
from scheduler.framework.runtime.adapters import NodeFilterAdapter, NodeScoreAdapter

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
}
"""Which protocols make a plugin eligible for an extension point of the configuration."""


class PluginSetError(SchedulerError):
    """A profile that cannot be built from its plugins."""


class Weighted(msgspec.Struct, frozen=True):
    """A score plugin and how much it counts.

    Attributes:
        plugin: gives the scores.
        weight: what each point counts.
        normalizer: the same plugin, if its scores are comparable only after normalisation.
        pre_score: the same plugin, if it prepares scoring.
        is_trusted: whether its scores need no check.
    """

    plugin: ScorePlugin
    weight: int
    normalizer: NormalizeScorePlugin | None = None
    pre_score: PreScorePlugin | None = None
    is_trusted: bool = True


def extension_points(plugin_type: type) -> frozenset[str]:
    """The extension points a plugin class declares by subclassing their protocols."""
    bases = set(plugin_type.__mro__)
    return frozenset(
        point for point, protocols in IMPLEMENTS.items() if bases.intersection(protocols)
    )


class PluginSet:
    """Plugin instances by extension point, in the order they run.

    Attributes:
        by_name: every plugin of the profile, one instance each.
        reserve_without_volumes: those of `reserve` that have a use for pods without any.
        pre_bind_without_volumes: the same of `pre_bind`.
    """

    def __init__(
        self,
        enabled: Mapping[Any, Sequence[tuple[str, int]]],
        build: Callable[[str], Plugin],
        *,
        trusted: Container[str] = (),
    ) -> None:
        """Build the plugins.

        Args:
            enabled: by extension point, as a configuration spells it, plugin names with weights
                (used for score only).
            build: makes the instance of a plugin.
            trusted: names of plugins whose columns need no check.

        Raises:
            PluginSetError: the profile lacks a QueueSort or Bind plugin, or has two QueueSorts.
        """
        names = dict.fromkeys(name for plugins in enabled.values() for name, _ in plugins)
        self.by_name: dict[str, Plugin] = {name: build(name) for name in names}
        self._enabled = enabled
        self._trusted = trusted
        self.pre_enqueue: list[PreEnqueuePlugin] = self._list("preEnqueue")
        self.queue_sort = self._only_queue_sort()
        self.pre_filter: list[PreFilterPlugin] = self._list("preFilter")
        self.filter = [self._column_filter(name) for name, _ in enabled.get("filter", ())]
        self.post_filter: list[PostFilterPlugin] = self._list("postFilter")
        self.pre_score: list[PreScorePlugin] = self._list("preScore")
        self.score = [
            self._weighted(name, weight or 1) for name, weight in enabled.get("score", ())
        ]
        self.reserve: list[ReservePlugin] = self._list("reserve")
        self.reserve_without_volumes = [p for p in self.reserve if not needs_volumes(p)]
        self.permit: list[PermitPlugin] = self._list("permit")
        self.pre_bind: list[PreBindPlugin] = self._list("preBind")
        self.pre_bind_without_volumes = [p for p in self.pre_bind if not needs_volumes(p)]
        self.bind: list[BindPlugin] = self._list("bind")
        self.post_bind: list[PostBindPlugin] = self._list("postBind")

    def _list(self, point: str) -> list[Any]:
        return [self.by_name[name] for name, _ in self._enabled.get(point, ())]

    def _only_queue_sort(self) -> QueueSortPlugin:
        found: list[QueueSortPlugin] = self._list("queueSort")
        if len(found) != 1:
            names = ", ".join(p.NAME for p in found) or "none"
            raise PluginSetError(f"exactly one queueSort plugin is needed, got {names}")
        return found[0]

    def filters_only(self, without: Container[str] = ()) -> "PluginSet":
        """The same plugins where nodes are rejected, but for some; nothing is scored."""
        part = copy(self)
        part.pre_filter = [p for p in self.pre_filter if p.NAME not in without]
        part.filter = [p for p in self.filter if p.NAME not in without]
        part.pre_score, part.score = [], []
        return part

    def rejecting(self) -> list[Plugin]:
        """The plugins that can reject pods; the others need no events."""
        points = (self.pre_enqueue, self.pre_filter, self.filter, self.reserve, self.permit)
        names = dict.fromkeys(plugin.NAME for point in points for plugin in point)
        return [self.by_name[name] for name in names]

    @property
    def judges_alike(self) -> bool:
        """Whether all that decides about a pod before it has a node looks at no single pod."""
        points = (self.pre_enqueue, self.pre_filter, self.filter, self.post_filter)
        return all(self.is_trusted(plugin.NAME) for point in points for plugin in point)

    @property
    def are_trusted(self) -> bool:
        """Whether all are: then none looks at a single pod, or at a snapshot on its own account."""
        return all(map(self.is_trusted, self.by_name))

    def is_trusted(self, name: str) -> bool:
        """Whether a plugin's columns need no check."""
        return name in self._trusted

    def _column_filter(self, name: str) -> FilterPlugin:
        plugin: Any = self.by_name[name]
        if NodeFilterPlugin in type(plugin).__mro__:
            return cast("FilterPlugin", NodeFilterAdapter(plugin))
        return cast("FilterPlugin", plugin)

    def _weighted(self, name: str, weight: int) -> Weighted:
        plugin: Any = self.by_name[name]
        bases = type(plugin).__mro__
        return Weighted(
            cast("ScorePlugin", NodeScoreAdapter(plugin) if NodeScorePlugin in bases else plugin),
            weight,
            plugin if NormalizeScorePlugin in bases else None,
            next((p for p in self.pre_score if p is plugin), None),
            is_trusted=self.is_trusted(name),
        )


def needs_volumes(plugin: object) -> bool:
    """Whether a plugin has no use for pods without volumes; see `PreFilterPlugin`."""
    return getattr(plugin, "NEEDS_VOLUMES", False)


def is_row_local(plugin: object) -> bool:
    """Whether a plugin's answers for a row depend on that row (and the pod's class) only."""
    return not getattr(plugin, "READS", Reads.CLUSTER) & Reads.CLUSTER

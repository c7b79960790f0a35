"""The plugins of each extension point, in the order in which they run, with their weights.

Source: pkg/scheduler/framework/runtime framework.go, NewFramework, updatePluginList,
expandMultiPointPlugins, getValidScoreWeights.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from scheduler.config.plugin_sets import EVERYTHING, IN_TREE, Implements
from scheduler.config.problems import ConfigError, Path, Problems
from scheduler.config.types import ExtensionPoint, KubeSchedulerProfile, Plugins, PluginSet
from scheduler.config.walker import did_you_mean

Expansion = Mapping[ExtensionPoint, tuple[tuple[str, int], ...]]
"""(plugin, weight) by extension point, in running order; the weight is 0 except at Score."""

_SCORING: Final = frozenset((ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE))


def expand(profile: KubeSchedulerProfile, implements: Implements) -> Expansion:
    """Return the plugins that run at each extension point of a completed profile, in order.

    Args:
        profile: a profile that `load` has returned.
        implements: the plugins that exist here. A plugin, or an extension point of a plugin, that
            only kube-scheduler has takes part in all checks and is then left out (see
            `notices.not_in_effect`).

    Raises:
        ConfigError: a plugin does not exist, cannot run at the point at which it is enabled, or is
            enabled twice; there is not exactly one QueueSort plugin; there is no Bind plugin.
    """
    problems = Problems()
    # Checks use the extension points of upstream's plugins: ours may need fewer.
    known = {**implements, **IN_TREE}
    expansion = check_expansion(profile.plugins, known, ("plugins",), problems)
    if problems:
        raise ConfigError(f"profile {profile.scheduler_name}", problems)
    return {
        point: tuple(
            (name, weight) for name, weight in plugins if point in implements.get(name, ())
        )
        for point, plugins in expansion.items()
    }


def check_expansion(
    plugins: Plugins,
    known: Implements,
    path: Path,
    problems: Problems,
    written: Plugins | None = None,
) -> Expansion:
    """Expand a profile over all known plugins; add inconsistencies to `problems`.

    `plugins` is completed with the default set; `written` is the user's profile, for the list
    positions in messages.
    """
    return _Expander(plugins, known, path, problems, written or plugins).expand()


class _Expander:
    """Expands one profile, and collects its problems."""

    def __init__(
        self,
        plugins: Plugins,
        known: Implements,
        path: Path,
        problems: Problems,
        written: Plugins,
    ) -> None:
        self._plugins = plugins
        self._known = known
        self._path = path
        self._problems = problems
        # By identity: merging keeps the written objects, and two of them may be equal.
        self._written_at = {id(plugin): i for i, plugin in enumerate(written.multi_point.enabled)}

    def expand(self) -> Expansion:
        multi_point = self._plugins.multi_point
        for plugin in multi_point.enabled:
            self._check_exists(plugin.name, self._multi_point_place(id(plugin)))
        result = {point: self._at(point) for point in ExtensionPoint}
        self._check_counts(result)
        return result

    def _at(self, point: ExtensionPoint) -> tuple[tuple[str, int], ...]:
        own = self._plugins.at(point)
        self._check_own(own, point)
        names = tuple(self._ordered(own, point))
        if point not in _SCORING:
            return tuple((name, 0) for name in names)
        # The weight at the point overrides that of MultiPoint; no weight, or 0, counts as 1.
        weights: dict[str, int] = {}
        for plugin in (*own.enabled, *self._plugins.multi_point.enabled):
            if point in self._known.get(plugin.name, ()):
                weights.setdefault(plugin.name, plugin.weight or 1)
        self._check_weights(weights, point)
        return tuple((name, weights[name]) for name in names if name in weights)

    def _check_weights(self, weights: Mapping[str, int], point: ExtensionPoint) -> None:
        """Refuse weights with a negative partial sum: an overflow for kube-scheduler."""
        *sums, _ = accumulate(weights.values(), initial=0)
        if any(total < 0 for total in sums):
            below = ", ".join(name for name, weight in weights.items() if weight < 0)
            message = f"weights must not be negative, found negative ones for {below}"
            self._problems.add((*self._path, point.value), message)

    def _check_own(self, own: PluginSet, point: ExtensionPoint) -> None:
        """Check the plugins that are enabled at a specific extension point."""
        seen: set[str] = set()
        for i, plugin in enumerate(own.enabled):
            place = (*self._path, point.value, "enabled", i, "name")
            self._check_exists(plugin.name, place)
            points = self._known.get(plugin.name)
            if points is not None and point not in points:
                possible = ", ".join(p.value for p in ExtensionPoint if p in points)
                message = f'"{plugin.name}" cannot run at {point.value}; it runs at {possible}'
                self._problems.add(place, message)
            elif plugin.name in seen:
                self._problems.add(place, f'"{plugin.name}" is enabled twice here')
            seen.add(plugin.name)

    def _ordered(self, own: PluginSet, point: ExtensionPoint) -> Iterator[str]:
        """Order the plugins: overrides, MultiPoint's, then those that only this point names."""
        explicit = tuple(dict.fromkeys(plugin.name for plugin in own.enabled))
        disabled = {plugin.name for plugin in own.disabled}
        overrides: set[str] = set()
        multi: dict[str, None] = {}
        for plugin in self._plugins.multi_point.enabled:
            name = plugin.name
            skip = EVERYTHING in disabled or name in disabled
            if skip or point not in self._known.get(name, ()):
                continue
            if name in explicit:
                overrides.add(name)
            elif name in multi:
                self._problems.add(
                    self._multi_point_place(id(plugin)), f'"{name}" is enabled twice here'
                )
            else:
                multi[name] = None
        yield from (name for name in explicit if name in overrides)
        yield from multi
        yield from (name for name in explicit if name not in overrides)

    def _check_exists(self, name: str, place: Path) -> None:
        if name in self._known:
            return
        hint = did_you_mean(name, self._known, found=self._problems) or (
            "; kube-scheduler has none, and no installed package brings one (entry point group "
            "stowage.plugins)"
        )
        self._problems.add(place, f'there is no plugin "{name}"{hint}')

    def _multi_point_place(self, identity: int) -> Path:
        position = self._written_at.get(identity)
        place = (*self._path, "multiPoint")
        return place if position is None else (*place, "enabled", position, "name")

    def _check_counts(self, result: Expansion) -> None:
        sorters = [name for name, _ in result[ExtensionPoint.QUEUE_SORT]]
        if len(sorters) != 1:
            found = ", ".join(sorters) or "none"
            message = f"exactly one plugin must sort the queue, found {found}"
            self._problems.add((*self._path, "queueSort"), message)
        if not result[ExtensionPoint.BIND]:
            message = "at least one plugin must bind (DefaultBinder usually does), found none"
            self._problems.add((*self._path, "bind"), message)
        if len(result[ExtensionPoint.PLACEMENT_GENERATE]) > 1:
            place = (*self._path, "placementGenerate")
            self._problems.add(place, "at most one plugin may generate placements")

"""Which plugin runs at which extension point: the default set, merging, and MultiPoint expansion.

Source: pkg/scheduler/apis/config/v1 default_plugins.go; pkg/scheduler/framework/runtime
framework.go, updatePluginList, expandMultiPointPlugins, getValidScoreWeights; the plugins' own
interface declarations (1.36.3, default feature gates).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from scheduler.config.problems import ConfigError, Path, Problems
from scheduler.config.types import (
    ExtensionPoint,
    KubeSchedulerProfile,
    Plugin,
    Plugins,
    PluginSet,
)
from scheduler.config.walker import nearest

EVERYTHING: Final = "*"

Implements = Mapping[str, frozenset[ExtensionPoint]]
"""Extension points by plugin name."""

Expansion = Mapping[ExtensionPoint, tuple[tuple[str, int], ...]]
"""(plugin, weight) in the order they run; the weight is 0 where nothing is scored."""

SCORING: Final = frozenset((ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE))

DEFAULT_MULTI_POINT: Final = tuple(
    Plugin(name=name, weight=weight)
    for name, weight in (
        ("SchedulingGates", 0),
        ("PrioritySort", 0),
        ("NodeUnschedulable", 0),
        ("NodeName", 0),
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodePorts", 0),
        ("NodeResourcesFit", 1),
        ("VolumeRestrictions", 0),
        ("NodeVolumeLimits", 0),
        ("VolumeBinding", 0),
        ("VolumeZone", 0),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("DefaultPreemption", 0),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        ("DefaultBinder", 0),
        ("NodeDeclaredFeatures", 0),
    )
)
"""What runs when nothing is said."""


def _points(text: str) -> frozenset[ExtensionPoint]:
    return frozenset(ExtensionPoint(word) for word in text.split())


IN_TREE: Final[Implements] = {
    "DefaultBinder": _points("bind"),
    "DefaultPreemption": _points("preEnqueue postFilter"),
    "DynamicResources": _points("preEnqueue preFilter filter postFilter score reserve preBind"),
    "GangScheduling": _points("preEnqueue permit"),
    "ImageLocality": _points("score"),
    "InterPodAffinity": _points("preFilter filter preScore score"),
    "NodeAffinity": _points("preFilter filter preScore score"),
    "NodeDeclaredFeatures": _points("preFilter filter"),
    "NodeName": _points("filter"),
    "NodePorts": _points("preFilter filter"),
    "NodeResourcesBalancedAllocation": _points("preScore score"),
    "NodeResourcesFit": _points("preFilter filter preScore score placementScore"),
    "NodeUnschedulable": _points("filter"),
    "NodeVolumeLimits": _points("preFilter filter"),
    "PodGroupPodsCount": _points("placementScore"),
    "PodTopologySpread": _points("preFilter filter preScore score"),
    "PrioritySort": _points("queueSort"),
    "SchedulingGates": _points("preEnqueue"),
    "TaintToleration": _points("filter preScore score"),
    "TopologyPlacementGenerator": _points("placementGenerate"),
    "VolumeBinding": _points("preFilter filter preScore score reserve preBind"),
    "VolumeRestrictions": _points("preFilter filter"),
    "VolumeZone": _points("preFilter filter"),
}
"""Every plugin kube-scheduler 1.36 knows, whether Stowage has it or not."""


def merge(custom: Plugins) -> Plugins:
    """Complete what a profile says about plugins with the default set."""
    return msgspec.structs.replace(
        custom, multi_point=_merge_set(DEFAULT_MULTI_POINT, custom.multi_point)
    )


def _merge_set(defaults: Iterable[Plugin], custom: PluginSet) -> PluginSet:
    """Defaults that are not disabled, replaced in place where re-configured; then the others."""
    disabled = {plugin.name for plugin in custom.disabled}
    index_of = {plugin.name: i for i, plugin in enumerate(custom.enabled)}
    kept: list[Plugin] = []
    replaced: set[int] = set()
    for default in () if EVERYTHING in disabled else defaults:
        if default.name in disabled:
            continue
        index = index_of.get(default.name)
        if index is None:
            kept.append(default)
        else:
            kept.append(custom.enabled[index])
            replaced.add(index)
    kept += (plugin for i, plugin in enumerate(custom.enabled) if i not in replaced)
    return PluginSet(
        enabled=tuple(kept),
        disabled=tuple(Plugin(name=plugin.name) for plugin in custom.disabled),
    )


def expand(profile: KubeSchedulerProfile, implements: Implements) -> Expansion:
    """Say which plugins run at each extension point of a completed profile, in order.

    Args:
        profile: as `load` returns it.
        implements: the plugins that exist here. A plugin that only kube-scheduler has takes part
            in all checks and is then left out (`notices.not_in_effect` tells people).

    Raises:
        ConfigError: a plugin does not exist, does not implement the point it is enabled at, or is
            there twice; not exactly one queueSort plugin, no bind plugin.
    """
    problems = Problems()
    expansion = check_expansion(profile, {**IN_TREE, **implements}, ("plugins",), problems)
    if problems:
        raise ConfigError(f"profile {profile.scheduler_name}", problems)
    return {
        point: tuple((name, weight) for name, weight in plugins if name in implements)
        for point, plugins in expansion.items()
    }


def check_expansion(
    profile: KubeSchedulerProfile, known: Implements, path: Path, problems: Problems
) -> Expansion:
    """Expand a profile over all known plugins; what does not work out is added to `problems`."""
    plugins = profile.plugins
    _check_exist(plugins.multi_point, known, (*path, "multiPoint"), problems)
    weights = _multi_point_weights(plugins)
    result: dict[ExtensionPoint, tuple[tuple[str, int], ...]] = {}
    for point in ExtensionPoint:
        _check_explicit(plugins.at(point), point, known, (*path, point.value), problems)
        names = _expand_point(plugins, point, known, (*path, "multiPoint"), problems)
        own = {plugin.name: plugin.weight for plugin in reversed(plugins.at(point).enabled)}
        result[point] = tuple(
            (name, (own.get(name, weights.get(name, 0)) or 1) if point in SCORING else 0)
            for name in names
        )
    _check_counts(result, path, problems)
    return result


def _check_exist(plugin_set: PluginSet, known: Implements, path: Path, problems: Problems) -> None:
    for i, plugin in enumerate(plugin_set.enabled):
        if plugin.name not in known:
            problems.add((*path, "enabled", i, "name"), _does_not_exist(plugin.name, known))


def _does_not_exist(name: str, known: Implements) -> str:
    meant = nearest(name, known)
    suggestion = f'; did you mean "{meant}"?' if meant is not None else ""
    return f'there is no plugin "{name}"{suggestion}'


def _check_explicit(
    plugin_set: PluginSet,
    point: ExtensionPoint,
    known: Implements,
    path: Path,
    problems: Problems,
) -> None:
    """Check what is enabled at a specific extension point."""
    _check_exist(plugin_set, known, path, problems)
    seen: set[str] = set()
    for i, plugin in enumerate(plugin_set.enabled):
        place = (*path, "enabled", i, "name")
        if plugin.name in known and point not in known[plugin.name]:
            points = ", ".join(p.value for p in ExtensionPoint if p in known[plugin.name])
            problems.add(place, f'"{plugin.name}" has no {point.label} part; it has: {points}')
        elif plugin.name in seen:
            problems.add(place, f'"{plugin.name}" is enabled twice here')
        seen.add(plugin.name)


def _expand_point(
    plugins: Plugins,
    point: ExtensionPoint,
    known: Implements,
    multi_point_path: Path,
    problems: Problems,
) -> Iterator[str]:
    """Overrides first, then MultiPoint's plugins, then what only this point names."""
    own = plugins.at(point)
    explicit = tuple(dict.fromkeys(plugin.name for plugin in own.enabled))
    disabled = {plugin.name for plugin in own.disabled}
    overrides: set[str] = set()
    multi: dict[str, None] = {}
    for i, plugin in enumerate(plugins.multi_point.enabled):
        name = plugin.name
        if EVERYTHING in disabled or name in disabled or point not in known.get(name, ()):
            continue
        if name in explicit:
            overrides.add(name)
        elif name in multi:
            place = (*multi_point_path, "enabled", i, "name")
            problems.add(place, f'"{name}" is enabled twice')
        else:
            multi[name] = None
    yield from (name for name in explicit if name in overrides)
    yield from multi
    yield from (name for name in explicit if name not in overrides)


def _multi_point_weights(plugins: Plugins) -> dict[str, int]:
    return {plugin.name: plugin.weight for plugin in reversed(plugins.multi_point.enabled)}


def _check_counts(result: Expansion, path: Path, problems: Problems) -> None:
    queue_sort = [name for name, _ in result[ExtensionPoint.QUEUE_SORT]]
    if len(queue_sort) != 1:
        found = ", ".join(queue_sort) or "none"
        problems.add((*path, "queueSort"), f"exactly one plugin must sort the queue, found {found}")
    if not result[ExtensionPoint.BIND]:
        problems.add((*path, "bind"), "at least one plugin must bind, found none")
    if len(result[ExtensionPoint.PLACEMENT_GENERATE]) > 1:
        problems.add((*path, "placementGenerate"), "at most one plugin may generate placements")

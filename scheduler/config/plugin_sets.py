"""The plugins of kube-scheduler, the default set, and its merge with that of a profile.

Source: pkg/scheduler/apis/config/v1 default_plugins.go; the plugins' own interface declarations
(1.36.3, default feature gates).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from scheduler.config.feature_gates import (
    GANG_SCHEDULING,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
)
from scheduler.config.problems import Path
from scheduler.config.types import (
    ExtensionPoint,
    KubeSchedulerProfile,
    PluginEntry,
    Plugins,
    PluginSet,
)

EVERYTHING: Final = "*"
BEHIND_GATES: Final[Mapping[str, tuple[str, ...]]] = {
    GANG_SCHEDULING: ("GangScheduling",),
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING: ("TopologyPlacementGenerator", "PodGroupPodsCount"),
}
"""Plugins by feature gate: enabled by default with the gate, and never without it."""

Implements = Mapping[str, frozenset[ExtensionPoint]]
"""Extension points by plugin name."""

DEFAULT_MULTI_POINT: Final = tuple(
    PluginEntry(name=name, weight=weight)
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
"""The plugins that run by default."""


def _points(text: str) -> frozenset[ExtensionPoint]:
    return frozenset(ExtensionPoint(word) for word in text.split())


IN_TREE: Final[Implements] = {
    "DefaultBinder": _points("bind"),
    "DefaultPreemption": _points("preEnqueue postFilter"),
    "DynamicResources": _points("preEnqueue preFilter filter postFilter score reserve preBind"),
    "GangScheduling": _points("preEnqueue permit"),
    "ImageLocality": _points("score"),
    "InterPodAffinity": _points("preFilter filter preScore score"),
    "KeepRoom": _points("postFilter"),
    "NodeAffinity": _points("preFilter filter preScore score"),
    "NodeDeclaredFeatures": _points("preFilter filter"),
    "NodeName": _points("filter"),
    "NodeOwnership": _points("filter reserve"),
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
"""Every plugin of kube-scheduler 1.36, in Stowage or not, and two plugins that only Stowage has:
KeepRoom and NodeOwnership."""


def named_plugins(profile: KubeSchedulerProfile, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the plugins that are enabled or configured, with their paths."""
    for point, plugin_set in _sets(profile):
        for i, plugin in enumerate(plugin_set.enabled):
            yield (*path, "plugins", point, "enabled", i, "name"), plugin.name
    for i, config in enumerate(profile.plugin_config):
        yield (*path, "pluginConfig", i, "name"), config.name


def named_in_vain(
    profile: KubeSchedulerProfile, known: Collection[str], path: Path
) -> Iterator[tuple[Path, str]]:
    """Yield the plugins that are disabled or configured and do not exist, with their paths."""
    for point, plugin_set in _sets(profile):
        for i, plugin in enumerate(plugin_set.disabled):
            if plugin.name not in known and plugin.name != EVERYTHING:
                yield (*path, "plugins", point, "disabled", i, "name"), plugin.name
    for i, config in enumerate(profile.plugin_config):
        if config.name not in known:
            yield (*path, "pluginConfig", i, "name"), config.name


def _sets(profile: KubeSchedulerProfile) -> Iterator[tuple[str, PluginSet]]:
    yield "multiPoint", profile.plugins.multi_point
    for point in ExtensionPoint:
        yield point.value, profile.plugins.at(point)


def merge(custom: Plugins, feature_gates: Collection[str] = ()) -> Plugins:
    """Complete the plugins of a profile with the default set for the gates that are on.

    Source: pkg/scheduler/apis/config/v1 default_plugins.go (applyFeatureGates) v1.36.
    """
    behind = (names for gate, names in BEHIND_GATES.items() if gate in feature_gates)
    gated = (PluginEntry(name=name) for names in behind for name in names)
    defaults = (*DEFAULT_MULTI_POINT, *gated)
    return msgspec.structs.replace(custom, multi_point=_merge_set(defaults, custom.multi_point))


def _merge_set(defaults: Iterable[PluginEntry], custom: PluginSet) -> PluginSet:
    """Merge enabled defaults, replaced in place by a profile's entries, then its other plugins."""
    disabled = {plugin.name for plugin in custom.disabled}
    index_of = {plugin.name: i for i, plugin in enumerate(custom.enabled)}
    kept: list[PluginEntry] = []
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
        disabled=tuple(PluginEntry(name=plugin.name) for plugin in custom.disabled),
    )

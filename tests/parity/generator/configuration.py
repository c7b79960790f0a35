"""Configurations: which plugins run where, in which order, with which weight, in which profile."""

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.feature import Feature

FILTERS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeDeclaredFeatures",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
)
SCORERS = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)
WEIGHTS = (1, 2, 3, 10, 100)


class Configuration(Feature):
    """Random profiles that kube-scheduler accepts."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        if not draw.maybe(self.density):
            return
        names = ["default-scheduler", "second", "third"][: draw.pick((1, 1, 2, 3))]
        cluster.profiles = [_profile(draw, name) for name in names]
        # ignoredByScheduler wants arguments of NodeResourcesFit, so the plugin must be enabled.
        if draw.maybe(0.1) and not any(_starts_from_nothing(p) for p in cluster.profiles):
            cluster.extenders = [
                {
                    "urlPrefix": "http://127.0.0.1:1/never-called",
                    "managedResources": [
                        {"name": "example.com/gpu", "ignoredByScheduler": draw.maybe(0.7)}
                    ],
                }
            ]

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        if cluster.profiles:
            names = [profile["schedulerName"] for profile in cluster.profiles]
            pod["spec"]["schedulerName"] = draw.pick([*names, *names, "nobody"])


def _profile(draw: Draw, name: str) -> Object:
    profile: Object = {"schedulerName": name}
    if draw.maybe(0.2):
        profile["percentageOfNodesToScore"] = draw.pick((0, 100))
    plugins: Object = {}
    if draw.maybe(0.45):
        _merge(plugins, "score", _weighted(draw))
    if draw.maybe(0.3):
        _merge(plugins, "multiPoint", _reweighted(draw))
    if draw.maybe(0.2):
        # Named explicitly, these filters come first: rejections change their author.
        _merge(plugins, "filter", {"enabled": [{"name": n} for n in draw.some(FILTERS, 1, 4)]})
    if draw.maybe(0.3):
        _disable_filters(draw, plugins)
    if draw.maybe(0.3):
        _disable_scorers(draw, plugins)
    if draw.maybe(0.12):
        _only(draw, plugins)
    if plugins:
        profile["plugins"] = plugins
    return profile


def _starts_from_nothing(profile: Object) -> bool:
    """Tell whether the profile has none of the default plugins."""
    return bool(profile.get("plugins", {}).get("multiPoint", {}).get("disabled") == [{"name": "*"}])


def _merge(plugins: Object, point: str, addition: Object) -> None:
    """Add to a plugin set without naming a plugin twice."""
    current = plugins.setdefault(point, {})
    for key, entries in addition.items():
        known = {entry["name"] for entry in current.get(key, ())}
        current[key] = [*current.get(key, ()), *(e for e in entries if e["name"] not in known)]


def _weighted(draw: Draw) -> Object:
    entries = []
    for name in draw.some(SCORERS, 1, 4):
        entry: Object = {"name": name}
        if draw.maybe(0.85):
            entry["weight"] = draw.pick(WEIGHTS)
        entries.append(entry)
    return {"enabled": entries}


def _reweighted(draw: Draw) -> Object:
    """Name default plugins again under MultiPoint, which replaces them in place."""
    result: Object = {
        "enabled": [{"name": n, "weight": draw.pick(WEIGHTS)} for n in draw.some(SCORERS, 1, 3)]
    }
    if draw.maybe(0.4):
        # Disabled and enabled again: the plugin moves behind all default ones.
        result["disabled"] = [{"name": result["enabled"][0]["name"]}]
    return result


def _disable_filters(draw: Draw, plugins: Object) -> None:
    names = ["*"] if draw.maybe(0.15) else draw.some(FILTERS, 1, 3)
    disabled = [{"name": name} for name in names]
    _merge(plugins, "filter", {"disabled": disabled})
    # Without any PreFilter the score of DynamicResources is an error.
    if "*" not in names and draw.maybe(0.5):
        _merge(plugins, "preFilter", {"disabled": disabled})
        _drop_enabled(plugins, "filter", names)


def _disable_scorers(draw: Draw, plugins: Object) -> None:
    names = ["*"] if draw.maybe(0.12) else draw.some(SCORERS, 1, 4)
    _merge(plugins, "score", {"disabled": [{"name": name} for name in names]})
    if draw.maybe(0.6):
        _merge(plugins, "preScore", {"disabled": [{"name": name} for name in names]})
        _drop_enabled(plugins, "score", names)


def _drop_enabled(plugins: Object, point: str, names: list[str]) -> None:
    """Forget explicit entries of plugins whose other half has just been switched off."""
    current = plugins.get(point, {})
    if "enabled" in current:
        current["enabled"] = [
            e for e in current["enabled"] if e["name"] not in names and "*" not in names
        ]


def _only(draw: Draw, plugins: Object) -> None:
    """Start from nothing: MultiPoint without the defaults, and a list of our own."""
    plugins.clear()
    chosen = draw.some((*FILTERS, "NodeResourcesBalancedAllocation", "ImageLocality"), 1, 8)
    entries: list[Object] = [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]
    for name in chosen:
        entry: Object = {"name": name}
        if name in SCORERS and draw.maybe(0.5):
            entry["weight"] = draw.pick(WEIGHTS)
        entries.append(entry)
    if draw.maybe(0.5):
        entries.append({"name": "SchedulingGates"})
    plugins["multiPoint"] = {"disabled": [{"name": "*"}], "enabled": entries}

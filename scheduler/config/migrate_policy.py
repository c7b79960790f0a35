"""Converts Policy files, which kube-scheduler read until 1.22, to one profile of v1.

A policy names predicates and priorities; each stands for a plugin at Filter or at Score. Plugins
that it does not name are disabled. Later plugins, such as SchedulingGates, stay enabled.

Source: kubernetes pkg/scheduler/framework/plugins/legacy_registry.go,
staging/src/k8s.io/kube-scheduler/config/v1 (Policy) v1.22.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from scheduler.config.duration import format_duration
from scheduler.config.problems import Path, Problems
from scheduler.config.types import API_VERSION, KIND
from scheduler.config.walker import did_you_mean, shown

_FIT: Final = "NodeResourcesFit"
_SPREAD: Final = "PodTopologySpread"
_GENERAL: Final = (_FIT, "NodeName", "NodePorts", "NodeAffinity")
_PREDICATES: Final[Mapping[str, tuple[str, ...]]] = {
    "GeneralPredicates": _GENERAL,
    "PodFitsResources": (_FIT,),
    "PodFitsHostPorts": ("NodePorts",),
    "HostName": ("NodeName",),
    "MatchNodeSelector": ("NodeAffinity",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "PodToleratesNodeTaints": ("TaintToleration",),
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "EvenPodsSpread": (_SPREAD,),
    # Since 1.12 taints represent the conditions that these predicates checked.
    "CheckNodeCondition": (),
    "CheckNodeMemoryPressure": (),
    "CheckNodeDiskPressure": (),
    "CheckNodePIDPressure": (),
}
_PRIORITIES: Final = {
    "LeastRequestedPriority": _FIT,
    "MostRequestedPriority": _FIT,
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "SelectorSpreadPriority": _SPREAD,
    "ServiceSpreadingPriority": _SPREAD,
    "EvenPodsSpreadPriority": _SPREAD,
    "InterPodAffinityPriority": "InterPodAffinity",
    "NodeAffinityPriority": "NodeAffinity",
    "TaintTolerationPriority": "TaintToleration",
    "ImageLocalityPriority": "ImageLocality",
}
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "predicates": ("name", "argument"),
    "priorities": ("name", "weight", "argument"),
    "extenders": (),
    "hardPodAffinitySymmetricWeight": (),
    "alwaysCheckAllPredicates": (),
}
"""The fields of a policy, and those of its entries; extenders are checked as those of v1."""
_WITHOUT_EFFECT: Final = ("EqualPriority", "NodePreferAvoidPodsPriority")
_MANDATORY: Final = ("TaintToleration", "NodeUnschedulable")
_DEFAULT_WEIGHTS: Final = {
    _SPREAD: 3,
    "InterPodAffinity": 1,
    _FIT: 1,
    "NodeResourcesBalancedAllocation": 1,
    "NodeAffinity": 1,
    "TaintToleration": 1,
    "ImageLocality": 1,
}
"""Weights if a policy names no priorities; PodTopologySpread has its own weight (2) and that of
SelectorSpread (1)."""
_FILTERS: Final = frozenset(plugin for names in _PREDICATES.values() for plugin in names)
_SCORERS: Final = frozenset(_PRIORITIES.values())

Note = Callable[[str], object]


def from_policy(policy: Mapping[str, Any], problems: Problems, note: Note) -> dict[str, Any]:
    """Return the configuration that places pods as the policy does."""
    return _Policy(policy, problems, note).configuration()


class _Policy:
    """Converts one policy file."""

    def __init__(self, policy: Mapping[str, Any], problems: Problems, note: Note) -> None:
        self._policy = policy
        self._problems = problems
        self._note = note
        self._terms: list[dict[str, Any]] = []
        self._strategies: dict[str, dict[str, Any]] = {}

    def configuration(self) -> dict[str, Any]:
        self._refuse_unknown(self._policy, ("kind", "apiVersion", *_FIELDS), ())
        filters, weights = self._filters(), self._weights()
        if self._policy.get("alwaysCheckAllPredicates"):
            self._note("alwaysCheckAllPredicates: left out; all reasons are always told")
        profile = {
            "schedulerName": "default-scheduler",
            "plugins": _plugins(filters, weights),
            "pluginConfig": list(self._plugin_config(filters | weights.keys())),
        }
        self._note("schedulerName: default-scheduler, which was the default")
        document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
        extenders = [_extender(extender) for _, extender in self._entries("extenders")]
        if extenders:
            document["extenders"] = extenders
        return document

    def _filters(self) -> set[str]:
        if self._policy.get("predicates") is None:
            return set(_FILTERS)
        found = set(_MANDATORY)
        for path, predicate in self._entries("predicates"):
            argument = self._mapping(predicate, "argument", path)
            plugins = _PREDICATES.get(str(predicate.get("name")))
            if "labelsPresence" in argument:
                found.add("NodeAffinity")
                self._add_labels(argument, (*path, "argument"))
            elif plugins is not None and not argument:
                found.update(plugins)
            else:
                self._no_counterpart(path, predicate)
        return found

    def _add_labels(self, argument: Mapping[str, Any], path: Path) -> None:
        presence = self._mapping(argument, "labelsPresence", path)
        operator = "Exists" if presence.get("presence") else "DoesNotExist"
        keys = presence.get("labels") or []
        if isinstance(keys, list):
            self._terms += [{"key": key, "operator": operator} for key in keys]
        else:
            place = (*path, "labelsPresence", "labels")
            self._problems.add(place, f"expected a list, got {shown(keys)}")

    def _weights(self) -> dict[str, int]:
        if self._policy.get("priorities") is None:
            return dict(_DEFAULT_WEIGHTS)
        weights: dict[str, int] = {}
        for path, priority in self._entries("priorities"):
            name, argument = priority.get("name"), self._mapping(priority, "argument", path)
            strategy = _strategy(name, argument)
            plugin = _FIT if strategy else _PRIORITIES.get(str(name))
            if name in _WITHOUT_EFFECT:
                self._note(f"{name}: left out, it has no effect any more")
            elif plugin is None or (argument and not strategy):
                self._no_counterpart(path, priority)
            else:
                weights[plugin] = weights.get(plugin, 0) + self._weight(priority, path)
                self._strategies |= {strategy["type"]: strategy} if strategy else {}
        if len(self._strategies) > 1:
            found = ", ".join(self._strategies)
            self._problems.add(
                ("priorities",), f"expected one strategy of NodeResourcesFit, got {found}"
            )
        return weights

    def _entries(self, name: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        """Yield the mappings in a list of the policy, each with its path."""
        found = self._policy.get(name) or []
        if not isinstance(found, list):
            self._problems.add((name,), f"expected a list, got {shown(found)}")
            return
        for i, entry in enumerate(found):
            if isinstance(entry, dict):
                self._refuse_unknown(entry, _FIELDS[name] or entry, (name, i))
                yield (name, i), entry
            else:
                self._problems.add((name, i), f"expected a mapping, got {shown(entry)}")

    def _refuse_unknown(
        self, written: Mapping[str, Any], known: Collection[str], path: Path
    ) -> None:
        for name in written:
            if name not in known:
                guess = did_you_mean(name, known, found=self._problems)
                told = guess or f"; known here: {', '.join(known)}"
                self._problems.add((*path, name), f"unknown field{told}")

    def _mapping(self, entry: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
        found = entry.get(name) or {}
        if isinstance(found, dict):
            return found
        self._problems.add((*path, name), f"expected a mapping, got {shown(found)}")
        return {}

    def _weight(self, priority: Mapping[str, Any], path: Path) -> int:
        weight = priority.get("weight") or 1
        if isinstance(weight, int):
            return weight
        self._problems.add((*path, "weight"), f"expected a whole number, got {shown(weight)}")
        return 1

    def _no_counterpart(self, path: Path, entry: Mapping[str, Any]) -> None:
        self._problems.add(path, f'"{entry.get("name")}" has no counterpart in v1')

    def _plugin_config(self, used: set[str]) -> Iterator[dict[str, Any]]:
        hard = self._policy.get("hardPodAffinitySymmetricWeight")
        if hard:
            yield {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": hard}}
        if _FIT in used:
            [strategy, *_] = *self._strategies.values(), {"type": "LeastAllocated"}
            yield {"name": _FIT, "args": {"scoringStrategy": strategy}}
        if self._terms:
            required = {"nodeSelectorTerms": [{"matchExpressions": self._terms}]}
            added = {"requiredDuringSchedulingIgnoredDuringExecution": required}
            yield {"name": "NodeAffinity", "args": {"addedAffinity": added}}


def _plugins(filters: set[str], weights: Mapping[str, int]) -> dict[str, Any]:
    off = sorted((_FILTERS | _SCORERS) - filters - weights.keys())
    unfiltered = sorted((_FILTERS & weights.keys()) - filters)
    unscored = sorted((_SCORERS & filters) - weights.keys())
    points: dict[str, dict[str, Any]] = {
        "multiPoint": {"disabled": _named(off)},
        "preFilter": {"disabled": _named(n for n in unfiltered if n != "TaintToleration")},
        "filter": {"disabled": _named(unfiltered)},
        "preScore": {"disabled": _named(unscored)},
        "score": {
            "disabled": _named(unscored),
            "enabled": [{"name": name, "weight": weight} for name, weight in weights.items()],
        },
    }
    return {point: found for point, found in points.items() if any(found.values())}


def _named(names: Any) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def _strategy(name: object, argument: Mapping[str, Any]) -> dict[str, Any]:
    """Return the strategy of NodeResourcesFit for a priority; empty for other priorities."""
    ratio = argument.get("requestedToCapacityRatioArguments")
    if name == "LeastRequestedPriority":
        return {"type": "LeastAllocated"}
    if name == "MostRequestedPriority":
        return {"type": "MostAllocated"}
    if not isinstance(ratio, dict):
        return {}
    strategy: dict[str, Any] = {
        "type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {"shape": ratio.get("shape") or []},
    }
    if ratio.get("resources"):
        strategy["resources"] = ratio["resources"]
    return strategy


def _extender(value: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an extender: the spelling of fields, and httpTimeout, a number of nanoseconds."""
    extender = {("enableHTTPS" if k == "enableHttps" else k): v for k, v in value.items()}
    limit = extender.get("httpTimeout")
    if isinstance(limit, int):
        extender["httpTimeout"] = format_duration(limit / 1e9)
    return extender

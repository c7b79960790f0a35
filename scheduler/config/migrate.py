"""Rewrites configurations of earlier versions as v1, so that pods are placed as before.

v1beta2 was removed in Kubernetes 1.28, v1beta3 in 1.29, Policy files in 1.23 (`migrate_policy`).
A setting without a counterpart is a problem or, if it has no effect on placements, a note.

Source: kubernetes pkg/scheduler/apis/config/v1beta2 default_plugins.go, v1beta3 default_plugins.go
(v1.25); staging/src/k8s.io/kube-scheduler/config/v1beta2, v1beta3 types.go.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from scheduler.config.load import load_object
from scheduler.config.migrate_policy import from_policy
from scheduler.config.plugin_sets import Implements
from scheduler.config.problems import ConfigError, Path, Problems
from scheduler.config.source import parse
from scheduler.config.types import API_VERSION, KIND, ExtensionPoint, KubeSchedulerProfile
from scheduler.config.walker import decode, shown
from scheduler.config.write import dump

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""kube-scheduler's name for a profile without one."""

_GROUP: Final = API_VERSION.partition("/")[0]
_OLD_WEIGHTS: Final = {"InterPodAffinity": 1, "NodeAffinity": 1, "TaintToleration": 1}
"""Default weights of v1beta2 that changed in v1beta3."""
_SAME_AS: Final = "NodeVolumeLimits does its work"
_GONE: Final = {
    "AzureDiskLimits": _SAME_AS,
    "CinderLimits": _SAME_AS,
    "EBSLimits": _SAME_AS,
    "GCEPDLimits": _SAME_AS,
    "SelectorSpread": "PodTopologySpread does its work",
    "NodePreferAvoidPods": "the annotation it reads is no more; use taints",
}
"""Plugins that are left out, and the reasons why placements do not change."""
_LOST: Final = {
    "NodeLabel": "write NodeAffinity's argument addedAffinity instead",
    "ServiceAffinity": "nothing does its work; use pod affinity",
}
"""Plugins without a counterpart, whose absence would change placements."""
_PORTS: Final = ("healthzBindAddress", "metricsBindAddress")
_POINTS: Final = ("multiPoint", *(point.value for point in ExtensionPoint))

Note = Callable[[str], object]


class _Profiles(msgspec.Struct, frozen=True):
    """The part of a file that is rewritten; its fields have the types of v1."""

    profiles: tuple[KubeSchedulerProfile, ...] = ()


def migrate(text: str | bytes, *, source: str, out_of_tree: Implements, note: Note) -> str:
    """Rewrite a file as KubeSchedulerConfiguration v1.

    `note` receives a line for every setting that was left out or had to be made explicit.

    Raises:
        ConfigError: the file has another version, a setting has no counterpart, or the file was
            invalid before.
    """
    problems = Problems()
    value = parse(text, problems)
    if problems:
        raise ConfigError(source, problems)
    document = _migrated(value, problems, note)
    if problems:
        raise ConfigError(source, problems)
    load_object(document, source=f"{source}, migrated", out_of_tree=out_of_tree)
    return dump(document, sort_keys=False)


def _migrated(value: Any, problems: Problems, note: Note) -> dict[str, Any]:
    if not isinstance(value, dict):
        problems.add((), f"expected a mapping with apiVersion and kind, got {shown(value)}")
        return {}
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind == "Policy":
        return from_policy(value, problems, note)
    if kind != KIND:
        problems.add(("kind",), f'expected "{KIND}" or "Policy", got {shown(kind)}')
    elif version == API_VERSION:
        note("it is v1 already; nothing is changed")
        return value
    elif version not in (f"{_GROUP}/v1beta2", f"{_GROUP}/v1beta3"):
        expected = "v1beta2, v1beta3 or v1"
        problems.add(("apiVersion",), f"expected {_GROUP}/ and {expected}, got {shown(version)}")
    else:
        return _from_beta(value, problems, note, is_oldest=version.endswith("v1beta2"))
    return {}


def _from_beta(
    value: Mapping[str, Any], problems: Problems, note: Note, *, is_oldest: bool
) -> dict[str, Any]:
    document = {**value, "apiVersion": API_VERSION}
    for name in _PORTS:
        if document.pop(name, None) is not None:
            note(f"{name}: left out; the flags --bind-address and --secure-port say it")
    election = document.get("leaderElection")
    if isinstance(election, dict) and election.get("resourceLock", "leases") != "leases":
        note(f"leaderElection.resourceLock: leases, instead of {election['resourceLock']}")
        document["leaderElection"] = {**election, "resourceLock": "leases"}
    before = len(problems)
    decode(_Profiles, {"profiles": document.get("profiles")}, (), problems)
    if len(problems) == before:
        document["profiles"] = [
            _profile(profile, ("profiles", i), problems, note, is_oldest=is_oldest)
            for i, profile in enumerate(document.get("profiles") or [{}])
        ]
    return document


def _profile(
    value: Mapping[str, Any], path: Path, problems: Problems, note: Note, *, is_oldest: bool
) -> dict[str, Any]:
    profile = {"schedulerName": DEFAULT_SCHEDULER, **value}
    if "schedulerName" not in value:
        note(f"{path[0]}[{path[1]}].schedulerName: {DEFAULT_SCHEDULER}, which was the default")
    plugins = {
        point: _plugin_set(found, (*path, "plugins", point), problems, note)
        for point, found in (profile.pop("plugins", None) or {}).items()
    }
    if is_oldest:
        plugins = _with_old_weights(plugins)
    if plugins:
        profile["plugins"] = plugins
    configs = profile.pop("pluginConfig", None)
    if configs:
        profile["pluginConfig"] = [
            _plugin_config(config) for config in configs if config.get("name") not in _GONE
        ]
    return profile


def _plugin_set(value: Any, path: Path, problems: Problems, note: Note) -> Any:
    if value is None:
        return value
    kept = dict(value)
    for verb in ("enabled", "disabled"):
        if value.get(verb) is None:
            continue
        kept[verb] = []
        for i, plugin in enumerate(value[verb]):
            name = plugin["name"]
            if name in _LOST and verb == "enabled":
                problems.add((*path, verb, i, "name"), f'"{name}" is no more: {_LOST[name]}')
            elif name not in _GONE and name not in _LOST:
                kept[verb].append(plugin)
            elif verb == "enabled":
                note(f'"{name}": left out, {_GONE[name]}')
    return kept


def _with_old_weights(plugins: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plugins with the v1beta2 weights of plugins whose weight is the default."""
    score = plugins.get("score") or {}
    enabled, disabled = list(score.get("enabled") or ()), score.get("disabled") or ()
    named = {plugin["name"] for plugin in (*enabled, *disabled)}
    multi = plugins.get("multiPoint") or {}
    off = named | {plugin["name"] for plugin in multi.get("disabled") or ()}
    if "*" not in off:
        enabled += [
            {"name": name, "weight": weight}
            for name, weight in _OLD_WEIGHTS.items()
            if name not in off
        ]
    return {**plugins, "score": {**score, "enabled": enabled}}


def _plugin_config(value: Mapping[str, Any]) -> Mapping[str, Any]:
    args = value.get("args")
    if not isinstance(args, dict) or "apiVersion" not in args:
        return value
    is_ours = str(args["apiVersion"]).startswith(f"{_GROUP}/")
    return {**value, "args": {**args, "apiVersion": API_VERSION}} if is_ours else value

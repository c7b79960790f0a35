"""Finds parts of a valid configuration without effect here: a notice if harmless, else an error."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from scheduler.config.feature_gates import (
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    POD_GROUPS,
    lacking_gates,
    turned_on,
    unsupported_gates,
)
from scheduler.config.plugin_sets import BEHIND_GATES, IN_TREE, named_in_vain
from scheduler.config.problems import Problem, render_path
from scheduler.config.types import (
    ClientConnectionConfiguration,
    Extender,
    ExtensionPoint,
    KubeSchedulerConfiguration,
)

_ALLOW: Final = "--allow-unsupported goes on without it"


def unsupported(
    config: KubeSchedulerConfiguration, implemented: Collection[str]
) -> Iterator[Problem]:
    """Yield the configured features that are missing here and would change placements."""
    for i, profile in enumerate(config.profiles):
        sets = {point.value: profile.plugins.at(point) for point in ExtensionPoint}
        told: set[str] = set()
        for point, plugins in {"multiPoint": profile.plugins.multi_point, **sets}.items():
            for name in (plugin.name for plugin in plugins.enabled):
                if name not in implemented and name not in told:
                    told.add(name)
                    yield Problem(
                        ("profiles", i, "plugins", point, "enabled"),
                        f'"{name}" is not part of this version; {_ALLOW}',
                    )


def unsupported_settings(feature_gates: Iterable[str]) -> Iterator[Problem]:
    """Yield the feature gates that are turned on and missing here, as `unsupported` for plugins.

    `feature_gates` are settings such as `Name=true`.
    """
    for name, is_on in unsupported_gates(feature_gates):
        asked, there = (f"{name}={str(value).lower()}" for value in (is_on, not is_on))
        yield Problem(
            ("featureGates",),
            f"{asked} is not part of this version, which behaves as with {there}; {_ALLOW}",
        )


def contradictions(
    config: KubeSchedulerConfiguration,
    feature_gates: Collection[str],
    pod_group_apis: Collection[str] = (),
) -> Iterator[Problem]:
    """Yield the settings that lack the feature gates they depend on; the first text is upstream's.

    `feature_gates` are settings such as `Name=true`.
    """
    for name, lacking in lacking_gates(feature_gates):
        told = (
            f"{name} is enabled, but depends on features that are disabled: [{' '.join(lacking)}]"
        )
        yield Problem(("featureGates",), told)
    is_on = turned_on(feature_gates)
    if pod_group_apis and not is_on >= POD_GROUPS:
        gates = " and ".join(sorted(POD_GROUPS))
        yield Problem(("podGroupApis",), f"expected the feature gates {gates} with it")
    off = [(gate, names) for gate, names in BEHIND_GATES.items() if gate not in is_on]
    for i, profile in enumerate(config.profiles):
        used = profile.plugins.names()
        for gate, name in ((gate, name) for gate, names in off for name in names):
            if name in used:
                told = f'"{name}" needs the gate {gate}, which is off'
                yield Problem(("profiles", i, "plugins"), told)


def gates_by_half(feature_gates: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each feature gate that has no full effect without others."""
    is_on = turned_on(feature_gates)
    if GENERIC_WORKLOAD in is_on and GANG_SCHEDULING not in is_on:
        yield (
            f"featureGates: {GENERIC_WORKLOAD}=true without {GANG_SCHEDULING}=true: no minCount of "
            "a pod group is looked at, and gangs may run by half"
        )


def not_in_effect(
    config: KubeSchedulerConfiguration, implemented: Collection[str]
) -> Iterator[str]:
    """Yield a sentence for each setting that is accepted and has no effect."""
    known = {*implemented, *IN_TREE}
    for i, profile in enumerate(config.profiles):
        for place, name in named_in_vain(profile, known, ("profiles", i)):
            yield f'{render_path(place)}: no effect, there is no plugin "{name}"'
    yield from _tls_in_vain(config.extenders)
    if config.delay_cache_until_active:
        yield (
            "delayCacheUntilActive has no effect: a standby always keeps its cache warm, so that "
            "it can take over at once"
        )
    defaults = KubeSchedulerConfiguration()
    if config.parallelism != defaults.parallelism:
        yield "parallelism has no effect: all nodes are evaluated at once, in columns"
    connection, usual = config.client_connection, ClientConnectionConfiguration()
    if connection.content_type != usual.content_type or connection.accept_content_types:
        yield (
            "clientConnection.contentType and acceptContentTypes have no effect: requests are JSON"
        )


def _tls_in_vain(extenders: Iterable[Extender]) -> Iterator[str]:
    for i, extender in enumerate(extenders):
        is_plain = extender.url_prefix.lower().startswith("http:")
        for field, is_set in (
            ("enableHTTPS", extender.enable_https),
            ("tlsConfig", extender.tls_config is not None),
        ):
            if is_set and is_plain:
                yield f"extenders[{i}].{field} has no effect: urlPrefix is http, not https"

"""Completes a configuration with defaults.

Defaults of single fields are in `types.py` and `args.py`. This module has the defaults that depend
on more than one field. These are zero values that stand for the default, the default profile and
plugins, and the arguments of every enabled plugin.

Source: pkg/scheduler/apis/config/v1 defaults.go; pkg/scheduler/scheduler.go buildExtenders.
"""

from collections.abc import Collection
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.config import plugin_sets
from scheduler.config.args import (
    ARGS_TYPES,
    DEFAULT_RESOURCES,
    STORAGE_SHAPE,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    VolumeBindingArgs,
)
from scheduler.config.feature_gates import STORAGE_CAPACITY_SCORING
from scheduler.config.types import (
    ClientConnectionConfiguration,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
)

StructT = TypeVar("StructT", bound=msgspec.Struct)


def complete(
    config: KubeSchedulerConfiguration,
    default_scheduler_name: str,
    feature_gates: Collection[str] = (),
) -> KubeSchedulerConfiguration:
    """Fill in all defaults."""
    contention = config.enable_contention_profiling
    profiles = config.profiles or (KubeSchedulerProfile(),)
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        profiles = (replace(profiles[0], scheduler_name=default_scheduler_name),)
    ignored = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    return replace(
        config,
        leader_election=_zero_means_default(
            config.leader_election, LeaderElectionConfiguration(), except_for={"leader_elect"}
        ),
        client_connection=_zero_means_default(
            config.client_connection, ClientConnectionConfiguration()
        ),
        enable_contention_profiling=config.enable_profiling if contention is None else contention,
        profiles=tuple(_complete_profile(each, ignored, feature_gates) for each in profiles),
        extenders=tuple(
            _zero_means_default(extender, Extender(), only={"http_timeout_seconds"})
            for extender in config.extenders
        ),
        feature_gates=frozenset(feature_gates),
    )


def _zero_means_default(
    value: StructT,
    defaults: StructT,
    *,
    except_for: frozenset[str] | set[str] = frozenset(),
    only: set[str] | None = None,
) -> StructT:
    """Replace empty fields by their defaults."""
    changes = {
        name: getattr(defaults, name)
        for name in value.__struct_fields__
        if (only is None or name in only) and name not in except_for and not getattr(value, name)
    }
    return replace(value, **changes)


def _complete_profile(
    profile: KubeSchedulerProfile,
    ignored_resources: tuple[str, ...],
    feature_gates: Collection[str],
) -> KubeSchedulerProfile:
    plugins = plugin_sets.merge(profile.plugins, feature_gates)
    named = {config.name for config in profile.plugin_config}
    added = [
        PluginConfig(name=name, args=ARGS_TYPES[name]())
        for name in sorted(plugins.names())
        if name in ARGS_TYPES and name not in named
    ]
    completed = tuple(
        _ignore_resources(
            replace(config, args=_complete_args(config.args, feature_gates)), ignored_resources
        )
        for config in (*profile.plugin_config, *added)
    )
    return replace(profile, plugins=plugins, plugin_config=completed)


def _complete_args(args: object, feature_gates: Collection[str]) -> object:
    """Replace empty lists and zero weights inside plugin arguments by the defaults."""
    match args:
        case NodeResourcesFitArgs(scoring_strategy=strategy):
            resources = _complete_resources(strategy.resources)
            return replace(args, scoring_strategy=replace(strategy, resources=resources))
        case NodeResourcesBalancedAllocationArgs(resources=resources):
            return replace(args, resources=_complete_resources(resources))
        case VolumeBindingArgs(shape=None | ()) if STORAGE_CAPACITY_SCORING in feature_gates:
            return replace(args, shape=STORAGE_SHAPE)
        case _:
            return args


def _complete_resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    if not resources:
        return DEFAULT_RESOURCES
    return tuple(replace(r, weight=1) if r.weight == 0 else r for r in resources)


def _ignore_resources(config: PluginConfig, ignored: tuple[str, ...]) -> PluginConfig:
    """Replace the resources that NodeResourcesFit ignores by those that extenders manage."""
    if not ignored or not isinstance(config.args, NodeResourcesFitArgs):
        return config
    return replace(config, args=replace(config.args, ignored_resources=ignored))

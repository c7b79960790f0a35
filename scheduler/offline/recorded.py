"""Profiles and engine that a recording was made with, for whoever replays it; and others."""

from collections.abc import Collection, Mapping

from scheduler.bootstrap import args_types_of, out_of_tree_plugins, own_plugins
from scheduler.config.load import load_object
from scheduler.config.write import to_object
from scheduler.engine import Engine
from scheduler.framework.interface import Plugin
from scheduler.offline.cluster import Profiles
from scheduler.recording.records import Header


def recorded_profiles(header: Header) -> Profiles:
    """The profiles that were in force when a recording began.

    Raises:
        SchedulerError: they cannot be built here.
    """
    out_of_tree = out_of_tree_plugins()
    config = load_object(
        header.configuration,
        source="recorded configuration",
        out_of_tree=own_plugins(out_of_tree),
        feature_gates=header.feature_gates,
        args_types=args_types_of(out_of_tree),
    )
    return Profiles(config, out_of_tree)


def recorded_engine(profiles: Profiles, header: Header) -> Engine:
    """A fresh engine that gives the answers of a recording."""
    return profiles.engine(header.seed, header.max_in_unschedulable_seconds)


def with_plugins(
    profiles: Profiles,
    added: Mapping[str, tuple[type[Plugin], int]],
    feature_gates: Collection[str],
) -> Profiles:
    """The same profiles, each with more plugins at all their extension points.

    Args:
        profiles: what to begin with.
        added: class and weight by name; a weight of 0 is the plugin's default.
        feature_gates: those that are on.

    Raises:
        SchedulerError: they cannot be built.
    """
    document = to_object(profiles.config)
    for profile in document["profiles"]:
        enabled = profile["plugins"].setdefault("multiPoint", {}).setdefault("enabled", [])
        enabled += [{"name": name, "weight": weight} for name, (_, weight) in added.items()]
    plugins = {**out_of_tree_plugins(), **{name: plugin for name, (plugin, _) in added.items()}}
    config = load_object(
        document,
        source="configuration with --plugin",
        out_of_tree=own_plugins(plugins),
        feature_gates=feature_gates,
        args_types=args_types_of(plugins),
    )
    return Profiles(config, plugins, is_named=profiles.is_named)

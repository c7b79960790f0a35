"""Builds the profiles of a configuration, and imports a plugin that a command line names."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from scheduler.config.feature_gates import turned_on
from scheduler.config.load import load
from scheduler.config.notices import not_in_effect, unsupported, unsupported_settings
from scheduler.config.problems import ConfigError
from scheduler.config.source import with_lines
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.daemon.bootstrap import (
    args_types_of,
    implemented_plugins,
    out_of_tree_plugins,
    own_plugins,
)
from scheduler.kernel.framework.interface import Plugin
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, OWN_PROFILE, Profiles
from scheduler.tools.offline.reading import InputError


def profiles_from_text(
    text: str,
    source: str,
    *,
    feature_gates: Sequence[str] = (),
    tries_all_nodes: bool = False,
) -> tuple[Profiles, tuple[str, ...]]:
    """Build the profiles of a configuration from `source`; return them with its notices.

    Raises:
        SchedulerError: the configuration is wrong, or a plugin or file that it names is missing.
    """
    out_of_tree = out_of_tree_plugins()
    gates, settings = turned_on(feature_gates), map(str, unsupported_settings(feature_gates))
    implemented = implemented_plugins(out_of_tree)
    own = own_plugins(out_of_tree)
    args_types = args_types_of(out_of_tree)

    def config_called(name: str) -> KubeSchedulerConfiguration:
        return load(
            text,
            source=source,
            out_of_tree=own,
            args_types=args_types,
            default_scheduler_name=name,
            feature_gates=gates,
        )

    config = config_called(DEFAULT_PROFILE)
    _check_extenders(config, text, source)
    # The profile has a written name if it does not change with the default name.
    is_named = config.profiles == config_called(OWN_PROFILE).profiles
    profiles = Profiles(config, out_of_tree, is_named=is_named, tries_all_nodes=tries_all_nodes)
    lacking = map(str, unsupported(config, implemented.keys()))
    return profiles, (*settings, *lacking, *not_in_effect(config, implemented.keys()))


def _check_extenders(config: KubeSchedulerConfiguration, text: str, source: str) -> None:
    """Refuse extenders with a wrong address; their files may be those of another machine."""
    if not config.extenders:
        return
    from scheduler.daemon.client.extenders import extender_problems  # noqa: PLC0415 - a tenth of a second for extenders only

    refused = [*extender_problems(config.extenders, has_file=lambda _: True)]
    if refused:
        raise ConfigError(source, with_lines(refused, text))


def plugin_called(text: str) -> tuple[str, tuple[type[Plugin], int]]:
    """Return name, class and weight of `MODULE:CLASS[=WEIGHT]`, the argument of --plugin.

    Raises:
        InputError: the text has another form, or there is no such plugin.
    """
    path, has_weight, weight = text.partition("=")
    module, _, name = path.partition(":")
    if not (module and name) or (has_weight and not (weight.isascii() and weight.isdigit())):
        raise InputError(f"--plugin {text}: expected MODULE:CLASS or MODULE:CLASS=WEIGHT")
    if "" not in sys.path:
        # Users expect modules of the working directory, which is not on the command's path.
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: type[Plugin] = getattr(importlib.import_module(module), name)
    except Exception as problem:
        told = f"{type(problem).__name__}: {problem}"
        raise InputError(f"--plugin {text}: cannot be imported: {told}") from problem
    is_class = isinstance(found, type)
    if not is_class or not (hasattr(found, "NAME") or Plugin in found.__mro__):
        raise InputError(f"--plugin {text}: expected the class of a plugin, found {found!r}")
    if told := name_problem(found):
        raise InputError(f"--plugin {text}: {told}")
    return found.NAME, (found, int(weight or 0))


def name_problem(plugin: type) -> str:
    """Return why a plugin's class has no name in configurations; empty if it has one."""
    name: object = getattr(plugin, "NAME", None)
    if isinstance(name, str) and name:
        return ""
    return (
        f"{plugin.__qualname__} needs a NAME, its name in configurations; "
        f"expected a text such as {plugin.__name__!r}, got {name!r}"
    )

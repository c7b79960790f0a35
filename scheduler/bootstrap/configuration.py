"""What the command line names, read and held against what this version does."""

from collections.abc import Mapping

from scheduler.bootstrap.frameworks import args_types_of, implemented_plugins, own_plugins
from scheduler.config.notices import not_in_effect, unsupported, unsupported_settings
from scheduler.config.options import RunOptions, effective_configuration
from scheduler.config.problems import ConfigError
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.framework.interface import Plugin


def read_configuration(
    options: RunOptions, out_of_tree: Mapping[str, type[Plugin]]
) -> tuple[KubeSchedulerConfiguration, tuple[str, ...]]:
    """The configuration, and notices about it, one sentence each.

    Raises:
        ConfigError: it cannot be read or used, or asks for an unsupported feature without
            `--allow-unsupported`.
    """
    config, notices = effective_configuration(
        options, own_plugins(out_of_tree), args_types_of(out_of_tree)
    )
    implemented = implemented_plugins(out_of_tree).keys()
    lacking = (*unsupported_settings(options.feature_gates), *unsupported(config, implemented))
    if lacking and not options.allow_unsupported:
        raise ConfigError(options.config or "command line", lacking)
    return config, (*notices, *not_in_effect(config, implemented), *map(str, lacking))

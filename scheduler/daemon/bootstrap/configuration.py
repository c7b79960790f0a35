"""Reads the configuration of the command line and checks that the daemon can run with it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

from scheduler.config.notices import (
    contradictions,
    gates_by_half,
    not_in_effect,
    unsupported,
    unsupported_settings,
)
from scheduler.config.options import RunOptions, effective_configuration
from scheduler.config.problems import ConfigError, Problem
from scheduler.config.source import read_file, with_lines
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.daemon.bootstrap.installed import args_types_of, implemented_plugins, own_plugins
from scheduler.daemon.client.extenders import extender_problems
from scheduler.kernel.framework.interface import Plugin


def read_configuration(
    options: RunOptions, out_of_tree: Mapping[str, type[Plugin]]
) -> tuple[KubeSchedulerConfiguration, tuple[str, ...]]:
    """Read the configuration; return it with notices about it, one sentence each.

    Raises:
        ConfigError: the configuration cannot be read or used, or uses an unsupported feature
            without `--allow-unsupported`.
    """
    config, notices = effective_configuration(
        options, own_plugins(out_of_tree), args_types_of(out_of_tree)
    )
    told = check_usable(
        config,
        implemented_plugins(out_of_tree).keys(),
        options.feature_gates,
        source=options.config or "command line",
        text=partial(read_file, options.config) if options.config else bytes,
        allow_unsupported=options.allow_unsupported,
        pod_group_apis=options.pod_group_apis,
    )
    return config, (*notices, *told)


def check_usable(  # noqa: PLR0913 - what a configuration is checked against
    config: KubeSchedulerConfiguration,
    implemented: Collection[str],
    feature_gates: Iterable[str],
    *,
    source: str,
    text: Callable[[], bytes] = bytes,
    allow_unsupported: bool,
    has_file: Callable[[str], bool] | None = None,
    may_lack_files: bool = False,
    pod_group_apis: Collection[str] = (),
) -> tuple[str, ...]:
    """Check that the daemon can run with a valid configuration; return notices, a sentence each.

    `run`, `config` and the operator accept only configurations that pass this check.

    Args:
        config: the configuration, valid and completed.
        implemented: the names of the existing plugins.
        feature_gates: settings as they were written.
        source: the configuration's name in messages.
        text: returns the content of its file, for line numbers in messages; empty without a file.
        allow_unsupported: whether an unsupported feature is a notice, not a problem.
        has_file: returns whether a daemon on another machine has a file.
        may_lack_files: whether a file that is not here is no problem: the daemon may have it.
        pod_group_apis: the foreign APIs from which pod groups are read too.

    Raises:
        ConfigError: the daemon cannot run with the configuration; it lists all problems.
    """
    feature_gates = tuple(feature_gates)
    lacking = (*unsupported_settings(feature_gates), *unsupported(config, implemented))
    refused = (
        *contradictions(config, feature_gates, pod_group_apis),
        *(() if allow_unsupported else lacking),
        *_lacking_kubeconfig(config, has_file),
        *extender_problems(config.extenders, has_file, may_lack_files=may_lack_files),
    )
    if refused:
        raise ConfigError(source, with_lines(refused, text()))
    in_vain = (*gates_by_half(feature_gates), *not_in_effect(config, implemented))
    return (*in_vain, *map(str, lacking))


def _lacking_kubeconfig(
    config: KubeSchedulerConfiguration, has_file: Callable[[str], bool] | None
) -> Iterator[Problem]:
    """Yield the problem of a kubeconfig that a daemon on another machine does not have."""
    name = config.client_connection.kubeconfig
    if name and has_file is not None and not has_file(name):
        told = f"the daemon's pods have no file {name}; without it they use their ServiceAccount"
        yield Problem(("clientConnection", "kubeconfig"), told)

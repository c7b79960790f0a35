"""`stowage config`: check a configuration and print what is in effect."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from scheduler.bootstrap import implemented_plugins, out_of_tree_plugins
from scheduler.cli.inputs import feature_gates_option
from scheduler.config.load import default_configuration, load
from scheduler.config.notices import not_in_effect
from scheduler.config.plugin_sets import IN_TREE, Implements
from scheduler.config.problems import ConfigError, Problem
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.write import to_yaml

_BAD_INPUT: Final = 2


def config_command(implements: Callable[[], Implements]) -> click.Command:
    """Build the command.

    Args:
        implements: gives the plugins that exist here, in-tree and out-of-tree; asked only when
            the command runs.
    """

    @click.command("config")
    @click.argument("file", required=False, metavar="[FILE]")
    @feature_gates_option
    def config(file: str | None, feature_gates: frozenset[str]) -> None:
        """Check a KubeSchedulerConfiguration and print what is in effect.

        FILE is YAML or JSON, "-" is standard input; without it the default configuration is
        printed. Defaults are filled in; kube-scheduler 1.36 can be started with the output.

        Everything that is wrong is listed, each with its line and path, and the exit status is 2.
        Parts of a valid configuration that have no effect in this version are named on standard
        error.
        """
        plugins = implements()
        try:
            effective = _read(file, plugins, feature_gates)
        except ConfigError as error:
            click.echo(str(error), err=True)
            sys.exit(_BAD_INPUT)
        for notice in not_in_effect(effective, plugins.keys()):
            click.echo(f"note: {notice}", err=True)
        click.echo(to_yaml(effective), nl=False)

    return config


def _read(
    file: str | None, plugins: Implements, feature_gates: frozenset[str]
) -> KubeSchedulerConfiguration:
    if file is None:
        return default_configuration(feature_gates=feature_gates)
    out_of_tree = {name: points for name, points in plugins.items() if name not in IN_TREE}
    if file == "-":
        text = sys.stdin.buffer.read()
        file = "standard input"
    else:
        try:
            text = Path(file).read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigError(file, [Problem((), f"cannot be read: {reason}")]) from error
    return load(text, source=file, out_of_tree=out_of_tree, feature_gates=feature_gates)


def _implemented() -> Implements:
    return implemented_plugins(out_of_tree_plugins())


config = config_command(_implemented)

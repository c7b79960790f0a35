"""`stowage config`: check a configuration and print what is in effect."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import click

from scheduler.bootstrap import args_types_of, implemented_plugins, out_of_tree_plugins
from scheduler.cli.inputs import feature_gates_option
from scheduler.config.load import ArgsTypes, default_configuration, load
from scheduler.config.notices import not_in_effect
from scheduler.config.plugin_sets import IN_TREE, Implements
from scheduler.config.problems import ConfigError, Problem
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.write import to_yaml
from scheduler.errors import SchedulerError

_BAD_INPUT: Final = 2


class Known(NamedTuple):
    """The plugins that exist here.

    Attributes:
        implements: in-tree and out-of-tree ones.
        args_types: what the arguments of the latter are read as.
    """

    implements: Implements
    args_types: ArgsTypes


def config_command(known: Callable[[], Known]) -> click.Command:
    """Build the command.

    Args:
        known: gives the plugins that exist here; asked only when the command runs.
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
        try:
            plugins = known()
            effective = _read(file, plugins, feature_gates)
        except ConfigError as error:
            click.echo(str(error), err=True)
            sys.exit(_BAD_INPUT)
        except SchedulerError as error:
            click.echo(f"stowage config: {error}", err=True)
            sys.exit(_BAD_INPUT)
        for notice in not_in_effect(effective, plugins.implements.keys()):
            click.echo(f"note: {notice}", err=True)
        click.echo(to_yaml(effective), nl=False)

    return config


def _read(
    file: str | None, plugins: Known, feature_gates: frozenset[str]
) -> KubeSchedulerConfiguration:
    if file is None:
        return default_configuration(feature_gates=feature_gates)
    source, text = _text(file)
    out_of_tree = {n: points for n, points in plugins.implements.items() if n not in IN_TREE}
    return load(
        text,
        source=source,
        out_of_tree=out_of_tree,
        args_types=plugins.args_types,
        feature_gates=feature_gates,
    )


def _text(file: str) -> tuple[str, bytes]:
    """What messages call it, and what it says."""
    if file == "-":
        return "standard input", sys.stdin.buffer.read()
    try:
        return file, Path(file).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(file, [Problem((), f"cannot be read: {reason}")]) from error


def _known() -> Known:
    out_of_tree = out_of_tree_plugins()
    return Known(implemented_plugins(out_of_tree), args_types_of(out_of_tree))


config = config_command(_known)

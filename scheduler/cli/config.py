"""`stowage config`: check a configuration and print what is in effect."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import click

from scheduler.bootstrap import args_types_of, implemented_plugins, out_of_tree_plugins
from scheduler.cli.inputs import feature_gates_option
from scheduler.config.load import ArgsTypes, default_configuration, load
from scheduler.config.migrate import migrate
from scheduler.config.notices import not_in_effect, unsupported
from scheduler.config.plugin_sets import IN_TREE, Implements
from scheduler.config.problems import ConfigError, Problem
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.write import to_yaml
from scheduler.errors import SchedulerError

_BAD_INPUT: Final = 2
_STANDARD_INPUT: Final = "-"


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
    @click.option(
        "--migrate",
        "is_old",
        is_flag=True,
        help="FILE is of an earlier version (v1beta2, v1beta3, Policy): print it as v1.",
    )
    @click.option(
        "--allow-unsupported",
        is_flag=True,
        help="Name what this version does not do, but do not take it for an error.",
    )
    def config(
        file: str | None,
        *,
        feature_gates: frozenset[str],
        is_old: bool,
        allow_unsupported: bool,
    ) -> None:
        """Check a KubeSchedulerConfiguration and print what is in effect.

        FILE is YAML or JSON, "-" is standard input; without it the default configuration is
        printed. Defaults are filled in; kube-scheduler 1.36 can be started with the output.

        Everything that is wrong is listed, each with its line and path, and the exit status is 2.
        So it is for what is right and not done in this version, unless --allow-unsupported says
        that it may be missing. What has no effect and does no harm is named on standard error.
        """
        try:
            plugins = known()
            if is_old:
                _migrate(file, plugins)
            else:
                _print(file, plugins, feature_gates, allow_unsupported=allow_unsupported)
        except ConfigError as error:
            click.echo(str(error), err=True)
            sys.exit(_BAD_INPUT)
        except SchedulerError as error:
            click.echo(f"stowage config: {error}", err=True)
            sys.exit(_BAD_INPUT)

    return config


def _migrate(file: str | None, plugins: Known) -> None:
    source, text = _text(file or _STANDARD_INPUT)
    out_of_tree = _out_of_tree(plugins)
    click.echo(migrate(text, source=source, out_of_tree=out_of_tree, note=_note), nl=False)


def _print(
    file: str | None, plugins: Known, feature_gates: frozenset[str], *, allow_unsupported: bool
) -> None:
    effective = _read(file, plugins, feature_gates)
    lacking = tuple(unsupported(effective, plugins.implements.keys()))
    if lacking and not allow_unsupported:
        raise ConfigError(_called(file), lacking)
    for notice in (*map(str, lacking), *not_in_effect(effective)):
        _note(notice)
    click.echo(to_yaml(effective), nl=False)


def _read(
    file: str | None, plugins: Known, feature_gates: frozenset[str]
) -> KubeSchedulerConfiguration:
    if file is None:
        return default_configuration(feature_gates=feature_gates)
    source, text = _text(file)
    return load(
        text,
        source=source,
        out_of_tree=_out_of_tree(plugins),
        args_types=plugins.args_types,
        feature_gates=feature_gates,
    )


def _out_of_tree(plugins: Known) -> Implements:
    return {n: points for n, points in plugins.implements.items() if n not in IN_TREE}


def _called(file: str | None) -> str:
    return "standard input" if file == _STANDARD_INPUT else file or "default configuration"


def _text(file: str) -> tuple[str, bytes]:
    """What messages call it, and what it says."""
    if file == _STANDARD_INPUT:
        return _called(file), sys.stdin.buffer.read()
    try:
        return file, Path(file).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(file, [Problem((), f"cannot be read: {reason}")]) from error


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


def _known() -> Known:
    out_of_tree = out_of_tree_plugins()
    return Known(implemented_plugins(out_of_tree), args_types_of(out_of_tree))


config = config_command(_known)

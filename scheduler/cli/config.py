"""`stowage config`: check a configuration and print what is in effect."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from scheduler.bootstrap import implemented_plugins, out_of_tree_plugins
from scheduler.config.load import default_configuration, load
from scheduler.config.migrate import migrate
from scheduler.config.notices import not_in_effect, unsupported
from scheduler.config.plugin_sets import IN_TREE, Implements
from scheduler.config.problems import ConfigError, Problem
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.write import to_yaml

_BAD_INPUT: Final = 2
_STANDARD_INPUT: Final = "-"


def config_command(implements: Callable[[], Implements]) -> click.Command:
    """Build the command.

    Args:
        implements: gives the plugins that exist here, in-tree and out-of-tree; asked only when
            the command runs.
    """

    @click.command("config")
    @click.argument("file", required=False, metavar="[FILE]")
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
    def config(file: str | None, *, is_old: bool, allow_unsupported: bool) -> None:
        """Check a KubeSchedulerConfiguration and print what is in effect.

        FILE is YAML or JSON, "-" is standard input; without it the default configuration is
        printed. Defaults are filled in; kube-scheduler 1.36 can be started with the output.

        Everything that is wrong is listed, each with its line and path, and the exit status is 2.
        So it is for what is right and not done in this version, unless --allow-unsupported says
        that it may be missing. What has no effect and does no harm is named on standard error.
        """
        try:
            _print(file, implements(), is_old=is_old, allow_unsupported=allow_unsupported)
        except ConfigError as error:
            click.echo(str(error), err=True)
            sys.exit(_BAD_INPUT)

    return config


def _print(file: str | None, plugins: Implements, *, is_old: bool, allow_unsupported: bool) -> None:
    out_of_tree = {name: points for name, points in plugins.items() if name not in IN_TREE}
    source = "standard input" if file == _STANDARD_INPUT else file or "default configuration"
    if is_old:
        text = _text(file or _STANDARD_INPUT)
        click.echo(migrate(text, source=source, out_of_tree=out_of_tree, note=_note), nl=False)
        return
    effective = _read(file, source, out_of_tree)
    lacking = tuple(unsupported(effective, plugins.keys()))
    if lacking and not allow_unsupported:
        raise ConfigError(source, lacking)
    for notice in (*map(str, lacking), *not_in_effect(effective)):
        _note(notice)
    click.echo(to_yaml(effective), nl=False)


def _read(file: str | None, source: str, out_of_tree: Implements) -> KubeSchedulerConfiguration:
    if file is None:
        return default_configuration()
    return load(_text(file), source=source, out_of_tree=out_of_tree)


def _text(file: str) -> bytes:
    if file == _STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(file, [Problem((), f"cannot be read: {reason}")]) from error


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


def _implemented() -> Implements:
    return implemented_plugins(out_of_tree_plugins())


config = config_command(_implemented)

"""`stowage config`: check a configuration and print the effective one."""

import sys
from collections.abc import Iterator, Mapping
from os.path import isfile

import click

from scheduler.config.feature_gates import turned_on
from scheduler.config.load import default_configuration, load
from scheduler.config.migrate import migrate
from scheduler.config.problems import ConfigError
from scheduler.config.source import read_file
from scheduler.config.types import ExtenderTlsConfig, KubeSchedulerConfiguration
from scheduler.config.write import to_yaml
from scheduler.daemon.bootstrap import (
    args_types_of,
    implemented_plugins,
    out_of_tree_plugins,
    own_plugins,
)
from scheduler.daemon.bootstrap.configuration import check_usable
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.interface import Plugin
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.explain_text import print_note
from scheduler.tools.cli.inputs import (
    BAD_INPUT,
    STANDARD_INPUT,
    feature_gates_option,
    input_lines,
    refuse,
)
from scheduler.tools.cli.options import command


@command("config")
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
    feature_gates: tuple[str, ...],
    is_old: bool,
    allow_unsupported: bool,
) -> None:
    """Check a KubeSchedulerConfiguration and print what is in effect.

    FILE is YAML or JSON, "-" is standard input; without it the default configuration is
    printed. Defaults are filled in; kube-scheduler 1.36 can be started with the output.

    Every mistake is listed with its line and path, and the exit status is 2. A feature that this
    version lacks is a mistake as well, unless --allow-unsupported is given. So is a plugin of your
    own that cannot be built. A field without an effect is named on standard error.
    """
    try:
        plugins = out_of_tree_plugins()
        if is_old:
            _migrate(file, plugins)
        else:
            _print(file, plugins, feature_gates, allow_unsupported=allow_unsupported)
    except ConfigError as error:
        echo(str(error), err=True)
        sys.exit(BAD_INPUT)
    except SchedulerError as error:
        refuse("config", error)


def _migrate(file: str | None, plugins: Mapping[str, type[Plugin]]) -> None:
    source, text = _text(file or STANDARD_INPUT)
    own = own_plugins(plugins)
    document = migrate(text, source=source, out_of_tree=own, note=print_note)
    click.echo(document, nl=False)  # noqa: TID251 - a document is printed as it is


def _print(
    file: str | None,
    plugins: Mapping[str, type[Plugin]],
    feature_gates: tuple[str, ...],
    *,
    allow_unsupported: bool,
) -> None:
    source, text = ("default configuration", b"") if file is None else _text(file)
    gates = turned_on(feature_gates)
    if file is None:
        effective = default_configuration(feature_gates=gates)
    else:
        effective = load(
            text,
            source=source,
            out_of_tree=own_plugins(plugins),
            args_types=args_types_of(plugins),
            feature_gates=gates,
        )
    notices = check_usable(
        effective,
        implemented_plugins(plugins).keys(),
        feature_gates,
        source=source,
        text=lambda: text,
        allow_unsupported=allow_unsupported,
        may_lack_files=True,
    )
    if effective.plugin_names() & own_plugins(plugins).keys():
        from scheduler.tools.offline.cluster import Profiles  # noqa: PLC0415 - half a second that other configurations need not wait for

        # A plugin of the user may refuse to be built; the daemon would not start.
        Profiles(effective, plugins)
    for notice in (*notices, *_missing_files(effective)):
        print_note(notice)
    click.echo(to_yaml(effective), nl=False)  # noqa: TID251 - a document is printed as it is


def _missing_files(config: KubeSchedulerConfiguration) -> Iterator[str]:
    """Yield a notice for each file of an extender that may be on the daemon's machine only."""
    for i, extender in enumerate(config.extenders):
        tls = extender.tls_config or ExtenderTlsConfig()
        for field, data, name in (
            ("caFile", tls.ca_data, tls.ca_file),
            ("certFile", tls.cert_data, tls.cert_file),
            ("keyFile", tls.key_data, tls.key_file),
        ):
            if name and not data and not isfile(name):  # noqa: PTH113 - `Path` raises for unreachable paths
                place = f"extenders[{i}].tlsConfig.{field}"
                yield f"{place}: there is no file {name} here; `stowage run` needs it"


def _text(file: str) -> tuple[str, bytes]:
    """Read a file or the standard input; return its name in messages, and its content."""
    if file == STANDARD_INPUT:
        return "standard input", b"".join(input_lines())
    return file, read_file(file)

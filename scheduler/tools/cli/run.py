"""`stowage run`: the daemon."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from scheduler.clock import SystemClock
from scheduler.config.command_line import CONTEXT_SETTINGS, FlagCommand, flag_options
from scheduler.config.options import RunOptions
from scheduler.config.problems import ConfigError, Problem
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.write import to_yaml
from scheduler.daemon.bootstrap import PluginLoadError, out_of_tree_plugins
from scheduler.daemon.bootstrap.configuration import read_configuration
from scheduler.daemon.bootstrap.recording import RecordError
from scheduler.daemon.bootstrap.run import run_daemon
from scheduler.daemon.client import event_loop
from scheduler.daemon.client.errors import ConnectionConfigError
from scheduler.daemon.driver.daemon import return_large_blocks
from scheduler.daemon.serving.errors import ServingError
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.runtime import PluginError
from scheduler.observability import logs
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.version import this_version

_FAILED: Final = 1
_BAD_INPUT: Final = 2
_REFUSED_STARTS: Final = (
    ConfigError,
    ConnectionConfigError,
    PluginError,
    PluginLoadError,
    RecordError,
    ServingError,
)
"""Errors in what the command was given: flags, and the files and plugins that they name."""


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - as click calls it
    if value:
        found = this_version()
        echo(f"Stowage {found.stowage} (kube-scheduler {found.kubernetes})")
        context.exit()


@click.command(cls=FlagCommand, context_settings=CONTEXT_SETTINGS)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
@flag_options
def run(options: RunOptions) -> None:
    """Schedule the pods of a cluster until told to stop.

    Without --kubeconfig and --config the service account of the pod it runs in is used, else
    $KUBECONFIG, else ~/.kube/config. Pods are taken by their spec.schedulerName: "stowage" unless
    a configuration names other profiles.

    SIGTERM drains: no further pod is taken, binds in flight end, the exit status is 0; a second one
    does not wait for them. SIGUSR2 compares cache and queue with the API server and logs both. The
    exit status is 1 when the lease is lost or nothing was drained. It is 2 when a flag, a file that
    it names, the configuration, a plugin in it, or the kubeconfig cannot be used.
    """
    try:
        sys.exit(_run(options))
    except ConfigError as problem:
        echo(str(problem), err=True)
        sys.exit(_BAD_INPUT)
    except SchedulerError as problem:
        echo(f"stowage run: {problem}", err=True)
        sys.exit(_FAILED)


def _run(options: RunOptions) -> int:
    config, notices = read_configuration(options, out_of_tree_plugins())
    if options.write_config_to:
        _write(Path(options.write_config_to), to_yaml(config))
        return 0
    clock = SystemClock()
    logs.configure(clock, options.v, options.logging_format)
    log = logs.get_logger(__name__)
    for notice in notices:
        log.warning("Not in effect", notice=notice)
    return _serve(options, config, clock)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        cause = Problem((), problem.strerror or str(problem))
        raise ConfigError(f"--write-config-to={path}", [cause]) from problem


def _serve(options: RunOptions, config: KubeSchedulerConfiguration, clock: SystemClock) -> int:
    status = 0
    return_large_blocks()
    try:
        event_loop.run(run_daemon(options, config, clock))
    except* SchedulerError as problems:
        for problem in _leaves(problems):
            logs.get_logger(__name__).error("Ended with an error", err=str(problem))
            status = max(status, _BAD_INPUT if isinstance(problem, _REFUSED_STARTS) else _FAILED)
    return status


def _leaves(group: BaseExceptionGroup[SchedulerError]) -> Iterator[SchedulerError]:
    for problem in group.exceptions:
        if isinstance(problem, BaseExceptionGroup):
            yield from _leaves(problem)
        else:
            yield problem

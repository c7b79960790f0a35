"""`stowage operator`: the command."""

import sys
from typing import Any, Final

import click

from scheduler.clock import SystemClock
from scheduler.config.problems import ConfigError
from scheduler.daemon.client import event_loop
from scheduler.daemon.client.errors import ConnectionConfigError
from scheduler.errors import SchedulerError
from scheduler.observability import logs
from scheduler.observability.build_info import image_tag
from scheduler.operator.process import OperatorOptions, run_operator
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.inputs import refuse
from scheduler.tools.cli.options import cluster_options, command

_FAILED: Final = 1


@command()
@cluster_options("The cluster; the pod's own without one.")
@click.option(
    "--namespace",
    default="stowage-operator",
    metavar="NAME",
    show_default=True,
    help="Namespace of the operator's Lease.",
)
@click.option(
    "--image",
    default=f"stowage:{image_tag()}",
    metavar="IMAGE",
    show_default=True,
    help="Image of Schedulers that name none.",
)
@click.option(
    "--health-port",
    default=8080,
    metavar="PORT",
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of /healthz and /readyz; 0 for none.",
)
@click.option(
    "--reserved-scheduler-name",
    multiple=True,
    metavar="NAME",
    help="A schedulerName that no SchedulingProfile may claim; repeatable.",
)
@click.option("-v", "level", default=0, type=click.IntRange(0, 10), help="Log level.")
@click.option(
    "--logging-format",
    default=logs.TEXT,
    type=click.Choice([logs.TEXT, logs.JSON]),
    show_default=True,
    help="Log format.",
)
def operator(level: int, logging_format: str, **given: Any) -> None:
    """Reconcile the Schedulers and SchedulingProfiles of a cluster until told to stop.

    Several may run; one of them leads. The exit status is 0 after SIGTERM, 1 when the lease is
    lost, and 2 when the kubeconfig or a flag cannot be used.
    """
    clock = SystemClock()
    logs.configure(clock, level, logging_format)
    try:
        was_asked = event_loop.run(run_operator(OperatorOptions(**given), clock))
    except (ConfigError, ConnectionConfigError) as problem:
        refuse("operator", problem)
    except SchedulerError as problem:
        echo(f"stowage operator: {problem}", err=True)
        sys.exit(_FAILED)
    sys.exit(0 if was_asked else _FAILED)

"""`stowage top`: the command."""

import os
import sys
from pathlib import Path

import click

from scheduler.clock import SystemClock
from scheduler.errors import SchedulerError
from scheduler.observability import logs
from scheduler.tools.cli.explain_text import print_note
from scheduler.tools.cli.inputs import feature_gates_option, refuse
from scheduler.tools.cli.live import ClusterAddress, check_lists
from scheduler.tools.cli.options import cluster_options, command
from scheduler.tools.cli.recordings import RecordedSource
from scheduler.tools.cli.sources import InputSource, instance_option
from scheduler.tools.cli.top.sources import ClusterSource, RecordingSource, TopSource
from scheduler.tools.offline.reading import InputError

NOT_INSTALLED = (
    "the screen is not installed: pip install 'stowage-scheduler[top]', or `make install` in a "
    "checkout"
)


@command()
@cluster_options("The cluster to watch; as kubectl finds it.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration whose profiles judge the pods that wait; by default that of "
    "the instance in the cluster.",
)
@feature_gates_option
@instance_option
@click.option(
    "--recording",
    "recordings",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Look at a recording of `stowage run --record` instead: its directory or all its parts.",
)
def top(
    *,
    kubeconfig: str,
    context: str,
    config_file: str | None,
    feature_gates: tuple[str, ...],
    instances: tuple[str, ...],
    recordings: tuple[Path, ...],
) -> None:
    """Show queue, pending pods by reason, and how full the nodes are, live.

    Enter explains the pods under the cursor, as `stowage explain` does. Nothing is changed: rights
    to list and watch are enough. In a recording the arrow keys move through time.

    \b
      stowage top
      stowage top --recording recordings
    """  # noqa: D301 - \b is click's mark for lines to keep
    try:
        from scheduler.tools.cli.top.app import TopApp  # noqa: PLC0415 - an extra brings the screen
    except ModuleNotFoundError as problem:
        if problem.name is None or not problem.name.startswith("textual"):
            raise
        refuse("top", NOT_INSTALLED)
    clock = SystemClock()
    notices: tuple[str, ...] = ()
    try:
        if recordings:
            if config_file is not None or feature_gates or instances:
                raise InputError(
                    "--recording has its own profiles: leave out --config, --feature-gates and "
                    "--instance"
                )
            with RecordedSource(recordings=recordings).opened(kubeconfig, context) as recording:
                source: TopSource = RecordingSource(recording)
        else:
            place = ClusterAddress(kubeconfig, context)
            # Before the screen is taken over: it has no place for errors.
            check_lists(place)
            asked = InputSource(
                (), kubeconfig, context, config_file, feature_gates, instances=instances
            )
            profiles, notices = asked.profiles()
            source = ClusterSource(place, profiles, clock)
    except SchedulerError as problem:
        refuse("top", problem)
    if not sys.stdout.isatty():
        refuse("top", "standard output is not a terminal; `stowage explain` writes text")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        # Log lines would tear the screen.
        logs.configure(clock, 0, stream=nowhere)
        TopApp(source).run()
    for notice in notices:
        print_note(notice)

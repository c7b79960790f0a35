"""`stowage sweep`: recordings under many configurations."""

import os
from pathlib import Path
from typing import Final

import click

from scheduler.errors import SchedulerError
from scheduler.tools.cli.inputs import refuse
from scheduler.tools.cli.options import Output, output_option, print_line
from scheduler.tools.sweep.candidates import RECORDED
from scheduler.tools.sweep.executors import dask, processes
from scheduler.tools.sweep.ranking import ranked

_SHOWN: Final = 20
_FAILED: Final = 1


@click.command(context_settings={"max_content_width": 100})
@click.argument(
    "paths", nargs=-1, required=True, metavar="RECORDING...", type=click.Path(path_type=Path)
)
@click.option(
    "--configs",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Replay with each KubeSchedulerConfiguration of this directory.",
)
@click.option(
    "--grid",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Replay with each combination of the weights and arguments in this file.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:CLASS[=WEIGHT]",
    help="Enable this plugin as well, in every profile. May be given several times.",
)
@click.option(
    "--what-if",
    "what_ifs",
    multiple=True,
    metavar="add=NODE:N,remove=PATTERN",
    help="Replay on this cluster as well: more nodes like one, or without some. May be given "
    "several times.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    default=os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count(),
    show_default="one for each processor",
    metavar="N",
    help="Processes of this machine.",
)
@click.option(
    "--dask",
    "address",
    metavar="ADDRESS",
    help="Replay on the workers of this Dask scheduler instead: tcp://scheduler:8786.",
)
@click.option(
    "-d",
    "--directory",
    "out",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep results here; a sweep that was cut off goes on where it was.",
)
@output_option()
def sweep(  # noqa: PLR0913 - one argument per option
    *,
    paths: tuple[Path, ...],
    directory: Path | None,
    grid: Path | None,
    plugins: tuple[str, ...],
    what_ifs: tuple[str, ...],
    jobs: int,
    address: str | None,
    out: Path,
    output: Output,
) -> None:
    """Replay recordings under many configurations, and rank these by waiting and nodes in use.

    A RECORDING is a directory of `stowage run --record DIR`, or a file. The recorded configuration
    is replayed beside the others. DIR gets results.parquet, with a row for each run and workload,
    and front.png and front.html, which show the configurations that no other one beats.

    The exit status is 1 if a run failed, such as one whose configuration is wrong, and 2 if an
    option or a recording is.
    """
    try:
        # Both are of the extra `sweep`, and take half a second.
        from scheduler.tools.sweep.directory import SweepDirectory  # noqa: PLC0415
        from scheduler.tools.sweep.picture import write_pictures  # noqa: PLC0415
    except ImportError:
        refuse("sweep", "needs the extra of that name: pip install 'stowage-scheduler[sweep]'")
    try:
        tasks = _tasks(paths, _candidates(directory, grid, paths), plugins, what_ifs)
        kept = SweepDirectory(out)
        results = kept.finished(tasks)
        left = [task for task in tasks if task.digest not in results]
        failed = _run(left, len(tasks), dask(address) if address else processes(jobs), kept.keep)
        results |= failed | kept.finished(left)
        table = kept.write_table(tasks, results)
        standings = ranked(row for task in tasks for row in results[task.digest].rows)
        pictures = write_pictures(standings, out, RECORDED.name) if standings else []
    except SchedulerError as problem:
        refuse("sweep", problem)
    problems = {
        task.candidate.name: failed[task.digest].problem for task in left if task.digest in failed
    }
    if output == "json":
        print_line({"ranking": standings, "failed": problems, "table": str(table)})
    else:
        _print(standings, [table, *pictures])
        for name, problem in problems.items():
            click.echo(f"stowage sweep: {name}: {problem}", err=True)
    if problems:
        raise SystemExit(_FAILED)

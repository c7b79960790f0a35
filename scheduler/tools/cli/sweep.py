"""`stowage sweep`: recordings under many configurations."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from scheduler.daemon.recording.files import LeftOut, Recording
from scheduler.errors import SchedulerError
from scheduler.observability.visible import visible
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.explain_text import print_note
from scheduler.tools.cli.inputs import refuse
from scheduler.tools.cli.options import Output, command, output_option, print_line
from scheduler.tools.cli.tables import print_table
from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.candidates import RECORDED, CandidateConfig, from_directory, from_grid
from scheduler.tools.sweep.executors import Workers, carry_out_all, processes
from scheduler.tools.sweep.ranking import Standing, meanings, ranked
from scheduler.tools.sweep.run import Task, TaskResult, recordings_at, source_digest
from scheduler.tools.sweep.what_if import AS_IT_WAS, parse_what_if

if TYPE_CHECKING:
    from scheduler.tools.sweep.directory import SweepDirectory

_SHOWN: Final = 20
_NAMED: Final = 4
"""Most runs that are named if none has finished for long."""
_FAILED: Final = 1


def _processors() -> int:
    """Return the number of processors that this process may use; macOS knows only that of all."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


@command()
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
    default=_processors,
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
    """Replay recordings under many configurations, and rank them by waiting and nodes in use.

    A RECORDING is a directory of `stowage run --record DIR`, or a file. Of a directory, only files
    that end in .recording are read. The recorded configuration
    is replayed beside the others. DIR gets results.parquet, with a row for each run and workload,
    and front.png and front.html, which show the configurations that no other one beats.

    The exit status is 1 if a run failed, such as one whose configuration is wrong, or a recording
    of a directory cannot be read. It is 2 if an option is wrong, or no recording can be read.
    """
    try:
        # Both are of the extra `sweep`, and take half a second.
        from scheduler.tools.sweep.directory import SweepDirectory  # noqa: PLC0415
        from scheduler.tools.sweep.picture import write_pictures  # noqa: PLC0415
    except ImportError:
        refuse("sweep", "needs the extra of that name: pip install 'stowage-scheduler[sweep]'")
    try:
        left_out: list[LeftOut] = []
        recordings = [found for path in paths for found in recordings_at(path, left_out.append)]
        _check_different(recordings)
        candidates = _candidates(directory, grid, recordings)
        tasks = _tasks(recordings, candidates, plugins, what_ifs)
        kept = SweepDirectory(out)
        results = kept.finished(tasks)
        left = [task for task in tasks if task.digest not in results]
        workers = _dask(address) if address else processes(min(jobs, len(left) or 1))
        _run(left, len(tasks), workers, kept, results)
        table = kept.write_table(tasks)
        standings = ranked(row for task in tasks for row in results[task.digest].rows)
        pictures = write_pictures(standings, out, RECORDED.name) if standings else []
    except SchedulerError as problem:
        refuse("sweep", problem)
    failed = _unreadable(left_out) | _failed(tasks, results)
    if output == "json":
        print_line({"ranking": standings, "failed": failed, "table": visible(str(table))})
    else:
        _print(standings, [table, *pictures])
    _print_notes(tasks, results, failed)
    if failed:
        raise SystemExit(_FAILED)


def _check_different(recordings: Sequence[Recording]) -> None:
    """Check that no recording is given twice, or a copy of it: its pods would count twice.

    Raises:
        InputError: one is.
    """
    known = dict[str, Path]()
    for recording in recordings:
        path = recording.paths[0]
        first = known.setdefault(recording.header.recording, path)
        if first is not path:
            copy = "" if first.resolve() == path.resolve() else f"; it is also in {first}"
            raise InputError(f"{path}: the recording is given twice{copy}")


def _unreadable(left_out: Iterable[LeftOut]) -> dict[str, str]:
    """Print which recordings are there twice; return the problems of the others by file."""
    found: dict[str, str] = {}
    for each in left_out:
        if each.problem is None:
            told = "left out; the directory has the whole recording of its process"
            echo(f"stowage sweep: {each.path}: {told}", err=True)
        else:
            told = str(each.problem).removeprefix(f"{each.path}: ")
            found[visible(str(each.path))] = visible(told)
    return found


def _failed(tasks: Sequence[Task], results: Mapping[str, TaskResult]) -> dict[str, str]:
    """The problems by configuration; one that is wrong has the same with each recording."""
    problems: dict[str, dict[str, None]] = {}
    for task in tasks:
        if problem := results[task.digest].problem:
            problems.setdefault(task.candidate.name, {})[problem] = None
    return {name: "; ".join(found) for name, found in problems.items()}


def _dask(address: str) -> Workers:
    try:
        from scheduler.tools.sweep.dask import dask  # noqa: PLC0415 - of the extra `dask`
    except ImportError as problem:
        told = "--dask needs the extra of that name: pip install 'stowage-scheduler[dask]'"
        raise InputError(told) from problem
    return dask(address)


def _candidates(
    directory: Path | None, grid: Path | None, recordings: Sequence[Recording]
) -> list[CandidateConfig]:
    """Return the recorded configuration and the others; for a what-if the first one is enough.

    Raises:
        SchedulerError: one cannot be read, or two have one name: results could not be told apart.
    """
    found = [RECORDED]
    if directory is not None:
        found += from_directory(directory)
    if grid is not None:
        found += from_grid(grid, [each.header.configuration for each in recordings], print_note)
    counts = Counter(candidate.name for candidate in found)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise InputError(f"several configurations are called {twice[0]}")
    return found


def _tasks(
    recordings: Sequence[Recording],
    candidates: Sequence[CandidateConfig],
    plugins: tuple[str, ...],
    what_ifs: Sequence[str],
) -> list[Task]:
    changes = [AS_IT_WAS, *map(parse_what_if, dict.fromkeys(what_ifs))]
    source = source_digest(plugins)
    if plugins and len(candidates) == 1:
        raise InputError("--plugin is about other configurations: expected --configs or --grid")
    return [
        Task(
            candidate,
            tuple(str(path.resolve()) for path in recording.paths),
            recording.header.recording,
            tuple(recording.sizes.values()),
            plugins if candidate is not RECORDED else (),
            change,
            source if candidate is not RECORDED else "",
        )
        for candidate in candidates
        for change in changes
        for recording in recordings
    ]


def _run(
    left: Sequence[Task],
    total: int,
    workers: Workers,
    kept: "SweepDirectory",
    results: dict[str, TaskResult],
) -> None:
    """Carry out the remaining tasks, and add their results; a terminal shows the progress."""
    bar = Progress(
        TextColumn("{task.completed}/{task.total} runs"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    with bar:
        shown = bar.add_task("", total=total, completed=total - len(left))

        def take(result: TaskResult) -> None:
            results[result.task] = kept.keep(result)
            bar.advance(shown)

        def tell(seconds: float, under_way: list[Task]) -> None:
            named = "; ".join(_called(task) for task in under_way[:_NAMED])
            more = f"; and {len(under_way) - _NAMED} more" if len(under_way) > _NAMED else ""
            told = f"stowage sweep: no run has finished for {seconds:.0f} s: {named}{more}"
            bar.console.print(visible(told), highlight=False, soft_wrap=True, markup=False)

        carry_out_all(left, workers, take, on_silence=tell)


def _called(task: Task) -> str:
    change = f", {task.what_if.name}" if task.what_if.name else ""
    return f"{task.candidate.name} on {task.recording}{change}"


def _print(standings: Sequence[Standing], files: Sequence[Path]) -> None:
    echo("Best first: nothing waits less on as few nodes as those with a star.")
    rows = [
        (
            f"{'*' if each.is_on_front else ' '} {each.config}",
            each.what_if or "-",
            *each.wait_texts,
            f"{each.nodes:.1f}",
            f"{each.cpu:.1%}",
            f"{each.free_cpu_unusable:.1%}",
            str(each.pending),
            str(each.victims),
            str(each.moves),
        )
        for each in standings[:_SHOWN]
    ]
    headers = ("configuration", "what if", "wait p50", "wait p99", "nodes", "CPU", "CPU unusable")
    print_table((*headers, "pending", "victims", "moves"), rows, texts=(0, 1))
    if len(standings) > _SHOWN:
        echo(f"and {len(standings) - _SHOWN} more")
    for meaning in meanings(standings[:_SHOWN]):
        echo(f"{meaning}.")
    for file in files:
        echo(f"{file}")


def _print_notes(
    tasks: Sequence[Task], results: Mapping[str, TaskResult], failed: Mapping[str, str]
) -> None:
    notes: dict[str, None] = {}
    noticed: dict[str, dict[str, None]] = {}
    for task in tasks:
        result = results[task.digest]
        for notice in result.notices:
            noticed.setdefault(notice, {})[task.candidate.name] = None
        if result.reconfigured:
            told = f"the configuration changed; only `{RECORDED.name}` follows."
            notes[f"{task.recording}: {told}"] = None
        if not result.has_decisions:
            notes[f"{task.recording}: left out; it has no decisions, as of a standby."] = None
    for notice, names in noticed.items():
        first, *others = names
        more = f" and {len(others)} more" if others else ""
        notes[f"{first}{more}: {notice}"] = None
    for note in notes:
        print_note(note)
    for name, why in failed.items():
        echo(f"stowage sweep: {name}: {why}", err=True)

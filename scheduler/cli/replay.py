"""`stowage replay`: a recording, to a fresh engine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Final

import click
import msgspec

from scheduler.answers.explainer import Explainer
from scheduler.answers.why import Depth
from scheduler.api.pods import PodInfo
from scheduler.cli.explain_text import PodReport, print_note, print_report
from scheduler.cli.inputs import BAD_INPUT, NOT_ASKED, read_profiles
from scheduler.engine import Engine
from scheduler.engine.outcome import TakeOutcome
from scheduler.errors import SchedulerError
from scheduler.offline.cluster import Profiles
from scheduler.offline.reading import InputError
from scheduler.offline.recorded import recorded_engine, recorded_profiles
from scheduler.recording.comparison import Comparison, Fate, compare
from scheduler.recording.decisions import row_file
from scheduler.recording.files import Recording
from scheduler.recording.records import Header, Record
from scheduler.recording.replay import Difference, in_words, replay as replay_records, restore

_DIFFERENT: Final = 1
_SHOWN: Final = 20


@click.command(context_settings={"max_content_width": 100})
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(dir_okay=False, path_type=Path),
)
@click.option("--dump", is_flag=True, help="Print every event and what the engine answered.")
@click.option(
    "--at",
    "moment",
    metavar="TIME",
    help="Stop at this moment: seconds since the start, or a time of day such as "
    "2026-01-31T12:00:00Z.",
)
@click.option(
    "--explain",
    "pod",
    metavar="[NAMESPACE/]NAME",
    help="Say what had happened to a pod by then, and on which nodes it fits.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Replay with this KubeSchedulerConfiguration, and compare where pods land.",
)
@click.option(
    "--decisions",
    "table",
    metavar="OUT",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a row for every attempt: Parquet where the name ends in .parquet, else lines of "
    "JSON.",
)
def replay(
    *,
    files: tuple[Path, ...],
    dump: bool,
    moment: str | None,
    pod: str | None,
    config_file: str | None,
    table: Path | None,
) -> None:
    """Tell a fresh engine what a recorded one was told, and see that it answers the same.

    Name all files of one recording (`stowage run --record DIR`), or one of /debug/recording. Prints
    "identical" and ends with status 0, or says where the first answer differs and ends with
    status 1. The status is 2 when a file is damaged or an option is wrong.
    """
    try:
        recording = Recording(files)
        records = _until(recording, moment)
        with _outcomes(table, recording.header) as take_outcome:
            status = _replay(
                recording.header,
                records,
                take_outcome,
                dump=dump,
                pod=pod,
                config_file=config_file,
            )
    except SchedulerError as problem:
        click.echo(f"stowage replay: {problem}", err=True)
        sys.exit(BAD_INPUT)
    sys.exit(status)


@contextmanager
def _outcomes(table: Path | None, header: Header) -> Iterator[TakeOutcome | None]:
    """What takes the outcomes of attempts; written whole at the end, also after a difference.

    Raises:
        SchedulerError: they are not known, or cannot be written.
    """
    if table is None:
        yield None
        return
    if not header.is_complete:
        raise InputError("--decisions: the recording does not begin at the start")
    rows = row_file(table, header)
    try:
        yield rows.take
    finally:
        rows.close()


def _replay(
    header: Header,
    records: Iterator[Record],
    take_outcome: TakeOutcome | None,
    *,
    dump: bool,
    pod: str | None,
    config_file: str | None,
) -> int:
    """Gives the exit status."""
    if config_file is not None:
        _compare(header, records, config_file, take_outcome)
        return 0
    profiles = recorded_profiles(header)
    engine = recorded_engine(profiles, header, take_outcome)
    status = _feed(header, records, engine, dump=dump, is_asked=pod is not None)
    if pod is not None:
        _explain(profiles, engine, pod, header)
    return status


def _until(recording: Recording, moment: str | None) -> Iterator[Record]:
    if moment is None:
        return iter(recording)
    end = _clock_at(moment, recording.header)
    return takewhile(lambda record: record.time <= end, recording)


def _clock_at(moment: str, header: Header) -> float:
    """A moment on the clock of the events.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return header.clock + float(moment)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(moment)
    except ValueError as problem:
        raise InputError(f"--at {moment}: expected seconds or a time of day") from problem
    return header.clock + (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - header.started


def _feed(
    header: Header, records: Iterator[Record], engine: Engine, *, dump: bool, is_asked: bool
) -> int:
    """Tell the engine everything; gives the exit status."""

    def show(record: Record) -> None:
        click.echo(f"+{record.time - header.clock:.6f} {in_words(record.event)}")
        for instruction in msgspec.json.decode(record.answer, type=list[msgspec.Raw]):
            click.echo(f"    {bytes(instruction).decode()}")

    if not header.is_complete:
        # The engine's chance, back-off and attempts before the first event are not known.
        if dump:
            for record in records:
                show(record)
        elif is_asked:
            restore(records, engine)
        else:
            raise InputError(
                "the recording does not begin at the start, so answers cannot be compared; "
                "--dump, --explain and --config can be used"
            )
        return 0
    replayed = replay_records(records, engine, show if dump else lambda _: None)
    if replayed.difference is None:
        click.echo(f"{replayed.events} events: identical")
        return 0
    _print_difference(header, replayed.difference)
    return _DIFFERENT


def _print_difference(header: Header, difference: Difference) -> None:
    record = difference.record
    click.echo(
        f"different at event {difference.number}, {record.time - header.clock:.6f} s after the "
        f"start: {in_words(record.event)}"
    )
    click.echo(f"  recorded: {record.answer.decode()}")
    click.echo(f"  now:      {difference.answer.decode()}")


# --- explaining -----------------------------------------------------------------------------------


def _explain(profiles: Profiles, engine: Engine, name: str, header: Header) -> None:
    pod = _pod_called(engine, name)
    for entry in engine.story(pod.uid):
        detail = f" {entry.detail}" if entry.detail else ""
        click.echo(f"+{entry.time - header.clock:.6f} attempt {entry.attempt} {entry.what}{detail}")
    core = engine.core
    core.cache.update_snapshot(core.snapshot)
    # The configuration may have changed since the recording began.
    profiles.frameworks = dict(core.frameworks)
    explainer = Explainer(engine, profiles.framework_of)
    answer = explainer.explain(pod, Depth.CHANGES)
    framework = profiles.framework_of(pod)
    count = core.snapshot.table.count
    reasons = {} if answer.checks else explainer.reasons
    print_report(PodReport(pod, answer, framework, count, reasons, (), 10))


def _pod_called(engine: Engine, name: str) -> PodInfo:
    core = engine.core
    waiting, _ = core.queue.pending_pods()
    assigned = [pod for pod, _ in core.cache.pods().values()]
    for pod in (*waiting, *assigned):
        if name in (pod.name, pod.key):
            return pod
    raise InputError(f"--explain {name}: at this moment there is no such pod")


# --- comparing ------------------------------------------------------------------------------------


def _compare(
    header: Header, records: Iterator[Record], config_file: str, take_outcome: TakeOutcome | None
) -> None:
    profiles, notices = read_profiles(config_file)
    for notice in notices:
        print_note(notice)
    if profiles.config.extenders:
        print_note(NOT_ASKED)
    maximum = header.max_in_unschedulable_seconds
    engine = profiles.engine(header.seed, maximum, with_extenders=False, take_outcome=take_outcome)
    comparison = compare(records, engine)
    elsewhere = comparison.elsewhere
    click.echo(f"pods: {len(comparison.recorded)}, elsewhere: {len(elsewhere)}")
    for before, after in elsewhere[:_SHOWN]:
        click.echo(f"  {before.pod}: {before.node or 'pending'} -> {after.node or 'pending'}")
    if len(elsewhere) > _SHOWN:
        click.echo(f"  and {len(elsewhere) - _SHOWN} more")
    _print_waiting("recorded", comparison, comparison.recorded)
    _print_waiting("now", comparison, comparison.now)


def _print_waiting(title: str, comparison: Comparison, fates: dict[str, Fate]) -> None:
    waited = sorted(fate.waited for fate in fates.values() if fate.waited is not None)
    pending = len(comparison.recorded) - len(waited)
    if not waited:
        click.echo(f"{title}: nobody placed, {pending} pending")
        return
    mean, median = sum(waited) / len(waited), waited[len(waited) // 2]
    click.echo(
        f"{title}: {len(waited)} placed, {pending} pending; waited {mean:.3f} s on average, "
        f"{median:.3f} s the median, {waited[-1]:.3f} s at most"
    )

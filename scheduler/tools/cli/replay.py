"""`stowage replay`: a recording, to a fresh engine."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from scheduler.api.pods import PodInfo
from scheduler.daemon.recording.decisions import row_file
from scheduler.daemon.recording.files import is_recording
from scheduler.daemon.recording.records import Header, Record
from scheduler.daemon.recording.replay import (
    Difference,
    in_words,
    replay as replay_records,
    restore,
)
from scheduler.errors import SchedulerError
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.scheduling_state import scheduling_state_of
from scheduler.kernel.answers.waiting_model import SchedulingState
from scheduler.kernel.answers.why import Depth
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.outcome import TakeOutcome
from scheduler.tools.cli.comparing import (
    Compared,
    compared_with,
    configured,
    notices_of,
    print_comparison,
)
from scheduler.tools.cli.comparison_page import comparison_page
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.explain_text import PodReport, print_note, print_report
from scheduler.tools.cli.inputs import refuse
from scheduler.tools.cli.options import Output, command, page_option, print_line, print_page
from scheduler.tools.cli.pod_page import page_report, pod_page
from scheduler.tools.cli.progress import shown_progress
from scheduler.tools.cli.recordings import day_of, recording_at, rfc3339, until
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.progress import no_progress, with_progress
from scheduler.tools.offline.reading import InputError
from scheduler.tools.offline.recorded import (
    other_versions,
    recorded_engine,
    recorded_profiles,
)
from scheduler.tools.offline.workload_names import pod_called

_DIFFERENT: Final = 1


@command()
@click.argument(
    "paths", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
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
    help="Replay with this KubeSchedulerConfiguration, and compare: where pods land, how long they "
    "wait, who is evicted, how full nodes are.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:CLASS[=WEIGHT]",
    help="The same with this plugin enabled as well, in every profile. May be given several times.",
)
@page_option()
@click.option(
    "--decisions",
    "table",
    metavar="OUT",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a row for every attempt: Parquet where the name ends in .parquet, else lines of "
    "JSON.",
)
def replay(  # noqa: PLR0913 - one argument per option
    *,
    paths: tuple[Path, ...],
    dump: bool,
    moment: str | None,
    pod: str | None,
    config_file: str | None,
    plugins: tuple[str, ...],
    output: Output,
    table: Path | None,
) -> None:
    """Replay a recording in a fresh engine, and check that it decides the same.

    Name the directory of `stowage run --record DIR`, all files of one recording, or one of
    /debug/recording. Prints "identical" and ends with status 0, or says where the first answer
    differs and ends with status 1. The status is 2 when a file is damaged or an option is wrong.

    A directory holds a recording for each start of the daemon. Of several, the one is meant that
    was the last to have begun at the time of day of --at; without that, name the files.
    """
    if dump and (output != "text" or config_file or plugins):
        raise click.UsageError("--dump prints text about the recording itself")
    if pod is not None and (config_file or plugins):
        raise click.UsageError("--explain is about the configuration that was recorded")
    if output == "html" and not (config_file or plugins or pod):
        raise click.UsageError("-o html shows a comparison or a pod: --config, --plugin, --explain")
    try:
        recording = recording_at(paths, moment)
        header = recording.header
        asked = None
        if config_file is not None or plugins:
            asked = configured(header, config_file, plugins)
        with (
            # A replay that differs leaves records unread, in a file that is open.
            closing(until(recording, moment)) as asked_records,
            # After all refusals: the table of an earlier replay is overwritten.
            _outcomes(table, header) as take_outcome,
            shown_progress("replaying") as progress,
            closing(
                with_progress(
                    ((recording.share, record) for record in asked_records),
                    no_progress if dump else progress,
                )
            ) as records,
        ):
            if asked is not None:
                _compare(header, records, asked, output, take_outcome)
                return
            replay = _Replay(header, output, take_outcome)
            status = replay.run(records, pod, dump=dump)
    except SchedulerError as problem:
        refuse("replay", problem)
    sys.exit(status)


def _compare(
    header: Header,
    records: Iterator[Record],
    asked: Compared,
    output: Output,
    take_outcome: TakeOutcome | None,
) -> None:
    if output == "html":
        print_page("replay", comparison_page(header, records, asked, take_outcome))
        return
    found = compared_with(header, records, asked, take_outcome)
    if output == "json":
        print_line(msgspec.to_builtins(found))
    else:
        print_comparison(found)
    for notice in notices_of(asked, found.reconfigured):
        print_note(notice)


@contextmanager
def _outcomes(table: Path | None, header: Header) -> Iterator[TakeOutcome | None]:
    """Open the table of attempt outcomes; it is complete at the end, also after a difference.

    Raises:
        SchedulerError: the outcomes are unknown, or the table cannot be written.
    """
    if table is None:
        yield None
        return
    if not header.is_complete:
        raise InputError("--decisions: the recording does not begin at the start")
    if str(table) == "-":
        raise InputError("--decisions -: expected a file; /dev/stdout is one")
    if is_recording(table):
        raise InputError(f"--decisions {table}: this is a recording; expected a file to write")
    rows = row_file(table, header)
    try:
        yield rows.take
    finally:
        rows.close()


# --- replaying ------------------------------------------------------------------------------------


class _Replay:
    """One replay with the recorded configuration, and its output."""

    def __init__(self, header: Header, output: Output, take_outcome: TakeOutcome | None) -> None:
        self._header = header
        self._take_outcome = take_outcome
        self._output = output
        self._summary: dict[str, Any] = {}

    def run(self, records: Iterator[Record], pod: str | None, *, dump: bool) -> int:
        """Run the replay; return the exit status."""
        profiles = recorded_profiles(self._header)
        engine = recorded_engine(profiles, self._header, self._take_outcome)
        status = self._feed(records, engine, dump=dump, is_asked=pod is not None)
        if pod is not None:
            self._explain(profiles, engine, pod)
        if self._output == "json":
            print_line(self._summary)
        return status

    def _feed(
        self, records: Iterator[Record], engine: Engine, *, dump: bool, is_asked: bool
    ) -> int:
        show = self._show if dump else lambda _: None
        if not self._header.is_complete:
            # The engine's chance, back-off and attempts before the first event are not known.
            if not (dump or is_asked):
                raise InputError(
                    "the recording does not begin at the start, so answers cannot be compared; "
                    "--dump, --explain, --config and --plugin can be used"
                )
            restore(records, engine, show)
            return 0
        replayed = replay_records(records, engine, show)
        difference = replayed.difference
        self._summary |= {"events": replayed.events, "identical": difference is None}
        if difference is None:
            self._say(f"{replayed.events} events: identical")
            return 0
        self._tell_difference(difference)
        return _DIFFERENT

    def _since_start(self, time: float) -> float:
        return round(time - self._header.clock, 6)

    def _say(self, text: str) -> None:
        if self._output == "text":
            echo(text)

    def _show(self, record: Record) -> None:
        echo(f"+{self._since_start(record.time):.6f} {in_words(record.event)}")
        for instruction in msgspec.json.decode(record.answer, type=list[msgspec.Raw]):
            echo(f"    {bytes(instruction).decode()}")

    def _tell_difference(self, difference: Difference) -> None:
        record = difference.record
        seconds, event = self._since_start(record.time), in_words(record.event)
        self._summary["difference"] = {
            "event": difference.number,
            "seconds": seconds,
            "what": event,
            "recorded": msgspec.Raw(record.answer),
            "now": msgspec.Raw(difference.answer),
        }
        self._say(
            f"different at event {difference.number}, {seconds:.6f} s after the start: {event}\n"
            f"  recorded: {record.answer.decode()}\n"
            f"  now:      {difference.answer.decode()}"
        )
        for notice in other_versions(self._header):
            print_note(notice)

    def _explain(self, profiles: Profiles, engine: Engine, name: str) -> None:
        pod = _pod_called(engine, name)
        story = engine.story(pod.uid)
        core = engine.core
        core.cache.update_snapshot(core.snapshot)
        # The configuration may have changed since the recording began.
        profiles.frameworks = dict(core.frameworks)
        is_page = self._output == "html"
        explainer = Explainer(engine, profiles.framework_of, all_reasons=is_page)
        if is_page:
            judgement, state = explainer.judge(pod, Depth.CHANGES), self._state(pod, engine)
            now = self._day(core.now)
            framework, nodes = profiles.framework_of(pod), core.snapshot.table.count
            report = page_report(pod, judgement, framework, nodes, state.group)
            page = pod_page(report, judgement, now, state=state)
            print_page("pod", {"each": [page]})
            return
        if self._output == "json":
            judgement = explainer.judge(pod, Depth.CHANGES)
            told = [
                {
                    "seconds": self._since_start(entry.time),
                    "attempt": entry.attempt,
                    "what": entry.what,
                    "detail": entry.detail,
                }
                for entry in story
            ]
            self._summary |= {"story": told, "pods": [judgement.json()]}
            return
        for entry in story:
            detail = f" {entry.detail}" if entry.detail else ""
            seconds = self._since_start(entry.time)
            echo(f"+{seconds:.6f} attempt {entry.attempt} {entry.what}{detail}")
        answer = explainer.explain(pod, Depth.CHANGES)
        framework, count = profiles.framework_of(pod), core.snapshot.table.count
        reasons = {} if answer.checks else explainer.reasons
        print_report(PodReport(pod, answer, framework, count, reasons, (), 10))

    def _state(self, pod: PodInfo, engine: Engine) -> SchedulingState:
        return scheduling_state_of(
            pod,
            engine,
            lambda time: rfc3339(self._day(time)),
            leading=self._header.is_complete,
        )

    def _day(self, time: float) -> datetime:
        return day_of(self._header, time)


def _pod_called(engine: Engine, name: str) -> PodInfo:
    core = engine.core
    # A pod about which extenders are asked is in neither.
    tried = (attempt.pod for attempt in engine.attempts)
    # Of a pod that is assumed on a node, the queue's form is the one to explain.
    pods = (*tried, *core.cache.pods.values(), *core.queue.pending_pods())
    return pod_called(name, pods, f"--explain {name}")

"""Recordings as commands read them: cut short, of a crash, as of a moment."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.config.load import default_configuration
from scheduler.config.write import to_object
from scheduler.daemon.recording.directory import DirectoryRecorder
from scheduler.daemon.recording.files import Recording, part_name, whole_file
from scheduler.daemon.recording.flight import FlightRecorder
from scheduler.daemon.recording.records import Header, RecordingError, Writer
from scheduler.kernel.engine.events import Decide, Event, ObjectSet, Tick
from scheduler.observability.build_info import stowage_version
from scheduler.plugin import ReservePlugin
from scheduler.tools.cli.recordings import RecordedSource, recording_at, until_cut
from scheduler.tools.cli.sources import InputSource
from scheduler.tools.console.command import _opened
from scheduler.tools.offline import recorded as offline_recorded
from scheduler.tools.offline.reading import InputError
from tests.support.builders import make_node, make_pod_info
from tests.support.clock import FakeClock
from tests.support.commands import stowage
from tests.support.recordings import make_header

CONFIGURATION = to_object(default_configuration("stowage"))


def written(path: Path, header: Header, events: Iterable[Event]) -> Path:
    """Write a recording of events, one each second."""
    writer, lines = Writer(), bytearray()
    for number, event in enumerate(events, start=1):
        writer.write(lines, event, header.clock + number, ())
    path.write_bytes(whole_file(header, lines))
    return path


def recorded(directory: Path, file_bytes: int) -> list[Path]:
    """A pod each second; every second is a block."""
    header = make_header()
    recorder = DirectoryRecorder(directory, header, lambda *_: None, file_bytes=file_bytes)
    for number in range(6):
        now = header.clock + number + 1
        recorder.note(ObjectSet("pods", make_pod_info(f"p{number}")), now, [])
        recorder.note(Tick(), now, [])
        recorder._blocks.settle()
    recorder.close()
    return sorted(directory.iterdir())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def test_a_killed_process_leaves_its_last_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that was whole on the disk, with a note of the time."""
    [file] = recorded(tmp_path, 1 << 20)
    cut(file)

    cluster = RecordedSource(recordings=(file,)).read("", "")

    assert 0 < len(cluster.objects) < 6
    told = capsys.readouterr().err
    assert told.startswith(f"note: {file}: it is damaged: it ends in the middle of a block")
    assert "this is its last state, at 20" in told


def test_a_part_that_is_cut_in_the_middle_is_refused(tmp_path: Path) -> None:
    """What follows would be about another state."""
    first, *others = recorded(tmp_path, 400)
    assert others
    cut(first)
    recording = Recording([first, *others])

    with pytest.raises(RecordingError, match="middle of a block"):
        list(until_cut(recording, recording))


# --- extenders ------------------------------------------------------------------------------------


def test_a_recording_without_its_last_parts_is_refused(tmp_path: Path) -> None:
    """As if nothing more had happened, its answers would be about an earlier state."""
    (tmp_path / "r").mkdir()
    first, second, *others = recorded(tmp_path / "r", 400)
    assert others
    told = (
        f"{second}: this part of the recording is missing; "
        "expected all files of a recording, or their directory\n"
    )

    for command, *more in (
        ("replay",),
        ("explain", "--recording"),
        ("sweep", "-d", tmp_path / "o"),
    ):
        done = stowage(command, *more, first)
        assert (done.exit_code, done.stderr) == (2, f"stowage {command}: {told}")
    second.write_bytes(b"")
    assert recording_at([first], None).paths == [first]


def test_a_name_in_several_namespaces_is_refused(tmp_path: Path) -> None:
    """Which pod is meant would be a guess."""
    pods = [ObjectSet("pods", make_pod_info("web", namespace=each, uid=each)) for each in "ab"]
    path = written(tmp_path / "r.recording", make_header(configuration=CONFIGURATION), pods)

    unclear, meant, missing = (
        stowage("replay", path, "--dump", "--explain", name) for name in ("web", "b/web", "b/wep")
    )

    assert unclear.exit_code == 2
    assert unclear.stderr == (
        "stowage replay: --explain web: there is one in each of a, b: say NAMESPACE/web\n"
    )
    assert (meant.exit_code, "b/web" in meant.stdout) == (0, True)
    assert missing.stderr.endswith('no such pod, or it has ended; did you mean "b/web"?\n')


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--config", "no.yaml", "no.yaml: cannot be read"),
        ("--plugin", "no:no", "--plugin no:no: cannot be imported"),
        ("--at", "x", "--at x: expected seconds"),
    ],
)
def test_a_replay_that_is_refused_keeps_the_table(
    tmp_path: Path, option: str, value: str, told: str
) -> None:
    """It may be of an earlier replay, which took long."""
    events = [ObjectSet("nodes", make_node("n"))]
    path = written(tmp_path / "r.recording", make_header(configuration=CONFIGURATION), events)
    table = tmp_path / "rows.jsonl"
    table.write_text("rows")

    refused = stowage("replay", path, "--decisions", table, option, value)

    assert (refused.exit_code, told in refused.stderr) == (2, True)
    assert table.read_text() == "rows"


def test_a_recording_is_no_table_to_write(tmp_path: Path) -> None:
    """As if the name of the table was forgotten before names of recordings."""
    header = make_header(configuration=CONFIGURATION)
    one, other = (written(tmp_path / f"{name}.recording", header, [Tick()]) for name in "ab")
    before = one.read_bytes()

    refused = stowage("replay", "--decisions", one, other)

    assert refused.exit_code == 2
    assert f"--decisions {one}: this is a recording; expected a file to write" in refused.stderr
    assert one.read_bytes() == before


class Mine(ReservePlugin):
    """A plugin that is not installed with a distribution."""

    NAME = "Mine"


def test_a_difference_names_other_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are its likeliest reason."""
    monkeypatch.setattr(offline_recorded, "out_of_tree_plugins", lambda: {"Mine": Mine})
    events = [ObjectSet("nodes", make_node("n")), ObjectSet("pods", make_pod_info("p")), Decide()]
    mine, here = {"Mine": "tests"}, stowage_version()
    header = make_header(configuration=CONFIGURATION, version=here, plugins=mine)
    older = replace(header, version="0.9", plugins={"Mine": "mine 1.0"})
    same = written(tmp_path / "same.recording", header, events)
    other = written(tmp_path / "other.recording", older, events)

    told, told_other = (stowage("replay", path) for path in (same, other))

    assert (told.exit_code, told_other.exit_code) == (1, 1)
    assert told.stderr == ""
    assert told_other.stderr.splitlines() == [
        f"note: Stowage 0.9 recorded it; this is {here}.",
        "note: The plugin Mine was of mine 1.0 when it was recorded; here it is of tests.",
    ]


def test_rows_go_into_a_pipe_that_is_named(tmp_path: Path) -> None:
    """As /dev/stdout is one. A dash is no name of a file."""
    events = [ObjectSet("nodes", make_node("n"))]
    path = written(tmp_path / "r.recording", make_header(configuration=CONFIGURATION), events)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    done, refused = (stowage("replay", path, "--decisions", out) for out in (pipe, "-"))

    os.close(reader)
    assert (done.exit_code, done.stdout) == (0, "1 events: identical\n")
    assert refused.exit_code == 2
    assert refused.stderr == (
        "stowage replay: --decisions -: expected a file; /dev/stdout is one\n"
    )


@pytest.mark.parametrize("is_recorded", [True, False])
def test_explain_asks_no_extender_about_a_recording(tmp_path: Path, is_recorded: bool) -> None:
    """A recording lacks the fields that an extender needs; a note says that none was asked."""
    managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
    extender = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [
            extender,
            {**extender, "managedResources": managed, "nodeCacheCapable": True},
        ],
    }
    events = [
        ObjectSet("nodes", make_node("n")),
        ObjectSet("pods", make_pod_info("p", requests={"example.com/gpu": "1"})),
    ]
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(document))
    header = make_header(configuration=CONFIGURATION if not is_recorded else document)
    file = written(tmp_path / "r-0001.recording", header, events)
    given = () if is_recorded else ("--config", config)

    result = stowage("explain", "--recording", file, "p", *given)

    assert result.exit_code == 0, result.output
    assert "Fits on 1 of 1 nodes; goes to n." in result.output
    assert "note: Extenders are not asked: pods are placed as if there were none." in result.stderr


def test_a_pod_about_which_an_extender_is_asked_is_known(tmp_path: Path) -> None:
    """At that moment it is neither in the queue nor on a node."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "stowage"}],
        "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}],
    }
    nodes = [ObjectSet("nodes", make_node(name)) for name in ("n", "m")]
    events = [*nodes, ObjectSet("pods", make_pod_info("p")), Decide()]
    file = written(tmp_path / "r", make_header(configuration=document), events)

    result = stowage("replay", file, "--dump", "--explain", "p")

    assert "there is no such pod" not in result.stderr
    assert "default/p  (profile stowage)" in result.stdout


# --- the moment -----------------------------------------------------------------------------------


def with_crash(directory: Path) -> tuple[Path, Path]:
    """The files of a process that crashed: its recording, and its last minutes.

    A node comes after 10 s, a pod after 400 s; the last minutes begin at 10 s.
    """
    header = make_header(configuration=CONFIGURATION)
    flight = FlightRecorder(header)
    recorder = DirectoryRecorder(directory, header, lambda *_: None)
    for seconds, event in (
        (10, ObjectSet("nodes", make_node("n"))),
        (400, ObjectSet("pods", make_pod_info("p"))),
        (401, Tick()),
    ):
        flight.note(event, header.clock + seconds, [])
        recorder.note(event, header.clock + seconds, [])
    recorder.close()
    crash = directory / "crash-1.recording"
    crash.write_bytes(flight.dump())
    return directory / part_name(header), crash


def shown(
    file: Path,
    *,
    moment: str | None = None,
    config_file: str | None = None,
    feature_gates: tuple[str, ...] = (),
) -> float:
    """The seconds since the start at which a console shows a recording first."""
    recorded = RecordedSource(recordings=(file,), moment=moment)
    source = InputSource((), "", "", config_file, feature_gates, recorded)
    scene, _ = _opened(source, FakeClock())
    return scene.default


@pytest.mark.parametrize("moment", [None, "2001-09-09T02:00:00Z"])
def test_the_file_of_a_crash_hides_no_recording(tmp_path: Path, moment: str | None) -> None:
    """Both began at the same time; without its recording the file of the crash is read."""
    whole, crash = with_crash(tmp_path)

    assert recording_at([tmp_path], moment).paths == [whole]

    whole.unlink()
    assert recording_at([tmp_path], moment).paths == [crash]


def test_a_damaged_recording_is_left_out_unless_it_is_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the time of day; of one whose start cannot be read, that is unknown."""
    for name, started in (("a", 1e9), ("b", 2e9), ("c", 1.5e9)):
        header = make_header(configuration=CONFIGURATION, recording=name, started=started)
        written(tmp_path / part_name(header), header, [Tick()])
        part_2 = replace(header, part=2)
        written(tmp_path / part_name(part_2), part_2, [Tick()])
    (tmp_path / "b-0001.recording").unlink()
    (tmp_path / "c-0002.recording").unlink()
    (tmp_path / "c-0001.recording").write_text("not ours")

    assert recording_at([tmp_path], None).header.recording == "a"
    assert recording_at([tmp_path], "2026-01-01T00:00:00Z").header.recording == "a"

    assert capsys.readouterr().err.count("expected part 1, found part 2; it is left out.") == 2
    with pytest.raises(RecordingError, match=r"b-0002\.recording: expected part 1, found part 2"):
        recording_at([tmp_path], "2034-01-01T00:00:00Z")


@pytest.mark.parametrize("moment", ["0", "9.5", "2001-09-09T01:46:45Z"])
@pytest.mark.parametrize("command", [("explain", "--recording"), ("replay", "--dump")])
def test_a_moment_before_the_last_minutes_is_refused(
    tmp_path: Path, moment: str, command: tuple[str, ...]
) -> None:
    """The cluster of that moment is unknown, not empty; the message says from when it is known."""
    _, crash = with_crash(tmp_path)

    result = stowage(*command, crash, "--at", moment)

    assert result.exit_code == 2
    message = f"--at {moment}: the recording begins at 2001-09-09T01:46:50Z"
    assert message in result.stderr
    with pytest.raises(InputError, match=message):
        shown(crash, moment=moment)


def test_the_first_moment_of_the_last_minutes_is_known(tmp_path: Path) -> None:
    """It is the one that the refusal names."""
    _, crash = with_crash(tmp_path)

    result = stowage(
        "what-if", "--recording", crash, "--at", "2001-09-09T01:46:50Z", "--drain", "n"
    )

    assert result.exit_code == 0, result.output


def test_a_whole_recording_begins_with_an_empty_cluster(tmp_path: Path) -> None:
    """Nothing had come yet."""
    whole, _ = with_crash(tmp_path)

    result = stowage("explain", "--recording", whole, "--at", "0")

    assert (result.exit_code, result.stdout) == (0, "No pod waits for a node.\n")


def test_a_dump_of_the_last_minutes_explains_a_pod_too(tmp_path: Path) -> None:
    """Its events have brought the engine to the moment."""
    _, crash = with_crash(tmp_path)

    result = stowage("replay", crash, "--dump", "--explain", "p")

    assert result.exit_code == 0, result.output
    assert "ObjectSet pods default/p\n" in result.stdout
    assert "Fits on 1 of 1 nodes; goes to n." in result.stdout


# --- options without effect -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("explain", "--feature-gates", "DRADeviceTaintRules=true"), "leave out --feature-gates"),
        (("capacity", "--feature-gates", "DRADeviceTaintRules=true"), "leave out --feature-gates"),
        (("top", "--config", "other.yaml"), "leave out --config, --feature-gates and --instance"),
        (("top", "--feature-gates", "GangScheduling=true"), "leave out --config, --feature-gates"),
        (("top", "--instance", "n/other"), "leave out --config, --feature-gates and --instance"),
        (("top", "--kubeconfig", "k"), "leave out --kubeconfig and --context"),
        (("top", "--context", "c"), "leave out --kubeconfig and --context"),
    ],
)
def test_an_option_that_a_recording_leaves_without_effect_is_refused(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    """The recorded configuration decides."""
    whole, _ = with_crash(tmp_path)

    result = stowage(*words, "--recording", whole)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "given", [{"config_file": "other.yaml"}, {"feature_gates": ("DRADeviceTaintRules=true",)}]
)
def test_a_console_refuses_options_without_effect(tmp_path: Path, given: dict[str, Any]) -> None:
    """It shows a recording with its own profiles."""
    whole, _ = with_crash(tmp_path)

    with pytest.raises(InputError, match="leave out --config, --feature-gates and"):
        shown(whole, **given)


def test_a_console_begins_at_the_moment_given(tmp_path: Path) -> None:
    """0 is the start; without a moment it is the end."""
    whole, _ = with_crash(tmp_path)

    moments = [shown(whole, moment=moment) for moment in ("0", "20", None)]

    assert moments == [0.0, 20.0, 401.0]

"""Which files of a directory a sweep replays."""

import json
from pathlib import Path

import pytest

from scheduler.config.load import default_configuration
from scheduler.config.write import to_object
from scheduler.daemon.recording.files import LeftOut, part_name
from scheduler.daemon.recording.records import RecordingError
from scheduler.kernel.engine.events import Decide, Tick
from scheduler.tools.offline.asking import NOT_ASKED
from scheduler.tools.sweep.candidates import RECORDED, CandidateConfig
from scheduler.tools.sweep.run import Task, carry_out, recordings_at
from tests.support.commands import stowage
from tests.support.recordings import make_header
from tests.unit.bootstrap.test_crash import recorders
from tests.unit.cli.test_recordings import written


def test_the_file_of_a_crash_counts_once(tmp_path: Path) -> None:
    """Its pods are in the recording of its process; without that it is the only one."""
    recording = recorders(tmp_path)
    recording.crashed()
    recording.close()
    [crash] = tmp_path.glob("crash-*")
    left_out: list[LeftOut] = []

    [whole] = recordings_at(tmp_path, left_out.append)

    assert left_out == [LeftOut(crash)]
    assert whole.paths[0].name == part_name(whole.header)
    whole.paths[0].unlink()
    left_out.clear()
    [alone] = recordings_at(tmp_path, left_out.append)
    assert (alone.paths, left_out) == ([crash], [])


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    """On standard error, beside the ranking."""
    recording = recorders(tmp_path)
    recording.crashed()
    recording.close()
    [crash] = tmp_path.glob("crash-*")

    done = stowage("sweep", str(tmp_path), "--jobs", "1", "-d", str(tmp_path / "out"))

    assert f"{crash}: left out; the directory has the whole recording" in done.output


def test_foreign_files_are_ignored_or_named(tmp_path: Path) -> None:
    """The suffix says what is meant to be a recording; without another one it is an error."""
    recorders(tmp_path).close()
    [ours] = tmp_path.iterdir()
    (tmp_path / "core.crash").write_text("not ours")
    other = tmp_path / "other.recording"
    other.write_text("not ours")
    left_out: list[LeftOut] = []

    assert len(recordings_at(tmp_path, left_out.append)) == 1

    assert [each.path for each in left_out] == [other]
    ours.unlink()
    with pytest.raises(RecordingError, match=r"other\.recording: it is no recording of Stowage"):
        recordings_at(tmp_path)


def test_a_copy_of_a_recording_is_refused(tmp_path: Path) -> None:
    """Its pods would count twice."""
    recorders(tmp_path).close()
    [ours] = tmp_path.iterdir()
    copy = tmp_path / "backup" / ours.name
    copy.parent.mkdir()
    copy.write_bytes(ours.read_bytes())

    done = stowage("sweep", ours, copy.parent, "--jobs", "1", "-d", tmp_path / "out")

    assert done.exit_code == 2
    assert done.stderr == (
        f"stowage sweep: {copy}: the recording is given twice; it is also in {ours}\n"
    )


def test_a_plugin_without_another_configuration_is_refused(tmp_path: Path) -> None:
    """The recorded one is replayed without it."""
    recorders(tmp_path).close()
    plugin = "scheduler.kernel.plugins.image_locality:ImageLocality"

    done = stowage("sweep", tmp_path, "--plugin", plugin, "--jobs", "1", "-d", tmp_path / "out")

    assert done.exit_code == 2
    assert done.stderr == (
        "stowage sweep: --plugin is about other configurations: expected --configs or --grid\n"
    )


def test_an_empty_configuration_fails_its_run(tmp_path: Path) -> None:
    """It is not the recorded one."""
    recorders(tmp_path).close()
    [ours] = tmp_path.iterdir()

    result = carry_out(Task(CandidateConfig("mine"), (str(ours),), "r"))

    assert "configuration mine: " in result.problem


def test_what_has_no_effect_is_told_once(tmp_path: Path) -> None:
    """With the configurations that it is about."""
    configuration = to_object(default_configuration("stowage"))
    extender = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}
    header = make_header(configuration={**configuration, "extenders": [extender]})
    written(tmp_path / "r-0001.recording", header, [Decide(), Tick()])
    grid = tmp_path / "grid.yaml"
    grid.write_text("weights: {ImageLocality: [2, 3]}")
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "other.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: stowage}]\nparallelism: 3\n"
    )
    once = ("sweep", tmp_path, "--grid", grid, "--configs", configs, "--jobs", "1")

    done = stowage(*once, "-d", tmp_path / "out")
    again = stowage(*once, "-d", tmp_path / "out", "-o", "json")

    told = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert told == [
        f"note: recorded and 2 more: {NOT_ASKED}",
        "note: other: parallelism has no effect: all nodes are evaluated at once, in columns",
    ]
    assert again.stderr == done.stderr


def test_paths_need_not_be_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages and JSON have their bytes as escapes."""
    recordings = tmp_path / "\udcff"
    recordings.mkdir()
    recorders(recordings).close()
    (recordings / "other.recording").write_text("not ours")
    damaged = tmp_path / "damaged.\udcfe"
    [ours] = recordings.glob("stowage-*")
    damaged.write_bytes(ours.read_bytes().replace(b"stowage-", b"another-") + b"x")
    monkeypatch.chdir(tmp_path)

    for out in ("\udcfd", "s3:out"):
        once = ("sweep", recordings, "--jobs", "1", "-d", out)
        done, as_json = stowage(*once), stowage(*once, "-o", "json")
        assert (done.exit_code, as_json.exit_code) == (1, 1)
        assert "/\\udcff/other.recording: it is no recording" in done.stderr
        assert json.loads(as_json.stdout)["table"].endswith("results.parquet")
    problem = carry_out(Task(RECORDED, (str(damaged),), "r")).problem
    assert "damaged.\\udcfe: it is damaged" in problem


def test_a_sweep_goes_on_without_a_damaged_recording(tmp_path: Path) -> None:
    """It is listed as failed, and the exit status says so."""
    recordings, out = tmp_path / "recordings", tmp_path / "out"
    recordings.mkdir()
    recorders(recordings).close()
    other = recordings / "other.recording"
    other.write_text("not ours")

    once = ("sweep", str(recordings), "--jobs", "1", "-d", str(out))
    done, as_json = stowage(*once), stowage(*once, "-o", "json")

    assert (done.exit_code, as_json.exit_code) == (1, 1)
    assert f"stowage sweep: {other}: it is no recording of Stowage\n" in done.stderr
    assert json.loads(as_json.stdout)["failed"] == {str(other): "it is no recording of Stowage"}
    assert (out / "results.parquet").exists()

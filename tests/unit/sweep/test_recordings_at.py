"""Which files of a directory a sweep replays."""

import json
from pathlib import Path

import pytest

from scheduler.daemon.recording.files import LeftOut, part_name
from scheduler.daemon.recording.records import RecordingError
from scheduler.tools.sweep.run import recordings_at
from tests.support.commands import stowage
from tests.unit.bootstrap.test_crash import recorders


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

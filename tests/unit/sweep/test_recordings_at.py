"""Which files of a directory a sweep replays."""

from pathlib import Path

import pytest

from scheduler.daemon.recording.files import part_name
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
    left_out: list[Path] = []

    [whole] = recordings_at(tmp_path, left_out.append)

    assert left_out == [crash]
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
    """The suffix says what is meant to be a recording."""
    recorders(tmp_path).close()
    (tmp_path / "core.crash").write_text("not ours")

    assert len(recordings_at(tmp_path)) == 1

    (tmp_path / "other.recording").write_text("not ours")
    with pytest.raises(RecordingError, match=r"other\.recording: it is no recording of Stowage"):
        recordings_at(tmp_path)

"""Recordings that were cut short: their process was killed while it wrote."""

from pathlib import Path

import pytest

from scheduler.daemon.recording.directory import DirectoryRecorder
from scheduler.daemon.recording.files import Recording
from scheduler.daemon.recording.records import RecordingError
from scheduler.kernel.engine.events import ObjectSet, Tick
from scheduler.tools.cli.recordings import RecordedSource, until_cut
from tests.support.builders import make_pod_info
from tests.support.recordings import make_header


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

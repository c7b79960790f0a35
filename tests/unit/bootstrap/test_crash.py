"""The last minutes are kept when the process ends badly, if they can be."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from scheduler.config.load import default_configuration
from scheduler.config.options import RunOptions
from scheduler.daemon.bootstrap.recording import Recorders
from scheduler.daemon.recording.files import part_name, recordings_in
from scheduler.daemon.recording.flight import FlightRecorder
from tests.support.clock import FakeClock


def recorders(directory: Path | None) -> Recorders:
    return Recorders(
        default_configuration("test"),
        FakeClock(),
        RunOptions(record=str(directory or "")),
        seed=1,
        out_of_tree={},
        on_lost=lambda _: None,
    )


def test_the_last_minutes_are_kept(tmp_path: Path) -> None:
    recorders(tmp_path).crashed()

    assert len(list(tmp_path.glob("crash-*"))) == 1


def test_replicas_may_share_a_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that crash in the same second leave two files, though the pid of each is 1."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for name in ("stowage-6c9d5f8f6b-x7x2p", "stowage-6c9d5f8f6b-a/b"):
        monkeypatch.setattr(socket, "gethostname", lambda name=name: name)
        recorders(tmp_path).crashed()

    assert len(list(tmp_path.glob("crash-*"))) == 2
    assert len(list(tmp_path.glob("stowage-*"))) == 2


def test_a_clock_that_was_set_back_mixes_no_recordings(tmp_path: Path) -> None:
    """The second process of one name and second begins a file of its own."""
    for _ in range(3):
        one = recorders(tmp_path)
        one.crashed()
        one.close()

    files = sorted(tmp_path.glob("stowage-*"))
    found = recordings_in(tmp_path)
    assert sorted(each.paths[0] for each in found) == files
    assert [list(each) for each in found] == [[], [], []]
    assert [each.paths[0].name for each in found] == [part_name(each.header) for each in found]


def test_without_a_directory_that_is_writable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a pod: it starts, says once how to keep the last minutes, and ends without them."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)

    recorders(None).crashed()

    assert capsys.readouterr().err.count("--record DIR names one") == 1


@pytest.mark.parametrize("problem", [MemoryError(), OSError(28, "No space left on device")])
def test_what_cannot_be_kept_hides_no_cause(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: Exception,
) -> None:
    """Whoever looks for the cause finds it in the log, not the second failure."""

    def dump(self: FlightRecorder) -> bytes:
        raise problem

    monkeypatch.setattr(FlightRecorder, "dump", dump)

    recorders(tmp_path).crashed()

    assert "The last minutes are not kept" in capsys.readouterr().err

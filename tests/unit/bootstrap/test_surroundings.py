"""What the daemon finds around it when it begins: a place to record in, and where spans go."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scheduler.clock import SystemClock
from scheduler.config.load import default_configuration
from scheduler.config.options import RunOptions
from scheduler.daemon.bootstrap.recording import RecordError, Recorders
from scheduler.daemon.bootstrap.run import _spans
from scheduler.kernel.engine.events import Tick
from scheduler.observability import tracing


def recorders(directory: str) -> Recorders:
    """The recorders of a daemon that is to record in a directory."""
    options = RunOptions(record=directory)
    config = default_configuration("stowage")
    return Recorders(config, SystemClock(), options, seed=1, out_of_tree={}, on_lost=print)


def test_a_place_that_cannot_be_written_to_is_refused_at_once(tmp_path: Path) -> None:
    """Not when the first minute is over and there is something to keep."""
    (tmp_path / "file").write_text("")

    reasons = {str(tmp_path / "file"): "expected a directory, got a file", "/proc": ""}
    for place, reason in reasons.items():
        with pytest.raises(RecordError, match=f"--record {place}: {reason}"):
            recorders(place)


def test_a_recording_that_ends_early_names_its_directory_and_flag(tmp_path: Path) -> None:
    """Otherwise a reader of the log cannot tell which volume is full."""
    place = tmp_path / "recordings"
    recording = recorders(str(place))

    with capture_logs() as logs:
        place.rename(tmp_path / "elsewhere")
        for log in recording.logs:
            log.note(Tick(), 1e9, [])
        recording.close()

    [line] = [each for each in logs if each["log_level"] == "error"]
    assert line["event"].startswith("No more is recorded")
    assert "--record" in line["event"]
    assert (line["directory"], line["reason"]) == (str(place), "No such file or directory")


def test_spans_go_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nowhere unless it does."""
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert _spans(SystemClock()) is None

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    spans = _spans(SystemClock())

    assert spans is not None
    spans.close()


def test_without_the_library_no_spans_are_sent_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tracing is an extra: the daemon runs without it."""

    def unavailable(clock: object) -> None:
        raise tracing.TracingUnavailableError("not installed")

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(tracing, "open_telemetry", unavailable)

    with capture_logs() as logs:
        assert _spans(SystemClock()) is None

    assert [(line["event"], line["reason"]) for line in logs] == [
        ("No spans are sent", "not installed")
    ]

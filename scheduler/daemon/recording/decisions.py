"""Formats outcomes of attempts as rows with a time of day: lines of JSON, or Parquet."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from scheduler.daemon.recording.records import Header, RecordingError
from scheduler.kernel.engine.outcome import AttemptOutcome

PARQUET: Final = ".parquet"
NOT_INSTALLED: Final = (
    "what writes Parquet is not installed: pip install 'stowage-scheduler[data]'; lines of JSON "
    "take nothing more"
)

_MICROSECONDS: Final = 1_000_000
_encode = msgspec.json.Encoder().encode


class Rows:
    """Formats outcomes as rows.

    Args:
        header: the header of the recording, which relates the events' clock to the time of day.
    """

    def __init__(self, header: Header) -> None:
        self._offset = header.epoch
        self._second = -1
        self._start = b""
        """The common start of the lines of one second, up to the decimal point."""

    def time_of(self, outcome: AttemptOutcome) -> datetime:
        """Return the time of day at which an attempt ended."""
        second, microsecond = self._parts(outcome)
        return datetime.fromtimestamp(second, UTC).replace(microsecond=microsecond)

    def line(self, outcome: AttemptOutcome) -> bytes:
        """Return the outcome as a line of JSON with a line feed."""
        second, microsecond = self._parts(outcome)
        if second != self._second:
            when = datetime.fromtimestamp(second, UTC).replace(tzinfo=None)
            self._second, self._start = second, f'{{"time":"{when.isoformat()}.'.encode()
        return b'%b%06dZ",%b\n' % (self._start, microsecond, _encode(outcome)[1:])

    def _parts(self, outcome: AttemptOutcome) -> tuple[int, int]:
        """Return the time of day in seconds since 1970, and microseconds."""
        return divmod(round((outcome.clock + self._offset) * _MICROSECONDS), _MICROSECONDS)


class RowFile:
    """A file of rows, written synchronously; `close` raises the first error.

    Args:
        path: the path of the file.
        write: writes a row; raises OSError.
        finish: writes the remaining rows; raises OSError.
    """

    def __init__(
        self, path: Path, write: Callable[[AttemptOutcome], object], finish: Callable[[], object]
    ) -> None:
        self._path = path
        self._write = write
        self._finish = finish
        self._problem: OSError | None = None

    def take(self, outcome: AttemptOutcome) -> None:
        """Write a row; see `scheduler.kernel.engine.outcome.TakeOutcome`."""
        if self._problem is None:
            try:
                self._write(outcome)
            except OSError as problem:
                self._problem = problem

    def close(self) -> None:
        """Write the remaining rows.

        Raises:
            RecordingError: a row could not be written.
        """
        try:
            self._finish()
        except OSError as problem:
            self._problem = self._problem or problem
        if self._problem is not None:
            raise _unwritable(self._path, self._problem) from self._problem


def row_file(path: Path, header: Header) -> RowFile:
    """Open a file of rows: Parquet if its name ends in `.parquet`, else lines of JSON.

    Raises:
        RecordingError: the file cannot be written, or the package for Parquet is not installed.
    """
    rows = Rows(header)
    try:
        if path.suffix != PARQUET:
            lines = path.open("wb")
            return RowFile(path, lambda outcome: lines.write(rows.line(outcome)), lines.close)
        from scheduler.daemon.recording.parquet import ParquetFile  # noqa: PLC0415 - an extra brings it

        table = ParquetFile(path, rows.time_of)
        return RowFile(path, table.write, table.close)
    except OSError as problem:
        raise _unwritable(path, problem) from problem
    except ModuleNotFoundError as problem:
        if problem.name is None or not problem.name.startswith("pyarrow"):
            raise
        raise RecordingError(f"{path}: {NOT_INSTALLED}") from problem


def _unwritable(path: Path, problem: OSError) -> RecordingError:
    return RecordingError(f"{path}: cannot be written: {problem.strerror or problem}")

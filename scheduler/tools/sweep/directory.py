"""The directory of a sweep: one file for each finished run, and the tables made from all of them.

An interrupted sweep can be continued: a run whose file exists is not carried out again. A run may
have a row for each of very many workloads: only one run is in memory at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from scheduler.errors import os_reason
from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.run import Row, Task, TaskResult

RESULTS: Final = "results.parquet"
_GROUP_ROWS: Final = 20_000
"""Rows of the table at most in memory."""

_TEXT: Final = ("config", "recording", "whatIf", "workload")
_WHOLE: Final = ("pods", "placed", "moves", "victims")
_NAMES: Final[tuple[str, ...]] = Row.__struct_encode_fields__

SCHEMA: Final = pa.schema(
    [
        (
            name,
            pa.string() if name in _TEXT else pa.int64() if name in _WHOLE else pa.float64(),
        )
        for name in _NAMES
    ]
)
"""The columns of `results.parquet`: the fields of `Row`."""


class SweepDirectory:
    """The directory with the results of a sweep."""

    def __init__(self, path: Path) -> None:
        """Create the directory if it does not exist.

        Raises:
            InputError: the directory cannot be created.
        """
        self.path = path
        self._runs = path / "runs"
        try:
            self._runs.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise _problem(path, problem) from problem

    def finished(self, tasks: Iterable[Task]) -> dict[str, TaskResult]:
        """Return the results that exist already, by digest, `_without_workloads`.

        Failed runs are left out.
        A file that cannot be read counts as missing: its run is carried out again.
        """
        found: dict[str, TaskResult] = {}
        for task in tasks:
            try:
                result = self._read(task)
            except (OSError, msgspec.MsgspecError):
                continue
            if result.task == task.digest and not result.problem:
                found[task.digest] = _without_workloads(result)
        return found

    def keep(self, result: TaskResult) -> TaskResult:
        """Write the result of a run as a whole, or not at all; return it `_without_workloads`.

        Raises:
            InputError: the file cannot be written.
        """
        with _whole(self._file(result.task)) as beside:
            beside.write_bytes(msgspec.json.encode(result))
        return _without_workloads(result)

    def write_table(self, tasks: Sequence[Task]) -> Path:
        """Write `results.parquet` of the files, in the order of the tasks, not of their ends.

        Raises:
            InputError: a file cannot be read or written.
        """
        file = self.path / RESULTS
        try:
            with (
                _whole(file) as beside,
                # pyarrow itself takes a path with a colon for a URL.
                beside.open("wb") as written,
                pq.ParquetWriter(written, SCHEMA, compression="zstd") as writer,
            ):
                for rows in _groups(row for task in tasks for row in self._read(task).rows):
                    writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
        except msgspec.MsgspecError as problem:
            raise InputError(f"{self._runs}: a run cannot be read: {problem}") from problem
        return file

    def _read(self, task: Task) -> TaskResult:
        return msgspec.json.decode(self._file(task.digest).read_bytes(), type=TaskResult)

    def _file(self, digest: str) -> Path:
        return self._runs / f"{digest}.json"


@contextmanager
def _whole(file: Path) -> Iterator[Path]:
    """Give a path to write to, and put the complete file in place at the end.

    The path is new: another sweep may write to the same directory.

    Raises:
        InputError: the file cannot be written.
    """
    beside = file.with_suffix(f".{token_hex(8)}.part")
    try:
        yield beside
        beside.replace(file)
    except OSError as problem:
        raise _problem(file, problem) from problem
    finally:
        beside.unlink(missing_ok=True)


def _without_workloads(result: TaskResult) -> TaskResult:
    """Return the result with the row about all pods only."""
    return replace(result, rows=result.rows[:1])


def _groups(rows: Iterable[Row]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows as plain values, `_GROUP_ROWS` at a time."""
    left = iter(rows)
    while group := [msgspec.to_builtins(row) for row in islice(left, _GROUP_ROWS)]:
        yield group


def _problem(path: Path, problem: OSError) -> InputError:
    return InputError(f"{path}: {os_reason(problem)}")

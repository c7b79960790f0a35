"""The directory of a sweep: one file for each finished run, and the tables made from all of them.

An interrupted sweep can be continued: a run whose file exists is not carried out again.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.run import Row, Task, TaskResult

RESULTS: Final = "results.parquet"

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
        """Return the results that exist already, by digest; failed runs are left out.

        A file that cannot be read counts as missing: its run is carried out again.
        """
        found: dict[str, TaskResult] = {}
        for task in tasks:
            try:
                result = msgspec.json.decode(self._file(task.digest).read_bytes(), type=TaskResult)
            except (OSError, msgspec.MsgspecError):
                continue
            if result.task == task.digest and not result.problem:
                found[task.digest] = result
        return found

    def keep(self, result: TaskResult) -> None:
        """Write the result of a run as a whole, or not at all.

        Raises:
            InputError: the file cannot be written.
        """
        file = self._file(result.task)
        beside = file.with_suffix(".part")
        try:
            beside.write_bytes(msgspec.json.encode(result))
            beside.replace(file)
        except OSError as problem:
            raise _problem(file, problem) from problem

    def write_table(self, tasks: Sequence[Task], results: dict[str, TaskResult]) -> Path:
        """Write `results.parquet`, in the order of the tasks, not of their ends.

        Raises:
            InputError: the file cannot be written.
        """
        rows = [msgspec.to_builtins(row) for task in tasks for row in results[task.digest].rows]
        file = self.path / RESULTS
        try:
            pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file, compression="zstd")
        except OSError as problem:
            raise _problem(file, problem) from problem
        return file

    def _file(self, digest: str) -> Path:
        return self._runs / f"{digest}.json"


def _problem(path: Path, problem: OSError) -> InputError:
    return InputError(f"{path}: {(problem.strerror or str(problem)).lower()}")

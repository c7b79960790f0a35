"""Writes outcomes as Parquet, for duckdb and pandas. Importing it needs pyarrow."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from scheduler.kernel.engine.outcome import AttemptOutcome

GROUP_ROWS: Final = 20_000
"""Rows per row group, which is written at once."""

SCHEMA: Final = pa.schema(
    {
        "time": pa.timestamp("us", "UTC"),
        "clock": pa.float64(),
        "pod": pa.string(),
        "uid": pa.string(),
        "profile": pa.string(),
        "priority": pa.int64(),
        "attempt": pa.int64(),
        "result": pa.string(),
        "node": pa.string(),
        "nominatedNode": pa.string(),
        "nodes": pa.int64(),
        "feasible": pa.int64(),
        "score": pa.int64(),
        "runnerUp": pa.string(),
        "runnerUpScore": pa.int64(),
        "reasons": pa.map_(pa.string(), pa.int64()),
        "plugins": pa.list_(pa.string()),
        "message": pa.string(),
        "waitedSeconds": pa.float64(),
        "attemptSeconds": pa.float64(),
        "decidingSeconds": pa.float64(),
    }
)
"""The columns in the order of `AttemptOutcome`."""


class ParquetFile:
    """The Parquet writer of `RowFile`. All methods raise OSError if the file cannot be written."""

    def __init__(self, path: Path, time_of: Callable[[AttemptOutcome], datetime]) -> None:
        self._time_of = time_of
        self._kept: list[dict[str, Any]] = []
        # pyarrow itself takes a name with a colon for a URL, and refuses one that is no text.
        self._file = path.open("wb")
        self._writer = ParquetWriter(self._file, SCHEMA, compression="zstd")

    def write(self, outcome: AttemptOutcome) -> None:
        """Append a row."""
        row = msgspec.to_builtins(outcome)
        row["time"] = self._time_of(outcome)
        row["reasons"] = list(row["reasons"].items())
        self._kept.append(row)
        if len(self._kept) >= GROUP_ROWS:
            self._write_kept()

    def close(self) -> None:
        """Write the remaining rows, and close the file."""
        with self._file, self._writer:
            if self._kept:
                self._write_kept()

    def _write_kept(self) -> None:
        kept, self._kept = self._kept, []
        self._writer.write_table(pa.Table.from_pylist(kept, SCHEMA))

"""docs/decisions.md: its columns are those that are written, its questions can be asked."""

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from scheduler.daemon.recording.decisions import row_file
from scheduler.daemon.recording.parquet import SCHEMA
from tests.support.pages import CHECKOUT, blocks
from tests.unit.recording.test_decisions import HEADER, PLACED, REJECTED

PAGE = CHECKOUT / "docs" / "decisions.md"
QUESTIONS = blocks(PAGE, "sql")
TYPES = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.map_(pa.string(), pa.int64()): "map(string, bigint)",
    pa.list_(pa.string()): "list(string)",
}


def test_columns_are_those_that_are_written() -> None:
    """In their order, with their types."""
    told = re.findall(r"^\| `(\w+)` \| ([\w(), ]+) \|", PAGE.read_text(), re.MULTILINE)

    assert told == [(field.name, TYPES[field.type]) for field in SCHEMA]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        pytest.param(
            0, [("Insufficient cpu", 1, 2), ("node(s) were unschedulable", 1, 1)], id="reasons"
        ),
        pytest.param(1, [("shop", 1, 1.75, 0.0)], id="waiting"),
    ],
)
def test_questions_can_be_asked(
    question: int,
    answer: list[tuple[object, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a file of either kind, as they stand there."""
    monkeypatch.chdir(tmp_path)
    for name in ("decisions.jsonl", "decisions.parquet"):
        file = row_file(tmp_path / name, HEADER)
        for outcome in (PLACED, REJECTED):
            file.take(outcome)
        file.close()

    found = duckdb.connect().sql(QUESTIONS[question]).fetchall()

    assert sorted(found) == answer

"""Rows of attempts: on disk, in Parquet, and where nobody reads them."""

import resource
import threading
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from scheduler.daemon.recording.decision_log import BLOCK_BYTES, DecisionLog, RotatedFile
from scheduler.daemon.recording.decisions import Rows, row_file
from scheduler.daemon.recording.parquet import GROUP_ROWS, SCHEMA
from scheduler.daemon.recording.records import RecordingError
from scheduler.kernel.engine.events import Decide, Tick
from scheduler.kernel.engine.outcome import AttemptOutcome
from tests.support.recordings import make_header

HEADER = make_header(started=1_700_000_000.0)
PLACED = AttemptOutcome(
    clock=101.5,
    pod="shop/web-0",
    uid="u",
    profile="stowage",
    priority=5,
    attempt=2,
    result="scheduled",
    node="n1",
    nodes=3,
    feasible=2,
    score=300,
    runner_up="n2",
    runner_up_score=290,
    waited_seconds=1.25,
    attempt_seconds=0.5,
    deciding_seconds=0.0001,
)
REJECTED = AttemptOutcome(
    clock=102.0,
    pod="shop/big",
    uid="v",
    profile="stowage",
    priority=0,
    attempt=1,
    result="unschedulable",
    nodes=3,
    feasible=0,
    reasons={"Insufficient cpu": 2, "node(s) were unschedulable": 1},
    plugins=("NodeResourcesFit", "NodeUnschedulable"),
    message="0/3 nodes are available: ...",
)


class Sink:
    """Takes lines when it is allowed to.

    Attributes:
        written: what it has taken.
        may_go_on: whether it takes more.
        problem: what it raises instead.
    """

    def __init__(self) -> None:
        self.written = b""
        self.may_go_on = threading.Event()
        self.is_asked = threading.Event()
        self.problem: Exception | None = None

    def __call__(self, lines: bytes) -> None:
        self.is_asked.set()
        assert self.may_go_on.wait(60)
        if self.problem is not None:
            raise self.problem
        self.written += lines


class Log:
    """A log into a sink, and what it tells."""

    def __init__(self, waiting_blocks: int = 2) -> None:
        self.sink = Sink()
        self.lost: list[int] = []
        self.ended: list[str] = []
        self.log = DecisionLog(
            self.sink,
            Rows(HEADER),
            on_lost=self.lost.append,
            on_end=self.ended.append,
            waiting_blocks=waiting_blocks,
        )

    def fill_block(self) -> int:
        """Rows that make a block; gives how many they were."""
        line = len(Rows(HEADER).line(PLACED))
        count = -(-BLOCK_BYTES // line)
        for _ in range(count):
            self.log.take(PLACED)
        return count


def test_a_line_begins_with_the_time_of_day() -> None:
    """The rest is the outcome; what does not apply is null."""
    line = Rows(HEADER).line(PLACED)

    row = msgspec.json.decode(line)

    assert line.startswith(b'{"time":"2023-11-14T22:13:21.500000Z","clock":101.5,"pod":')
    assert line.endswith(b"}\n")
    assert row["runnerUpScore"] == 290
    assert row["nominatedNode"] is None
    assert msgspec.convert(row, AttemptOutcome) == PLACED


def test_rows_go_out_each_second_and_at_the_end() -> None:
    """Not one by one."""
    told = Log()
    told.sink.may_go_on.set()
    told.log.take(PLACED)
    told.log.note(Decide(), 1.0, ())
    assert not told.sink.is_asked.is_set()

    told.log.note(Tick(), 1.0, ())
    assert told.sink.is_asked.wait(60)
    told.log.take(REJECTED)
    told.log.close()

    assert told.sink.written == Rows(HEADER).line(PLACED) + Rows(HEADER).line(REJECTED)
    assert (told.lost, told.ended) == ([], [])


def test_who_does_not_read_loses_rows_and_keeps_nobody_waiting() -> None:
    """What waits is bounded; what is lost is counted; later rows are written again."""
    told = Log(waiting_blocks=2)
    size = told.fill_block()
    assert told.sink.is_asked.wait(60)
    told.fill_block()
    told.fill_block()
    assert told.lost == []

    told.fill_block()
    assert told.lost == [size]
    told.log.take(REJECTED)
    told.log.note(Tick(), 1.0, ())
    assert told.lost == [size]

    told.sink.may_go_on.set()
    told.log.close()
    assert told.sink.written.count(b"\n") == 3 * size + 1


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (MemoryError(), "out of memory"),
    ],
    ids=["disk", "memory"],
)
def test_what_is_full_ends_it_and_is_told_once(problem: Exception, why: str) -> None:
    """Nothing is kept for it in memory."""
    told = Log()
    told.sink.problem = problem
    told.sink.may_go_on.set()
    told.log.take(PLACED)
    told.log.note(Tick(), 1.0, ())
    told.log._writer.settle()

    for _ in range(3):
        told.log.take(PLACED)
        told.log.note(Tick(), 2.0, ())
    told.log.close()

    assert told.ended == [why]
    assert sum(told.lost) == 4
    assert not told.log._lines


def test_rows_that_wait_for_a_disk_that_turns_out_full_are_lost() -> None:
    """Those of the block that cannot be written, and those of the blocks behind it."""
    told = Log(waiting_blocks=3)
    told.sink.problem = OSError(28, "No space left on device")
    rows = sum(told.fill_block() for _ in range(3))
    told.sink.may_go_on.set()
    told.log._writer.settle()

    told.log.take(PLACED)
    told.log.note(Tick(), 1.0, ())
    told.log.close()

    assert (told.ended, sum(told.lost)) == (["No space left on device"], rows + 1)


def test_a_disk_that_is_full_at_the_end_is_told() -> None:
    """The last rows are lost, and counted."""
    told = Log()
    told.sink.problem = OSError(28, "No space left on device")
    told.sink.may_go_on.set()
    told.log.take(PLACED)
    told.log.close()

    assert (told.ended, told.lost) == (["No space left on device"], [1])


def test_a_reader_that_hangs_at_the_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for."""
    monkeypatch.setattr("scheduler.daemon.recording.decision_log.CLOSE_SECONDS", 0.01)
    told = Log()
    told.log.take(PLACED)
    told.log.close()
    told.sink.may_go_on.set()

    assert (told.ended, told.lost) == (["the disk or the reader does not answer"], [1])


def test_files_are_put_aside_and_the_oldest_removed(tmp_path: Path) -> None:
    """What was there before stays; no more than so many are kept."""
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"00000\n")
    write = RotatedFile(path, file_bytes=10, kept_files=3)
    for number in range(1, 6):
        write(str(number).encode() * 6)

    found = {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    assert found == {
        "d.jsonl": b"5" * 6,
        "d.jsonl.1": b"4" * 6,
        "d.jsonl.2": b"3" * 6,
    }


def test_files_are_filled_before_they_are_put_aside(tmp_path: Path) -> None:
    """By what was written since the beginning."""
    write = RotatedFile(tmp_path / "d.jsonl", file_bytes=10)
    for number in range(5):
        write(str(number).encode() * 5)

    found = {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    assert found == {
        "d.jsonl": b"4" * 5,
        "d.jsonl.1": b"2" * 5 + b"3" * 5,
        "d.jsonl.2": b"0" * 5 + b"1" * 5,
    }


def test_half_a_line_damages_no_other(tmp_path: Path) -> None:
    """A full disk leaves none; one of a process that was killed is ended."""
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"a\nhalf of")
    write = RotatedFile(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(b"longer than there is room\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    write(b"c\n")

    assert path.read_bytes() == b"a\nhalf of\nc\n"


def test_a_file_can_be_taken_away_by_others(tmp_path: Path) -> None:
    """As logrotate does: the next lines begin a new one."""
    path = tmp_path / "d.jsonl"
    write = RotatedFile(path)
    write(b"a\n")
    path.rename(tmp_path / "elsewhere")
    write(b"b\n")

    assert path.read_bytes() == b"b\n"


def test_parquet_has_the_columns_of_the_lines(tmp_path: Path) -> None:
    """In the same order, with the same values, over several groups of rows."""
    lines, table = tmp_path / "rows.jsonl", tmp_path / "rows.parquet"
    for path in (lines, table):
        file = row_file(path, HEADER)
        for _ in range(GROUP_ROWS):
            file.take(PLACED)
        file.take(REJECTED)
        file.close()

    read = pq.read_table(table)
    as_lines = [msgspec.json.decode(line) for line in lines.read_bytes().splitlines()]

    assert (
        read.schema.names == ["time", *AttemptOutcome.__struct_encode_fields__] == list(as_lines[0])
    )
    assert read.schema.equals(SCHEMA)
    assert pq.ParquetFile(table).num_row_groups == 2
    assert len(as_lines) == read.num_rows == GROUP_ROWS + 1
    for number in (0, -1):
        row = read.slice(read.num_rows + number if number else 0, 1).to_pylist()[0]
        row["reasons"] = dict(row["reasons"])
        row["time"] = row["time"].isoformat(timespec="microseconds").replace("+00:00", "Z")
        assert row == as_lines[number]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_a_file_that_cannot_be_begun_is_one_message(tmp_path: Path, name: str) -> None:
    """With its name."""
    with pytest.raises(RecordingError, match=rf"nowhere/{name}: cannot be written"):
        row_file(tmp_path / "nowhere" / name, HEADER)


@pytest.mark.parametrize("name", ["run:1.parquet", "s3:rows.parquet", "\udcff.parquet"])
def test_a_name_is_that_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever libraries make of colons, or of what is no text."""
    monkeypatch.chdir(tmp_path)
    file = row_file(Path(name), HEADER)
    file.take(PLACED)
    file.close()

    with Path(name).open("rb") as written:
        assert pq.read_table(written)["pod"].to_pylist() == [PLACED.pod]


def test_a_file_that_fills_the_disk_is_one_message_at_its_end() -> None:
    """And raises nothing into the engine meanwhile."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    file = row_file(full, HEADER)
    for _ in range(1000):
        file.take(PLACED)
    with pytest.raises(RecordingError, match="/dev/full: cannot be written: No space left"):
        file.close()


def test_a_table_that_fills_the_disk_is_one_message_at_its_end(tmp_path: Path) -> None:
    """The same, with Parquet."""
    full = tmp_path / "full.parquet"
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    full.symlink_to("/dev/full")
    file = row_file(full, HEADER)
    for _ in range(1000):
        file.take(PLACED)
    with pytest.raises(RecordingError, match=r"full\.parquet: cannot be written: No space left"):
        file.close()

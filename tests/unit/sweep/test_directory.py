"""The table of many runs, each with many workloads."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from scheduler.tools.sweep.candidates import RECORDED
from scheduler.tools.sweep.directory import SweepDirectory
from scheduler.tools.sweep.run import ALL_PODS, Row, Task, TaskResult

WORKLOADS = 2000


def results(tasks: list[Task]) -> Iterator[TaskResult]:
    for task in tasks:
        rows = [
            Row("recorded", task.recording, "", f"ns/Job/{n}" if n else ALL_PODS, 1, 1, 0, 0)
            for n in range(WORKLOADS + 1)
        ]
        yield TaskResult(task.digest, tuple(rows))


def test_workloads_are_in_the_table_and_not_in_memory(tmp_path: Path) -> None:
    """Tenants decide how many there are; a ranking needs the row about all pods."""
    tasks = [Task(RECORDED, (), str(number)) for number in range(30)]
    directory = SweepDirectory(tmp_path)
    tracemalloc.start()
    try:
        kept = {result.task: directory.keep(result) for result in results(tasks)}
        found = directory.finished(tasks)
        table = directory.write_table(tasks)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept == found
    assert [row.workload for result in found.values() for row in result.rows] == [ALL_PODS] * 30
    assert (held < 1 << 20, most < 40 << 20) == (True, True)
    read = pq.read_table(table)
    assert read.num_rows == 30 * (WORKLOADS + 1)
    assert read["recording"].to_pylist()[:: WORKLOADS + 1] == [task.recording for task in tasks]


def test_two_sweeps_may_write_to_one_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them finishes; no file of the other one disappears before it is in place."""
    task = Task(RECORDED, (), "r")
    [result] = results([task])
    first, second = SweepDirectory(tmp_path), SweepDirectory(tmp_path)
    replace = Path.replace

    def while_the_other_writes(path: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace)
        second.keep(result)
        second.write_table([task])
        return replace(path, target)

    for write in (lambda: first.keep(result), lambda: first.write_table([task])):
        monkeypatch.setattr(Path, "replace", while_the_other_writes)
        write()

    assert not list(tmp_path.rglob("*.part"))
    assert pq.read_table(tmp_path / "results.parquet").num_rows == WORKLOADS + 1

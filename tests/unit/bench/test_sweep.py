"""What `python -m bench.sweep` measures: runs over a recording that it makes."""

from pathlib import Path

from bench.sweep import record, tasks_of
from scheduler.tools.sweep.run import ALL_PODS, carry_out, recordings_at


def test_every_configuration_is_a_run_over_the_recording(tmp_path: Path) -> None:
    """Pods come, are placed and end; runs differ in a weight, and none fails."""
    count = record(tmp_path / "recording", nodes=20, count=3_000)

    tasks = tasks_of(tmp_path, 2)

    [recording] = recordings_at(tmp_path / "recording")
    assert len(list(recording)) == count
    assert 3_000 <= count < 4_000
    assert [task.candidate.name for task in tasks] == ["NodeResourcesFit=1", "NodeResourcesFit=2"]
    every = [row for row in carry_out(tasks[1]).rows if row.workload == ALL_PODS]
    assert [row.pods for row in every] == [row.placed for row in every]
    assert every[0].pods > 500

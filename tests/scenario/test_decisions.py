"""`stowage run --decisions`: a row for every attempt, and the same rows from a recording."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from scheduler.daemon.bootstrap.recording import RecordError
from scheduler.observability.exposition import exposition
from scheduler.tools.cli.replay import replay
from tests.scenario.test_recording import busy_hour
from tests.scenario.world import BINDINGS, World, play

Row = dict[str, Any]
WORDS = (sys.executable, "-m", "scheduler", "run")


def rows_of(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def unmeasured(rows: list[Row]) -> list[Row]:
    """Rows without what only a running process can measure."""
    return [{**row, "decidingSeconds": None} for row in rows]


async def counted(world: World) -> dict[str, float]:
    """Attempts by result, as they are served to Prometheus."""
    parts = [part async for part in exposition(world.daemon.metrics.registry)]
    text = b"".join(parts).decode()
    family = "scheduler_schedule_attempts_total{"
    samples = [line for line in text.splitlines() if line.startswith(family)]
    return {s.split('result="')[1].split('"')[0]: float(s.rpartition(" ")[2]) for s in samples}


def test_rows_are_written_while_it_runs_and_again_from_its_recording(tmp_path: Path) -> None:
    """As many as metrics count, with the same contents, as lines and as Parquet."""
    live, directory = tmp_path / "live.jsonl", tmp_path / "recorded"
    told: dict[str, float] = {}

    async def story(world: World) -> None:
        await world.start_daemon(record=str(directory), decisions=str(live))
        await busy_hour(world)
        await world.until(lambda: live.stat().st_size, "rows to be written while it runs")
        await world.stop_daemon()
        told.update(await counted(world))

    play(story)
    files = [str(file) for file in directory.iterdir()]
    lines, table = tmp_path / "again.jsonl", tmp_path / "again.parquet"
    for out in (lines, table):
        done = CliRunner().invoke(replay, [*files, "--decisions", str(out)])
        assert (done.exit_code, done.stderr) == (0, ""), done.stderr

    rows = rows_of(live)
    placed = [row for row in rows if row["result"] == "scheduled"]
    results = {row["result"] for row in rows} - {"gone"}
    assert {r: sum(row["result"] == r for row in rows) for r in results} == told
    assert {"scheduled", "unschedulable", "error"} <= told.keys()
    assert all(row["decidingSeconds"] > 0 for row in placed)
    assert all(row["score"] >= row["runnerUpScore"] for row in placed if row["runnerUp"])
    large = [row for row in rows if row["pod"] == "default/large"]
    assert large[0]["reasons"] == {"Insufficient cpu": large[0]["nodes"]}
    assert (large[-1]["node"], large[-1]["feasible"]) == ("n12", 1)
    assert rows_of(lines) == unmeasured(rows)
    assert [row["uid"] for row in pq.read_table(table).to_pylist()] == [row["uid"] for row in rows]


def test_a_file_that_cannot_be_written_ends_the_start() -> None:
    """With its name."""

    async def story(world: World) -> None:
        with pytest.raises(RecordError, match=r"--decisions /nowhere/x: No such file"):
            await world.start_daemon(decisions="/nowhere/x")

    play(story)


def test_a_table_is_not_appended_to(tmp_path: Path) -> None:
    """No reader of Parquet would take it afterwards."""
    table = tmp_path / "rows.parquet"

    async def story(world: World) -> None:
        with pytest.raises(RecordError) as problem:
            await world.start_daemon(decisions=str(table))
        assert str(problem.value) == (
            f"--decisions {table}: expected a name for lines of JSON; "
            "`stowage replay` writes Parquet"
        )

    play(story)
    assert not table.exists()


def test_a_pipe_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    """As /dev/stdout is one for a program that reads it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def story(world: World) -> None:
        with pytest.raises(RecordError) as problem:
            await world.start_daemon(decisions=str(pipe))
        assert str(problem.value) == (
            f"--decisions {pipe}: expected a file, or - for standard output"
        )

    play(story)


def test_standard_output_takes_lines_and_nothing_else(tmp_path: Path) -> None:
    """A program can read them from a pipe; who has gone away keeps nobody from scheduling."""

    async def story(world: World) -> None:
        world.node("n")
        world.sandbox.faults.answer(500, path=BINDINGS, times=1)
        process = await asyncio.create_subprocess_exec(
            *WORDS,
            f"--master={world.sandbox.url}",
            "--secure-port=0",
            "--leader-elect=false",
            "--decisions=-",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            assert process.stdout is not None
            world.pod("p")
            async with asyncio.timeout(60):
                first = json.loads(await process.stdout.readline())
                second = json.loads(await process.stdout.readline())
            process.stdout._transport.close()  # as a reader that ends
            for name in ("q", "r"):
                world.pod(name)
                await world.bound(name)
            process.terminate()
            async with asyncio.timeout(60):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
        assert [(row["pod"], row["result"]) for row in (first, second)] == [
            ("default/p", "error"),
            ("default/p", "scheduled"),
        ]

    play(story)

"""Many configurations over recordings: the same tables from processes and Dask, cut off or not."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeAlias

import msgspec
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from scheduler.daemon.recording.directory import DirectoryRecorder
from scheduler.daemon.recording.files import block
from scheduler.daemon.recording.records import Writer
from scheduler.kernel.engine.events import ObjectSet
from scheduler.kernel.engine.instructions import Instruction
from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep import dask as with_dask, executors
from scheduler.tools.sweep.candidates import RECORDED, CandidateConfig
from scheduler.tools.sweep.dask import dask
from scheduler.tools.sweep.directory import SweepDirectory
from scheduler.tools.sweep.executors import Workers, carry_out_all, processes
from scheduler.tools.sweep.run import Task, TaskResult, carry_out, recordings_at
from scheduler.tools.sweep.what_if import parse_what_if
from tests.scenario.test_recording import rewritten
from tests.scenario.test_replaying import contested, with_timed_plugin
from tests.scenario.world import World, play
from tests.support.builders import make_pod_info
from tests.support.commands import stowage
from tests.support.deadly import die, die_at, die_once, note

ANSWER = list[Instruction]
_Function: TypeAlias = Callable[[str, Task], TaskResult]
GRID = """
weights: {NodeResourcesFit: [0, 1, 5]}
args: {NodeResourcesFit: {scoringStrategy.type: [LeastAllocated, MostAllocated]}}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of one recording: 25 pods, two victims."""
    directory = tmp_path_factory.mktemp("recorded")

    async def story(world: World) -> None:
        await world.start_daemon(record=str(directory))
        await contested(world)
        await world.stop_daemon()

    play(story)
    return directory


def sweep(*arguments: str | int | Path, status: int = 0) -> str:
    """What `stowage sweep` prints, errors included."""
    done = stowage("sweep", *map(str, arguments))
    assert done.exit_code == status, done.output
    return done.output


def task_of(recorded: Path, **fields: Any) -> Task:
    """The recorded configuration on the recorded cluster, or something else."""
    [recording] = recordings_at(recorded)
    paths = tuple(map(str, recording.paths))
    return replace(Task(RECORDED, paths, recording.header.recording), **fields)


def test_a_sweep_ranks_the_points_of_a_grid(recorded: Path, tmp_path: Path) -> None:
    """A row for each run and workload; a ranking; pictures that show the front."""
    grid, out = tmp_path / "grid.yaml", tmp_path / "out"
    grid.write_text(GRID)

    output = sweep(recorded, "--grid", grid, "--jobs", 2, "-d", out)

    rows = pq.read_table(out / "results.parquet").to_pylist()
    every = [row for row in rows if row["workload"] == ""]
    assert len(every) == 7
    assert {row["pods"] for row in every} == {25}
    assert {row["workload"] for row in rows} == {"", "default/Pod"}
    [as_recorded] = [row for row in every if row["config"] == "recorded"]
    assert (as_recorded["placed"], as_recorded["moves"], as_recorded["victims"]) == (25, 0, 2)
    packed = [row for row in every if row["config"].startswith("NodeResourcesFit=5,")]
    least, most = sorted(packed, key=lambda row: row["config"])
    assert most["config"].endswith("MostAllocated")
    assert (least["moves"], most["moves"] > 0) == (0, True), "packing places pods elsewhere"
    assert "* " in output
    assert "7 runs" not in output, "a pipe is no terminal: no progress"
    assert (out / "front.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "front.html").read_text()
    assert "<svg" in page
    assert "scoringStrategy.type=MostAllocated" in page


def test_a_configuration_that_places_nothing_is_last(recorded: Path, tmp_path: Path) -> None:
    """In words, not as an endless wait; in the files as well."""
    configs, out = tmp_path / "configs", tmp_path / "out"
    configs.mkdir()
    (configs / "other.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: of-no-pod}]\n"
    )
    once = (recorded, "--configs", configs, "--jobs", 1, "-d", out)

    output = sweep(*once).splitlines()
    ranking = json.loads(sweep(*once, "-o", "json"))["ranking"]

    [of_none] = [line for line in output if "other" in line]
    assert (of_none.count("none placed"), "*" in of_none) == (2, False)
    assert "none placed: in a recording, no pod found a node." in output
    assert [(each["config"], each["waitP99"] is None) for each in ranking] == [
        ("recorded", False),
        ("other", True),
    ]
    [row] = [
        row
        for row in pq.read_table(out / "results.parquet").to_pylist()
        if (row["config"], row["workload"]) == ("other", "")
    ]
    assert (row["placed"], row["waitP50"], row["waitP99"]) == (0, None, None)
    page = (out / "front.html").read_text()
    assert "inf s" not in page
    assert "<td>none placed</td>" in page
    assert "not shown: 1 of 2" in page.replace("\n", " ")


def test_a_sweep_that_was_cut_off_goes_on(recorded: Path, tmp_path: Path) -> None:
    """What is there is not replayed again; a damaged file is; the table is the same."""
    grid, out = tmp_path / "grid.yaml", tmp_path / "out"
    grid.write_text(GRID)
    once = (recorded, "--grid", grid, "--jobs", 1, "-d", out)
    sweep(*once)
    table = (out / "results.parquet").read_bytes()
    runs = sorted((out / "runs").iterdir())
    times = {run: run.stat().st_mtime_ns for run in runs}
    runs[0].write_bytes(b"{")
    runs[1].unlink()
    before = runs[2].read_text()
    runs[2].write_text(before.replace('"placed":25', '"placed":24'))

    sweep(*once)

    assert [run for run in runs[3:] if run.stat().st_mtime_ns != times[run]] == []
    assert all(run.stat().st_mtime_ns != times[run] for run in runs[:2])
    again = pq.read_table(out / "results.parquet").to_pylist()
    assert 24 in [row["placed"] for row in again], "the third was read, not replayed"
    runs[2].write_text(before)
    sweep(*once)
    assert (out / "results.parquet").read_bytes() == table


def test_a_recording_that_grows_during_a_sweep_is_read_to_one_place(
    recorded: Path, tmp_path: Path
) -> None:
    """Else runs at different times would compare different pods."""
    [recording] = recordings_at(recorded)
    [file] = recording.paths
    copy = tmp_path / file.name
    copy.write_bytes(file.read_bytes())
    [then] = recordings_at(tmp_path)
    task = task_of(tmp_path, sizes=tuple(then.sizes.values()))
    before = carry_out(task)
    line = bytearray()
    Writer().write(
        line, ObjectSet("pods", make_pod_info("late", scheduler_name="stowage")), 1e6, ()
    )
    with copy.open("ab") as more:
        more.write(block(line))

    assert carry_out(task) == before
    [now] = recordings_at(tmp_path)
    longer = carry_out(task_of(tmp_path, sizes=tuple(now.sizes.values())))
    assert (before.rows[0].pods, longer.rows[0].pods) == (25, 26)
    assert longer.task != task.digest
    assert list(then) == list(recording)


def test_a_changed_plugin_is_replayed_again(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded configuration does not have it: its run is kept."""
    module, configs, out = tmp_path / "changing.py", tmp_path / "configs", tmp_path / "out"
    configs.mkdir()
    (configs / "other.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: stowage}]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plugin = ("--plugin", "changing:Changing", "--configs", configs)
    kept = []

    for text in ("one version", "another"):
        module.write_text(
            "from scheduler.plugin import SUCCESS, ReservePlugin\n\n\n"
            f"class Changing(ReservePlugin):  # {text}\n"
            '    NAME = "Changing"\n\n'
            "    def reserve(self, state, pod, node):\n        return SUCCESS\n\n"
            "    def unreserve(self, state, pod, node):\n        pass\n"
        )
        sys.modules.pop("changing", None)
        sweep(recorded, *plugin, "--jobs", 1, "-d", out)
        kept.append({file.name for file in (out / "runs").iterdir()})

    before, after = kept
    assert (len(before), len(after - before)) == (2, 1)


def test_an_interrupt_ends_a_sweep_and_keeps_its_runs(recorded: Path, tmp_path: Path) -> None:
    """Ctrl-C reaches the workers as well; what they have finished is there, and whole."""
    grid, out = tmp_path / "grid.yaml", tmp_path / "out"
    weights = list(range(1, 61))
    grid.write_text(f"weights: {{NodeResourcesFit: {weights}, ImageLocality: {weights}}}")
    words = ("sweep", recorded, "--grid", grid, "--jobs", "2", "-d", out)
    process = subprocess.Popen(
        [sys.executable, "-m", "scheduler", *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    runs, pause = out / "runs", Event()
    try:
        while len(list(runs.glob("*.json"))) < 2:
            assert process.poll() is None
            pause.wait(0.02)

        os.killpg(process.pid, signal.SIGINT)

        _, errors = process.communicate(timeout=10)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, errors.strip()) == (130, "")
    kept = [msgspec.json.decode(run.read_bytes(), type=TaskResult) for run in runs.glob("*.json")]
    assert len(kept) > 1
    assert {result.problem for result in kept} == {""}


def test_a_defect_fails_alone(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its kind and its message."""
    monkeypatch.setattr(
        "scheduler.tools.sweep.run.place_anew", lambda *_, **__: dict[str, int]()["n0"]
    )

    found = carry_out(task_of(recorded))

    assert (found.rows, found.problem) == ((), "KeyError: 'n0'")


def test_a_configuration_that_is_wrong_fails_alone(recorded: Path, tmp_path: Path) -> None:
    """The others are ranked; the message has the file and the field."""
    configs = tmp_path / "configs"
    configs.mkdir()
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (configs / "wrong.yaml").write_text(head + "percentageOfNodesToScore: 300\n")
    (configs / "right.yaml").write_text(head + "profiles: [{schedulerName: stowage}]\n")

    out = ("--jobs", 1, "-d", tmp_path / "out", "-o", "json")
    output = sweep(recorded, "--configs", configs, *out, status=1)

    answer, *_ = output.splitlines()
    told = json.loads(answer)
    assert {each["config"] for each in told["ranking"]} == {"recorded", "right"}
    assert "percentageOfNodesToScore" in told["failed"]["wrong"]
    assert "stowage sweep: wrong: configuration wrong" in output


def test_a_recording_that_is_damaged_is_told_though_others_are_whole(
    recorded: Path, tmp_path: Path
) -> None:
    """As one whose process was killed; the ranking is about the others."""
    damaged = tmp_path / "damaged.recording"
    [whole] = recordings_at(recorded)
    rewritten(whole, damaged, header=replace(whole.header, recording="another"))
    damaged.write_bytes(damaged.read_bytes()[:-3])

    output = sweep(damaged, recorded, "--jobs", 1, "-d", tmp_path / "out", status=1)

    told = f"stowage sweep: recorded: {damaged}: it is damaged: it ends in the middle of a block"
    assert told in output


def test_a_recording_that_is_given_twice_is_refused(recorded: Path, tmp_path: Path) -> None:
    """By its directory and by its file: its pods would count twice."""
    [file] = recorded.iterdir()

    output = sweep(recorded, file, "--jobs", 1, "-d", tmp_path / "out", status=2)

    assert output == f"stowage sweep: {file}: the recording is given twice\n"


@pytest.mark.parametrize(
    ("names", "weights", "twice"),
    [
        (["a.yaml", "a.yml"], "[1]", "a"),
        (["recorded.yaml"], "[1]", "recorded"),
        (["NodeResourcesFit=1.yaml"], "[1]", "NodeResourcesFit=1"),
        (["a.yaml"], "[1, 2, 1]", "NodeResourcesFit=1"),
    ],
)
def test_two_configurations_of_one_name_are_refused(
    recorded: Path, tmp_path: Path, names: list[str], weights: str, twice: str
) -> None:
    """Their results could not be told apart."""
    grid, configs = tmp_path / "grid.yaml", tmp_path / "configs"
    grid.write_text(f"weights: {{NodeResourcesFit: {weights}}}")
    configs.mkdir()
    for name in names:
        (configs / name).write_text("")

    output = sweep(recorded, "--configs", configs, "--grid", grid, "-d", tmp_path / "out", status=2)

    assert output == f"stowage sweep: several configurations are called {twice}\n"


def test_a_what_if_that_is_given_twice_counts_once(recorded: Path, tmp_path: Path) -> None:
    """Its pods would count twice."""
    change = ("--what-if", "add=n0:1")

    out = ("--jobs", 1, "-d", tmp_path / "out", "-o", "json")
    ranking = json.loads(sweep(recorded, *change, *change, *out))["ranking"]

    assert [each["whatIf"] for each in ranking] == ["", "add=n0:1"]
    rows = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    assert len([row for row in rows if row["workload"] == ""]) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--what-if", "add=n0"], "expected add=NODE:COUNT or remove=PATTERN"),
        (["--what-if", "add=n0:100001"], "at most 100000 nodes"),
        (["--grid", "none.yaml"], "--grid none.yaml: cannot be read"),
        (["--plugin", "none:None"], "--plugin none:None: cannot be imported"),
        (["--dask", "tcp://127.0.0.1:1"], "--dask tcp://127.0.0.1:1"),
    ],
)
def test_a_wrong_option_has_one_message(
    recorded: Path,
    tmp_path: Path,
    arguments: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And status 2."""
    # Nothing listens there, however long it is tried.
    monkeypatch.setattr(with_dask, "CONNECT_SECONDS", 0.1)

    output = sweep(recorded, *arguments, "-d", tmp_path / "out", status=2)

    assert told in output
    assert "Traceback" not in output


def test_a_configuration_without_names_takes_no_pods_of_others(
    recorded: Path, tmp_path: Path
) -> None:
    """The same pods are placed as in the other runs."""
    [recording] = recordings_at(recorded)
    recorder = DirectoryRecorder(tmp_path, recording.header, lambda *_: None)
    theirs = make_pod_info("theirs", uid="theirs", scheduler_name="default-scheduler")
    recorder.note(ObjectSet("pods", theirs), recording.header.clock, ())
    for record in recording:
        recorder.note(record.event, record.time, msgspec.json.decode(record.answer, type=ANSWER))
    recorder.close()
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

    found = carry_out(task_of(tmp_path, candidate=CandidateConfig("bare", head)))

    assert (found.problem, found.rows[0].pods) == ("", 25)


def test_runs_decide_at_the_recorded_time_of_day(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a run gives the same rows whenever it is carried out."""
    plugin = with_timed_plugin(recorded, tmp_path, monkeypatch)

    found = carry_out(task_of(recorded, plugins=(plugin,)))

    assert (found.problem, found.rows[0].placed) == ("", 25)


def test_a_what_if_has_other_nodes(recorded: Path) -> None:
    """Two nodes more leave each with one CPU free: one victim does. Half of the nodes hold less."""
    more = carry_out(task_of(recorded, what_if=parse_what_if("add=n0:2")))
    less = carry_out(task_of(recorded, what_if=parse_what_if("remove=n[345]")))

    assert (more.problem, less.problem) == ("", "")
    assert (more.rows[0].victims, more.rows[0].placed) == (1, 25)
    assert less.rows[0].placed < 25
    assert less.rows[0].nodes is not None
    assert less.rows[0].nodes <= 3


@pytest.mark.parametrize(
    ("change", "missing"),
    [("add=n9:2", "n9"), ("remove=m*", "m*"), ("add=n0:1,remove=n9,remove=n[12]", "n9")],
)
def test_a_what_if_about_nodes_that_are_not_there_fails(
    recorded: Path, change: str, missing: str
) -> None:
    """The recorded cluster is no answer to it."""
    found = carry_out(task_of(recorded, what_if=parse_what_if(change)))

    assert found.rows == ()
    assert found.problem == f"--what-if {change}: the recording has no node {missing}"


def _collect(tasks: list[Task], workers: Workers) -> list[TaskResult]:
    found: list[TaskResult] = []
    carry_out_all(tasks, workers, found.append)
    return sorted(found, key=lambda result: result.task)


def _tasks(recorded: Path) -> list[Task]:
    wishes = ["add=n0:1", "add=n1:1", "add=n2:1", "remove=n5"]
    return [task_of(recorded), *(task_of(recorded, what_if=parse_what_if(w)) for w in wishes)]


@pytest.fixture(scope="module")
def dask_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a Dask of two processes listens; one that dies is started again."""
    from distributed import LocalCluster  # noqa: PLC0415 - two seconds, for two tests

    with (
        pytest.MonkeyPatch.context() as patch,
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
            local_directory=str(tmp_path_factory.mktemp("dask")),
        ) as cluster,
    ):  # fmt: skip
        patch.setattr(with_dask, "CONNECT_SECONDS", 60)
        yield cluster.scheduler_address


def test_processes_and_dask_give_the_same_table(
    recorded: Path, tmp_path: Path, dask_address: str
) -> None:
    """Byte for byte, from two processes each."""
    tasks = _tasks(recorded)
    there = _collect(tasks, dask(dask_address))
    here = _collect(tasks, processes(2))

    tables = []
    for number, results in enumerate((here, there)):
        kept = SweepDirectory(tmp_path / str(number))
        for result in results:
            kept.keep(result)
        tables.append(kept.write_table(tasks).read_bytes())
    assert len(here) == len(there) == 5
    assert tables[0] == tables[1]


class _Instead:
    """An executor that runs another function, such as one that kills the first worker."""

    def __init__(self, executor: Executor, function: _Function, mark: str) -> None:
        self._executor, self._function, self._mark = executor, function, mark

    def submit(self, _: Callable[[Task], TaskResult], task: Task) -> Any:
        return self._executor.submit(self._function, self._mark, task)


def _instead(workers: Workers, function: _Function, mark: Path | str) -> Workers:
    @contextmanager
    def opened(one: Workers) -> Any:
        with one.opened() as executor:
            yield _Instead(executor, function, str(mark))

    alone = partial(opened, workers.for_one())
    return replace(workers, opened=partial(opened, workers), alone=alone)


def _workers(where: str, request: pytest.FixtureRequest) -> Workers:
    if where == "processes":
        return processes(2)
    return dask(request.getfixturevalue("dask_address"))


@pytest.mark.parametrize("where", ["processes", "dask"])
def test_an_error_ends_a_sweep(
    recorded: Path, tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    """Such as a full disk: the runs that wait are not carried out."""
    tasks = [task_of(recorded, what_if=parse_what_if(f"add=n0:{count}")) for count in range(1, 151)]
    workers = _instead(_workers(where, request), note, tmp_path)

    def refuse(_: TaskResult) -> None:
        raise InputError("no space left on device")

    with pytest.raises(InputError, match="no space left"):
        carry_out_all(tasks, workers, refuse)

    assert 1 <= len(list(tmp_path.iterdir())) < 100


@pytest.mark.parametrize("where", ["processes", "dask"])
def test_a_worker_that_dies_loses_and_doubles_nothing(
    recorded: Path, tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    """Its run is carried out by another one; each result is taken once."""
    tasks = _tasks(recorded)
    mark = tmp_path / "died"
    workers = _workers(where, request)

    found = _collect(tasks, _instead(workers, die_once, mark))

    assert mark.exists()
    assert found == sorted(map(carry_out, tasks), key=lambda result: result.task)


def test_a_run_that_kills_its_worker_fails_alone(recorded: Path) -> None:
    """Wherever it stands among the others."""
    tasks = [_tasks(recorded)[number] for number in (3, 0, 1)]

    found = _collect(tasks, _instead(processes(2), die_at, "add=n2:1"))

    whole = [carry_out(task) for task in tasks[1:]]
    failed = TaskResult(tasks[0].digest, problem="its worker died several times: out of memory?")
    assert found == sorted([failed, *whole], key=lambda result: result.task)


def test_workers_that_always_die_end_the_sweep(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run fails, and says why; it does not go on for ever."""
    monkeypatch.setattr(executors, "carry_out", die)

    found = _collect(_tasks(recorded)[:2], processes(1))

    assert [result.problem.partition(":")[0] for result in found] == [
        "its worker died several times"
    ] * 2

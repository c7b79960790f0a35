"""What was recorded is replayed from a directory, and compared with what others would have done."""

import gc
import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace as replace_fields

from e2e.chaos.recordings import replay_all
from scheduler.daemon.recording.directory import DirectoryRecorder
from scheduler.daemon.recording.files import Recording, recordings_in
from scheduler.kernel.engine.instructions import Instruction
from tests.scenario.test_preemption import end, pod
from tests.scenario.test_recording import rewritten
from tests.scenario.world import World, play
from tests.support.commands import stowage

PLUGIN = """
from scheduler.kernel.framework.interface import NodeFilterPlugin
from scheduler.kernel.framework.status import SUCCESS, Code, Status


class FirstOnly(NodeFilterPlugin):
    NAME = "FirstOnly"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        if node.node.metadata.name == "n0":
            return SUCCESS
        return Status(Code.UNSCHEDULABLE, ("not the first",))
"""
"""Everybody has to go to n0."""
TIMED = """
from scheduler.kernel.framework.interface import NodeFilterPlugin
from scheduler.kernel.framework.status import SUCCESS, Code, Status


class ThatHour(NodeFilterPlugin):
    NAME = "ThatHour"

    def __init__(self, args, handle):
        self.handle = handle

    def filter(self, state, pod, node):
        if 0 <= self.handle.wall() - {started} <= 3600:
            return SUCCESS
        return Status(Code.UNSCHEDULABLE, ("another time of day",))
"""
"""Nobody goes anywhere before the recording began, or an hour later."""


async def contested(world: World) -> None:
    """Ties and zones; then an important pod that finds no room, and takes some."""
    for index in range(6):
        world.node(f"n{index}", cpu="4", zone=f"z{index % 3}")
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"a": "c"}},
    }
    even = [f"even{index}" for index in range(6)]
    for name in even:
        pod(world, name, 1, labels={"a": "c"}, topologySpreadConstraints=[spread])
    await world.bound(*even)
    low = [f"low{index}" for index in range(18)]
    for name in low:
        pod(world, name, 1)
    await world.bound(*low)
    pod(world, "high", 9, cpu="2")
    leaving: list[str] = []

    def is_leaving() -> bool:
        found = {name: world.sandbox.find("pods", name) for name in (*low, *even)}
        leaving[:] = [n for n, it in found.items() if it and "deletionTimestamp" in it["metadata"]]
        return len(leaving) == 2

    await world.until(is_leaving, "two victims to leave")
    end(world, *leaving)
    await world.bound("high")
    await world.settled()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of one recording."""
    directory = tmp_path_factory.mktemp("recorded")

    async def story(world: World) -> None:
        await world.start_daemon(record=str(directory))
        await contested(world)
        await world.stop_daemon()

    play(story)
    return directory


def replay(*arguments: str | Path) -> tuple[int, str]:
    """Status and words of `stowage replay`."""
    done = stowage("replay", *arguments)
    return done.exit_code, done.output


def told(*arguments: str | Path) -> Any:
    """The answer of `stowage replay -o json`."""
    status, output = replay(*arguments, "-o", "json")
    assert status == 0, output
    return json.loads(output)


def configuration(recording: Path, target: Path, **changes: Any) -> Path:
    """The recorded configuration as a file, with changes to the only profile."""
    document = recordings_in(recording)[0].header.configuration
    [profile] = document["profiles"]
    profile |= changes
    target.write_text(yaml.safe_dump(document))
    return target


# --- another configuration ------------------------------------------------------------------------


def test_the_own_configuration_decides_as_it_did(recorded: Path, tmp_path: Path) -> None:
    """Nobody lands elsewhere, the same pods are evicted, nodes are as full, waits are the same."""
    found = told(recorded, "--config", configuration(recorded, tmp_path / "same.yaml"))
    before, now = found["recorded"], found["now"]

    assert (found["pods"], found["elsewhere"]) == (25, [])
    assert (before["placed"], now["placed"]) == (25, 25)
    # The daemon may have stood still between hearing of a pod and its decision; a replay does not.
    assert now["waited"]["median"] <= before["waited"]["median"] + 0.5
    assert len(before["victims"]) == 2
    assert sorted(v["pod"] for v in now["victims"]) == sorted(v["pod"] for v in before["victims"])
    assert {victim["preemptor"] for victim in now["victims"]} == {"default/high"}
    assert before["use"]["cpu"]["most"] == now["use"]["cpu"]["most"] == 1.0
    assert before["nodes"]["most"] == now["nodes"]["most"] == 6


def test_without_preemption_nobody_is_evicted(recorded: Path, tmp_path: Path) -> None:
    """The victims of then stay, and who took their room waits."""
    off = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
    plugins = recordings_in(recorded)[0].header.configuration["profiles"][0]["plugins"]
    config = configuration(recorded, tmp_path / "mild.yaml", plugins={**plugins, **off})

    found = told(recorded, "--config", config)
    status, output = replay(recorded, "--config", config)

    [high] = found["elsewhere"]
    assert (high["pod"], high["now"]) == ("default/high", None)
    assert (len(found["recorded"]["victims"]), found["now"]["victims"]) == (2, [])
    assert (found["now"]["placed"], found["now"]["pending"]) == (24, 1)
    assert status == 0
    assert f"default/high: {high['recorded']} -> pending" in output
    assert "Evicted then only:" in output
    assert "waited, p99" in output


def test_a_plugin_takes_part_on_trial(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found beside where one is, and decides with the recorded ones."""
    tmp_path.joinpath("my_plugin.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)

    found = told(recorded, "--plugin", "my_plugin:FirstOnly")

    places = {each["now"] for each in found["elsewhere"]}
    assert places <= {"n0", None}
    assert found["now"]["placed"] < found["recorded"]["placed"]
    assert found["now"]["nodes"]["most"] == 1


def with_timed_plugin(recording: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write `TIMED` for a recording; returns the value of `--plugin`."""
    started = recordings_in(recording)[0].header.started
    directory.joinpath("timed_plugin.py").write_text(TIMED.format(started=started))
    monkeypatch.chdir(directory)
    monkeypatch.delitem(sys.modules, "timed_plugin", raising=False)
    return "timed_plugin:ThatHour"


def test_other_configurations_decide_at_the_recorded_time_of_day(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What objects say of times is compared with it."""
    found = told(recorded, "--plugin", with_timed_plugin(recorded, tmp_path, monkeypatch))

    assert found["now"]["placed"] == found["recorded"]["placed"]


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ("nothing", "expected MODULE:CLASS or MODULE:CLASS=WEIGHT"),
        ("a:b=c", "expected MODULE:CLASS or MODULE:CLASS=WEIGHT"),
        ("no_such_module:X", "cannot be imported: ModuleNotFoundError: No module named"),
        ("scheduler.clock:Nothing", "cannot be imported: AttributeError"),
        ("scheduler.clock:SystemClock", "expected the class of a plugin"),
        ("scheduler.plugin:FilterPlugin", "FilterPlugin needs a NAME"),
    ],
)
def test_what_is_no_plugin_is_said(recorded: Path, plugin: str, message: str) -> None:
    """On one line."""
    status, output = replay(recorded, "--plugin", plugin)

    assert status == 2
    assert output.startswith(f"stowage replay: --plugin {plugin}: ")
    assert message in output
    assert len(output.splitlines()) == 1


# --- directories ----------------------------------------------------------------------------------


def rotated(source: Path, directory: Path) -> Path:
    """The same recording in many small files."""
    recording = Recording(list(source.iterdir()))
    directory.mkdir()
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr("scheduler.daemon.recording.directory.BLOCK_BYTES", 500)
    recorder = DirectoryRecorder(directory, recording.header, lambda *_: None, file_bytes=500)
    for record in recording:
        answer = msgspec.json.decode(record.answer, type=list[Instruction])
        recorder.note(record.event, record.time, answer)
        recorder._blocks.settle()
    recorder.close()
    monkeypatch.undo()
    return directory


def test_a_rotated_directory_is_one_recording(recorded: Path, tmp_path: Path) -> None:
    """It is replayed, and a pod in it explained as of a moment, for people and for programs."""
    directory = rotated(recorded, tmp_path / "rotated")
    [recording] = recordings_in(directory)
    placed = next(
        record.time - recording.header.clock
        for record in recording
        if b'"name":"high"' in record.answer and b'"Bind"' in record.answer
    )

    identical = replay(directory)
    at = ("--at", f"{placed - 0.001}", "--explain", "default/high")
    text = replay(directory, *at)
    answer = told(directory, *at)

    assert len(list(directory.iterdir())) > 2
    assert (identical[0], identical[1].endswith(" events: identical\n")) == (0, True), identical[1]
    assert text[0] == 0
    assert "default/high" in text[1]
    assert answer["identical"] is True
    assert answer["pods"][0]["pod"] == "default/high"
    assert answer["story"][0]["what"] == "failed"


def test_of_several_recordings_the_time_of_day_tells(recorded: Path, tmp_path: Path) -> None:
    """A daemon that was started twice; without a time one has to be named."""
    first = Recording(list(recorded.iterdir()))
    for number, name in enumerate(("a", "b")):
        started = 1e9 + number * 3600
        header = replace_fields(first.header, recording=name, started=started)
        path = tmp_path / f"{name}-0001.recording"
        rewritten(first, path, header=header)
    tmp_path.joinpath("c-0001.recording").touch()

    early = replay(tmp_path, "--at", "2001-09-09T02:00:00Z")
    none = replay(tmp_path, "--at", "2001-09-09T01:30:00Z")
    late = replay(tmp_path, "--at", "2001-09-09T12:00:00Z")
    unclear = replay(tmp_path)

    assert (early[0], late[0], none[0], unclear[0]) == (0, 0, 2, 2)
    assert "events: identical" in early[1]
    ended = re.search(r"12:00:00Z: the recording ends before, at 2001-09-09T(\S+)Z;", late[1])
    assert ended is not None
    assert "02:46:40" <= ended[1] < "02:47:40"
    assert "no" in none[1]
    assert "it holds 2 recordings; name the files of one" in unclear[1]
    assert "2001-09-09T01:46:40Z" in unclear[1]


@pytest.mark.parametrize("moment", ["-1", "nan", "1999-12-31T23:59:59Z"])
def test_nothing_is_known_before_a_recording_begins(
    recorded: Path, tmp_path: Path, moment: str
) -> None:
    """Neither as seconds nor as a time of day; the message says when it begins."""
    [first] = recordings_in(recorded)
    path = tmp_path / "a-0001.recording"
    rewritten(first, path, header=replace_fields(first.header, started=1e9))

    status, output = replay(path, f"--at={moment}")

    assert status == 2
    assert f"--at {moment}: the recording begins at 2001-09-09T01:46:40Z" in output


def test_a_difference_is_told_to_programs(recorded: Path, tmp_path: Path) -> None:
    """Where, what was recorded, and what the answer is now."""
    recording = Recording(list(recorded.iterdir()))
    other = rewritten(recording, tmp_path / "x.recording", seed=recording.header.seed + 1)

    status, output = replay(other, "-o", "json")
    # A file that were still open would be told now.
    gc.collect()
    found = json.loads(output)

    assert (status, found["identical"]) == (1, False)
    difference = found["difference"]
    assert difference["what"].startswith("Decide limit=")
    assert difference["recorded"] != difference["now"]


# --- the check of `make chaos` --------------------------------------------------------------------


def test_chaos_tells_recordings_apart(recorded: Path, tmp_path: Path) -> None:
    """What is identical, what is cut off as by `kill -9`, what was changed, what is broken."""
    recording = Recording(list(recorded.iterdir()))

    def written(name: str, *, seed: int | None = None) -> Path:
        return rewritten(recording, tmp_path / f"stowage-{name}-0001.recording", seed=seed)

    written("whole")
    written("seed", seed=recording.header.seed + 1)
    small = rotated(recorded, tmp_path / "parts")
    last = max(small.iterdir())
    last.write_bytes(last.read_bytes() + b"\x10\0")  # the length of a block, not all of it
    tmp_path.joinpath("stowage-empty-0001.recording").touch()
    tmp_path.joinpath("stowage-other-0001.recording").write_bytes(b"hello")

    found = {each.name: each for each in replay_all([tmp_path, small])}

    assert len(found) == 4
    assert found.pop("stowage-whole").problem == ""
    assert found.pop("stowage-seed").problem.startswith("different at event ")
    assert "it is no recording of Stowage" in found.pop("stowage-other").problem
    [cut] = found.values()
    assert (cut.is_cut_off, cut.problem) == (True, "")
    assert cut.events == sum(1 for _ in recording)

"""What a daemon decided is decided again, to the last byte; in another process as well."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace as replace_fields

from scheduler.daemon.recording.files import Recording, _lines, whole_file
from scheduler.daemon.recording.flight import FlightRecorder
from scheduler.daemon.recording.records import Header, Writer
from scheduler.errors import SchedulerError
from scheduler.kernel.engine.events import ObjectSet
from scheduler.kernel.engine.instructions import Instruction
from scheduler.testing import Cluster, ClusterError
from tests.scenario.world import BINDINGS, World, play, pod_object
from tests.support.commands import stowage
from tests.support.extender import Body, FakeExtender, failing, names_of, scores

MARKER = "do-not-tell"


def replay(*arguments: str | Path) -> tuple[int, str]:
    """Run `stowage replay` to the end of a recording."""
    done = stowage("replay", *arguments)
    return done.exit_code, done.output


def replay_elsewhere(*arguments: str | Path, hash_seed: str = "1") -> tuple[int, str]:
    """Run it in a process of its own; one that stops early leaves files to the end of a process."""
    done = subprocess.run(
        [sys.executable, "-m", "scheduler", "replay", *map(str, arguments)],
        env={"PYTHONHASHSEED": hash_seed, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


async def busy_hour(world: World) -> None:
    """A bit of everything: ties, spreading, affinity, rejections, failures, changes."""
    for index in range(12):
        world.node(f"n{index}", cpu="4", zone=f"z{index % 3}", labels={"disk": f"d{index % 2}"})
    world.sandbox.faults.answer(500, path=BINDINGS, times=3)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"a": "c"}},
    }
    for index in range(25):
        world.pod(f"plain{index}", cpu="500m")
        world.pod(f"picky{index}", cpu="100m", nodeSelector={"disk": "d1"})
        world.pod(f"even{index}", labels={"a": "c"}, topologySpreadConstraints=[spread])
    for index in range(14):
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        world.pod(f"lone{index}", labels={"a": "b"}, affinity={"podAntiAffinity": rule})
    world.pod("large", cpu="100")
    await world.bound(*(f"plain{index}" for index in range(25)))
    await world.rejected("large")
    world.sandbox.delete("pods", "plain0", grace_seconds=0)
    world.sandbox.delete("nodes", "n11")
    world.node("n12", cpu="200", zone="z1")
    await world.bound("large")
    await world.settled()


def _annotated(world: World) -> bool:
    node = world.daemon.driver.engine.core.cache.nodes["n0"].node
    return node is not None and bool(node.metadata.annotations)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of a recording, made once."""
    directory = tmp_path_factory.mktemp("recorded")

    async def story(world: World) -> None:
        await world.start_daemon(record=str(directory))
        secret = {"name": "X", "value": MARKER}
        pod = pod_object("secretive", cpu="1")
        pod["metadata"]["annotations"] = {"note": MARKER}
        pod["spec"]["containers"][0]["env"] = [secret]
        pod["spec"]["containers"][0]["args"] = [MARKER]
        world.sandbox.create(pod)
        await busy_hour(world)
        await world.bound("secretive")
        world.sandbox.patch("nodes", "n0", {"metadata": {"annotations": {"note": MARKER}}})
        await world.until(lambda: _annotated(world), "the annotation to arrive")
        await world.stop_daemon()

    play(story)
    return list(directory.iterdir())


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_gives_the_same_answers(recorded: list[Path], hash_seed: str) -> None:
    """Whatever the order of its sets."""
    status, output = replay_elsewhere(*recorded, hash_seed=hash_seed)

    assert (status, output.endswith(" events: identical\n")) == (0, True), output


def test_answers_of_extenders_are_part_of_a_recording(tmp_path: Path) -> None:
    """A replay asks nobody; where the extender is, it says no more than that."""

    def every_other(body: Body) -> Body:
        return {"NodeNames": names_of(body)[::2], "FailedNodes": {"n1": "odd"}}

    async def story(world: World) -> None:
        async with FakeExtender(filter=every_other, prioritize=scores(n2=3, n4=3)) as extender:
            config = extender.config("filter", "prioritize")
            config["urlPrefix"] = config["urlPrefix"].replace("//", f"//user:{MARKER}@")
            for index in range(6):
                world.node(f"n{index}")
            await world.start_daemon({"extenders": [config]}, record=str(tmp_path))
            for index in range(20):
                world.pod(f"p{index}", cpu="500m")
            await world.bound(*(f"p{index}" for index in range(20)))
            extender.replies["filter"] = failing(500)
            world.pod("late")
            await world.rejected("late", reason="SchedulerError")
            await world.settled()
            await world.stop_daemon()

    play(story)
    files = list(tmp_path.iterdir())
    status, output = replay(*files)

    assert (status, output.endswith(" events: identical\n")) == (0, True), output
    assert all(MARKER.encode() not in line for file in files for line in lines_of(file))


def lines_of(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return list(_lines(file))


def rewritten(
    recording: Recording,
    path: Path,
    *,
    header: Header | None = None,
    seed: int | None = None,
    without: int = -1,
) -> Path:
    """The same recording with another header or seed, or without one event."""
    header = recording.header if header is None else header
    header = header if seed is None else replace_fields(header, seed=seed)
    writer, lines = Writer(), bytearray()
    for number, record in enumerate(recording):
        if number != without:
            answer = msgspec.json.decode(record.answer, type=list[Instruction])
            writer.write(lines, record.event, record.time, answer)
    path.write_bytes(whole_file(header, lines))
    return path


def test_a_rewritten_recording_is_the_same(recorded: list[Path], tmp_path: Path) -> None:
    """Nothing is lost between reading and writing."""
    status, output = replay(rewritten(Recording(recorded), tmp_path / "same.recording"))

    assert status == 0, output


def test_another_seed_is_told_apart(recorded: list[Path], tmp_path: Path) -> None:
    """Where the first tie falls to another node."""
    recording = Recording(recorded)
    other = rewritten(recording, tmp_path / "other.recording", seed=recording.header.seed + 1)

    status, output = replay_elsewhere(other)

    assert status == 1
    assert output.startswith("different at event ")
    assert re.search(
        r": Decide limit=\d+\n", output
    )  # how many equal pods wait there is a matter of time


def test_a_missing_event_is_told_apart(recorded: list[Path], tmp_path: Path) -> None:
    """Also when it is only one node that was never told of."""
    recording = Recording(recorded)
    node = next(
        number
        for number, record in enumerate(recording)
        if isinstance(record.event, ObjectSet) and record.event.kind == "nodes"
    )

    status, output = replay_elsewhere(
        rewritten(recording, tmp_path / "less.recording", without=node)
    )

    assert status == 1
    assert output.startswith("different at event ")


def test_nothing_secret_is_in_a_recording(recorded: list[Path]) -> None:
    """No environment, no arguments, no annotations, whether compressed or not."""
    status, output = replay(*recorded, "--dump")

    assert status == 0
    assert "secretive" in output
    assert MARKER not in output
    for path in recorded:
        with path.open("rb") as file:
            assert not any(MARKER.encode() in line for line in _lines(file))


def test_a_pod_is_explained_as_of_a_moment(recorded: list[Path]) -> None:
    """Before the large node came, and after."""
    recording = Recording(recorded)
    placed = next(
        record.time - recording.header.clock
        for record in recording
        if b'"name":"large"' in record.answer and b'"Bind"' in record.answer
    )

    moment = f"{placed - 0.001}"

    before = replay_elsewhere(*recorded, "--at", moment, "--explain", "default/large")
    after = replay(*recorded, "--explain", "large")

    assert before[0] == after[0] == 0
    assert "Insufficient cpu" in before[1]
    assert "Is on n12. Placed again now it would fit on " in after[1]


def test_a_recording_is_a_fixture_of_tests(recorded: list[Path]) -> None:
    """A test goes on from where it was, or from a moment of it."""
    end, before = Cluster(), Cluster()

    end.replay(*recorded)
    before.replay(*recorded, until=0.0)

    assert end.node_of("large") == "n12"
    end.schedule(pod_object("next", cpu="90")).must_land_on("n12")
    end.schedule(pod_object("last", cpu="90")).must_wait(because="Insufficient cpu")
    end.check()
    with pytest.raises(ClusterError, match="there is no pod large; pods: none"):
        before.node_of("large")


def test_another_configuration_is_compared(recorded: list[Path], tmp_path: Path) -> None:
    """Who lands elsewhere when nodes are filled one after the other."""
    config = tmp_path / "config.yaml"
    config.write_text(
        """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: stowage
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
  plugins:
    score: {disabled: [{name: NodeResourcesBalancedAllocation}]}
"""
    )

    status, output = replay(*recorded, "--config", config)

    assert status == 0, output
    assert output.startswith("pods: ")
    assert "elsewhere: 0" not in output


def test_the_last_minutes_are_kept_in_memory(tmp_path: Path) -> None:
    """Complete while the daemon is young; without its beginning the cluster is known still."""

    async def story(world: World) -> None:
        daemon = await world.start_daemon()
        world.node("n", cpu="1")
        world.pod("p", cpu="1")
        await world.bound("p")
        world.pod("waits", cpu="1")
        await world.rejected("waits")
        flight = daemon._recorders.flight
        (tmp_path / "young.recording").write_bytes(flight.copy().dump())
        short = FlightRecorder(flight._header, kept_seconds=1e9, kept_bytes=2000)
        for entry in flight._entries:
            short.note(entry.event, entry.now, entry.instructions)
        (tmp_path / "short.recording").write_bytes(short.copy().dump())

    play(story)

    assert replay(tmp_path / "young.recording")[0] == 0
    status, output = replay(tmp_path / "short.recording")
    assert status == 2
    assert "does not begin at the start" in output
    status, output = replay(tmp_path / "short.recording", "--explain", "waits")
    assert status == 0
    assert "Insufficient cpu" in output


def test_a_crash_keeps_the_last_minutes(tmp_path: Path) -> None:
    """Where the recording is, or among temporary files."""

    async def story(world: World) -> None:
        daemon = await world.start_daemon(record=str(tmp_path), synced=False)
        is_broken = asyncio.Event()

        async def break_down() -> None:
            await is_broken.wait()
            raise ZeroDivisionError("broken")

        daemon.driver.tick = break_down  # what fails is the point
        world.node("n")
        world.pod("p")
        await world.bound("p")
        is_broken.set()
        with pytest.raises(ZeroDivisionError):
            await world._running.pop(daemon)

    play(story)

    [crash] = tmp_path.glob("crash-*.recording")
    assert replay(crash)[0] == 0


@pytest.mark.parametrize(
    ("problem", "kept"),
    [
        pytest.param(SchedulerError("the lease may not be read"), 0, id="refused"),
        pytest.param(ZeroDivisionError("broken"), 1, id="unexpected"),
    ],
)
def test_a_start_that_is_refused_leaves_nothing_behind(
    tmp_path: Path, problem: Exception, kept: int
) -> None:
    """It says why. What nobody expected is kept also when it comes before the first decision."""

    async def story(world: World) -> None:
        daemon = await world.start_daemon(record=str(tmp_path), synced=False)

        async def fail() -> None:
            raise problem

        daemon.driver.tick = fail  # what fails is the point
        with pytest.raises(type(problem)):
            await world._running.pop(daemon)

    play(story)

    assert len(list(tmp_path.glob("crash-*.recording"))) == kept

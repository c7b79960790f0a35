"""A running daemon takes a changed configuration over: as a whole, or not at all."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.interface import NodeFilterPlugin
from scheduler.kernel.framework.status import SUCCESS
from scheduler.testing.validation import validate_engine
from tests.scenario.test_life import asking
from tests.scenario.test_plugins import Holds, held
from tests.scenario.test_recording import replay
from tests.scenario.world import World, play
from tests.support.ports import free_port

Profile = dict[str, Any]

PACKING: Profile = {
    "schedulerName": "stowage",
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}},
        }
    ],
    "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
}
SPREADING: Profile = {"schedulerName": "stowage"}
ANYWHERE: Profile = {
    "schedulerName": "stowage",
    "plugins": {"multiPoint": {"disabled": [{"name": "NodeAffinity"}]}},
}


def document_of(*profiles: Profile, **fields: Any) -> dict[str, Any]:
    """A configuration without leader election."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": list(profiles),
        **fields,
    }


def write(file: Path, *profiles: Profile, **fields: Any) -> None:
    """Write a configuration as an editor does: beside, then in its place."""
    beside = file.with_suffix(".new")
    beside.write_text(yaml.safe_dump(document_of(*profiles, **fields)))
    beside.replace(file)


def metrics(world: World) -> dict[str, float]:
    """What is served about the configuration, by sample."""
    lines = generate_latest(world.daemon.metrics.registry).decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if line.startswith("stowage_config_"))
    return {name: float(value) for name, _, value in samples}


def in_force(file: Path) -> str:
    """The sample that names a file, as sha256sum would."""
    return f'stowage_config_info{{sha256="{hashlib.sha256(file.read_bytes()).hexdigest()}"}}'


def swap(mount: Path) -> None:
    """Let the newest link lead to the second version, in one step."""
    (mount / "..data_tmp").symlink_to("two")
    (mount / "..data_tmp").rename(mount / "..data")


def told(world: World, reason: str) -> list[str]:
    return [event["note"] for event in world.events(reason=reason)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_weights_change_under_load(file: Path, tmp_path: Path) -> None:
    """Nobody is lost or bound twice, pods land as is wanted by then; a replay does the same."""
    directory = tmp_path / "recording"
    write(file, SPREADING)

    async def story(world: World) -> None:
        for index in range(10):
            world.node(f"n{index}", cpu="10")
        await world.start_daemon(file=file, record=str(directory))
        first = [f"first{index}" for index in range(40)]
        for name in first:
            world.pod(name, cpu="100m")
        await world.until(lambda: world.bindings() > 10, "some bindings")
        write(file, PACKING)
        world.daemon.reloader.look()
        second = [f"second{index}" for index in range(40)]
        for name in second:
            world.pod(name, cpu="100m")
        nodes = await world.bound(*second)
        await world.bound(*first)
        await world.settled()

        assert len(set(nodes)) == 1
        assert world.bindings() == 80
        assert world.daemon.comparer.compare().agrees
        validate_engine(world.daemon.driver.engine)
        await world.stop_daemon()

    play(story)
    status, output = replay(*directory.iterdir())
    assert (status, output.endswith(" events: identical\n")) == (0, True), output


def test_configz_shows_what_is_in_force(file: Path) -> None:
    """Not the file that the daemon began with, and not one that it refused."""
    port = free_port()
    write(file, SPREADING, podMaxBackoffSeconds=5)

    async def story(world: World) -> None:
        daemon = await world.start_daemon(file=file, secure_port=port)
        async with asking(port) as get:

            async def shown() -> int:
                _, text = await get("configz")
                return int(json.loads(text)["componentconfig"]["podMaxBackoffSeconds"])

            seen = [await shown()]
            for seconds in (7, -1):
                write(file, SPREADING, podMaxBackoffSeconds=seconds)
                daemon.reloader.look()
                seen.append(await shown())

        assert seen == [5, 7, 7]

    play(story)


def test_broken_and_mended(file: Path) -> None:
    """The old one stays in force, and people are told why; then what was mended is."""
    write(file, SPREADING)

    async def story(world: World) -> None:
        world.node("n")
        await world.start_daemon(file=file)
        world.daemon.reloader.look()
        at_start = metrics(world)
        assert at_start[in_force(file)] == 1.0
        assert at_start["stowage_config_reload_success"] == 1.0

        broken = {**SPREADING, "plugins": {"score": {"enabled": [{"name": "ImageLocalty"}]}}}
        write(file, broken)
        with capture_logs() as logs:
            world.daemon.reloader.look()
            world.daemon.reloader.look()
        [entry] = [e for e in logs if e["log_level"] == "error"]
        assert 'plugins.score.enabled[0].name: there is no plugin "ImageLocalty"' in entry["err"]
        refused = metrics(world)
        assert refused.pop("stowage_config_reload_success") == 0.0
        assert refused.items() <= at_start.items()
        world.pod("meanwhile")
        await world.bound("meanwhile")

        write(file, SPREADING, podMaxBackoffSeconds=5)
        world.daemon.reloader.look()
        assert metrics(world)["stowage_config_reload_success"] == 1.0
        assert world.daemon.reloader.in_force.pod_max_backoff_seconds == 5
        world.pod("afterwards")
        await world.bound("afterwards")
        await world.until(lambda: told(world, "ConfigurationChanged"), "an event")
        await world.until(lambda: told(world, "ConfigurationRefused"), "the event before")
        [note] = told(world, "ConfigurationRefused")
        assert "ImageLocalty" in note

    play(story)


def test_a_file_that_cannot_be_read_once_is_tried_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights come back without a change of the file; the problem is reported once."""
    write(file, SPREADING)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    async def story(world: World) -> None:
        await world.start_daemon(file=file)
        world.daemon.reloader.look()
        write(file, SPREADING, podMaxBackoffSeconds=5)

        with capture_logs() as logs, monkeypatch.context() as patched:
            patched.setattr(Path, "read_bytes", refuse)
            for _ in range(3):
                world.daemon.reloader.look()
        assert metrics(world)["stowage_config_reload_success"] == 0.0
        world.daemon.reloader.look()

        assert metrics(world)["stowage_config_reload_success"] == 1.0
        assert world.daemon.reloader.in_force.pod_max_backoff_seconds == 5
        [refused] = [log["err"] for log in logs if log["log_level"] == "error"]
        assert refused == f"{file}: cannot be read: permission denied"

    play(story)


def test_a_pipe_is_read_once() -> None:
    """As `--config <(...)` of a shell: there is nothing more to read, and nothing wrong with it."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as pipe:
        pipe.write(yaml.safe_dump(document_of(SPREADING)))

    async def story(world: World) -> None:
        await world.start_daemon(file=Path(f"/dev/fd/{reading}"))
        with capture_logs() as logs:
            world.daemon.reloader.look()

        assert not logs
        assert metrics(world)["stowage_config_reload_success"] == 1.0

    play(story)
    os.close(reading)


def test_an_unexpected_error_is_a_refusal(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whatever kind it is: the metric, the log and an event report it, and the trace is kept."""
    write(file, SPREADING)

    def fail(*_: object) -> object:
        raise KeyError("surprise")

    async def story(world: World) -> None:
        await world.start_daemon(file=file)
        world.daemon.reloader.look()
        with monkeypatch.context() as patched, capture_logs() as logs:
            patched.setattr("scheduler.daemon.bootstrap.reloading.read_configuration", fail)
            write(file, PACKING)
            world.daemon.reloader.look()

        assert metrics(world)["stowage_config_reload_success"] == 0.0
        [entry] = [e for e in logs if e["log_level"] == "error"]
        assert entry["err"] == "unexpected KeyError: 'surprise'"
        assert isinstance(entry["exc_info"], KeyError)
        await world.until(lambda: told(world, "ConfigurationRefused"), "an event")
        assert "surprise" in told(world, "ConfigurationRefused")[0]

        write(file, SPREADING, podMaxBackoffSeconds=5)
        world.daemon.reloader.look()
        assert metrics(world)["stowage_config_reload_success"] == 1.0

    play(story)


def test_what_is_read_once_is_refused(file: Path) -> None:
    """The lease, the connection and the endpoints: each field is named, nothing is taken over."""
    write(file, SPREADING)

    async def story(world: World) -> None:
        await world.start_daemon(file=file)
        write(file, PACKING, leaderElection={"leaderElect": True, "leaseDuration": "30s"})

        with capture_logs() as logs:
            world.daemon.reloader.look()

        message = logs[0]["err"]
        assert (
            "leaderElection.leaderElect: cannot change without a restart: false is in " in message
        )
        assert "leaderElection.leaseDuration: cannot change" in message
        assert world.daemon.reloader.in_force.profiles[0].plugin_config != PACKING["pluginConfig"]
        assert metrics(world)["stowage_config_reload_success"] == 0.0

    play(story)


def test_events_about_the_lease_have_its_uid(file: Path) -> None:
    """`kubectl describe lease` asks for events by the UID."""
    election = {"leaderElect": True, "leaseDuration": "90s", "renewDeadline": "60s"}
    write(file, SPREADING, leaderElection=election)

    async def story(world: World) -> None:
        await world.start_daemon(file=file)
        await world.until(lambda: told(world, "LeaderElection"), "a leader")
        world.daemon.reloader.look()
        write(file, SPREADING, leaderElection=election, podMaxBackoffSeconds=-1)
        world.daemon.reloader.look()
        await world.until(lambda: told(world, "ConfigurationRefused"), "a refusal")

        [lease] = world.sandbox.list("leases.coordination.k8s.io")
        for reason in ("LeaderElection", "ConfigurationRefused"):
            [event] = world.events(reason=reason)
            assert event["regarding"]["uid"] == lease["metadata"]["uid"]

    play(story)


def test_extenders_stay_and_their_secrets_are_not_told(file: Path) -> None:
    """Neither by the log nor by the event."""
    write(file, SPREADING)

    async def story(world: World) -> None:
        world.node("n", cpu="4")
        daemon = await world.start_daemon(file=file)
        extender = {"urlPrefix": "http://me:secret@127.0.0.1:1", "filterVerb": "f"}
        write(file, PACKING, extenders=[extender])
        with capture_logs() as logs:
            daemon.reloader.look()

        assert "extenders: cannot change without a restart" in logs[0]["err"]
        assert "secret" not in str(logs)
        assert not daemon.reloader.in_force.extenders

    play(story)


def test_profiles_come_and_go(file: Path) -> None:
    """Pods that waited for a profile are taken up when it comes, and left alone when it is gone."""
    write(file, SPREADING)

    async def story(world: World) -> None:
        world.node("n", cpu="4")
        daemon = await world.start_daemon(file=file)
        queue = daemon.driver.engine.core.queue
        world.pod("theirs", schedulerName="theirs")
        world.pod("large", cpu="100")
        await world.rejected("large")
        assert [pod.key for pod in queue.pending_pods()] == ["default/large"]

        write(file, {**SPREADING, "schedulerName": "theirs"})
        daemon.reloader.look()
        await world.bound("theirs")
        assert not queue.pending_pods()
        world.node("roomy", cpu="200")
        world.pod("large-too", cpu="100", schedulerName="theirs")
        await world.bound("large-too")
        assert not world.node_of("large")

        write(file, SPREADING, {**SPREADING, "schedulerName": "theirs"})
        daemon.reloader.look()
        await world.bound("large")
        await world.settled()
        validate_engine(daemon.driver.engine)

    play(story)


def test_rejected_pods_are_tried_again(file: Path) -> None:
    """What rejected them may be gone: no event would ever wake them."""
    write(file, SPREADING)

    async def story(world: World) -> None:
        world.node("n")
        daemon = await world.start_daemon(file=file)
        world.pod("picky", nodeSelector={"disk": "none"})
        await world.rejected("picky")

        write(file, ANYWHERE)
        daemon.reloader.look()

        await world.bound("picky")

    play(story)


@pytest.mark.parametrize("is_gone", [True, False])
def test_pods_that_a_plugin_holds(file: Path, is_gone: bool) -> None:
    """If it is gone it would allow none of them; if it is there it goes on to hold them."""
    holding = {**SPREADING, "plugins": {"multiPoint": {"enabled": [{"name": "Holds"}]}}}
    write(file, holding)

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        daemon = await world.start_daemon(file=file, out_of_tree={"Holds": Holds})
        world.pod("p", cpu="1", labels={"hold": "600"})
        uid = await held(world, "p")

        write(file, SPREADING if is_gone else {**holding, "percentageOfNodesToScore": 50})
        daemon.reloader.look()

        waiting = daemon.driver.engine.core.waiting
        if not is_gone:
            assert waiting.allow(uid, "Holds")
        assert await world.bound("p") == ["n"]
        validate_engine(daemon.driver.engine)

    play(story)


def test_the_newest_file_behind_a_swapped_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a ConfigMap that is mounted changes: a task of the daemon sees it."""
    monkeypatch.setattr("scheduler.daemon.bootstrap.reloading.LOOK_SECONDS", 0.02)
    for name, profile in (("one", SPREADING), ("two", PACKING)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "config.yaml", profile)
    (tmp_path / "..data").symlink_to("one")
    file = tmp_path / "config.yaml"
    file.symlink_to("..data/config.yaml")

    async def story(world: World) -> None:
        daemon = await world.start_daemon(file=file)
        before = daemon.reloader.in_force
        swap(tmp_path)

        await world.until(lambda: daemon.reloader.in_force != before, "the new configuration")

        assert in_force(tmp_path / "two" / "config.yaml") in metrics(world)

    play(story)


class Choosy(NodeFilterPlugin):
    """Refuses to be made as its arguments say, and may watch something of its own."""

    NAME = "Choosy"

    def __init__(self, args: Any, handle: Any) -> None:
        if (args or {}).get("fails"):
            raise RuntimeError("no such thing")

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return SUCCESS


class Curious(Choosy):
    NAME = "Curious"
    WATCHES = (ObjectKind("Gadget", "acme.com/v1", "gadgets"),)


@pytest.mark.parametrize(
    ("plugin", "args", "reason"),
    [
        pytest.param("Choosy", {"fails": True}, "RuntimeError: no such thing", id="constructor"),
        pytest.param("Curious", {}, "Gadget (acme.com/v1) is not watched yet", id="new kind"),
    ],
)
def test_a_plugin_that_cannot_be_built(
    file: Path, plugin: str, args: dict[str, Any], reason: str
) -> None:
    """Is named; the profiles that were in force decide on."""
    write(file, SPREADING)
    asking: Profile = {
        "schedulerName": "stowage",
        "plugins": {"multiPoint": {"enabled": [{"name": plugin}]}},
        "pluginConfig": [{"name": plugin, "args": args}],
    }

    async def story(world: World) -> None:
        world.node("n")
        plugins = {"Choosy": Choosy, "Curious": Curious}
        daemon = await world.start_daemon(file=file, out_of_tree=plugins)
        frameworks = daemon.driver.engine.core.frameworks
        write(file, asking)

        with capture_logs() as logs:
            daemon.reloader.look()

        assert reason in logs[0]["err"]
        assert f'profile "stowage": plugin "{plugin}" cannot be built' in logs[0]["err"]
        assert daemon.driver.engine.core.frameworks is frameworks
        world.pod("p")
        await world.bound("p")

    play(story)


class Evasive(Choosy):
    NAME = "Evasive"

    @property
    def READS(self) -> Any:  # noqa: N802 - as plugins declare it
        raise RuntimeError("no such declaration")


def test_a_plugin_that_fails_where_no_error_is_expected(file: Path) -> None:
    """The engine gives no answer then: that is no success."""
    write(file, SPREADING)
    asking = {**SPREADING, "plugins": {"multiPoint": {"enabled": [{"name": "Evasive"}]}}}

    async def story(world: World) -> None:
        daemon = await world.start_daemon(file=file, out_of_tree={"Evasive": Evasive})
        before = daemon.reloader.in_force
        write(file, asking)

        with capture_logs() as logs:
            daemon.reloader.look()

        assert [log["err"] for log in logs][:1] == ["RuntimeError: no such declaration"]
        assert daemon.reloader.in_force is before
        assert metrics(world)["stowage_config_reload_success"] == 0.0

    play(story)

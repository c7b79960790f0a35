"""How the daemon begins, begins again, and ends."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from apistub import Sandbox, Settings
from scheduler.clock import SystemClock
from scheduler.daemon.client.connection import Access, Connection
from scheduler.daemon.client.credentials import Credentials
from scheduler.daemon.informers.informer import InformerOptions
from scheduler.daemon.informers.kinds import PODS
from scheduler.daemon.serving.server import Server
from scheduler.tools.cli.live import ClusterAddress
from scheduler.tools.cli.watching import watching
from scheduler.tools.offline.cluster import Profiles
from tests.scenario.world import BINDINGS, LIMIT_SECONDS, World, play
from tests.support.ports import free_port

QUICK = InformerOptions(backoff_base=0.05, backoff_cap=0.2)


def test_an_api_server_that_is_down_at_first() -> None:
    """The daemon keeps trying, says so, and begins when the server is there."""

    async def story(world: World) -> None:
        await world.sandbox.stop()
        with capture_logs() as logs:
            daemon = await world.start_daemon(informer_options=QUICK, synced=False)
            await world.until(
                lambda: any(e["log_level"] in {"warning", "error"} for e in logs), "a complaint"
            )
        assert not daemon.daemon.health.handlers_synced
        port = int(world.sandbox.url.rpartition(":")[2])
        world.sandbox = Sandbox(Settings(port=port), SystemClock())
        world.node("n")
        world.pod("p")
        await world.sandbox.listen()

        try:
            assert await world.bound("p") == ["n"]
            await world.stop_daemon()
        finally:
            await world.sandbox.stop()

    # Nobody else is given its port while it is down.
    play(story, Settings(port=free_port()))


def test_a_daemon_killed_while_it_binds() -> None:
    """The next one finds pods bound and not bound, and finishes without binding any twice."""

    async def story(world: World) -> None:
        for index in range(5):
            world.node(f"n{index}", cpu="60")
        world.sandbox.faults.delay(0.05, path=BINDINGS, times=None)
        await world.start_daemon()
        names = [f"p{index}" for index in range(300)]
        for name in names:
            world.pod(name, cpu="1")
        await world.until(lambda: 0 < world.bindings() < 300, "some bindings")
        await world.kill_daemon()
        assert not all(map(world.node_of, names))

        await world.start_daemon()

        nodes = await world.bound(*names)
        await world.settled()
        assert {nodes.count(node) for node in set(nodes)} == {60}
        assert world.bindings(201) <= 300
        assert world.bindings(409) == 0
        assert world.daemon.comparer.compare().agrees

    play(story)


def test_a_node_that_goes_and_comes_back() -> None:
    """Its pods keep counting: a ghost has no room to give, and the returned node is as full."""

    async def story(world: World) -> None:
        world.node("n", cpu="2")
        await world.start_daemon()
        world.pod("first", cpu="1")
        await world.bound("first")

        world.sandbox.delete("nodes", "n")
        world.pod("second", cpu="1")
        await world.rejected("second")
        world.node("n", cpu="2")
        world.pod("third", cpu="1")

        await world.until(
            lambda: bool(world.node_of("second")) + bool(world.node_of("third")) == 1, "one pod"
        )
        await world.settled()
        await world.until(
            lambda: world.daemon.driver.engine.core.queue.counts().unschedulable == 1,
            "the other to wait",
        )
        # The node goes for good, and its pods with it.
        world.sandbox.delete("nodes", "n")
        for name in ("first", "second", "third"):
            world.sandbox.delete("pods", name, grace_seconds=0)
        await world.until(
            lambda: not world.daemon.driver.engine.core.cache.nodes, "no ghost to remain"
        )

    play(story)


def test_the_dump_on_a_signal() -> None:
    """SIGUSR2: what is in the cache, what waits, and whether both agree with the API server."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await world.start_daemon()
        world.pod("p", cpu="1")
        await world.bound("p")
        await world.settled()
        world.pod("waits", cpu="1")
        await world.rejected("waits")
        # A pod that another scheduler has to place is in neither.
        world.pod("theirs", scheduler="another")
        pods = world.daemon._informers.of(PODS).store
        await world.until(lambda: "default/theirs" in pods, "the other pod to be known")

        with capture_logs() as logs:
            os.kill(os.getpid(), signal.SIGUSR2)
            await world.until(
                lambda: any("scheduling queue" in entry["event"] for entry in logs), "the dump"
            )

        text = "\n".join(map(str, logs))
        assert "default/p" in text
        assert "default/waits" in text
        assert not any("mismatch" in entry["event"] for entry in logs)

    play(story)


def test_the_end_waits_for_bindings() -> None:
    """Asked to end, the daemon finishes what it has begun and begins nothing."""

    async def story(world: World) -> None:
        world.node("n")
        slow = world.sandbox.faults.delay(0.5, path=BINDINGS)
        await world.start_daemon()
        world.pod("begun")
        await world.until(lambda: slow.hits, "the binding to begin")
        stopping = asyncio.create_task(world.stop_daemon())
        await asyncio.sleep(0)
        world.pod("late")

        await stopping

        assert world.node_of("begun") == "n"
        assert not world.node_of("late")
        assert len(world.events("begun", "Scheduled")) == 1

    play(story)


@pytest.mark.parametrize(
    ("signals", "status", "node"),
    [
        pytest.param([signal.SIGTERM], 0, "n", id="once, and it drains"),
        pytest.param([signal.SIGINT], 0, "n", id="Ctrl-C is the same"),
        pytest.param([signal.SIGTERM] * 2, 1, "", id="twice, and it does not wait"),
    ],
)
def test_the_program_ends_on_a_signal(
    tmp_path: Path, signals: list[signal.Signals], status: int, node: str
) -> None:
    """The real command, real signals: what was begun is done, unless somebody is in a hurry."""

    async def story(world: World) -> None:
        kubeconfig = tmp_path / "kubeconfig"
        world.sandbox.write_kubeconfig(kubeconfig)
        world.node("n")
        world.pod("first")
        seconds = 1.0 if node else 2 * LIMIT_SECONDS
        slow = world.sandbox.faults.delay(seconds, path="*/last/binding")
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "scheduler", "run", f"--kubeconfig={kubeconfig}"),
            *("--leader-elect=false", "--secure-port=0"),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            # Starting Python takes its time where others work too.
            assert await world.bound("first", seconds=90) == ["n"]
            world.pod("last")
            await world.until(lambda: slow.hits, "the binding to begin")

            first, *others = signals
            program.send_signal(first)
            async with asyncio.timeout(LIMIT_SECONDS):
                output = await output_until(program, b"Shutting down")
                for each in others:
                    program.send_signal(each)
                output += (await program.communicate())[1]
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
        assert program.returncode == status, output.decode()
        assert b"Traceback" not in output
        assert world.node_of("last") == node

    play(story)


async def output_until(program: asyncio.subprocess.Process, words: bytes) -> bytes:
    """What a program says up to a line with these words."""
    assert program.stderr is not None
    output = b""
    while words not in output:
        line = await program.stderr.readline()
        assert line, output.decode()
        output += line
    return output


def test_changes_do_not_pile_up_while_nothing_is_scheduled() -> None:
    """The snapshot follows the cluster without any attempt, as it must on a standby."""

    async def story(world: World) -> None:
        world.node("before")
        daemon = await world.start_daemon()
        snapshot = daemon.driver.engine.core.snapshot
        assert set(snapshot.table.row_of) == {"before"}
        world.node("after")
        await world.until(lambda: "after" in snapshot.table.row_of, "the snapshot to follow")
        await world.stop_daemon()

    play(story)


class Rotating:
    """Credentials of which a new version is given when the server has refused the last."""

    description = "rotating credentials"

    def __init__(self, url: str) -> None:
        self._url = url
        self.version = 0

    async def load(self, *, is_refused: bool) -> Credentials:
        self.version += is_refused
        return Credentials(self._url, f"Bearer v{self.version}")


def test_credentials_are_renewed_when_they_are_refused() -> None:
    """The daemon comes back by itself with what it is given next."""

    async def story(world: World) -> None:
        url = world.sandbox.url
        source = Rotating(url)
        connection = Connection(source, Access(url, authorization="Bearer v0"))
        world.node("n")
        world.sandbox.faults.answer(401, path="/api/v1/pods", times=1)
        await world.start_daemon(informer_options=QUICK, connection=connection)
        world.pod("p")

        assert await world.bound("p") == ["n"]
        await world.until(lambda: connection.access.authorization == "Bearer v1", "new credentials")
        await world.stop_daemon()

    play(story)


def test_credentials_of_a_cluster_that_is_watched_are_renewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By `shadow`, `top` and `console`: a shadow in a pod outlives its first token."""

    async def story(world: World) -> None:
        url = world.sandbox.url
        connection = Connection(Rotating(url), Access(url, authorization="Bearer v0"))

        async def connect(**_: object) -> Connection:
            return connection

        monkeypatch.setattr("scheduler.tools.cli.watching.load_connection", connect)
        world.sandbox.faults.answer(401, path="/api/v1/pods", times=1)
        place, clock = ClusterAddress(), SystemClock()
        async with watching(place, Profiles(None), lambda _: None, clock) as watched:
            await world.until(lambda: not watched.informers.unsynced, "the caches to sync")
            await world.until(
                lambda: connection.access.authorization == "Bearer v1", "new credentials"
            )

    play(story)


ELECTION = {"leaderElect": True, "resourceName": "stowage", "resourceNamespace": "default"}


@asynccontextmanager
async def asking(port: int) -> AsyncIterator[Callable[[str], Awaitable[tuple[int, str]]]]:
    """Asks the secure port of a daemon for a path: status and text."""
    async with aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, str]:
            url = f"https://127.0.0.1:{port}/{path}"
            async with session.get(url, ssl=False) as answer:
                return answer.status, await answer.text()

        yield get


def test_health_is_that_of_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes hear of its election, its caches, its watches, its port and its end."""
    monkeypatch.setattr("scheduler.daemon.informers.informer.BLIND_SECONDS", 0.1)
    port = free_port()
    checks = {
        "healthz": {"leaderElection"},
        "livez": {"ping", "port"},
        "readyz": {"leaderElection", "shutdown", "sched-handler-sync", "watches"},
    }

    async def story(world: World) -> None:
        daemon = await world.start_daemon({"leaderElection": ELECTION}, secure_port=port)
        async with asking(port) as get:

            async def lines(path: str) -> set[str]:
                _, text = await get(f"{path}?verbose")
                return set(text.splitlines())

            for path, names in checks.items():
                well = {f"[+]{name} ok" for name in names} | {f"{path} check passed"}
                assert await lines(path) == well
            world.sandbox.faults.answer(500, verb="watch", path="*", times=None)
            world.sandbox.faults.close_watches(abort=True)
            informers, clock = daemon._informers, SystemClock()
            await world.until(lambda: informers.blind(clock.monotonic()), "the watches to fail")
            daemon.daemon.health.handlers_synced = False
            daemon.daemon.health.shutting_down = True
            monkeypatch.setattr(Server, "check_healthy", lambda _: "a task has ended")
            assert await lines("readyz") == {
                "[+]leaderElection ok",
                *(
                    f"[-]{name} failed, see the log"
                    for name in checks["readyz"] - {"leaderElection"}
                ),
                "readyz check failed",
            }
            assert "[-]port failed, see the log" in await lines("livez")

    play(story)


def test_a_standby_has_no_metrics_of_resources() -> None:
    """Those of several replicas would add up."""
    port = free_port()
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "stowage", "namespace": "default"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600},
    }

    async def story(world: World) -> None:
        world.sandbox.create(lease)
        world.pod("p", cpu="1")
        daemon = await world.start_daemon({"leaderElection": ELECTION}, secure_port=port)
        elector = daemon._elector
        assert elector is not None
        async with asking(port) as get:
            assert await get("metrics/resources") == (200, "")
            world.end_lease()
            await world.until(elector.is_leading, "it to lead")
            assert "kube_pod_resource_request{" in (await get("metrics/resources"))[1]

    play(story)


@pytest.mark.parametrize(("is_on", "status"), [(True, 200), (False, 404)])
def test_the_level_of_the_log_is_set_with_profiling_only(*, is_on: bool, status: int) -> None:
    """By the field `enableProfiling`."""
    port = free_port()

    async def story(world: World) -> None:
        await world.start_daemon({"enableProfiling": is_on}, secure_port=port)
        async with asking(port) as get:
            assert (await get("debug/flags/v"))[0] == status

    play(story)

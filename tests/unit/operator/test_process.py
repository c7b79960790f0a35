"""How an operator leads and ends, what wakes the reconciler, and the health port."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs
from typing_extensions import override

from apistub.sandbox import Sandbox
from e2e.support.loops import LoopThread
from scheduler.clock import SystemClock
from scheduler.daemon.client.connection import Access, Connection, load_connection
from scheduler.daemon.client.credentials import Credentials
from scheduler.daemon.client.errors import FencedError, NotFoundError
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.informers.informer import BLIND_SECONDS
from scheduler.operator.cluster import PROFILES, FencedClient
from scheduler.operator.desired import Reference
from scheduler.operator.process import (
    WATCHED,
    OperatorOptions,
    Watch,
    elector_of,
    readiness,
    run_operator,
    serve_health,
)
from scheduler.operator.reconciler import Reconciler
from scheduler.tools.cli.operator import operator
from tests.support.clock import FakeClock
from tests.support.ports import free_port, has_ipv6
from tests.support.virtual_time import run_in
from tests.unit.client.scripted_server import until


class FakeLines:
    """Stands in for `scheduler.daemon.client.lines.Lines`."""

    def __init__(self, batches: list[Sequence[bytes]] | None) -> None:
        self._batches = batches

    async def read(self) -> Sequence[bytes]:
        if self._batches is None:
            await asyncio.Event().wait()
        return self._batches.pop(0) if self._batches else ()


class FakeSession:
    """Stands in for `ApiSession`: each watch brings what is next, then it hangs."""

    def __init__(self, *watches: list[Sequence[bytes]] | Exception) -> None:
        self.watches = list(watches)
        self.asked: list[str] = []

    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[FakeLines]:
        del read_timeout
        self.asked.append(path)
        found = self.watches.pop(0) if self.watches else None
        if isinstance(found, Exception):
            raise found
        yield FakeLines(found)


LEASES = "leases.coordination.k8s.io"
LEASE = "stowage-operator"


class Rotating:
    """Credentials of which a new version is given when the server has refused the last."""

    description = "rotating credentials"

    def __init__(self, url: str) -> None:
        self._url = url
        self._version = 0

    async def load(self, *, is_refused: bool) -> Credentials:
        self._version += is_refused
        return Credentials(self._url, f"Bearer v{self._version}")


@asynccontextmanager
async def running(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, health_port: int = 0
) -> AsyncIterator[tuple[asyncio.Task[bool], Connection]]:
    """An operator, and its connection to the API server."""
    connection = Connection(Rotating(sandbox.url), Access(sandbox.url, authorization="Bearer v0"))

    async def connect(**_: object) -> Connection:
        return connection

    monkeypatch.setattr("scheduler.operator.process.load_connection", connect)
    options = OperatorOptions(
        kubeconfig="",
        context="",
        namespace="default",
        image="stowage:1",
        health_port=health_port,
        reserved_scheduler_name=("theirs",),
    )
    task = asyncio.create_task(run_operator(options, SystemClock()))
    try:
        yield task, connection
    finally:
        task.cancel()
        await asyncio.wait({task})


def holder(sandbox: Sandbox) -> str | None:
    found = sandbox.find(LEASES, LEASE, "default")
    return None if found is None else found["spec"].get("holderIdentity", "")


def test_an_operator_that_does_not_lead_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even in the middle of a reconcile, where its lease may be over: it writes no more."""
    made: list[tuple[Any, ...]] = []
    reconciled: list[object] = []

    class Noted(Reconciler):
        def __init__(self, cluster: FencedClient, *others: Any) -> None:
            super().__init__(cluster, *others)
            made.append((cluster, *others))

        @override
        async def run(self) -> None:
            reconciled.append(self)

    monkeypatch.setattr("scheduler.operator.process.Reconciler", Noted)

    async def story() -> None:
        async with await Sandbox.start() as sandbox:
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": LEASE, "namespace": "default"},
                "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600},
            }
            config_map = Reference("v1", "ConfigMap", "default", "some")
            sandbox.create(lease)
            async with running(sandbox, monkeypatch):
                await until(lambda: sandbox.requests.count(verb="get", resource="leases") > 0)
                [(cluster, image, _, reserved)] = made
                with pytest.raises(FencedError):
                    await cluster.delete(config_map, "uid")
            assert sandbox.requests.count(verb="delete") == 0
            assert (image, reserved) == ("stowage:1", ("theirs",))

    asyncio.run(story())
    assert reconciled == []


def test_an_operator_renews_credentials_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of its ServiceAccount is good for an hour."""

    async def story() -> None:
        async with await Sandbox.start() as sandbox:
            sandbox.faults.answer(401, path="*/leases*", times=1)
            async with running(sandbox, monkeypatch) as (_, connection):
                await until(lambda: connection.access.authorization == "Bearer v1")
                await until(lambda: bool(holder(sandbox)))

    asyncio.run(story())


def test_an_operator_that_is_asked_to_end_gives_its_lease_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other replica need not wait until it runs out."""

    async def story() -> None:
        async with await Sandbox.start() as sandbox, running(sandbox, monkeypatch) as (task, _):
            await until(lambda: bool(holder(sandbox)))
            os.kill(os.getpid(), signal.SIGTERM)
            assert await task is True
            assert holder(sandbox) == ""

    asyncio.run(story())


@pytest.mark.parametrize(("was_asked", "status"), [(True, 0), (False, 1)])
def test_the_exit_status_says_whether_the_lease_was_lost(
    monkeypatch: pytest.MonkeyPatch, *, was_asked: bool, status: int
) -> None:
    """As of `stowage run`: a container that ends so is started again as a standby."""

    async def run(*_: object) -> bool:
        return was_asked

    monkeypatch.setattr("scheduler.tools.cli.operator.run_operator", run)
    monkeypatch.setattr("scheduler.tools.cli.operator.logs.configure", lambda *_: None)

    assert CliRunner().invoke(operator, []).exit_code == status


def test_the_lease_is_renewed_while_a_reconcile_computes(tmp_path: Path) -> None:
    """A loop that stands still for one long step does not hand the lease to another replica."""
    with LoopThread("api server") as elsewhere:
        sandbox = elsewhere.run(Sandbox.start())
        kubeconfig = tmp_path / "kubeconfig"
        sandbox.write_kubeconfig(kubeconfig)

        async def story() -> tuple[str, str]:
            clock = SystemClock()
            connection = await load_connection(kubeconfig=str(kubeconfig), context="", clock=clock)
            async with ApiSession(connection, clock=clock) as session:
                elector = elector_of(session, connection, "kube-system", clock)
                running = asyncio.create_task(elector.run())
                await elector.wait_leading()
                before = renewed()
                Event().wait(2.5)  # a step of the loop, longer than the retry period
                during = renewed()
                running.cancel()
                await asyncio.wait({running})
                return before, during

        def renewed() -> str:
            lease = sandbox.get("leases.coordination.k8s.io", "stowage-operator", "kube-system")
            return str(lease["spec"]["renewTime"])

        before, during = asyncio.run(story())
        elsewhere.run(sandbox.stop())

    assert before != during


async def answer_of(address: str, port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_health_port_answers_both_families(address: str) -> None:
    """Probes of a cluster without IPv4 come from IPv6 addresses."""
    if address == "::1" and not has_ipv6():
        pytest.skip("no IPv6")
    port = free_port()

    async def story() -> bytes:
        runner = await serve_health(port, {})
        try:
            return await answer_of(address, port, "/healthz")
        finally:
            await runner.cleanup()

    assert asyncio.run(story()).endswith(b"ok")


def test_an_operator_that_cannot_watch_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new version that lacks a kind or a right does not replace the old one; it lives on."""
    port = free_port()

    async def story() -> list[bytes]:
        async with await Sandbox.start() as sandbox, running(sandbox, monkeypatch, port):
            await until(lambda: bool(holder(sandbox)))
            paths = ("/healthz", "/readyz", "/readyz/watches")
            return [await answer_of("127.0.0.1", port, path) for path in paths]

    lives, is_ready, watches = asyncio.run(story())

    assert b" 200 " in lives
    assert b" 500 " in is_ready
    assert b"no watch on schedulers, schedulingprofiles" in watches


def test_an_operator_that_cannot_reach_its_lease_is_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a namespace that `--namespace` does not name: it would never lead."""
    port = free_port()

    async def story() -> bytes:
        async with await Sandbox.start() as sandbox:
            refused = sandbox.faults.answer(403, path="*/leases*", times=None)
            async with running(sandbox, monkeypatch, port):
                await until(lambda: refused.hits > 0)
                return await answer_of("127.0.0.1", port, "/readyz/lease")

    assert b"no operator is seen to hold the Lease" in asyncio.run(story())


class Standby:
    """Stands in for `LeaderElector`: another leads."""

    leader = "another"

    def check_healthy(self) -> None:
        """No term is overrun."""


def test_a_standby_that_watches_is_ready() -> None:
    """From the first watch of each kind on."""
    port, clock = free_port(), FakeClock()
    watches = [Watch(FakeSession(), kind, lambda: None, clock) for kind in WATCHED]

    async def story() -> list[bool]:
        runner = await serve_health(port, readiness(Standby(), watches))
        found = [b" 200 " in await answer_of("127.0.0.1", port, "/readyz")]
        running = [asyncio.create_task(each.run()) for each in watches]
        await asyncio.sleep(0)
        found.append(b" 200 " in await answer_of("127.0.0.1", port, "/readyz"))
        for task in running:
            task.cancel()
        await runner.cleanup()
        return found

    assert asyncio.run(story()) == [False, True]


def test_a_kind_that_is_not_installed_is_named_as_such() -> None:
    """The log says what is expected; the watch goes on."""
    session = FakeSession(NotFoundError("watch", status=404), [[b"{}"]])
    woken: list[None] = []
    clock = FakeClock()
    watch = Watch(session, "schedulers", lambda: woken.append(None), clock)

    async def story() -> None:
        watching = asyncio.create_task(watch.run())
        await asyncio.sleep(60)
        watching.cancel()

    with capture_logs() as logged:
        run_in(clock, story())

    assert logged[0]["event"] == "Kind not installed; retrying"
    assert logged[0]["expected"] == "deploy/operator"
    assert woken


def test_every_change_wakes_and_no_failure_ends_the_watch() -> None:
    """What the bytes say is not read: neither deep ones nor noise do harm."""
    deep = b'{"object":' + b"[" * 100_000
    not_there = NotFoundError("watch", status=404)
    session = FakeSession(not_there, [[b"{}", deep]], [[b"noise"], [b"{}"]])
    clock, woken = FakeClock(), []

    async def story() -> None:
        watch = Watch(session, PROFILES, lambda: woken.append(clock.now), clock)
        watching = asyncio.create_task(watch.run())
        await asyncio.sleep(60)
        watching.cancel()

    run_in(clock, story())

    assert len(woken) == 3
    assert len(session.asked) == 4
    assert all(path.startswith(WATCHED[PROFILES]) for path in session.asked)
    assert all("timeoutSeconds=" in path for path in session.asked)


def test_a_watch_that_breaks_off_leaves_the_operator_ready_for_a_while() -> None:
    """API servers end watches all the time."""
    session, clock = (
        FakeSession([[b"{}"]], *[NotFoundError("watch", status=404)] * 100),
        FakeClock(),
    )
    watch = Watch(session, PROFILES, lambda: None, clock)

    async def story() -> list[bool]:
        at_first = watch.is_blind()
        watching = asyncio.create_task(watch.run())
        found = []
        for _ in range(2):
            await asyncio.sleep(BLIND_SECONDS - 5)
            found.append(watch.is_blind())
        watching.cancel()
        return [at_first, *found]

    assert run_in(clock, story()) == [True, False, True]

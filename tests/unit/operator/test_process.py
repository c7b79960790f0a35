"""What wakes the reconciler, and the health port."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import pytest

from apistub.sandbox import Sandbox
from e2e.support.loops import LoopThread
from scheduler.clock import SystemClock
from scheduler.daemon.client.connection import load_connection
from scheduler.daemon.client.errors import NotFoundError
from scheduler.daemon.client.session import ApiSession
from scheduler.operator.process import WATCHED, elector_of, serve_health, watch
from tests.support.clock import FakeClock
from tests.support.ports import free_port, has_ipv6
from tests.support.virtual_time import run_in


class FakeLines:
    """Stands in for `scheduler.daemon.client.lines.Lines`."""

    def __init__(self, batches: list[Sequence[bytes]]) -> None:
        self._batches = batches

    async def read(self) -> Sequence[bytes]:
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
        if not self.watches:
            await asyncio.Event().wait()
        found = self.watches.pop(0)
        if isinstance(found, Exception):
            raise found
        yield FakeLines(found)


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


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_health_port_answers_both_families(address: str) -> None:
    """Probes of a cluster without IPv4 come from IPv6 addresses."""
    if address == "::1" and not has_ipv6():
        pytest.skip("no IPv6")
    port = free_port()

    async def story() -> bytes:
        runner = await serve_health(port)
        try:
            reader, writer = await asyncio.open_connection(address, port)
            writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
        finally:
            await runner.cleanup()
        return answer

    assert asyncio.run(story()).endswith(b"ok")


def test_every_change_wakes_and_no_failure_ends_the_watch() -> None:
    """What the bytes say is not read: neither deep ones nor noise do harm."""
    deep = b'{"object":' + b"[" * 100_000
    not_there = NotFoundError("watch", status=404)
    session = FakeSession(not_there, [[b"{}", deep]], [[b"noise"], [b"{}"]])
    clock, woken = FakeClock(), []

    async def story() -> None:
        watching = asyncio.create_task(watch(session, WATCHED[0], lambda: woken.append(clock.now)))
        await asyncio.sleep(60)
        watching.cancel()

    run_in(clock, story())

    assert len(woken) == 3
    assert len(session.asked) == 4
    assert all("watch=true" in path and "timeoutSeconds=" in path for path in session.asked)

"""A daemon without the lease writes nothing about pods, and what it writes under it is known."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop
from aiohttp import web
from structlog.testing import capture_logs

from scheduler.api.pod_groups import V1ALPHA2
from scheduler.api.written import Condition
from scheduler.clock import SystemClock
from scheduler.config.load import load_object
from scheduler.config.options import RunOptions
from scheduler.daemon.bootstrap.daemon import RunningDaemon
from scheduler.daemon.client.connection import load_connection
from scheduler.daemon.client.errors import FencedError
from scheduler.daemon.client.leases import LeaseSpec
from scheduler.daemon.driver.outbox import Outbox
from scheduler.kernel.engine.instructions import Bind, Evict, PatchGroupStatus, PatchStatus
from tests.unit.client.scripted_server import ScriptedServer, status_answer

SCHEDULED = Condition("PodGroupScheduled", "True", "Scheduled", "")


@asynccontextmanager
async def put_together(url: str, *, elects: bool) -> AsyncIterator[RunningDaemon]:
    """A daemon with an extender that binds; its outbox runs."""
    clock = SystemClock()
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": elects},
        "extenders": [{"urlPrefix": f"{url}/extender", "bindVerb": "bind"}],
    }
    daemon = RunningDaemon(
        RunOptions(secure_port=0),
        load_object(document),
        await load_connection(master=url, environ={}, clock=clock),
        clock,
        out_of_tree={},
    )
    sending = asyncio.create_task(daemon.driver.outbox.run())
    try:
        yield daemon
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert daemon._extenders is not None
        await daemon._extenders.close()
        await daemon._session.close()


async def accepted(_: web.Request) -> web.Response:
    return status_answer(201)


def bind(outbox: Outbox) -> None:
    outbox.bind(Bind(1, "ns", "p", "u", "n"))


def bind_by_extender(outbox: Outbox) -> None:
    outbox.bind(Bind(2, "ns", "r", "w", "n", extender=0))


def evict(outbox: Outbox) -> None:
    outbox.evict(Evict("u", "ns", "v", "x"))


def patch(outbox: Outbox) -> None:
    outbox.patch(PatchStatus("ns", "q", "v", None, ""))


def patch_group(outbox: Outbox) -> None:
    outbox.patch_group(PatchGroupStatus(V1ALPHA2, "ns", "g", "y", SCHEDULED))


WRITES: list[Callable[[Outbox], None]] = [bind, bind_by_extender, evict, patch, patch_group]


@pytest.mark.parametrize(
    ("elects", "sent"),
    [
        pytest.param(True, [], id="a candidate that does not lead"),
        pytest.param(
            False,
            [
                "DELETE /api/v1/namespaces/ns/pods/v",
                "PATCH /api/v1/namespaces/ns/pods/q/status",
                "PATCH /apis/scheduling.k8s.io/v1alpha2/namespaces/ns/podgroups/g/status",
                "POST /api/v1/namespaces/ns/pods/p/binding",
                "POST /api/v1/things",
                "POST /extender/bind",
            ],
            id="one that needs no lease",
        ),
    ],
)
def test_the_daemon_writes_within_the_fence(elects: bool, sent: list[str]) -> None:
    """All of its writes, those that plugins and extenders carry out included."""

    async def story() -> list[str]:
        async with (
            ScriptedServer(accepted).running() as server,
            put_together(server.url, elects=elects) as daemon,
        ):
            outbox = daemon.driver.outbox
            for write in WRITES:
                write(outbox)
            with suppress(FencedError):
                await daemon.driver.plugin_api.request("POST", "/api/v1/things")
            await outbox.drain(60.0)
            return sorted(f"{seen.method} {seen.path}" for seen in server.seen)

    assert uvloop.run(story()) == sent


@pytest.mark.parametrize("write", [*WRITES, None])
def test_a_lease_is_not_given_back_right_after_a_write(
    write: Callable[[Outbox], None] | None,
) -> None:
    """Each of its writes counts, those that plugins and extenders carry out included."""

    async def story() -> list[str]:
        async with (
            ScriptedServer(accepted).running() as server,
            put_together(server.url, elects=True) as daemon,
        ):
            elector, now = daemon._elector, SystemClock().boot()
            assert elector is not None
            elector._election.claimed(LeaseSpec(elector.identity, 15), now, now)
            with capture_logs() as logs:
                if write is not None:
                    write(daemon.driver.outbox)
                else:
                    await daemon.driver.plugin_api.request("POST", "/api/v1/things")
                await daemon.driver.outbox.drain(60.0)
                await elector.release_lost()
            return [entry["event"] for entry in logs]

    assert "Lease not released; it will run out" in uvloop.run(story())

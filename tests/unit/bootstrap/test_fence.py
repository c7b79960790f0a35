"""Whoever does not hold the lease writes nothing about pods."""

import asyncio

import pytest
import uvloop
from aiohttp import web

from scheduler.clock import SystemClock
from scheduler.config.load import load_object
from scheduler.config.options import RunOptions
from scheduler.daemon.bootstrap.daemon import RunningDaemon
from scheduler.daemon.client.connection import load_connection
from scheduler.kernel.engine.instructions import Bind, PatchStatus
from tests.unit.client.scripted_server import ScriptedServer, status_answer


@pytest.mark.parametrize(
    ("elects", "sent"),
    [
        pytest.param(True, [], id="a candidate that does not lead"),
        pytest.param(
            False,
            [
                "POST /api/v1/namespaces/ns/pods/p/binding",
                "PATCH /api/v1/namespaces/ns/pods/q/status",
            ],
            id="one that needs no lease",
        ),
    ],
)
def test_the_daemon_writes_within_the_fence(elects: bool, sent: list[str]) -> None:
    """Bindings and status alike, as the daemon is put together."""

    async def answer(_: web.Request) -> web.Response:
        return status_answer(201)

    async def story() -> list[str]:
        async with ScriptedServer(answer).running() as server:
            clock = SystemClock()
            document = {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": elects},
            }
            daemon = RunningDaemon(
                RunOptions(secure_port=0),
                load_object(document),
                await load_connection(master=server.url, environ={}, clock=clock),
                clock,
                out_of_tree={},
            )
            outbox = daemon.driver.outbox
            sending = asyncio.create_task(outbox.run())
            outbox.bind(Bind(1, "ns", "p", "u", "n"))
            outbox.patch(PatchStatus("ns", "q", "v", None, ""))
            await outbox.drain(60.0)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await daemon._session.close()
            return sorted((f"{seen.method} {seen.path}" for seen in server.seen), reverse=True)

    assert uvloop.run(story()) == sent

"""A daemon without the lease writes nothing about pods."""

import asyncio
from contextlib import suppress

import pytest
import uvloop
from aiohttp import web

from scheduler.api.pod_groups import V1ALPHA2
from scheduler.api.written import Condition
from scheduler.clock import SystemClock
from scheduler.config.load import load_object
from scheduler.config.options import RunOptions
from scheduler.daemon.bootstrap.daemon import RunningDaemon
from scheduler.daemon.client.connection import load_connection
from scheduler.daemon.client.errors import FencedError
from scheduler.kernel.engine.instructions import Bind, Evict, PatchGroupStatus, PatchStatus
from tests.unit.client.scripted_server import ScriptedServer, status_answer

SCHEDULED = Condition("PodGroupScheduled", "True", "Scheduled", "")


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

    async def answer(_: web.Request) -> web.Response:
        return status_answer(201)

    async def story() -> list[str]:
        async with ScriptedServer(answer).running() as server:
            clock = SystemClock()
            document = {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": elects},
                "extenders": [{"urlPrefix": f"{server.url}/extender", "bindVerb": "bind"}],
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
            outbox.bind(Bind(2, "ns", "r", "w", "n", extender=0))
            outbox.evict(Evict("u", "ns", "v", "x"))
            outbox.patch(PatchStatus("ns", "q", "v", None, ""))
            outbox.patch_group(PatchGroupStatus(V1ALPHA2, "ns", "g", "y", SCHEDULED))
            with suppress(FencedError):
                await daemon.driver.plugin_api.request("POST", "/api/v1/things")
            await outbox.drain(60.0)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            assert daemon._extenders is not None
            await daemon._extenders.close()
            await daemon._session.close()
            return sorted(f"{seen.method} {seen.path}" for seen in server.seen)

    assert uvloop.run(story()) == sent

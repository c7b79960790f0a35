"""A served port with a fake API server behind it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry

from scheduler.config.options import RunOptions
from scheduler.daemon.client.errors import ApiError, UnavailableError
from scheduler.daemon.client.reviews import User
from scheduler.daemon.serving.endpoints import EndpointSources
from scheduler.daemon.serving.health import scheduler_checks
from scheduler.daemon.serving.server import Server
from scheduler.observability.metrics import SchedulerMetrics
from tests.support.clock import FakeClock
from tests.support.pki import client_context
from tests.support.ports import free_port

NOBODY = User(name="nobody", groups=("some",))
OPERATOR = User(name="operator", groups=("ops",))
MASTER = User(name="master", groups=("system:masters",))


class FakeReviews:
    """Knows three tokens; operators may look at everything but change nothing."""

    def __init__(self) -> None:
        self.tokens: dict[str, User] = {
            "nobody-token": NOBODY,
            "operator-token": OPERATOR,
            "master-token": MASTER,
        }
        self.asked: list[Any] = []
        self.audiences: list[tuple[str, ...]] = []
        self.is_down = False

    async def review_token(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        self.asked.append(token)
        self.audiences.append(tuple(audiences))
        self._refuse_when_down()
        return self.tokens.get(token)

    async def review_access(self, user: User, path: str, verb: str) -> bool:
        self.asked.append((user.name, path, verb))
        self._refuse_when_down()
        return "ops" in user.groups and verb == "get"

    def _refuse_when_down(self) -> None:
        error: ApiError = UnavailableError("review", message="no connection")
        if self.is_down:
            raise error


@dataclass
class Instance:
    """One served instance and what it shows."""

    url: str
    server: Server
    session: aiohttp.ClientSession
    reviews: FakeReviews
    metrics: SchedulerMetrics
    clock: FakeClock
    state: dict[str, Any] = field(default_factory=dict)

    async def get(
        self, path: str, token: str = "", *, method: str = "GET", **options: Any
    ) -> tuple[int, str, Mapping[str, str]]:
        """Ask and read the answer."""
        headers = dict(options.pop("headers", {}))
        if token:
            headers["Authorization"] = f"Bearer {token}"
        tls = options.pop("tls", None) or client_context()
        async with self.session.request(
            method, self.url + path, headers=headers, ssl=tls, **options
        ) as answer:
            return answer.status, await answer.text(), dict(answer.headers)


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Instance]:
    """Serve on a free port until the end of the block."""
    clock, reviews = FakeClock(), FakeReviews()
    metrics = SchedulerMetrics(CollectorRegistry())
    state: dict[str, Any] = {"lease": None, "stopping": False, "synced": True, "leads": True}
    port = free_port()
    given = {"bind_address": "127.0.0.1", "secure_port": port, **options}
    sources = EndpointSources(
        metrics=metrics.registry,
        reset_metrics=metrics.instruments.reset,
        configuration=lambda: {"kind": "KubeSchedulerConfiguration"},
        pods=given.pop("pods", {}),
        is_leading=lambda: state["leads"],
        flags=(("secure-port", str(port)),),
        checks=scheduler_checks(
            lambda: state["lease"],
            lambda: state["stopping"],
            lambda: state["synced"],
            port=lambda: server.check_healthy(),  # noqa: PLW0108 - it comes later
        ),
        explain=given.pop("explain", None),
        debug={"cache": lambda: {"nodes": {"n1": {1, 2}}}, "queue": list},
        level_can_be_set=given.pop("level_can_be_set", True),
    )
    server = Server(RunOptions(**given), sources, reviews, clock)
    await server.start()
    # A new connection for each request: every one shakes hands anew.
    connector = aiohttp.TCPConnector(force_close=True)
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            url = f"https://127.0.0.1:{port}"
            yield Instance(url, server, session, reviews, metrics, clock, state)
    finally:
        await server.stop()


async def served_certificate(instance: Instance) -> bytes:
    """The certificate the port shows now."""
    port = int(instance.url.rpartition(":")[2])
    pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    return pem.encode()

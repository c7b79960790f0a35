"""The process of `stowage operator`: kopf tells of changes, the leader of all operators acts."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import kopf

from scheduler.client.connection import Access, Connection, load_connection
from scheduler.client.leases import LeaseLock
from scheduler.client.session import ApiSession
from scheduler.clock import Clock
from scheduler.errors import SchedulerError
from scheduler.leader_election.election import LeaderElectionSettings
from scheduler.leader_election.elector import LeaderElector, unique_identity
from scheduler.observability.build_info import stowage_version
from scheduler.observability.logs import get_logger
from scheduler.operator.cluster import PROFILES, SCHEDULERS, Cluster
from scheduler.operator.desired import MANAGED_BY
from scheduler.operator.reconciler import Reconciler
from scheduler.operator.resources import GROUP, VERSION

LEASE_NAME: Final = "stowage-operator"
USER_AGENT: Final = f"stowage/{stowage_version()} operator"

_RETRIES_SECONDS: Final = (1, 1, 2, 3, 5, 8, 13, 21, *[30] * 120)
"""Pauses of kopf when the API server does not answer: an hour, then the process starts anew."""
_REFUSED_PAUSE_SECONDS: Final = 10.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """What the command line says.

    Attributes:
        kubeconfig: a file, or empty for what kubectl would use.
        context: of the kubeconfig, or empty.
        namespace: where the operator's own lease is.
        image: of instances that name none.
        health_port: of /healthz; 0 for none.
    """

    kubeconfig: str
    context: str
    namespace: str
    image: str
    health_port: int


async def run_operator(options: OperatorOptions, clock: Clock) -> bool:
    """Run until a signal (True), or until another operator may lead (False).

    Raises:
        ConnectionConfigError: the way to the API server cannot be worked out.
        SchedulerError: the port cannot be listened on.
    """
    connection = await load_connection(
        kubeconfig=options.kubeconfig, context=options.context, clock=clock
    )
    log.info("Starting", server=connection.access.server, image=options.image)
    await _check_port(options.health_port)
    async with ApiSession(connection, clock=clock, user_agent=USER_AGENT) as session:
        elector = LeaderElector(
            LeaseLock(session, options.namespace, LEASE_NAME),
            LeaderElectionSettings(identity=unique_identity()),
            clock=clock,
            rng=random.Random(),  # noqa: S311 - spreads load, keeps no secret
        )
        reconciler = Reconciler(Cluster(session, elector.is_leading), options.image, clock)
        try:
            return await _until_the_end(options, connection, elector, reconciler)
        finally:
            await elector.release()


async def _check_port(port: int) -> None:
    """Kopf would tell of it in a traceback, and go on for a while."""
    if not port:
        return
    try:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "0.0.0.0", port)  # noqa: S104 - probes come from the node
    except OSError as problem:
        raise SchedulerError(f"--health-port={port}: {problem.strerror}") from problem
    server.close()
    await server.wait_closed()


async def _until_the_end(
    options: OperatorOptions, connection: Connection, elector: LeaderElector, reconciler: Reconciler
) -> bool:
    async def keep() -> None:
        await elector.wait_leading()
        await reconciler.run()

    renewing = connection.keep_fresh(
        lambda problem: log.warning("Credentials not renewed", reason=str(problem))
    )
    # kopf ends what it finds running beside it, but for what was there before.
    others = [asyncio.create_task(each) for each in (elector.run(), keep(), renewing)]
    watching = asyncio.create_task(_watch(options, connection, reconciler.wake))
    try:
        done, _ = await asyncio.wait([watching, *others], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return watching in done
    finally:
        for task in (watching, *others):
            task.cancel()
        await asyncio.gather(watching, *others, return_exceptions=True)


async def _watch(
    options: OperatorOptions, connection: Connection, wake: Callable[[], None]
) -> None:
    """Let kopf watch; it returns after a signal."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.networking.error_backoffs = _RETRIES_SECONDS
    port = options.health_port
    await kopf.operator(
        registry=handlers(connection, wake),
        settings=settings,
        # Who acts is decided by the lease.
        standalone=True,
        # Else kopf asks for the name of the user, and fails for a uid that has none.
        identity=unique_identity(),  # type: ignore[arg-type]  # a NewType that kopf keeps to itself
        clusterwide=True,
        liveness_endpoint=f"http://0.0.0.0:{port}/healthz" if port else None,
    )


def handlers(connection: Connection, wake: Callable[[], None]) -> kopf.OperatorRegistry:
    """What kopf is to do: log in as everything here does, and wake the reconciler."""
    registry = kopf.OperatorRegistry()
    used: Access | None = None

    async def login(**_: Any) -> kopf.AiohttpSession:
        """Asked for at the start, and again after each 401."""
        nonlocal used
        if used is not None:
            await connection.refresh(is_refused=True)
        if used is connection.access:
            # Nothing new to show: without a pause it would be refused a thousand times a second.
            await asyncio.sleep(_REFUSED_PAUSE_SECONDS)
        used = connection.access
        return _session(used)

    async def noticed(**_: Any) -> None:
        wake()

    kopf.on.login(registry=registry)(login)
    for plural in (SCHEDULERS, PROFILES):
        kopf.on.event(GROUP, VERSION, plural, registry=registry)(noticed)
    kopf.on.event("apps", "v1", "deployments", labels=MANAGED_BY, registry=registry)(noticed)
    return registry


def _session(access: Access) -> kopf.AiohttpSession:
    """The way to the API server as kopf takes it."""
    authorization = {"Authorization": access.authorization} if access.authorization else {}
    return kopf.AiohttpSession(
        server=access.server,
        aiohttp_session=aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=access.tls.context if access.tls else True),
            headers={"User-Agent": USER_AGENT, **authorization},
            proxy=access.proxy,
            cookie_jar=aiohttp.DummyCookieJar(),
        ),
    )

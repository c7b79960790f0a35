"""The process of `stowage operator`: elects a leader, which reconciles after watch events."""

import asyncio
import math
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from scheduler.clock import Clock
from scheduler.config.problems import ConfigError, Problem
from scheduler.daemon.client.connection import Connection, load_connection
from scheduler.daemon.client.errors import ApiError, NotFoundError
from scheduler.daemon.client.leases import LeaseLock
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.wire import segment
from scheduler.daemon.informers.backoff import Backoff
from scheduler.daemon.informers.informer import BLIND_SECONDS
from scheduler.daemon.leader_election.campaign import CampaignThread
from scheduler.daemon.leader_election.election import LeaderElectionSettings
from scheduler.daemon.leader_election.elector import LeaderElector, unique_identity
from scheduler.daemon.serving.health import Check, HealthMetrics, HealthPath, blind_message
from scheduler.daemon.serving.listening import listen
from scheduler.observability.build_info import stowage_version
from scheduler.observability.logs import get_logger
from scheduler.operator.cluster import PROFILES, SCHEDULERS, FencedClient
from scheduler.operator.desired import MANAGED_BY
from scheduler.operator.reconciler import Reconciler
from scheduler.operator.resources import GROUP, VERSION

LEASE_NAME: Final = "stowage-operator"
USER_AGENT: Final = f"stowage/{stowage_version()} operator"
WATCH_SECONDS: Final = 600
"""The `timeoutSeconds` of a watch."""
SILENCE_SECONDS: Final = 660.0
"""Time without a byte after which a watch counts as dead."""
MAX_PAUSE_SECONDS: Final = 30.0
"""Longest pause after a failed watch."""

_OURS: Final = ",".join(f"{name}={value}" for name, value in MANAGED_BY.items())
WATCHED: Final[Mapping[str, str]] = {
    SCHEDULERS: f"/apis/{GROUP}/{VERSION}/{SCHEDULERS}?watch=true",
    PROFILES: f"/apis/{GROUP}/{VERSION}/{PROFILES}?watch=true",
    "deployments": f"/apis/apps/v1/deployments?watch=true&labelSelector={segment(_OURS)}",
}
"""The paths of watches whose events wake the reconciler, by kind."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """The options of the command line.

    Attributes:
        kubeconfig: a file, or empty for kubectl's default.
        context: a context of the kubeconfig, or empty.
        namespace: the namespace of the operator's own Lease.
        image: the image of instances without one in their spec.
        health_port: the port of /healthz and /readyz; 0 for none.
        reserved_scheduler_name: names that no SchedulingProfile may claim.
    """

    kubeconfig: str
    context: str
    namespace: str
    image: str
    health_port: int
    reserved_scheduler_name: tuple[str, ...] = ()


async def run_operator(options: OperatorOptions, clock: Clock) -> bool:
    """Run until a signal (return True), or until the lease is lost (return False).

    Raises:
        ConnectionConfigError: the configuration of the connection is wrong.
        ConfigError: the health port cannot be listened on.
    """
    connection = await load_connection(
        kubeconfig=options.kubeconfig, context=options.context, clock=clock
    )
    log.info("Starting", server=connection.access.server, image=options.image)
    async with ApiSession(connection, clock=clock, user_agent=USER_AGENT) as session:
        elector = elector_of(session, connection, options.namespace, clock)
        cluster = FencedClient(session, elector.is_leading)
        reconciler = Reconciler(cluster, options.image, clock, options.reserved_scheduler_name)

        async def lead() -> None:
            await elector.wait_leading()
            await reconciler.run()

        watches = [Watch(session, kind, reconciler.wake, clock) for kind in WATCHED]
        health = await serve_health(options.health_port, readiness(elector, watches))
        try:
            renewing = connection.keep_fresh(
                lambda problem: log.warning("Credentials not renewed", reason=str(problem))
            )
            running = (each.run() for each in watches)
            return await _until_signalled(elector.run(), lead(), renewing, *running)
        finally:
            await health.cleanup()
            await elector.release()


def readiness(elector: LeaderElector, watches: Sequence["Watch"]) -> dict[str, Check]:
    """Return the checks of /readyz; they pass for a standby that sees the leader too."""
    return {
        "leaderElection": elector.check_healthy,
        "lease": lambda: None if elector.leader else "no operator is seen to hold the Lease",
        "watches": lambda: blind_message([each.kind for each in watches if each.is_blind()]),
    }


def elector_of(
    session: ApiSession, connection: Connection, namespace: str, clock: Clock
) -> LeaderElector:
    """Return a candidate that renews in a thread of its own: no object delays a renewal."""

    @asynccontextmanager
    async def own_lock(home: asyncio.AbstractEventLoop) -> AsyncIterator[LeaseLock]:
        async with ApiSession(connection, clock=clock, user_agent=USER_AGENT, home=home) as own:
            yield LeaseLock(own, namespace, LEASE_NAME)

    return LeaderElector(
        LeaseLock(session, namespace, LEASE_NAME),
        LeaderElectionSettings(identity=unique_identity()),
        clock=clock,
        rng=random.Random(),  # noqa: S311 - spreads load, keeps no secret
        campaigning=CampaignThread(own_lock, clock),
    )


async def _until_signalled(*work: Coroutine[Any, Any, None]) -> bool:
    """Run tasks until a signal (return True), or until one of them ends (return False)."""
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    waiting = asyncio.create_task(signalled.wait())
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return waiting in done
    finally:
        for task in (waiting, *tasks):
            task.cancel()
        await asyncio.gather(waiting, *tasks, return_exceptions=True)


class Watch:
    """A watch of which each event wakes the reconciler.

    Events are not decoded, so that malformed objects wake the reconciler too. A watch without a
    version begins with all existing objects, so no change is missed between two watches.

    Args:
        session: sends the requests.
        kind: a key of `WATCHED`.
        wake: called at each event.
        clock: measures the time without a watch.
    """

    def __init__(
        self, session: ApiSession, kind: str, wake: Callable[[], None], clock: Clock
    ) -> None:
        self.kind = kind
        self._session = session
        self._wake = wake
        self._clock = clock
        self._closed_at: float | None = -math.inf
        """The monotonic time at which the last watch ended; None while one is open."""

    def is_blind(self) -> bool:
        """Return whether no watch was open for `BLIND_SECONDS`, or none was yet."""
        since = self._closed_at
        return since is not None and self._clock.monotonic() - since > BLIND_SECONDS

    async def run(self) -> None:
        """Watch until cancelled; run it as a task."""
        backoff = Backoff(random.Random(), cap_seconds=MAX_PAUSE_SECONDS)  # noqa: S311 - spreads load
        path = WATCHED[self.kind]
        asked = f"{path}&timeoutSeconds={WATCH_SECONDS}"
        while True:
            try:
                async with self._session.stream(asked, read_timeout=SILENCE_SECONDS) as lines:
                    self._closed_at = None
                    while await lines.read():
                        backoff.reset()
                        self._wake()
            except NotFoundError:
                log.warning("Kind not installed; retrying", path=path, expected="deploy/operator")
            except ApiError as problem:
                log.warning("Watch failed; retrying", path=path, reason=str(problem))
            if self._closed_at is None:
                self._closed_at = self._clock.monotonic()
            await asyncio.sleep(backoff.pause())


async def serve_health(port: int, checks: Mapping[str, Check]) -> web.AppRunner:
    """Serve /healthz, which succeeds as long as the event loop runs, and /readyz with checks.

    Raises:
        ConfigError: the port cannot be listened on.
    """
    metrics = HealthMetrics(CollectorRegistry())
    application = web.Application()
    for kind, made in (("healthz", {}), ("readyz", checks)):
        application.router.add_routes(HealthPath(kind, made, metrics).routes())
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    if port:
        try:
            listener = listen("0.0.0.0", port)  # noqa: S104 - probes come from the node
            await web.SockSite(runner, listener).start()
        except OSError as problem:
            cause = Problem((), problem.strerror or str(problem))
            raise ConfigError(f"--health-port={port}", [cause]) from problem
    return runner

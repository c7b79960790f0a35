"""A cluster that is watched, for commands that look at it for a while. Nothing is written."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import thread_time
from typing import Any

import msgspec

from scheduler.clock import Clock
from scheduler.daemon.client.connection import load_connection
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.driver.feeding import Feed
from scheduler.daemon.informers.informers import Informers
from scheduler.daemon.informers.kinds import NAMESPACES, NODES, PODS, Kind, watched_kind
from scheduler.kernel.engine.events import Event
from scheduler.observability.client_metrics import ClientMetrics, InformerMetrics
from scheduler.observability.instruments import Instruments
from scheduler.observability.logs import get_logger
from scheduler.observability.loop_shares import LoopMetrics, LoopShares
from scheduler.tools.cli.live import ClusterAddress
from scheduler.tools.offline.cluster import Profiles

log = get_logger(__name__)


class Watched(msgspec.Struct, frozen=True):
    """A cluster that is being watched.

    Attributes:
        server: its address.
        informers: keep the stores up to date.
        session: the session with its API server.
        tasks: the running tasks; they end only after an unexpected failure.
    """

    server: str
    informers: Informers
    session: ApiSession
    tasks: "tuple[asyncio.Task[None], ...]"

    def notice(self, now: float) -> str:
        """Return how the known objects differ from the cluster; empty if they should not."""
        for task in self.tasks:
            if task.done() and not task.cancelled() and (problem := task.exception()) is not None:
                return f"out of date, no longer watched: {_first_of(problem)!r}"
        if missing := self.informers.unsynced:
            return f"waiting for {', '.join(missing)}"
        if blind := self.informers.blind(now):
            return f"out of date, without a watch of {', '.join(blind)}"
        return ""


def _first_of(problem: BaseException) -> BaseException:
    """Return an error itself, or the first one of a group."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


@asynccontextmanager
async def watching(
    place: ClusterAddress,
    profiles: Profiles,
    submit: Callable[[Event], None],
    clock: Clock,
    instruments: Instruments | None = None,
) -> AsyncIterator[Watched]:
    """Watch pods, nodes, namespaces and the kinds that the profiles' plugins watch.

    Raises:
        ConnectionConfigError: the configuration of the connection is wrong.
    """
    instruments = instruments or Instruments()
    connection = await load_connection(
        kubeconfig=place.kubeconfig, context=place.context, clock=clock
    )
    kinds: list[Kind[Any]] = [PODS, NODES, NAMESPACES]
    kinds.extend(map(watched_kind, profiles.watched))
    async with ApiSession(connection, clock=clock, metrics=ClientMetrics(instruments)) as session:
        informers = Informers(
            session,
            kinds,
            clock=clock,
            rng=random.Random(),  # noqa: S311 - spreads retries, keeps no secret
            metrics=InformerMetrics(instruments),
            shares=LoopShares(LoopMetrics(instruments), clock.monotonic, thread_time),
        )
        for kind in kinds:
            informers.of(kind).add_handler(Feed(kind, submit))
        renewing = connection.keep_fresh(
            lambda problem: log.warning("Credentials not renewed", reason=str(problem))
        )
        tasks = (asyncio.create_task(informers.run()), asyncio.create_task(renewing))
        try:
            yield Watched(connection.access.server, informers, session, tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

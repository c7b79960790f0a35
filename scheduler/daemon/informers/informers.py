"""The informers of all kinds, started and awaited together."""

import asyncio
import random
from collections.abc import Iterable
from typing import Any, TypeVar, cast

from scheduler.clock import Clock
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.informers.doubts import Doubts
from scheduler.daemon.informers.informer import Informer, InformerOptions
from scheduler.daemon.informers.kinds import KINDS, Kind
from scheduler.daemon.informers.reports import Outage
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.logs import get_logger
from scheduler.observability.loop_shares import WATCHES, LoopShares

T = TypeVar("T")

log = get_logger(__name__)


class Informers:
    """One informer per kind."""

    def __init__(  # noqa: PLR0913 - ports that all informers share
        self,
        session: ApiSession,
        kinds: Iterable[Kind[Any]] = KINDS,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: InformerMetrics,
        shares: LoopShares,
        options: InformerOptions | None = None,
        doubts: Doubts | None = None,
    ) -> None:
        self._shares = shares
        self._doubts = doubts or Doubts()
        self._doubts.is_away = self._is_away
        outage = Outage(clock)
        self._informers: dict[str, Informer[Any]] = {
            kind.name: Informer(
                kind,
                session,
                clock=clock,
                rng=rng,
                metrics=metrics,
                options=options,
                on_set_back=self._list_all_again,
                outage=outage,
                doubts=self._doubts,
            )
            for kind in kinds
        }

    def of(self, kind: Kind[T]) -> Informer[T]:
        """Return the informer of a kind.

        Raises:
            KeyError: the kind is not watched.
        """
        return cast("Informer[T]", self._informers[kind.name])

    @property
    def unsynced(self) -> list[str]:
        """The names of the kinds whose first list is not complete yet, for logs."""
        return [name for name, informer in self._informers.items() if not informer.has_synced]

    def blind(self, now: float) -> list[str]:
        """Return the names of kinds without a watch for too long; see `Informer.is_blind`."""
        return [name for name, informer in self._informers.items() if informer.is_blind(now)]

    def _is_away(self) -> bool:
        """Whether no kind has a watch: the server does not answer, or not yet."""
        return not any(informer.is_watching for informer in self._informers.values())

    def _list_all_again(self) -> None:
        """Make all kinds list again: one informer has found that the server was set back."""
        log.warning("API server was set back to an older state; listing everything again")
        self._doubts.tolerate_nothing()
        for informer in self._informers.values():
            informer.list_again()
        self._doubts.on_set_back()

    def catch_up(self) -> None:
        """List again the kinds without a watch, or whose last one broke off and shows nothing.

        A new leader calls this. It does not know what the leader before it has done meanwhile, and
        its waits as a standby do not count. Bindings wait for these lists.
        """
        self._doubts.tolerate_nothing()
        for informer in self._informers.values():
            informer.catch_up()

    async def wait_synced(self) -> None:
        """Wait until the first list of every kind is complete."""
        for informer in self._informers.values():
            await informer.wait_synced()

    async def run(self) -> None:
        """Keep all stores up to date until cancelled. Run it as a task."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(self._run(informer), name=f"informer:{informer.kind.name}")

    async def _run(self, informer: Informer[Any]) -> None:
        await self._shares.timed(WATCHES, informer.run())

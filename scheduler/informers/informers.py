"""The informers of all kinds, started and awaited together."""

import asyncio
import random
from collections.abc import Iterable
from typing import Any, TypeVar, cast

from scheduler.client.session import ApiSession
from scheduler.clock import Clock
from scheduler.informers.informer import Informer, InformerOptions
from scheduler.informers.kinds import KINDS, Kind
from scheduler.observability.client_metrics import InformerMetrics

T = TypeVar("T")


class Informers:
    """One informer per kind."""

    def __init__(
        self,
        session: ApiSession,
        kinds: Iterable[Kind[Any]] = KINDS,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: InformerMetrics,
        options: InformerOptions | None = None,
    ) -> None:
        self._informers: dict[str, Informer[Any]] = {
            kind.name: Informer(
                kind, session, clock=clock, rng=rng, metrics=metrics, options=options
            )
            for kind in kinds
        }

    def of(self, kind: Kind[T]) -> Informer[T]:
        """The informer of a kind.

        Raises:
            KeyError: the kind is not watched.
        """
        return cast("Informer[T]", self._informers[kind.name])

    @property
    def unsynced(self) -> list[str]:
        """The kinds whose first list is not complete yet, for people who wait."""
        return [name for name, informer in self._informers.items() if not informer.has_synced]

    def blind(self, now: float) -> list[str]:
        """The kinds that have been without a watch for too long; see `Informer.is_blind`."""
        return [name for name, informer in self._informers.items() if informer.is_blind(now)]

    async def wait_synced(self) -> None:
        """Waits until the first list of every kind is complete."""
        for informer in self._informers.values():
            await informer.wait_synced()

    async def run(self) -> None:
        """Keeps all stores up to date for ever. Run it as a task."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run(), name=f"informer:{informer.kind.name}")

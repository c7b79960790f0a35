"""Work that follows changes of the store, as the cluster's other programs would."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

from apistub.storage.store import Collection


class BackgroundLoop:
    """Calls a function whenever one of some collections has changed.

    Args:
        collections: a change in one of them leads to a call of `act`.
        act: does a bit of work; says whether there is more to do at once.
    """

    def __init__(self, collections: Sequence[Collection], act: Callable[[], bool]) -> None:
        self._collections = collections
        self._act = act
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to follow."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Ends following."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        with ExitStack() as subscriptions:
            for collection in self._collections:
                subscriptions.callback(collection.subscribe(self._wake.set))
            while True:
                self._wake.clear()
                if not self._act():
                    await self._wake.wait()
                # Requests come first; this is only the scenery.
                await asyncio.sleep(0)

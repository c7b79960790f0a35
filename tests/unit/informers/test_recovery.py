"""A server that was away: how soon it is watched again, and how often it is asked meanwhile."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typing_extensions import override

from scheduler.daemon.client.http_connection import Response
from scheduler.daemon.informers.backoff import CAP_SECONDS
from scheduler.daemon.informers.informer import Informer, InformerOptions
from scheduler.daemon.informers.kinds import NODES
from scheduler.daemon.informers.paging import FIRST
from scheduler.daemon.informers.states import State
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.instruments import Instruments
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.informers.fake_api import FakeApi, broken
from tests.unit.informers.test_informer import node

SOON_SECONDS = 5.0
"""Until the server is watched again: a pod must be bound within 15 s, and has more to wait for."""
POLL_SECONDS = 0.01


class Leaving(FakeApi):
    """Goes away and comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.refused: list[str] = []

    def leave(self) -> None:
        self.is_away = True
        self.cut(broken())

    @override
    async def request(self, method: str, path: str, *, timeout: float) -> Response:
        self._refuse(path)
        return await super().request(method, path, timeout=timeout)

    @override
    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Any]:
        self._refuse(path)
        async with super().stream(path, read_timeout=read_timeout) as lines:
            yield lines

    def _refuse(self, path: str) -> None:
        if self.is_away:
            self.refused.append(path)
            raise broken()


def informer_of(api: FakeApi, clock: FakeClock, seed: int = 1, **options: Any) -> Informer[Any]:
    return Informer(
        NODES,
        api,  # the part of a session that informers use
        clock=clock,
        rng=random.Random(seed),
        metrics=InformerMetrics(Instruments()),
        options=InformerOptions(**options),
    )


async def until(holds: Callable[[], bool]) -> None:
    """Lets time pass that takes none."""
    while not holds():  # noqa: ASYNC110 - nobody tells when an informer has got so far
        await asyncio.sleep(POLL_SECONDS)


async def watched_again(api: Leaving, informer: Informer[Any]) -> None:
    await until(lambda: api.is_watched and informer.state is State.WATCHING)


@pytest.mark.parametrize("seconds", [1, 4, 15, 100], ids=lambda seconds: f"{seconds} s away")
@pytest.mark.parametrize("is_compacted", [False, True], ids=["as before", "compacted"])
def test_a_server_that_is_back_is_watched_soon(seconds: int, is_compacted: bool) -> None:
    """Also when what is known is too old, however long it was away; it is not stormed meanwhile.

    A version that expired was answered: the pause before a new list is not that of a server that
    is away.
    """
    clock = FakeClock()

    async def story(seed: int) -> None:
        api = Leaving()
        api.put("a", node("a"))
        informer = informer_of(api, clock, seed)
        running = asyncio.create_task(informer.run())
        await watched_again(api, informer)

        api.leave()
        await asyncio.sleep(seconds)
        api.put("b", node("b"))
        if is_compacted:
            api.compact()
        back, api.is_away = clock.now, False
        await watched_again(api, informer)
        await until(lambda: "b" in informer.store)

        assert clock.now - back <= SOON_SECONDS
        assert len(api.refused) <= 4 + seconds / 2
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    for seed in range(20):
        run_in(clock, story(seed))


def test_a_server_whose_versions_expire_each_time_is_asked_less_and_less() -> None:
    """No list helps there, and none is asked for in a hot loop."""
    clock = FakeClock()

    class Forgetful(FakeApi):
        @override
        @asynccontextmanager
        async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Any]:
            self.version += 1
            self.compact()
            async with super().stream(path, read_timeout=read_timeout) as lines:
                yield lines

    async def story() -> None:
        api = Forgetful()
        api.put("a", node("a"))
        running = asyncio.create_task(informer_of(api, clock).run())
        await asyncio.sleep(60)

        lists = sum("watch" not in path for path in api.requests)
        assert 60 / CAP_SECONDS <= lists <= 5 + 60 / (CAP_SECONDS / 2)
        assert len(api.requests) <= 2 * lists
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_in(clock, story())


def test_a_watch_that_the_server_does_not_end_is_closed() -> None:
    """It may have been forgotten there. The next one goes on from its last bookmark."""
    clock = FakeClock()

    async def story() -> None:
        api = FakeApi()
        api.put("a", node("a"))
        informer = informer_of(api, clock)
        running = asyncio.create_task(informer.run())
        for _ in range(60):
            await asyncio.sleep(60)
            api.version += 1
            api.bookmark()
        await asyncio.sleep(1)

        watches = [path for path in api.requests if "watch" in path]
        assert 3600 / (600 + 30) <= len(watches) <= 1 + 3600 / (300 + 30)
        assert sum(f"limit={FIRST}" in path for path in api.requests) == 1
        assert informer.version == str(api.version)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_in(clock, story())


class Closing(FakeApi):
    """Closes each watch at once, in good order, and shows nothing."""

    @override
    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Any]:
        async with super().stream(path, read_timeout=read_timeout):
            yield Closed()


class Closed:
    async def read(self) -> list[bytes]:
        return []


@pytest.mark.parametrize("leads", [False, True], ids=["standby", "new leader"])
def test_watches_that_show_nothing_and_end_at_once_are_no_news(leads: bool) -> None:
    """A proxy may do that. The kind is listed now and then; a new leader does not wait for it."""
    clock = FakeClock()

    async def story() -> None:
        api = Closing()
        api.put("a", node("a"))
        informer = informer_of(api, clock)
        running = asyncio.create_task(informer.run())
        await until(lambda: len(api.requests) == 2)

        api.put("b", node("b"))
        if leads:
            informer.catch_up()
        await asyncio.sleep(CAP_SECONDS if leads else 60)

        lists = sum("watch" not in path for path in api.requests)
        assert "b" in informer.store
        assert 2 <= lists <= 8
        assert len(api.requests) <= 10 + 60 / (CAP_SECONDS / 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_in(clock, story())

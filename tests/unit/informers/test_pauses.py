"""How often a server is asked that refuses, and how soon all is as before when it does not."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from scheduler.daemon.client.errors import ApiError, TooManyRequestsError, UnauthorizedError
from scheduler.daemon.client.http_connection import Response
from scheduler.daemon.informers.backoff import BASE_SECONDS, CAP_SECONDS
from scheduler.daemon.informers.informer import Informer, InformerOptions
from scheduler.daemon.informers.kinds import NODES
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.instruments import Instruments
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.informers.fake_api import FakeApi, broken
from tests.unit.informers.test_informer import node

PAGES = InformerOptions()


class Refusing(FakeApi):
    """Refuses everything while it has a reason, and keeps the times of all requests.

    Attributes:
        refusal: the reason.
        times: when requests came.
        meanwhile: called during the next request.
    """

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.refusal: ApiError | None = None
        self.times: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self._clock = clock

    async def request(self, method: str, path: str, *, timeout: float) -> Response:
        self._note()
        return await super().request(method, path, timeout=timeout)

    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Any]:
        self._note()
        async with super().stream(path, read_timeout=read_timeout) as lines:
            yield lines

    def _note(self) -> None:
        self.times.append(self._clock.now)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        if self.refusal is not None:
            raise self.refusal

    def pauses(self) -> list[float]:
        """Seconds between one request and the next."""
        return [later - sooner for sooner, later in pairwise(self.times)]


class Course:
    """An informer, its server, and time that passes when nothing happens."""

    def __init__(self, clock: FakeClock) -> None:
        self.api = Refusing(clock)
        self.informer = Informer(
            NODES,
            self.api,
            clock=clock,
            rng=random.Random(1),
            metrics=InformerMetrics(Instruments()),
            options=PAGES,
        )

    async def refused(self, problem: ApiError, seconds: float) -> list[float]:
        """Everything is refused for a while; gives the pauses that were made."""
        self.api.refusal = problem
        self.api.cut(broken())
        self.api.times.clear()
        await asyncio.sleep(seconds)
        self.api.refusal = None
        return self.api.pauses()


def play(story: Callable[[Course], Awaitable[None]]) -> None:
    """Tell a story beside a running informer."""
    clock = FakeClock()
    course = Course(clock)

    async def with_informer() -> None:
        running = asyncio.create_task(course.informer.run())
        try:
            await story(course)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run_in(clock, with_informer())


REFUSALS = [
    pytest.param(UnauthorizedError("GET", status=401), id="401"),
    pytest.param(ApiError("GET", status=403), id="403"),
    pytest.param(broken(), id="no answer"),
]


@pytest.mark.parametrize("problem", REFUSALS)
def test_who_is_always_refused_asks_less_and_less(problem: ApiError) -> None:
    """From half a second or less up to the cap, which is never exceeded; for ever."""

    async def story(course: Course) -> None:
        pauses = await course.refused(problem, 600.0)

        assert len(pauses) <= 600.0 / (CAP_SECONDS / 2) + 10
        for count, pause in enumerate(pauses):
            limit = min(CAP_SECONDS, BASE_SECONDS * 2**count)
            assert limit / 2 <= pause <= limit
        assert pauses[-1] >= CAP_SECONDS / 2

    play(story)


def test_a_restore_that_was_heeded_shortens_no_later_pause() -> None:
    """Another kind found it; the server is away again afterwards."""

    async def story(course: Course) -> None:
        await asyncio.sleep(10.0)
        course.informer.list_again()
        await asyncio.sleep(10.0)
        pauses = await course.refused(broken(), 100.0)

        assert min(pauses) >= BASE_SECONDS / 2
        assert pauses[-1] >= CAP_SECONDS / 2

    play(story)


def test_a_restore_that_shows_during_a_request_in_vain_is_heeded_at_once() -> None:
    """However long the next pause would be."""

    async def story(course: Course) -> None:
        api, informer = course.api, course.informer
        await asyncio.sleep(10.0)
        await course.refused(broken(), 60.0)
        api.refusal = broken()
        api.times.clear()
        api.meanwhile = informer.list_again
        await asyncio.sleep(20.0)
        assert api.pauses()[0] <= BASE_SECONDS

    play(story)


def test_a_server_that_names_a_time_is_asked_then() -> None:
    """Not sooner, as long as back-off is shorter."""

    async def story(course: Course) -> None:
        later = TooManyRequestsError("GET", status=429, retry_after_seconds=20.0)

        assert set(await course.refused(later, 100.0)) == {20.0}

    play(story)


@pytest.mark.parametrize("problem", REFUSALS)
def test_what_comes_through_ends_the_back_off(problem: ApiError) -> None:
    """After an event the next failure is the first one again, however long the last outage was."""

    async def story(course: Course) -> None:
        await course.refused(problem, 300.0)
        await asyncio.sleep(2 * CAP_SECONDS)
        course.api.put("a", node("a"))
        await asyncio.sleep(1.0)
        assert set(course.informer.store) == {"a"}

        pauses = await course.refused(problem, 5.0)

        # The first pause was made after the watch had broken off.
        assert pauses[0] <= 2 * BASE_SECONDS

    play(story)


def test_a_watch_that_lasted_ends_the_back_off() -> None:
    """Also when nothing happened in it, and it ended as the server said it would."""

    async def story(course: Course) -> None:
        await course.refused(broken(), 300.0)
        await asyncio.sleep(2 * CAP_SECONDS)
        assert course.api.is_watched
        course.api.cut()
        await asyncio.sleep(1.0)
        assert course.api.is_watched

        pauses = await course.refused(broken(), 5.0)

        assert pauses[0] <= 2 * BASE_SECONDS

    play(story)

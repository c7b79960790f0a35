"""A step of the main loop that lasts: what it costs, and that it never makes two leaders."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings, strategies as st
from structlog.testing import capture_logs

from scheduler.clock import SystemClock
from scheduler.daemon.client.connection import Access, Connection
from scheduler.daemon.client.credentials import Credentials
from scheduler.daemon.client.errors import UnauthorizedError
from scheduler.daemon.client.leases import LeaseLock
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.leader_election.campaign import CampaignThread, MainLoop
from scheduler.daemon.leader_election.lock import Lock
from scheduler.observability.client_metrics import ClientMetrics
from scheduler.observability.instruments import Instruments
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.client.scripted_server import ScriptedServer, json_answer, status_answer, until
from tests.unit.leader_election.fake_leases import (
    Candidate,
    FakeLeaseServer,
    FakeLock,
    error_500,
    hang,
    held_by,
    leading,
    no_trouble,
    play,
)

DEFAULTS = {
    "lease_duration_seconds": 15.0,
    "renew_deadline_seconds": 10.0,
    "retry_period_seconds": 2.0,
}
LOOK_SECONDS = 0.05


async def two_candidates(server: FakeLeaseServer) -> tuple[Candidate, Candidate]:
    """The first of them leads."""
    a, b = (Candidate(server, name, times=DEFAULTS) for name in "ab")
    await a.start()
    await leading(a)
    await b.start()
    return a, b


class Watch:
    """Looks at two candidates all the time.

    Attributes:
        b_led: whether the second one ever led.
    """

    def __init__(self, a: Candidate, b: Candidate) -> None:
        self.b_led = False
        self._a, self._b = a, b

    async def look(self, seconds: float) -> None:
        end = self._a.clock.boot() + seconds
        while self._a.clock.boot() < end:
            leads = self._b.elector.is_leading()
            assert not (leads and self._a.elector.is_leading()), "two leaders"
            self.b_led |= leads
            await asyncio.sleep(LOOK_SECONDS)


@pytest.mark.parametrize("phase", [0.0, 0.7, 1.95])
@pytest.mark.parametrize("step", [3.0, 8.0, 12.0, 17.0])
def test_a_step_of_seconds_costs_no_lease(step: float, phase: float) -> None:
    """Up to the renew deadline the lease is renewed meanwhile, and that renewal lasts on."""

    async def scenario(server: FakeLeaseServer) -> None:
        a, b = await two_candidates(server)
        watch = Watch(a, b)
        await watch.look(4.0 + phase)

        a.main_loop.stall(step)
        await watch.look(step)
        assert a.elector.is_leading()
        await watch.look(30.0)

        assert a.elector.is_leading()
        assert not watch.b_led
        await a.stop()
        await b.stop()

    play(scenario)


@pytest.mark.parametrize("phase", [0.0, 0.7, 1.95])
def test_a_step_of_a_minute_costs_the_lease(phase: float) -> None:
    """No renewal leaves after the renew deadline; another leads; the fence is shut at the end."""

    async def scenario(server: FakeLeaseServer) -> None:
        a, b = await two_candidates(server)
        watch = Watch(a, b)
        await watch.look(4.0 + phase)

        began = server.clock.boot()
        with capture_logs() as logs:
            a.main_loop.stall(60.0)
            await watch.look(60.0)

        assert not a.elector.is_leading()
        assert watch.b_led
        assert a.task is not None
        assert a.task.done()
        by_a = [when - began for holder, when in server.writes if holder == "a"]
        by_b = [when - began for holder, when in server.writes if holder == "b"]
        assert 7.9 <= by_a[-1] < DEFAULTS["renew_deadline_seconds"]
        assert by_a[-1] + 15.0 <= by_b[0] < 27.0
        [told] = [log for log in logs if log["event"] == "Lease left to others: event loop stalled"]
        assert 10.0 <= told["seconds"] <= 12.0
        await b.stop()

    play(scenario)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 40), st.floats(0, 8)), min_size=1, max_size=4),
    st.sampled_from([no_trouble, hang, error_500]),
    st.floats(0, 60),
)
def test_steps_and_outages_never_make_two_leaders(
    steps: list[tuple[float, float]],
    trouble: Callable[[], Coroutine[Any, Any, None]],
    trouble_seconds: float,
) -> None:
    """Steps of any length, one after the other, while the API server is away or not."""

    async def scenario() -> None:
        a, b = await two_candidates(server)
        watch = Watch(a, b)
        a.lock.trouble = trouble
        asyncio.get_running_loop().call_later(
            trouble_seconds, setattr, a.lock, "trouble", no_trouble
        )
        for step, pause in steps:
            a.main_loop.stall(step)
            await watch.look(step + pause + LOOK_SECONDS)
        await watch.look(30.0)

        assert a.elector.is_leading() or b.elector.is_leading()
        await a.stop()
        await b.stop()

    clock = FakeClock()
    server = FakeLeaseServer(clock)
    run_in(clock, scenario())


def test_a_candidate_whose_main_loop_stands_still_does_not_take_the_lease() -> None:
    """It could do nothing with it."""

    async def scenario(server: FakeLeaseServer) -> None:
        a, b = await two_candidates(server)
        watch = Watch(a, b)
        await watch.look(4.0)
        b.main_loop.stall(60.0)
        await watch.look(12.0)

        await a.stop()
        await watch.look(30.0)
        assert not watch.b_led

        await watch.look(40.0)
        assert watch.b_led
        assert b.story == ["b became leader", "started"]
        await b.stop()

    play(scenario)


def test_an_attempt_that_lasts_is_no_stall_of_the_main_loop() -> None:
    """Its read is slow and its write has no answer; the next attempt takes the lease."""

    async def scenario(server: FakeLeaseServer) -> None:
        server.store(held_by("gone", duration=1))
        b = Candidate(server, "b", times=DEFAULTS)
        await b.start()
        await asyncio.sleep(0.5)
        slow = iter([4.8, 3600.0])

        async def trouble() -> None:
            await asyncio.sleep(next(slow, 0.0))

        b.lock.trouble = trouble
        with capture_logs() as logs:
            assert await leading(b, within=15.0) < 12.0

        assert "Lease left to others: event loop stalled" not in [log["event"] for log in logs]
        assert next(slow, None) is None
        await b.stop()

    play(scenario)


# --- the thread -----------------------------------------------------------------------------------


class Diary:
    """What became of a lock that a thread opened."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @asynccontextmanager
    async def open_lock(self, _: asyncio.AbstractEventLoop) -> AsyncIterator[Lock]:
        self.told.append(f"opened in {threading.current_thread().name}")
        try:
            yield FakeLock(FakeLeaseServer(FakeClock()))
        finally:
            self.told.append(f"closed in {threading.current_thread().name}")


def test_the_thread_goes_on_while_the_main_loop_computes_and_sees_that_it_does() -> None:
    """Its end, when the step was too long, is waited for in the main loop."""
    clock, diary = FakeClock(), Diary()
    turns = 0

    async def campaign(lock: Lock, main: MainLoop) -> None:
        nonlocal turns
        assert lock.name == "stowage"
        while main.silent_seconds() < 0.3:
            turns += 1
            await asyncio.sleep(0.01)

    async def story() -> int:
        running = asyncio.create_task(CampaignThread(diary.open_lock, clock)(campaign))
        await until(lambda: turns > 3)
        assert diary.told == ["opened in lease"]
        before, limit = turns, SystemClock().boot() + 60.0
        # One step, which lets nothing else of this loop run, and in which time passes at last.
        while diary.told[-1] == "opened in lease" and SystemClock().boot() < limit:
            if turns > before + 5:
                clock.now = 2000.0
        during = turns - before
        await running
        return during

    assert asyncio.run(story()) > 3
    assert diary.told == ["opened in lease", "closed in lease"]


def test_cancelling_a_campaign_waits_until_the_thread_is_done() -> None:
    """The lease is given back after the last renewal, not beside it."""
    diary = Diary()

    async def campaign(_: Lock, __: MainLoop) -> None:
        diary.told.append("renewing")
        await hang()

    async def story() -> None:
        running = asyncio.create_task(CampaignThread(diary.open_lock, SystemClock())(campaign))
        await until(lambda: "renewing" in diary.told)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert diary.told == ["opened in lease", "renewing", "closed in lease"]

    asyncio.run(story())


def test_a_thread_that_fails_says_why() -> None:
    """A campaign that ends without a word would be taken for a lease that was lost."""

    async def campaign(_: Lock, __: MainLoop) -> None:
        raise KeyError("a bug somewhere below")

    with pytest.raises(KeyError, match="a bug"):
        asyncio.run(CampaignThread(Diary().open_lock, SystemClock())(campaign))


def test_a_token_that_is_rotated_is_the_threads_as_well() -> None:
    """Its requests carry what the main loop has read last, and are counted in the main loop."""
    expected = "Bearer v0"
    metrics = ClientMetrics(Instruments())

    async def answer(request: web.Request) -> web.Response:
        if request.headers["Authorization"] != expected:
            return status_answer(401, "Unauthorized")
        return json_answer({"metadata": {"name": "stowage"}, "spec": {}})

    async def campaign(lock: Lock, main: MainLoop) -> None:
        while main.silent_seconds() < 30.0:
            with suppress(UnauthorizedError):
                await lock.get(10.0)
            await asyncio.sleep(0.01)

    async def story() -> None:
        nonlocal expected
        async with ScriptedServer(answer).running() as server:
            source = Rotating(server.url)
            connection = Connection(source, await source.access())

            @asynccontextmanager
            async def open_lock(home: asyncio.AbstractEventLoop) -> AsyncIterator[Lock]:
                session = ApiSession(connection, clock=SystemClock(), metrics=metrics, home=home)
                async with session:
                    yield LeaseLock(session, "ns", "stowage")

            host = server.url.removeprefix("http://")
            fresh = asyncio.create_task(connection.keep_fresh(pytest.fail, interval_seconds=60.0))
            running = asyncio.create_task(CampaignThread(open_lock, SystemClock())(campaign))
            await until(lambda: metrics.requests["200", "GET", host].value > 0)
            expected = "Bearer v1"
            answered = metrics.requests["200", "GET", host].value
            # The refusal is told to the main loop at once, which reads the next token.
            await until(lambda: metrics.requests["200", "GET", host].value > answered + 3)
            assert metrics.requests["401", "GET", host].value > 0
            for task in (running, fresh):
                task.cancel()
            await asyncio.gather(running, fresh, return_exceptions=True)

    asyncio.run(story())


class Rotating:
    """Credentials that differ after each refusal."""

    description = "a test"

    def __init__(self, url: str) -> None:
        self._url = url
        self._version = 0

    async def access(self) -> Access:
        found = await self.load(is_refused=False)
        return Access(found.server, authorization=found.authorization)

    async def load(self, *, is_refused: bool) -> Credentials:
        self._version += is_refused
        return Credentials(self._url, f"Bearer v{self._version}")

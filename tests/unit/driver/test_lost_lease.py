"""A daemon with a real elector whose lease is lost by time, and the standby after it."""

import asyncio

import pytest

from scheduler.daemon.driver.daemon import LeaseLostError
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.driver.test_daemon import World
from tests.unit.leader_election.fake_leases import (
    QUICK,
    Candidate,
    FakeLeaseServer,
    hang,
    held_by,
    leading,
)


@pytest.mark.parametrize(
    ("history", "leads_after", "ends_after"),
    [
        pytest.param("nothing is under way", 0.0, 0.0, id="nothing is under way"),
        pytest.param("a bind has no answer", 0.5, 0.0, id="a bind has no answer"),
        pytest.param("no server", 0.5, 0.1, id="the API server does not answer"),
        pytest.param("taken", None, 0.0, id="another has taken the lease"),
    ],
)
def test_when_another_leads_after_a_lease_is_lost_by_time(
    history: str, leads_after: float | None, ends_after: float
) -> None:
    """At once, if no write is under way, and within the time of the lease otherwise.

    The process ends at once, unless the API server does not answer: then after a retry period.
    """
    clock = FakeClock()
    server = FakeLeaseServer(clock)

    async def story() -> None:
        a, b = Candidate(server, "a"), Candidate(server, "b")
        world = World(clock, elector=a.elector)
        running = world.start()
        await leading(a)
        await b.start()
        await asyncio.sleep(0.25)
        end = a.elector._election.valid_until

        async def until_the_end() -> None:
            if history == "no server" or clock.boot() < end:
                await hang()

        a.lock.trouble = until_the_end
        world.outbox.awaits_answers = history == "a bind has no answer"
        if history == "taken":
            await b.stop()
            server.store(held_by("new"))
        with pytest.raises(LeaseLostError):
            await running
        assert clock.boot() - end == pytest.approx(ends_after, abs=0.001)
        if leads_after is None:
            assert server.spec == held_by("new")
            return
        await leading(b)
        waited = clock.boot() - end
        assert leads_after <= waited <= leads_after + QUICK["retry_period_seconds"] + 0.02
        await b.stop()

    run_in(clock, story())

"""The elector on a misbehaving Lease."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.daemon.client.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
)
from scheduler.daemon.client.leases import Lease
from scheduler.daemon.leader_election.elector import (
    host_of,
    unique_identity,
)
from tests.unit.leader_election.fake_leases import (
    QUICK,
    Candidate,
    FakeLeaseServer,
    OwnClock,
    error_500,
    hang,
    held_by,
    leading,
    never_two,
    no_trouble,
    play,
    unexpected,
)


class TestElector:
    def test_a_leader_renews_and_tells_its_story(self) -> None:
        """It leads, stays the leader, and says so in upstream's words."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")
            await a.start()
            await leading(a)
            await asyncio.sleep(1.2)

            assert a.elector.is_leading()
            assert a.elector.leader == "a"
            assert a.elector.check_healthy() is None
            # One read, one creation, then one write per retry period: nothing is read again.
            assert 9 <= a.lock.requests <= 14

            await a.stop()
            assert a.story == [
                "a became leader",
                "started",
                "a stopped leading",
                "stopped",
            ]

        play(scenario)

    def test_a_standby_takes_over_soon_after_the_lease_of_a_dead_leader(self) -> None:
        """And the transition is counted."""

        async def scenario(server: FakeLeaseServer) -> None:
            a, b = Candidate(server, "a"), Candidate(server, "b")
            await a.start()
            await leading(a)
            await b.start()
            await asyncio.sleep(0.3)
            await a.stop()  # without releasing: as if killed
            last_renewal = server.writes[-1][1]

            await leading(b)

            waited = server.writes[-1][1] - last_renewal
            assert 1.0 <= waited < 1.25
            assert server.spec is not None
            assert server.spec.lease_transitions == 1
            await b.stop()

        play(scenario)

    def test_a_released_lease_is_taken_at_once(self) -> None:
        """A restart must not cost the lease duration."""

        async def scenario(server: FakeLeaseServer) -> None:
            a, b = Candidate(server, "a"), Candidate(server, "b")
            await a.start()
            await leading(a)
            await b.start()
            await asyncio.sleep(0.1)

            await a.stop()
            await a.elector.release()

            assert not a.elector.is_leading()
            assert await leading(b) < 0.3
            await b.stop()

        play(scenario)

    def test_whoever_observes_writes_nothing_and_need_not_wait_again(self) -> None:
        """The time of a holder that is gone runs out while a new process gets ready."""

        async def scenario(server: FakeLeaseServer) -> None:
            server.spec = held_by("gone", duration=1)
            b = Candidate(server, "b")
            observing = asyncio.create_task(b.elector.observe())
            await asyncio.sleep(5.0)
            observing.cancel()
            await asyncio.gather(observing, return_exceptions=True)
            assert not b.elector.is_leading()
            assert server.writes == []
            assert b.elector.leader == "gone"
            assert b.story == []

            await b.start()

            assert await leading(b) < 0.01
            await b.stop()

        play(scenario)

    def test_releasing_what_is_not_ours_writes_nothing(self) -> None:
        """A standby that ends leaves the leader alone."""

        async def scenario(server: FakeLeaseServer) -> None:
            a, b = Candidate(server, "a"), Candidate(server, "b")
            await a.start()
            await leading(a)
            await b.start()
            await asyncio.sleep(0.1)
            await b.stop()
            await b.elector.release()

            assert server.spec is not None
            assert server.spec.holder_identity == "a"
            await a.stop()

        play(scenario)

    def test_a_lease_that_another_has_by_now_is_not_released(self) -> None:
        """Who led and ends must not give away what it lost without noticing."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")
            await a.start()
            await leading(a)
            await a.stop()
            server.store(held_by("b"))

            await a.elector.release()

            assert server.spec == held_by("b")

        play(scenario)

    def test_a_lost_lease_under_which_nothing_was_written_is_taken_at_once(self) -> None:
        """The API server is back at the end of the leader's time; the standby need not wait."""

        async def scenario(server: FakeLeaseServer) -> None:
            a, b = await losing(server, written_before=None)

            await a.elector.release_lost()

            assert not a.elector.may_write()
            assert await leading(b) < 0.11
            await b.stop()

        play(scenario)

    @pytest.mark.parametrize(("before", "is_released"), [(0.25, False), (0.35, True)])
    def test_a_lost_lease_is_released_when_the_last_write_left_long_ago(
        self, before: float, is_released: bool
    ) -> None:
        """Its answer may never come: another leads as long after it as if the lease ran out."""

        async def scenario(server: FakeLeaseServer) -> None:
            a, b = await losing(server, written_before=before)
            version = server.version

            await a.elector.release_lost()

            assert server.spec is not None
            assert server.spec.holder_identity == ("" if is_released else "a")
            assert server.version == version + is_released
            await b.stop()

        play(scenario)

    def test_a_lost_lease_is_not_released_to_a_server_that_does_not_answer(self) -> None:
        """The process must end: it gives up after a retry period."""

        async def scenario(server: FakeLeaseServer) -> None:
            a, b = await losing(server, written_before=None)
            a.lock.trouble = hang
            before = server.clock.now

            await a.elector.release_lost()

            assert server.clock.now - before == pytest.approx(QUICK["retry_period_seconds"])
            await b.stop()

        play(scenario)

    @pytest.mark.parametrize("when", ["before", "meanwhile"])
    def test_a_lost_lease_that_another_has_is_left_to_it(self, when: str) -> None:
        """Also if it is taken between the look and the release."""

        async def scenario(server: FakeLeaseServer) -> None:
            a, b = await losing(server, written_before=None)
            await b.stop()

            async def take_meanwhile() -> None:
                server.store(held_by("new"))

            if when == "before":
                server.store(held_by("new"))
            else:
                a.lock.trouble_after = take_meanwhile

            await a.elector.release_lost()

            assert server.spec == held_by("new")

        play(scenario)

    def test_a_leader_is_renewed_by_an_api_server_that_is_back_just_before_its_end(self) -> None:
        """One attempt hangs, the next finds no server, and one after a retry period is too late.

        The times are those of a run of `e2e.chaos --seed 102`: a standby led 7.7 s later.
        """

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(
                server,
                "a",
                times={
                    "lease_duration_seconds": 8.0,
                    "renew_deadline_seconds": 6.0,
                    "retry_period_seconds": 1.0,
                },
            )
            await a.start()
            await leading(a)
            last = server.writes[-1][1]

            async def out_of_order() -> None:
                since = server.clock.now - last
                if since < 2.5:
                    await asyncio.sleep(5.0 - since)
                if since < 5.7:
                    raise UnavailableError("GET lease", message="cannot connect")

            a.lock.trouble = out_of_order
            await asyncio.sleep(10.0)

            assert a.elector.is_leading()
            await a.stop()

        play(scenario)

    @pytest.mark.parametrize(
        "trouble",
        [
            pytest.param(hang, id="requests hang"),
            pytest.param(error_500, id="the server answers 500"),
            pytest.param(unexpected, id="something unexpected is raised"),
        ],
    )
    def test_a_leader_that_cannot_renew_stops_before_another_starts(
        self, trouble: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """At the renew deadline its run returns, and the standby takes over after the lease."""

        async def scenario(server: FakeLeaseServer) -> None:
            a, b = Candidate(server, "a"), Candidate(server, "b")
            await a.start()
            await leading(a)
            await b.start()
            await asyncio.sleep(0.2)

            a.lock.trouble = trouble
            cut = a.clock.monotonic()
            assert a.task is not None
            watch = asyncio.create_task(never_two(a, b, 2.0))
            await a.task
            stopped_after = a.clock.monotonic() - cut
            await leading(b)
            await watch

            assert 0.35 <= stopped_after <= 0.6
            assert a.story[-2:] == ["a stopped leading", "stopped"]
            assert b.elector.is_leading()
            await b.stop()

        play(scenario)

    def test_a_leader_that_never_writes_the_newest_version_stops(self) -> None:
        """Another client changes the Lease before each of its writes; the holder stays the same."""

        async def scenario(server: FakeLeaseServer) -> None:
            a, b = Candidate(server, "a"), Candidate(server, "b")
            await a.start()
            await leading(a)
            await b.start()

            async def annotate() -> None:
                server.version += 1

            a.lock.trouble = annotate
            assert a.task is not None
            watch = asyncio.create_task(never_two(a, b, 2.0))
            await asyncio.wait_for(a.task, 0.7)
            await leading(b)
            await watch

            assert a.story[-2:] == ["a stopped leading", "stopped"]
            await b.stop()

        play(scenario)

    @pytest.mark.parametrize("was_held", [True, False])
    def test_a_slow_api_server_has_a_leader(self, was_held: bool) -> None:
        """Each request takes nearly half the renew deadline, the most that kube-scheduler allows.

        To read and to write take longer together than one request may; the leader only writes.
        """

        async def scenario(server: FakeLeaseServer) -> None:
            if was_held:
                server.spec = held_by("gone", duration=1)
            a = Candidate(server, "a")

            async def slow() -> None:
                await asyncio.sleep(0.24)

            a.lock.trouble = slow
            await a.start()
            await leading(a)
            await asyncio.sleep(3.0)

            assert a.elector.is_leading()
            await a.stop()

        play(scenario)

    def test_a_leader_survives_two_requests_that_are_never_answered(self) -> None:
        """There is time for a third attempt before the renew deadline."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")
            await a.start()
            await leading(a)
            await asyncio.sleep(0.05)
            sent = a.lock.requests

            async def lose_two() -> None:
                if a.lock.requests <= sent + 2:
                    await hang()

            a.lock.trouble = lose_two
            await asyncio.sleep(3.0)

            assert a.elector.is_leading()
            await a.stop()

        play(scenario)

    @pytest.mark.parametrize(
        "refused",
        [
            pytest.param(
                ForbiddenError("GET lease", status=403), id="the right to the lease is missing"
            ),
            pytest.param(NotFoundError("POST lease", status=404), id="its namespace is missing"),
        ],
    )
    def test_a_candidate_leads_as_soon_as_what_it_lacks_is_there(self, refused: ApiError) -> None:
        """It asks for as long as it takes, and says once what is missing."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")

            async def refuse() -> None:
                raise refused

            with capture_logs() as logs:
                a.lock.trouble = refuse
                await a.start()
                await asyncio.sleep(60.0)
                a.lock.trouble = no_trouble
                assert await leading(a) <= 0.1
            await a.stop()

            told = [entry for entry in logs if entry["event"] == "Lease not reachable"]
            assert [entry["reason"] for entry in told] == [str(refused)]

        play(scenario)

    def test_a_short_outage_costs_nothing(self) -> None:
        """The leader goes on when a renewal succeeds within the deadline."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")
            await a.start()
            await leading(a)

            a.lock.trouble = error_500
            await asyncio.sleep(0.3)
            a.lock.trouble = no_trouble
            await asyncio.sleep(0.5)

            assert a.elector.is_leading()
            await a.stop()

        play(scenario)

    def test_a_renewal_whose_answer_was_lost_is_read_back_and_kept(self) -> None:
        """The write was made: the next attempt must not take the changed version for a rival's."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")
            await a.start()
            await leading(a)

            a.lock.trouble_after = error_500
            await asyncio.sleep(0.15)
            a.lock.trouble_after = no_trouble
            await asyncio.sleep(0.6)

            assert a.elector.is_leading()
            await a.stop()

        play(scenario)

    @pytest.mark.parametrize("how", ["ahead", "suspended"])
    def test_a_frozen_leader_knows_at_once_that_its_time_is_over(self, how: str) -> None:
        """Before any timer has had a chance to run, and it writes nothing any more.

        Its process was stopped, or its machine suspended, for which CLOCK_MONOTONIC stands still.
        """

        async def scenario(server: FakeLeaseServer) -> None:
            frozen = OwnClock(server.clock)
            a, b = Candidate(server, "a", frozen), Candidate(server, "b")
            await a.start()
            await leading(a)
            await b.start()
            await asyncio.sleep(0.2)

            # The loop of `a` stands still while time goes on: its lock hangs, its clock is ahead.
            a.lock.trouble = hang
            setattr(frozen, how, 3.0)
            assert not a.elector.is_leading()
            await leading(b)
            a.lock.trouble = no_trouble
            assert a.task is not None
            await asyncio.wait_for(a.task, 2.0)

            assert [holder for holder, _ in server.writes if holder == "b"]
            assert server.writes[-1][0] == "b"
            await b.stop()

        play(scenario)

    def test_a_claim_under_way_at_the_end_is_given_back(self) -> None:
        """Whether it was granted was not known yet; others need not wait for its end."""

        async def scenario(server: FakeLeaseServer) -> None:
            server.spec = held_by("")
            a = Candidate(server, "a")
            looks = a.lock.get

            async def look_then_hang(timeout: float) -> Lease | None:
                found = await looks(timeout)
                a.lock.trouble_after = hang
                return found

            a.lock.get = look_then_hang
            await a.start()
            await asyncio.sleep(0.1)
            assert server.spec.holder_identity == "a"
            assert not a.elector.is_leading()
            await a.stop()
            a.lock.get = looks
            a.lock.trouble_after = no_trouble

            await a.elector.release()

            assert server.spec.holder_identity == ""

        play(scenario)

    def test_a_leader_whose_lease_is_deleted_makes_it_anew_at_its_next_renewal(self) -> None:
        """A new process has never heard of a leader: it must find one soon."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")
            await a.start()
            await leading(a)

            server.spec = None
            await asyncio.sleep(0.11)

            assert server.spec is not None
            assert server.spec.holder_identity == "a"
            assert a.elector.is_leading()
            await a.stop()

        play(scenario)

    def test_a_leader_learns_of_a_new_one_at_its_next_renewal(self) -> None:
        """A Lease that was deleted and taken makes two leaders for one retry period at most."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")
            await a.start()
            await leading(a)
            await asyncio.sleep(0.05)

            server.spec = None
            new = Candidate(server, "new")
            await new.start()
            await leading(new)
            await asyncio.sleep(0.1)

            assert not a.elector.is_leading()
            assert new.elector.is_leading()
            await new.stop()

        play(scenario)

    @pytest.mark.parametrize("holder", ["another", ""])
    def test_a_leader_whose_lease_was_taken_stops(self, holder: str) -> None:
        """Another holder in the Lease, or none, is believed, if another client wrote it."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")
            await a.start()
            await leading(a)

            server.store(held_by(holder, duration=15))
            assert a.task is not None
            await asyncio.wait_for(a.task, 0.2)

            assert a.elector.leader == holder
            assert a.story[-2:] == ["a stopped leading", "stopped"]

        play(scenario)


async def losing(
    server: FakeLeaseServer, written_before: float | None
) -> tuple[Candidate, Candidate]:
    """A leader that has lost its lease by time, while a standby waits; the server is back.

    Args:
        server: has the Lease.
        written_before: seconds before the end at which the leader's last write left, or None.
    """
    times = {**QUICK, "renew_deadline_seconds": 0.7}
    a, b = Candidate(server, "a", times=times), Candidate(server, "b", times=times)
    await a.start()
    await leading(a)
    await b.start()
    await asyncio.sleep(0.45)
    a.lock.trouble = error_500
    end = a.elector._election.valid_until
    if written_before is not None:
        await asyncio.sleep(max(0.0, end - written_before - server.clock.boot()))
        assert a.elector.may_write()
    assert a.task is not None
    await a.task
    a.lock.trouble = no_trouble
    return a, b


def test_identities_are_unique() -> None:
    """Two processes on one host are two candidates."""
    assert unique_identity() != unique_identity()


@pytest.mark.parametrize("separator", ["_", "-"])
def test_an_identity_begins_with_the_host(separator: str) -> None:
    """Whatever separates the random part: the dash is for names of LeaseCandidates."""
    assert host_of(unique_identity(separator)) == socket.gethostname()
    assert host_of(f"pod-of_another{separator}kind") == f"pod-of_another{separator}kind"

"""Leader election: the rules, a law over simulated time, and the elector on a misbehaving Lease."""

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.client.errors import ConflictError, NotFoundError, UnavailableError
from scheduler.client.leases import Lease, LeaseSpec
from scheduler.clock import Clock
from scheduler.leader_election.election import Election, LeaderElectionSettings, released
from scheduler.leader_election.elector import (
    ElectionCallbacks,
    LeaderElector,
    unique_identity,
)
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in

WALL = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
SETTINGS = LeaderElectionSettings(identity="a")


def held_by(holder: str, renew_time: str = "t0", duration: int = 15, n: int = 3) -> LeaseSpec:
    return LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=duration,
        acquire_time="t",
        renew_time=renew_time,
        lease_transitions=n,
    )


class TestElection:
    def test_first_claim_of_a_new_lease_starts_counting_transitions_at_zero(self) -> None:
        """Nobody has held it: there was no transition."""
        election = Election(SETTINGS)
        election.observe(None, now=100.0)

        claim = election.claim(100.0, WALL)

        assert claim == LeaseSpec(
            holder_identity="a",
            lease_duration_seconds=15,
            acquire_time="2026-01-02T03:04:05.000678Z",
            renew_time="2026-01-02T03:04:05.000678Z",
            lease_transitions=0,
        )

    def test_times_are_written_in_utc_whatever_the_zone_of_the_wall_clock(self) -> None:
        """The Lease says UTC, also when microseconds are zero."""
        wall = datetime(2026, 1, 1, 7, 0, 0, tzinfo=UTC).astimezone()

        claim = Election(SETTINGS).claim(0.0, wall)

        assert claim is not None
        assert claim.renew_time == "2026-01-01T07:00:00.000000Z"

    @pytest.mark.parametrize(
        ("seconds", "may_claim"),
        [
            pytest.param(0.0, False, id="just seen"),
            pytest.param(14.9, False, id="almost run out"),
            pytest.param(15.0, True, id="run out"),
        ],
    )
    def test_a_lease_of_another_is_taken_when_it_stood_still_for_its_duration(
        self, seconds: float, may_claim: bool
    ) -> None:
        """The duration counts from when we saw the record, not from what is written in it."""
        election = Election(SETTINGS)
        election.observe(held_by("b"), now=100.0)

        claim = election.claim(100.0 + seconds, WALL)

        assert (claim is not None) is may_claim
        if claim is not None:
            assert (claim.holder_identity, claim.lease_transitions) == ("a", 4)

    def test_a_renewal_starts_the_count_again(self) -> None:
        """Only a record that stands still expires."""
        election = Election(SETTINGS)
        election.observe(held_by("b", "t0"), now=100.0)
        election.observe(held_by("b", "t1"), now=110.0)
        election.observe(held_by("b", "t1"), now=120.0)

        assert election.claim(124.9, WALL) is None
        assert election.claim(125.0, WALL) is not None

    def test_the_duration_is_the_holders_not_ours(self) -> None:
        """A holder that was given longer may take longer."""
        election = Election(SETTINGS)
        election.observe(held_by("b", duration=60), now=100.0)

        assert election.claim(159.0, WALL) is None

    def test_a_released_lease_is_taken_at_once(self) -> None:
        """An empty holder waits for nobody."""
        election = Election(SETTINGS)
        election.observe(released(held_by("b"), WALL), now=100.0)

        claim = election.claim(100.0, WALL)

        assert claim is not None
        assert claim.lease_transitions == 4

    def test_a_deleted_lease_is_made_anew_only_after_its_last_holders_time(self) -> None:
        """Whoever held it may not know that it is gone."""
        election = Election(SETTINGS)
        election.observe(held_by("b"), now=100.0)
        election.observe(None, now=101.0)

        assert election.claim(114.9, WALL) is None
        assert election.claim(115.0, WALL) is not None

    def test_leading_ends_at_the_renew_deadline_after_the_renewal_was_sent(self) -> None:
        """Not after its answer came: others may have seen it before."""
        election = Election(SETTINGS)
        claim = election.claim(100.0, WALL)
        assert claim is not None
        election.claimed(claim, sent_at=100.0, now=103.0)

        assert election.is_leading(109.9)
        assert not election.is_leading(110.0)

    def test_a_renewal_keeps_acquire_time_and_transitions(self) -> None:
        """It is the same leadership."""
        election = Election(SETTINGS)
        election.claimed(held_by("a", n=7), sent_at=100.0, now=100.0)

        renewal = election.claim(102.0, WALL)

        assert renewal is not None
        assert (renewal.acquire_time, renewal.lease_transitions) == ("t", 7)
        assert renewal.renew_time == "2026-01-02T03:04:05.000678Z"

    def test_seeing_another_holder_ends_leading_at_once(self) -> None:
        """Whatever our own count says."""
        election = Election(SETTINGS)
        election.claimed(held_by("a"), sent_at=100.0, now=100.0)

        election.observe(held_by("b"), now=101.0)

        assert not election.is_leading(101.0)

    def test_fields_of_coordinated_election_survive_a_claim(self) -> None:
        """They belong to somebody else."""
        election = Election(SETTINGS)
        election.observe(LeaseSpec(strategy="OldestEmulationVersion"), now=0.0)

        claim = election.claim(0.0, WALL)

        assert claim is not None
        assert claim.strategy == "OldestEmulationVersion"

    def test_a_fraction_of_a_second_of_lease_is_given_as_a_whole_one(self) -> None:
        """Others must wait at least as long as we were told."""
        claim = Election(LeaderElectionSettings(identity="a", lease_duration_seconds=1.2)).claim(
            0.0, WALL
        )

        assert claim is not None
        assert claim.lease_duration_seconds == 2

    def test_a_standby_looks_at_the_moment_of_expiry(self) -> None:
        """Take-over must not wait for the next regular look."""
        election = Election(SETTINGS)
        election.observe(held_by("b"), now=100.0)

        pause = election.standby_pause(114.7, random.Random(1))

        assert 0.3 <= pause <= 0.321

    def test_a_standby_looks_at_least_once_per_retry_period(self) -> None:
        """So that its count of the lease starts soon after each renewal."""
        election = Election(SETTINGS)
        election.observe(held_by("b"), now=100.0)
        rng = random.Random(1)

        pauses = [election.standby_pause(100.0, rng) for _ in range(100)]

        assert min(pauses) >= 0.8
        assert max(pauses) <= 1.0

    def test_the_watchdog_complains_only_about_a_leader_far_past_its_lease(self) -> None:
        """A standby is healthy; so is a leader that is merely late."""
        election = Election(SETTINGS)
        assert election.check_healthy(1e9) is None
        election.claimed(held_by("a"), sent_at=100.0, now=100.0)

        assert election.check_healthy(134.9) is None
        assert election.check_healthy(136.0) == (
            "lease not renewed for 36 s; expected a renewal within 35 s"
        )


# --- the law: never two at once -------------------------------------------------------------------


class Simulation:
    """Candidates and one Lease over simulated time; every message can be slow, lost or frozen.

    A candidate is driven as the elector drives it: read unless the last write was confirmed, claim,
    write with the version that was read. Answers arrive at random times; a frozen candidate sees
    and does nothing until it thaws, and then goes on exactly where it was.
    """

    def __init__(self, seed: int, candidates: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.version = 0
        self.record: LeaseSpec | None = None
        self.skew = [timedelta(seconds=self.rng.uniform(-900, 900)) for _ in range(candidates)]
        self.elections = [
            Election(LeaderElectionSettings(identity=f"c{i}")) for i in range(candidates)
        ]
        self.frozen_until = [0.0] * candidates
        self.confirmed: list[int | None] = [None] * candidates
        self.attempt = [0] * candidates
        self.leaders_seen: set[int] = set()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (when, next(self._order), action))

    def on(self, i: int, when: float, action: Callable[[], None]) -> None:
        """Runs in candidate `i`, later when it is frozen then."""

        def run() -> None:
            if self.frozen_until[i] > self.now:
                self.at(self.frozen_until[i], run)
            else:
                action()

        self.at(when, run)

    def delay(self) -> float:
        kind = self.rng.random()
        if kind < 0.8:
            return self.rng.uniform(0.001, 0.05)
        if kind < 0.95:
            return self.rng.uniform(0.05, 4.0)
        return self.rng.uniform(4.0, 40.0)

    def wall(self, i: int) -> datetime:
        return WALL + timedelta(seconds=self.now) + self.skew[i]

    def step(self, i: int) -> None:
        """One attempt; its follow-up is planned whatever becomes of its messages."""
        election = self.elections[i]
        self.attempt[i] += 1
        attempt = self.attempt[i]
        if self.confirmed[i] is not None and election.is_leading(self.now):
            self.write(i, attempt, self.confirmed[i])
        else:
            self.read(i, attempt)
        pause = self.rng.uniform(0.3, 3.0)
        self.on(i, self.now + pause, lambda: self.step(i))

    def read(self, i: int, attempt: int) -> None:
        def served() -> None:
            record, version = self.record, self.version
            self.on(i, self.now + self.delay(), lambda: answered(record, version))

        def answered(record: LeaseSpec | None, version: int) -> None:
            if attempt != self.attempt[i]:
                return  # timed out
            self.elections[i].observe(record, self.now)
            self.write(i, attempt, version)

        self.at(self.now + self.delay(), served)

    def write(self, i: int, attempt: int, version: int | None) -> None:
        claim = self.elections[i].claim(self.now, self.wall(i))
        if claim is None:
            return
        self.confirmed[i] = None
        sent_at = self.now

        def served() -> None:
            if version == self.version:
                self.version += 1
                self.record = claim
                accepted = self.version
                self.on(i, self.now + self.delay(), lambda: answered(accepted))

        def answered(accepted: int) -> None:
            if attempt != self.attempt[i]:
                return  # timed out: the write was made, but we do not count on it
            self.elections[i].claimed(claim, sent_at, self.now)
            self.confirmed[i] = accepted

        # A candidate may freeze between deciding to write and the bytes leaving.
        self.on(
            i,
            self.now + self.rng.choice([0.0, 0.001]),
            lambda: self.at(self.now + self.delay(), served),
        )

    def freeze_somebody(self) -> None:
        i = self.rng.randrange(len(self.elections))
        self.frozen_until[i] = self.now + self.rng.uniform(0.1, 40.0)
        # Whoever thaws a machine, or sets its clock, steps the time of day.
        self.skew[i] = timedelta(seconds=self.rng.uniform(-7200, 7200))
        self.at(self.now + self.rng.uniform(1.0, 60.0), self.freeze_somebody)

    def run(self, seconds: float) -> None:
        for i in range(len(self.elections)):
            self.on(i, self.rng.uniform(0.0, 1.0), lambda i=i: self.step(i))  # type: ignore[misc]
        self.at(20.0, self.freeze_somebody)
        while self._queue and self._queue[0][0] < seconds:
            self.now, _, action = heapq.heappop(self._queue)
            action()
            self.check()

    def check(self) -> None:
        leaders = [i for i, e in enumerate(self.elections) if e.is_leading(self.now)]
        assert len(leaders) <= 1, f"two leaders at {self.now}: {leaders}"
        self.leaders_seen.update(leaders)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(2, 4))
def test_there_are_never_two_leaders(seed: int, candidates: int) -> None:
    """Slow and lost messages, freezes, and wall clocks that are wrong and step make no second."""
    simulation = Simulation(seed, candidates)

    simulation.run(400.0)


def test_leadership_moves_in_the_simulation() -> None:
    """The law above is not true because nobody ever leads, or always the same one."""
    simulation = Simulation(seed=5, candidates=3)

    simulation.run(2000.0)

    assert simulation.leaders_seen == {0, 1, 2}
    assert simulation.record is not None
    assert simulation.record.lease_transitions > 5


def test_the_simulation_can_show_two_leaders() -> None:
    """With a leader that believes in its lease for longer than others do, it does."""

    def run_reckless() -> None:
        for seed in range(20):
            simulation = Simulation(seed, 2)
            for election in simulation.elections:
                election.settings = LeaderElectionSettings(
                    identity=election.settings.identity, renew_deadline_seconds=25.0
                )
            simulation.run(2000.0)

    with pytest.raises(AssertionError, match="two leaders"):
        run_reckless()


# --- the elector ----------------------------------------------------------------------------------

QUICK = {
    "lease_duration_seconds": 1.0,
    "renew_deadline_seconds": 0.5,
    "retry_period_seconds": 0.1,
}


class FakeLeaseServer:
    """One Lease with versions, the story of its writes, and the time of everybody."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.spec: LeaseSpec | None = None
        self.version = 0
        self.writes: list[tuple[str, float]] = []

    def lease(self) -> Lease:
        assert self.spec is not None
        return Lease(
            msgspec.Raw(msgspec.json.encode({"resourceVersion": str(self.version)})), self.spec
        )

    def store(self, spec: LeaseSpec) -> Lease:
        self.version += 1
        self.spec = spec
        self.writes.append((spec.holder_identity, self.clock.monotonic()))
        return self.lease()


async def _no_trouble() -> None:
    """All is well."""


class FakeLock:
    """A candidate's connection to the fake server; may be cut, slow or broken.

    `trouble` is awaited before a request takes effect, `trouble_after` before it is answered.
    """

    name = "stowage"

    def __init__(self, server: FakeLeaseServer) -> None:
        self.server = server
        self.trouble: Callable[[], Coroutine[Any, Any, None]] = _no_trouble
        self.trouble_after: Callable[[], Coroutine[Any, Any, None]] = _no_trouble
        self.requests = 0

    async def get(self, timeout: float) -> Lease | None:
        await self._before()
        found = None if self.server.spec is None else self.server.lease()
        await self.trouble_after()
        return found

    async def create(self, spec: LeaseSpec, timeout: float) -> Lease:
        await self._before()
        if self.server.spec is not None:
            raise ConflictError("POST lease", status=409, reason="AlreadyExists")
        written = self.server.store(spec)
        await self.trouble_after()
        return written

    async def update(self, lease: Lease, spec: LeaseSpec, timeout: float) -> Lease:
        await self._before()
        if self.server.spec is None:
            raise NotFoundError("PUT lease", status=404)
        if bytes(lease.metadata) != bytes(self.server.lease().metadata):
            raise ConflictError("PUT lease", status=409)
        written = self.server.store(spec)
        await self.trouble_after()
        return written

    async def _before(self) -> None:
        self.requests += 1
        await asyncio.sleep(0)
        await self.trouble()


async def hang() -> None:
    await asyncio.sleep(3600)


async def error_500() -> None:
    raise UnavailableError("PUT lease", status=500, message="etcdserver: leader changed")


async def unexpected() -> None:
    raise KeyError("a bug somewhere below")


class Candidate:
    """An elector with what it told about itself."""

    def __init__(self, server: FakeLeaseServer, identity: str, clock: Clock | None = None) -> None:
        self.lock = FakeLock(server)
        self.clock = clock or server.clock
        self.story: list[str] = []
        self.elector = LeaderElector(
            self.lock,
            LeaderElectionSettings(identity=identity, **QUICK),
            clock=self.clock,
            rng=random.Random(identity),
            callbacks=ElectionCallbacks(
                on_started_leading=lambda: self.story.append("started"),
                on_stopped_leading=lambda: self.story.append("stopped"),
                on_new_leader=lambda leader: self.story.append(f"leader {leader}"),
                on_event=self.story.append,
            ),
        )
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.task = asyncio.create_task(self.elector.run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


async def leading(candidate: Candidate, within: float = 5.0) -> float:
    """Waits until the candidate leads; answers how long it took."""
    started = candidate.clock.monotonic()
    async with asyncio.timeout(within):
        await candidate.elector.wait_leading()
    return candidate.clock.monotonic() - started


async def never_two(a: Candidate, b: Candidate, seconds: float) -> None:
    """Watches both while time passes."""
    end = a.clock.monotonic() + seconds
    while a.clock.monotonic() < end:
        assert not (a.elector.is_leading() and b.elector.is_leading())
        await asyncio.sleep(0.002)


def play(story: Callable[[FakeLeaseServer], Coroutine[Any, Any, None]]) -> None:
    """Tells a story in which time passes as nobody has anything else to do."""
    clock = FakeClock()
    run_in(clock, story(FakeLeaseServer(clock)))


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
                "leader a",
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
            assert b.story == ["leader gone"]

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

    def test_a_short_outage_costs_nothing(self) -> None:
        """The leader goes on when a renewal succeeds within the deadline."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")
            await a.start()
            await leading(a)

            a.lock.trouble = error_500
            await asyncio.sleep(0.3)
            a.lock.trouble = _no_trouble
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
            a.lock.trouble_after = _no_trouble
            await asyncio.sleep(0.6)

            assert a.elector.is_leading()
            await a.stop()

        play(scenario)

    def test_a_frozen_leader_knows_at_once_that_its_time_is_over(self) -> None:
        """Before any timer has had a chance to run, and it writes nothing any more."""

        async def scenario(server: FakeLeaseServer) -> None:
            frozen = FreezableClock(server.clock)
            a, b = Candidate(server, "a", frozen), Candidate(server, "b")
            await a.start()
            await leading(a)
            await b.start()
            await asyncio.sleep(0.2)

            # The loop of `a` stands still while time goes on: its lock hangs, its clock is ahead.
            a.lock.trouble = hang
            frozen.ahead = 3.0
            assert not a.elector.is_leading()
            await leading(b)
            a.lock.trouble = _no_trouble
            assert a.task is not None
            await asyncio.wait_for(a.task, 2.0)

            assert [holder for holder, _ in server.writes if holder == "b"]
            assert server.writes[-1][0] == "b"
            await b.stop()

        play(scenario)

    def test_a_leader_whose_lease_was_taken_stops(self) -> None:
        """Whoever wrote another holder into the Lease is believed."""

        async def scenario(server: FakeLeaseServer) -> None:
            a = Candidate(server, "a")
            await a.start()
            await leading(a)

            server.store(held_by("somebody", duration=15))
            assert a.task is not None
            await asyncio.wait_for(a.task, 1.0)

            assert a.story[-3:] == ["leader somebody", "a stopped leading", "stopped"]

        play(scenario)


class FreezableClock:
    """A clock that can be put ahead of another."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = 0.0

    def monotonic(self) -> float:
        return self._clock.monotonic() + self.ahead

    def wall(self) -> datetime:
        return self._clock.wall()


def test_identities_are_unique() -> None:
    """Two processes on one host are two candidates."""
    assert unique_identity() != unique_identity()

"""The rules of an election, and a law over simulated time: never two leaders at once."""

import heapq
import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from scheduler.daemon.client.leases import LeaseSpec
from scheduler.daemon.leader_election.election import Election, LeaderElectionSettings, released
from tests.unit.leader_election.fake_leases import held_by

WALL = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
SETTINGS = LeaderElectionSettings(identity="a")


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

    @pytest.mark.parametrize(
        ("started", "now", "due"),
        [
            pytest.param(100.0, 100.1, 102.0, id="renewed"),
            pytest.param(104.0, 104.1, 106.0, id="failed with much time left"),
            pytest.param(108.0, 108.5, 109.25, id="at half of the time left"),
            pytest.param(109.5, 109.6, 109.8, id="and again"),
            pytest.param(109.7, 109.8, 110.0, id="too late for another"),
            pytest.param(109.0, 110.5, 110.0, id="over"),
        ],
    )
    def test_a_leader_that_fails_to_renew_tries_more_often_towards_its_end(
        self, started: float, now: float, due: float
    ) -> None:
        """It has sent its last renewal at 100: its time is over at 110."""
        election = Election(SETTINGS)
        election.claimed(held_by("a"), sent_at=100.0, now=100.0)

        assert election.renewal_due(started, now) == pytest.approx(due)

    def test_a_leader_with_a_long_retry_period_renews_no_more_often(self) -> None:
        """Half of its time is over before the next renewal is due, and no renewal has failed."""
        election = Election(LeaderElectionSettings(identity="a", retry_period_seconds=8.0))
        election.claimed(held_by("a"), sent_at=100.0, now=100.0)

        assert election.renewal_due(100.0, 100.1) == 108.0

    def test_no_claim_has_more_transitions_than_the_api_server_takes(self) -> None:
        """A number that was edited by hand must not keep all candidates away for ever."""
        election = Election(SETTINGS)
        election.observe(held_by("", n=2**31 - 1), now=100.0)

        claim = election.claim(100.0, WALL)

        assert claim is not None
        assert claim.lease_transitions == 2**31 - 1

    @pytest.mark.parametrize("duration", [0, -5])
    def test_a_holder_without_a_duration_has_ours(self, duration: int) -> None:
        """Its Lease was edited by hand: a leader would see at its next renewal that it is gone."""
        election = Election(SETTINGS)
        election.observe(held_by("b", duration=duration), now=100.0)

        assert election.claim(114.9, WALL) is None
        assert election.claim(115.0, WALL) is not None

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
            self.on(i, self.rng.uniform(0.0, 1.0), lambda i=i: self.step(i))
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

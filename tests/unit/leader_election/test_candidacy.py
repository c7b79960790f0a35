"""Standing for a Lease that the control plane gives."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from typing_extensions import override

from scheduler.daemon.client.errors import UnavailableError
from scheduler.daemon.client.lease_candidates import LeaseCandidate, LeaseCandidateSpec
from scheduler.daemon.client.leases import LeaseSpec
from scheduler.daemon.client.wire import micro_time
from scheduler.daemon.leader_election.candidacy import (
    RENEWAL,
    Candidacy,
    answer,
    semantic_version,
)
from scheduler.daemon.leader_election.election import Election, LeaderElectionSettings
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.leader_election.fake_leases import (
    Candidate,
    FakeLeaseServer,
    error_500,
    held_by,
    leading,
    no_trouble,
    play,
)

WALL = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NEW = LeaseCandidateSpec(
    lease_name="stowage",
    renew_time="2026-01-02T03:04:05.000000Z",
    binary_version="1.2.3",
    emulation_version="1.2.3",
    strategy="OldestEmulationVersion",
)
SETTINGS = LeaderElectionSettings(identity="a", is_coordinated=True)


def at(**after: float) -> str:
    return micro_time(WALL + timedelta(**after))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.2.3", "1.2.3"),
        ("0.1.1.dev5+g0123abc", "0.1.1"),
        ("1.20.3rc1", "1.20.3"),
        ("01.2.3", "1.2.3"),
        ("0.0.0", "0.0.1"),
        ("unknown", "0.0.1"),
    ],
)
def test_versions_are_written_as_the_api_server_takes_them(version: str, expected: str) -> None:
    """Three numbers, and not all of them zero."""
    assert semantic_version(version) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(None, NEW, id="not there yet"),
        pytest.param(NEW, None, id="just made"),
        pytest.param(
            msgspec.structs.replace(NEW, ping_time=at(seconds=-1), renew_time=at(seconds=-2)),
            msgspec.structs.replace(NEW, ping_time=at(seconds=-1)),
            id="asked",
        ),
        pytest.param(
            msgspec.structs.replace(NEW, ping_time=at(seconds=-2), renew_time=at(seconds=-1)),
            None,
            id="asked and answered",
        ),
        pytest.param(
            msgspec.structs.replace(NEW, ping_time=at(seconds=8), renew_time=at(seconds=0)),
            msgspec.structs.replace(NEW, ping_time=at(seconds=8), renew_time=at(seconds=8)),
            id="asked by a server whose clock is ahead",
        ),
        pytest.param(
            msgspec.structs.replace(NEW, renew_time=micro_time(WALL - RENEWAL)),
            NEW,
            id="silent for long",
        ),
        pytest.param(
            msgspec.structs.replace(NEW, renew_time=at(hours=1)),
            NEW,
            id="renewed by a clock that was ahead",
        ),
        pytest.param(
            msgspec.structs.replace(NEW, ping_time=at(hours=1), renew_time=at(hours=1)),
            None,
            id="answered to a server whose clock is ahead",
        ),
        pytest.param(msgspec.structs.replace(NEW, renew_time=None), NEW, id="never renewed"),
        pytest.param(msgspec.structs.replace(NEW, renew_time="soon"), NEW, id="unreadable"),
    ],
)
def test_a_candidate_answers_when_it_is_asked(
    found: LeaseCandidateSpec | None, expected: LeaseCandidateSpec | None
) -> None:
    """And now and then by itself, so that it is not deleted."""
    assert answer(found, "stowage", "1.2.3", WALL) == expected


@pytest.mark.parametrize(
    ("record", "seconds", "may_claim"),
    [
        pytest.param(None, 0, False, id="no lease"),
        pytest.param(held_by(""), 0, False, id="no holder"),
        pytest.param(held_by("b"), 99, False, id="the lease of another has run out"),
        pytest.param(held_by("a", duration=5), 4, True, id="given to us"),
        pytest.param(held_by("a", duration=5), 99, True, id="given to us and run out"),
        pytest.param(
            msgspec.structs.replace(held_by("a"), preferred_holder="b"), 0, False, id="to be left"
        ),
    ],
)
def test_a_coordinated_lease_is_given_not_taken(
    record: LeaseSpec | None, seconds: float, may_claim: bool
) -> None:
    """Only a record that names this candidate may be renewed."""
    election = Election(SETTINGS)
    election.observe(record, 100.0)

    claim = election.claim(100.0 + seconds, WALL)

    assert (claim is not None) is may_claim


def test_a_leader_ends_its_term_when_another_one_is_preferred() -> None:
    """At once: nothing is written under a lease that will not be renewed."""
    election = Election(SETTINGS)
    election.claimed(held_by("a"), 100.0, 100.1)
    assert election.is_leading(101.0)

    election.observe(msgspec.structs.replace(held_by("a"), preferred_holder="b"), 101.0)

    assert not election.is_leading(101.0)


class FakeRecord:
    """A LeaseCandidate on a server that may be down."""

    name = "a"

    def __init__(self) -> None:
        self.spec: LeaseCandidateSpec | None = None
        self.is_down = False

    async def get(self, timeout: float) -> LeaseCandidate | None:
        self._check()
        return None if self.spec is None else LeaseCandidate(msgspec.Raw(b"{}"), self.spec)

    async def put(
        self, candidate: LeaseCandidate | None, spec: LeaseCandidateSpec, timeout: float
    ) -> None:
        self._check()
        assert (candidate is None) is (self.spec is None)
        self.spec = spec

    async def delete(self, timeout: float) -> None:
        self._check()
        self.spec = None

    def _check(self) -> None:
        if self.is_down:
            raise UnavailableError("lease candidate", status=503)


def test_a_candidate_leads_when_it_is_named_and_takes_itself_back_at_the_end() -> None:
    """It stands while it campaigns and while it leads; a server that is down is asked again."""

    async def scenario(server: FakeLeaseServer) -> None:
        record = FakeRecord()
        record.is_down = True
        candidacy = Candidacy(record, "stowage", "1.2.3", server.clock, 0.1)
        a = Candidate(server, "a", candidacy=candidacy)
        await a.start()
        await asyncio.sleep(3.0)
        assert server.spec is None
        assert record.spec is None

        record.is_down = False
        await asyncio.sleep(0.2)
        assert record.spec is not None
        assert record.spec.lease_name == "stowage"
        assert not a.elector.is_leading()

        server.store(held_by("a", duration=5))
        await leading(a)
        await asyncio.sleep(2.0)
        assert a.elector.is_leading()
        assert server.writes[-1][1] > server.clock.monotonic() - 0.2

        assert server.spec is not None
        server.store(msgspec.structs.replace(server.spec, preferred_holder="b"))
        await asyncio.sleep(0.3)
        assert not a.elector.is_leading()
        assert a.task is not None
        await a.task
        assert record.spec is None
        assert a.story[-2:] == ["a stopped leading", "stopped"]

    play(scenario)


def test_a_candidate_ends_although_its_deletion_has_no_answer() -> None:
    """The next election then waits for it, and not the end of the process."""
    clock = FakeClock()

    class Deaf(FakeRecord):
        @override
        async def delete(self, timeout: float) -> None:
            await asyncio.Event().wait()

    async def story() -> float:
        candidacy = Candidacy(Deaf(), "stowage", "1.2.3", clock, 1.0)
        standing = asyncio.create_task(candidacy.stand())
        await asyncio.sleep(5.0)
        before = clock.now
        standing.cancel()
        await asyncio.gather(standing, return_exceptions=True)
        return clock.now - before

    assert run_in(clock, story()) == pytest.approx(2.0)


def test_a_candidate_that_is_chosen_late_leads_all_the_same() -> None:
    """The control plane writes nothing when it chooses the holder of an expired lease again."""

    async def scenario(server: FakeLeaseServer) -> None:
        a = Candidate(server, "a", candidacy=Candidacy(FakeRecord(), "l", "1.2.3", server.clock, 1))
        server.store(held_by("a", duration=5))

        async def refuse_writes() -> None:
            if a.lock.requests % 2 == 0:  # a read, then a write
                await error_500()

        a.lock.trouble = refuse_writes
        await a.start()
        await asyncio.sleep(20.0)
        assert not a.elector.is_leading()

        a.lock.trouble = no_trouble
        assert await leading(a) < 1.0

    play(scenario)


def test_a_candidate_passes_a_lease_on_when_another_is_preferred_before_it_led() -> None:
    """The other one may be gone: the control plane would choose the holder again for ever."""

    async def scenario(server: FakeLeaseServer) -> None:
        a = Candidate(server, "a", candidacy=Candidacy(FakeRecord(), "l", "1.2.3", server.clock, 1))
        server.store(msgspec.structs.replace(held_by("a"), preferred_holder="b"))
        await a.start()
        await asyncio.sleep(1.0)
        assert server.spec is not None
        assert server.spec.holder_identity == ""
        assert a.story == []

        server.store(held_by("a", duration=5))
        await leading(a)
        # Work may be in flight under the lease of one that led: it ends first.
        server.store(msgspec.structs.replace(server.spec, preferred_holder="b"))
        await asyncio.sleep(1.0)
        assert server.spec.holder_identity == "a"
        assert a.task is not None
        await a.task

    play(scenario)

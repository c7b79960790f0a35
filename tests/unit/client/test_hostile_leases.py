"""The lease object may hold anything: an attempt fails, or it is understood; nothing else."""

import asyncio
import datetime as dt
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st

from scheduler.daemon.client.errors import ApiError
from scheduler.daemon.client.http_connection import Response
from scheduler.daemon.client.lease_candidates import CandidateRecord
from scheduler.daemon.client.leases import LeaseLock
from scheduler.daemon.leader_election.candidacy import answer
from scheduler.daemon.leader_election.election import Election, LeaderElectionSettings

WALL = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.just({})
HOLDERS = st.sampled_from(["me", "other", ""]) | VALUES
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "holderIdentity": HOLDERS,
        "leaseDurationSeconds": st.sampled_from([15]) | VALUES,
        "acquireTime": VALUES,
        "renewTime": VALUES,
        "leaseTransitions": VALUES,
    },
)
BODIES = st.binary(max_size=60) | st.tuples(VALUES | st.just({"name": "l"}), SPECS | VALUES).map(
    lambda parts: msgspec.json.encode({"metadata": parts[0], "spec": parts[1]})
)


class Telling:
    """A session that answers one body."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def request(self, *_: Any, **__: Any) -> Response:
        return Response(200, {}, self._body)


@settings(max_examples=150, deadline=None)
@given(BODIES)
def test_a_lease_is_understood_or_the_attempt_fails(body: bytes) -> None:
    """And one that is understood is not taken from who holds it."""
    lock = LeaseLock(Telling(body), "ns", "l")
    election = Election(LeaderElectionSettings(identity="me"))

    with suppress(ApiError):
        lease = asyncio.run(lock.get(1.0))
        assert lease is not None
        election.observe(lease.spec, 0.0)
        claim = election.claim(0.0, WALL)
        assert (claim is None) == (lease.spec.holder_identity not in {"", "me"})


@given(st.binary(max_size=10), st.integers(2_000, 20_000))
def test_a_deep_lease_is_an_attempt_that_failed(noise: bytes, depth: int) -> None:
    """Not the end of the elector."""
    body = b'{"metadata":' + b"[" * depth + noise + b"]" * depth + b"}"

    with suppress(ApiError):
        asyncio.run(LeaseLock(Telling(body), "ns", "l").get(1.0))


@settings(max_examples=100, deadline=None)
@given(BODIES, VALUES, VALUES)
def test_a_candidate_is_understood_or_the_attempt_fails(
    body: bytes, pinged: Any, renewed: Any
) -> None:
    """And something can be said about every one that is understood."""
    written = msgspec.json.encode(
        {"metadata": {}, "spec": {"pingTime": pinged, "renewTime": renewed}}
    )

    for answered in (body, written):
        record = CandidateRecord(Telling(answered), "ns", "me")
        with suppress(ApiError):
            found = asyncio.run(record.get(1.0))
            assert found is not None
            answer(found.spec, "l", "1.0.0", WALL)

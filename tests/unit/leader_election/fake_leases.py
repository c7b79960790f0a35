"""A Lease on a server that misbehaves on demand, and candidates who fight over it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec

from scheduler.clock import Clock
from scheduler.daemon.client.errors import ConflictError, NotFoundError, UnavailableError
from scheduler.daemon.client.leases import Lease, LeaseSpec
from scheduler.daemon.leader_election.campaign import Campaign, MainLoop
from scheduler.daemon.leader_election.candidacy import Candidacy
from scheduler.daemon.leader_election.election import LeaderElectionSettings
from scheduler.daemon.leader_election.elector import (
    ElectionCallbacks,
    LeaderElector,
)
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in


def held_by(holder: str, renew_time: str = "t0", duration: int = 15, n: int = 3) -> LeaseSpec:
    return LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=duration,
        acquire_time="t",
        renew_time=renew_time,
        lease_transitions=n,
    )


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


async def no_trouble() -> None:
    """All is well."""


class FakeLock:
    """A candidate's connection to the fake server; may be cut, slow or broken.

    `trouble` is awaited before a request takes effect, `trouble_after` before it is answered.
    """

    name = "stowage"

    def __init__(self, server: FakeLeaseServer) -> None:
        self.server = server
        self.trouble: Callable[[], Coroutine[Any, Any, None]] = no_trouble
        self.trouble_after: Callable[[], Coroutine[Any, Any, None]] = no_trouble
        self.requests = 0

    async def get(self, timeout: float) -> Lease | None:
        async with self._exchange(timeout):
            return None if self.server.spec is None else self.server.lease()

    async def create(self, spec: LeaseSpec, timeout: float) -> Lease:
        async with self._exchange(timeout):
            if self.server.spec is not None:
                raise ConflictError("POST lease", status=409, reason="AlreadyExists")
            return self.server.store(spec)

    async def update(self, lease: Lease, spec: LeaseSpec, timeout: float) -> Lease:
        async with self._exchange(timeout):
            if self.server.spec is None:
                raise NotFoundError("PUT lease", status=404)
            if bytes(lease.metadata) != bytes(self.server.lease().metadata):
                raise ConflictError("PUT lease", status=409)
            return self.server.store(spec)

    @asynccontextmanager
    async def _exchange(self, timeout: float) -> AsyncIterator[None]:
        self.requests += 1
        async with asyncio.timeout(timeout):
            await asyncio.sleep(0)
            await self.trouble()
            yield
            await self.trouble_after()


async def hang() -> None:
    await asyncio.sleep(3600)


async def error_500() -> None:
    raise UnavailableError("PUT lease", status=500, message="etcdserver: leader changed")


async def unexpected() -> None:
    raise KeyError("a bug somewhere below")


class OwnClock:
    """A machine's own view of the time.

    Attributes:
        ahead: seconds for which its processes were stopped while another's went on.
        suspended: seconds for which the whole machine was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = 0.0
        self.suspended = 0.0

    def monotonic(self) -> float:
        return self._clock.monotonic() + self.ahead

    def boot(self) -> float:
        return self._clock.boot() + self.ahead + self.suspended

    def wall(self) -> datetime:
        return self._clock.wall()

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here holds the loop up")


class StallingLoop:
    """A main loop that may stand still, as an elector's own thread sees it."""

    def __init__(self) -> None:
        self._is_stalled = False
        self._asked: list[Callable[[], None]] = []

    def stall(self, seconds: float) -> None:
        """Take one step that lasts so long, after the one before."""
        self._is_stalled = True
        asyncio.get_running_loop().call_later(seconds, self._go_on)

    def call_soon(self, callback: Callable[[], None]) -> None:
        if self._is_stalled:
            self._asked.append(callback)
        else:
            # Never within the call: another thread asks.
            asyncio.get_running_loop().call_soon(callback)

    def _go_on(self) -> None:
        self._is_stalled = False
        asked, self._asked = self._asked, []
        for callback in asked:
            callback()


class Candidate:
    """An elector with what it told about itself.

    Attributes:
        main_loop: the loop that its campaign is not a part of.
    """

    def __init__(
        self,
        server: FakeLeaseServer,
        identity: str,
        clock: Clock | None = None,
        times: Mapping[str, float] = QUICK,
        candidacy: Candidacy | None = None,
    ) -> None:
        self.lock = FakeLock(server)
        self.clock = clock or server.clock
        self.main_loop = StallingLoop()
        self.story: list[str] = []
        self.elector = LeaderElector(
            self.lock,
            LeaderElectionSettings(
                identity=identity, is_coordinated=candidacy is not None, **times
            ),
            clock=self.clock,
            rng=random.Random(identity),
            callbacks=ElectionCallbacks(
                on_started_leading=lambda: self.story.append("started"),
                on_stopped_leading=lambda: self.story.append("stopped"),
                on_event=self.story.append,
            ),
            campaigning=self._run,
            candidacy=candidacy,
        )
        self.task: asyncio.Task[None] | None = None

    async def _run(self, campaign: Campaign) -> None:
        await campaign(self.lock, MainLoop(self.main_loop.call_soon, self.clock))

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

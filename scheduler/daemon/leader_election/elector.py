"""Takes part in an election: reads and writes the Lease, and steps down in time on failures."""

import asyncio
import math
import random
import re
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from scheduler.clock import Clock
from scheduler.daemon.client.errors import ApiError, ConflictError, NotFoundError
from scheduler.daemon.client.leases import Lease, LeaseSpec
from scheduler.daemon.leader_election.campaign import Campaign, MainLoop, in_this_loop
from scheduler.daemon.leader_election.candidacy import Candidacy
from scheduler.daemon.leader_election.election import Election, LeaderElectionSettings, released
from scheduler.daemon.leader_election.lock import Lock
from scheduler.observability.logs import get_logger, verbose

log = get_logger(__name__)

_RANDOM_PART: Final = re.compile(r"[-_][0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionCallbacks:
    """The callbacks of an elector, called in its loop; they must be quick.

    Attributes:
        on_started_leading: called when this process begins to lead.
        on_stopped_leading: called when it no longer leads: stop writing at once.
        on_event: called with the note of an event about the Lease, in upstream's words.
    """

    on_started_leading: Callable[[], None] = _nothing
    on_stopped_leading: Callable[[], None] = _nothing
    on_event: Callable[[str], None] = lambda _: None


def unique_identity(separator: str = "_") -> str:
    """Return a unique identity: the host name and a random part.

    With a dash as separator it is a valid object name too.

    Source: cmd/kube-scheduler/app/options/options.go (makeLeaderElectionConfig) v1.36.
    """
    return f"{socket.gethostname()}{separator}{uuid.uuid4()}"


def host_of(identity: str) -> str:
    """Return the host name in an identity of `unique_identity`; any other identity as it is."""
    return _RANDOM_PART.sub("", identity)


class LeaderElector:
    """One candidate of the election.

    Args:
        lock: the Lease, with connections of the loop of `run`.
        settings: the identity and the times of this candidate.
        clock: the clock of terms and renewals.
        rng: spreads the reads of candidates.
        callbacks: called in the loop of `run`.
        campaigning: runs the campaign, possibly in its own thread; by default in the loop of `run`.
        candidacy: keeps a LeaseCandidate during `run`, if the control plane elects the leader.

    Attributes:
        lease_uid: the UID of the Lease when it was last seen, or empty.
    """

    def __init__(  # noqa: PLR0913 - what a candidate is made of
        self,
        lock: Lock,
        settings: LeaderElectionSettings,
        *,
        clock: Clock,
        rng: random.Random,
        callbacks: ElectionCallbacks | None = None,
        campaigning: Callable[[Campaign], Awaitable[None]] | None = None,
        candidacy: Candidacy | None = None,
    ) -> None:
        self._lock = lock
        self._candidacy = candidacy
        self._campaigning = campaigning or partial(in_this_loop, lock, clock)
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._callbacks = callbacks or ElectionCallbacks()
        self._election = Election(settings)
        self.lease_uid = ""
        self._lease: Lease | None = None
        """The Lease after the last successful write of this process; None if it must be read."""
        self._has_claimed = False
        """Whether the Lease may name this process: a claim was sent, with or without an answer."""
        self._is_held_back = False
        """Whether the last attempt was left out, because the main loop stands still."""
        self._wrote_at = -math.inf
        """The time at which the last write left."""
        self._reported_leader = ""
        self._reported_problem = ""
        self._leads = asyncio.Event()

    @property
    def identity(self) -> str:
        """The identity of this candidate."""
        return self._settings.identity

    @property
    def leader(self) -> str:
        """The holder of the lease when it was last seen, or empty."""
        return self._election.holder

    def is_leading(self) -> bool:
        """Whether this process is the leader.

        The answer is right even after the process was stopped: the clock has advanced meanwhile.
        """
        return self._election.is_leading(self._clock.boot())

    def may_write(self) -> bool:
        """Whether this process may write now. Pass this to `PodWrites` as its fence.

        The write counts as sent: see `release_lost`.
        """
        if not self.is_leading():
            return False
        self._wrote_at = self._clock.boot()
        return True

    def check_healthy(self) -> str | None:
        """Return the problem for the health endpoint, or None."""
        return self._election.check_healthy(self._clock.boot())

    async def wait_leading(self) -> None:
        """Wait until this process leads for the first time."""
        await self._leads.wait()

    async def observe(self) -> None:
        """Read the lease until cancelled, without acquiring it. Run it as a task before `run`.

        So the lease of a crashed holder expires while the caches of this process sync.
        """
        while True:
            await self._attempt(partial(self._look, self._lock))
            self._report_leader()
            await self._stand_by()

    async def run(self) -> None:
        """Acquire the lease, renew it, and return when it is lost. Run it as a task.

        On exit, cancel the task only after binds in flight are drained; then call `release`.
        """
        standing = None
        if self._candidacy is not None:
            standing = asyncio.create_task(self._candidacy.stand())
        try:
            await self._campaigning(self._campaign)
            log.error("Leader election lost", identity=self.identity, holder=self.leader)
        finally:
            if standing is not None:
                standing.cancel()
                await asyncio.wait({standing})
            if self._leads.is_set():
                self._callbacks.on_event(f"{self.identity} stopped leading")
                self._callbacks.on_stopped_leading()

    async def release(self) -> None:
        """Release the lease if this process holds it, so that a standby need not wait for expiry.

        A failure is logged: the lease then expires.
        """
        await self._give_back(self._settings.renew_deadline_seconds / 2)

    async def release_lost(self) -> None:
        """Give a lost lease back if all writes left long ago. The caller awaits no answer to one.

        A write without an answer may still be carried out. If the lease ran out, another would lead
        `lease duration - renew deadline` after the last write at the earliest; so it does now.
        Fails silently, after a retry period at most: the process is to end.
        """
        settings = self._settings
        since = self._clock.boot() - self._wrote_at
        if since < settings.lease_duration_seconds - settings.renew_deadline_seconds:
            reason = f"a write left {since:.1f} s ago"
            log.info("Lease not released; it will run out", reason=reason)
            return
        await self._give_back(settings.retry_period_seconds)

    async def _give_back(self, timeout: float) -> None:
        self._election.step_down()
        if not self._has_claimed:
            return
        try:
            async with asyncio.timeout(timeout):
                # The known record may be old: a renewal may have been under way at cancellation.
                lease = await self._lock.get(timeout)
                if lease is not None and lease.spec.holder_identity == self.identity:
                    spec = released(lease.spec, self._clock.wall())
                    await self._lock.update(lease, spec, timeout)
                    log.info("Lease released", lease=self._lock.name)
        except (ApiError, TimeoutError) as problem:
            reason = str(problem) or type(problem).__name__
            log.warning("Lease not released; it will run out", reason=reason)

    async def _campaign(self, lock: Lock, main: MainLoop) -> None:
        """See `Campaign`. During the campaign only this coroutine changes the election.

        The main loop reads one number of it: the time until which this process leads.
        """
        started = await self._acquire(lock, main)
        log.info("Leading", identity=self.identity)
        main.call_soon(self._started)
        await self._renew(lock, main, started)
        self._report_leader()

    def _started(self) -> None:
        self._leads.set()
        self._callbacks.on_event(f"{self.identity} became leader")
        self._callbacks.on_started_leading()

    async def _acquire(self, lock: Lock, main: MainLoop) -> float:
        """Acquire the lease; return the time at which the successful attempt began."""
        while True:
            started = self._clock.boot()
            await self._attempt_for(main, partial(self._acquire_or_renew, lock))
            self._report_leader()
            if self.is_leading():
                return started
            if self._election.is_to_be_passed_on():
                await self._attempt(partial(self._pass_on, lock))
            await self._stand_by()

    async def _pass_on(self, lock: Lock, timeout: float) -> None:
        """Release a lease whose term ended before this process led: no bind is in flight."""
        lease = await self._look(lock, timeout)
        if lease is not None and self._election.is_to_be_passed_on():
            await lock.update(lease, released(lease.spec, self._clock.wall()), timeout)

    async def _stand_by(self) -> None:
        await asyncio.sleep(self._election.standby_pause(self._clock.boot(), self._rng))

    async def _renew(self, lock: Lock, main: MainLoop, started: float) -> None:
        while True:
            now = self._clock.boot()
            await asyncio.sleep(max(0.0, self._election.renewal_due(started, now) - now))
            if not self.is_leading():
                return
            started = self._clock.boot()
            await self._attempt_for(main, partial(self._acquire_or_renew, lock))

    async def _attempt_for(
        self, main: MainLoop, step: Callable[[float], Awaitable[object]]
    ) -> None:
        """Make one attempt, unless the main loop has stalled for the renew deadline."""
        silent = main.silent_seconds()
        is_stalled = silent >= self._settings.renew_deadline_seconds
        if not is_stalled:
            await self._attempt(step)
        elif not self._is_held_back:
            log.error("Lease left to others: event loop stalled", seconds=round(silent, 1))
        self._is_held_back = is_stalled

    async def _attempt(self, step: Callable[[float], Awaitable[object]]) -> None:
        """Make one attempt to read, acquire or renew the lease; log any error of it.

        A candidate reads and then writes: each request has its own timeout, as in client-go.
        Otherwise a slow read would leave too little time to the write in each attempt.
        """
        timeout = self._election.attempt_timeout(self._clock.boot())
        try:
            async with asyncio.timeout(timeout):
                await step(min(timeout, self._settings.renew_deadline_seconds / 2))
        except ConflictError:
            if verbose(4):
                log.info("Lease taken or changed by another", lease=self._lock.name)
        except Exception as problem:  # noqa: BLE001 - every failure counts as one attempt
            # No error may keep the elector from stepping down when its term ends.
            self._report_problem(str(problem) or type(problem).__name__)
        else:
            self._reported_problem = ""

    async def _look(self, lock: Lock, timeout: float) -> Lease | None:
        lease = await lock.get(timeout)
        self._election.observe(None if lease is None else lease.spec, self._clock.boot())
        self.lease_uid = "" if lease is None else lease.uid
        return lease

    async def _acquire_or_renew(self, lock: Lock, timeout: float) -> None:
        election, clock = self._election, self._clock
        lease = self._lease or await self._look(lock, timeout)
        spec = election.claim(clock.boot(), clock.wall())
        if spec is None:
            return
        # Until the answer arrives, the Lease on the API server is unknown.
        self._lease = None
        self._has_claimed = True
        sent_at = clock.boot()
        try:
            written = await _write(lock, lease, spec, timeout)
        except ConflictError:
            # Another candidate may hold the lease now: without a read, both would lead.
            await self._look(lock, timeout)
            raise
        election.claimed(written.spec, sent_at, clock.boot())
        self._lease, self.lease_uid = written, written.uid

    def _report_problem(self, reason: str) -> None:
        """Log a problem if it is new: a standby without RBAC rights would log it every second."""
        if reason != self._reported_problem:
            self._reported_problem = reason
            log.warning("Lease not reachable", lease=self._lock.name, reason=reason)

    def _report_leader(self) -> None:
        leader = self._election.holder
        if leader and leader != self._reported_leader:
            self._reported_leader = leader
            log.info("New leader", leader=leader)


async def _write(lock: Lock, lease: Lease | None, spec: LeaseSpec, timeout: float) -> Lease:
    """Replace the Lease; create it if it is None or was deleted since it was read."""
    if lease is not None:
        try:
            return await lock.update(lease, spec, timeout)
        except NotFoundError:
            log.warning("Lease is gone; making it anew", lease=lock.name)
    return await lock.create(spec, timeout)

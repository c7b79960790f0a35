"""Keeps a LeaseCandidate: with the gate CoordinatedLeaderElection the control plane elects.

A process publishes a LeaseCandidate with its version, and renews it within five seconds of each
ping of the control plane (`pingTime`). The control plane writes the name of the elected candidate
into the Lease.

Source: k8s.io/client-go tools/leaderelection/leasecandidate.go v0.36; kubernetes
pkg/controlplane/controller/leaderelection v1.36. Differs: a process that ends deletes its
candidate, so that no election waits for it. An answer is never older than the ping: the control
plane compares both, and the clock of this machine may be behind.
"""

import asyncio
import re
from datetime import datetime, timedelta
from typing import Final, Protocol

from msgspec.structs import replace

from scheduler.clock import Clock
from scheduler.daemon.client.errors import ApiError, ConflictError
from scheduler.daemon.client.lease_candidates import LeaseCandidate, LeaseCandidateSpec
from scheduler.daemon.client.wire import micro_time
from scheduler.observability.logs import get_logger

log = get_logger(__name__)

STRATEGY: Final = "OldestEmulationVersion"
"""The oldest version leads: during an upgrade no old version reads what a new one wrote."""
RENEWAL: Final = timedelta(minutes=5)
"""Interval of renewals; the control plane deletes a candidate half an hour after its renewal."""
_REQUEST_SECONDS: Final = 2.0


class LeaseCandidateClient(Protocol):
    """The interface of `scheduler.daemon.client.lease_candidates.CandidateRecord`."""

    name: str

    async def get(self, timeout: float) -> LeaseCandidate | None:
        """Read the candidate; None if it does not exist."""
        ...

    async def put(
        self, candidate: LeaseCandidate | None, spec: LeaseCandidateSpec, timeout: float
    ) -> None:
        """Replace or create the candidate."""
        ...

    async def delete(self, timeout: float) -> None:
        """Delete the candidate."""
        ...


def semantic_version(version: str) -> str:
    """Return the three numbers at the beginning of a PEP 440 version, as a semantic version.

    The API server refuses candidates of version 0.0.0.
    """
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    numbers = "0.0.0" if found is None else ".".join(str(int(part)) for part in found.groups())
    return "0.0.1" if numbers == "0.0.0" else numbers


def answer(
    found: LeaseCandidateSpec | None, lease_name: str, version: str, wall: datetime
) -> LeaseCandidateSpec | None:
    """Return the LeaseCandidate to write, given the present one; None if no write is due.

    Args:
        found: the present candidate, or None.
        lease_name: the name of the Lease.
        version: the semantic version of this process.
        wall: the time of day.
    """
    if found is None:
        return LeaseCandidateSpec(
            lease_name=lease_name,
            renew_time=micro_time(wall),
            binary_version=version,
            emulation_version=version,
            strategy=STRATEGY,
        )
    renewed, pinged = _moment(found.renew_time), _moment(found.ping_time)
    now = wall if pinged is None else max(wall, pinged)
    is_asked = pinged is not None and (renewed is None or pinged > renewed)
    # A time in the future, written while this clock was wrong, would answer for a dead process.
    if is_asked or renewed is None or abs(now - renewed) >= RENEWAL:
        return replace(found, renew_time=micro_time(now))
    return None


def _moment(written: str | None) -> datetime | None:
    try:
        moment = None if written is None else datetime.fromisoformat(written)
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


class Candidacy:
    """Publishes the LeaseCandidate of this process while the process can lead.

    Args:
        record: the candidate on the API server.
        lease_name: the name of the Lease.
        version: the version of Stowage.
        clock: the clock of renewals.
        period: seconds between two reads.
    """

    def __init__(
        self,
        record: LeaseCandidateClient,
        lease_name: str,
        version: str,
        clock: Clock,
        period: float,
    ) -> None:
        self._record = record
        self._lease_name = lease_name
        self._version = semantic_version(version)
        self._clock = clock
        self._period = period

    async def stand(self) -> None:
        """Renew the candidate and answer pings until cancelled; then delete the candidate."""
        problem = ""
        try:
            while True:
                try:
                    await self._look()
                    problem = ""
                except ConflictError:
                    # The control plane has written a ping: the next read finds it.
                    pass
                except Exception as found:  # noqa: BLE001 - every failure is one look in vain
                    told = str(found) or type(found).__name__
                    if told != problem:
                        problem = told
                        log.warning("No candidate for the lease", reason=problem)
                await asyncio.sleep(self._period)
        finally:
            await self._withdraw()

    async def _look(self) -> None:
        found = await self._record.get(_REQUEST_SECONDS)
        spec = None if found is None else found.spec
        answered = answer(spec, self._lease_name, self._version, self._clock.wall())
        if answered is not None:
            await self._record.put(found, answered, _REQUEST_SECONDS)

    async def _withdraw(self) -> None:
        """Delete the candidate; log a failure: the next election then waits five seconds for it."""
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                await self._record.delete(_REQUEST_SECONDS)
        except (ApiError, TimeoutError) as problem:
            log.warning("Lease candidate not taken back", reason=str(problem))

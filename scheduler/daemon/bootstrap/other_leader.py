"""Warns if a deployed Stowage leads too and schedules the same pods.

A process started by hand has its own Lease, not that of the manifests.
"""

import asyncio
from datetime import UTC, datetime
from typing import Final

from scheduler.clock import Clock
from scheduler.config.types import LeaderElectionConfiguration
from scheduler.daemon.client.errors import ApiError
from scheduler.daemon.client.leases import Lease, LeaseLock
from scheduler.daemon.client.session import ApiSession
from scheduler.observability.logs import get_logger

DEPLOYED: Final = ("stowage", "stowage")
"""Namespace and name of the Lease of deploy/base."""
LOOK_SECONDS: Final = 60.0
_TIMEOUT_SECONDS: Final = 5.0

log = get_logger(__name__)


async def warn_of_another(
    session: ApiSession, own: LeaderElectionConfiguration, clock: Clock
) -> None:
    """Look for a leader of the deployed Stowage, and warn once per leader, until cancelled."""
    told = ""
    while True:
        holder = ""
        if (own.resource_namespace, own.resource_name) != DEPLOYED:
            holder = await _holder(LeaseLock(session, *DEPLOYED), clock.wall())
        if holder not in ("", told):
            log.warning(
                "Another Stowage leads by another Lease: both may place the same pods; end one, "
                "or give this one --leader-elect-resource-namespace=stowage to stand by",
                lease="/".join(DEPLOYED),
                holder=holder,
            )
            told = holder
        await asyncio.sleep(LOOK_SECONDS)


async def _holder(lock: LeaseLock, now: datetime) -> str:
    """Return the holder of the Lease; empty without a holder, or if the Lease cannot be read."""
    try:
        lease = await lock.get(_TIMEOUT_SECONDS)
    except ApiError:
        return ""
    return lease.spec.holder_identity if lease is not None and _is_held(lease, now) else ""


def _is_held(lease: Lease, now: datetime) -> bool:
    try:
        renewed = datetime.fromisoformat(lease.spec.renew_time or "")
    except ValueError:
        return False
    aware = renewed if renewed.tzinfo else renewed.replace(tzinfo=UTC)
    return (now - aware).total_seconds() < lease.spec.lease_duration_seconds

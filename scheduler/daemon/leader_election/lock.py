"""The lock of an election."""

from typing import Protocol

from scheduler.daemon.client.leases import Lease, LeaseSpec


class Lock(Protocol):
    """The Lease; `scheduler.daemon.client.leases.LeaseLock` is the real one."""

    name: str

    async def get(self, timeout: float) -> Lease | None:
        """Read the Lease; None if it does not exist."""
        ...

    async def create(self, spec: LeaseSpec, timeout: float) -> Lease:
        """Create the Lease; fails if it exists."""
        ...

    async def update(self, lease: Lease, spec: LeaseSpec, timeout: float) -> Lease:
        """Replace the Lease; fails if it has changed since `lease` was read."""
        ...

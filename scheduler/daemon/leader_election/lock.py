"""The interface of the Lease for an election."""

from typing import Protocol

from scheduler.daemon.client.leases import Lease, LeaseSpec


class Lock(Protocol):
    """The interface of `scheduler.daemon.client.leases.LeaseLock`."""

    name: str

    async def get(self, timeout: float) -> Lease | None:
        """Read the Lease; None if it does not exist."""
        ...

    async def create(self, spec: LeaseSpec, timeout: float) -> Lease:
        """Create the Lease; raise ConflictError if it exists."""
        ...

    async def update(self, lease: Lease, spec: LeaseSpec, timeout: float) -> Lease:
        """Replace the Lease; raise ConflictError if it has changed since `lease` was read."""
        ...

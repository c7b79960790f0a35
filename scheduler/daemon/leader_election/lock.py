"""What an election is fought over."""

from typing import Protocol

from scheduler.daemon.client.leases import Lease, LeaseSpec


class Lock(Protocol):
    """The Lease; `scheduler.daemon.client.leases.LeaseLock` is the real one."""

    name: str

    async def get(self, timeout: float) -> Lease | None:
        """The Lease as it is, or None."""
        ...

    async def create(self, spec: LeaseSpec, timeout: float) -> Lease:
        """Makes it; fails when it exists."""
        ...

    async def update(self, lease: Lease, spec: LeaseSpec, timeout: float) -> Lease:
        """Replaces it; fails when it is not as `lease` any more."""
        ...

"""Promise: a Lease is written whole, so that no field of it depends on what readers assume."""

import asyncio
from typing import Any

import msgspec

from scheduler.daemon.client.http_connection import Response
from scheduler.daemon.client.leases import Lease, LeaseLock, LeaseSpec


class Server:
    """Keeps the body of the last request, and gives it back."""

    body = b""

    async def request(self, _method: str, _path: str, body: bytes, **_: Any) -> Response:
        self.body = body
        return Response(200, {}, body)


def test_a_released_lease_names_an_empty_holder() -> None:
    """Without the field, an API server that chooses leaders crashes (1.36)."""
    server = Server()
    lease = Lease(msgspec.Raw(b'{"name":"l","resourceVersion":"7"}'), LeaseSpec("me", 15))
    given_up = LeaseSpec("", 1, strategy="OldestEmulationVersion")

    asyncio.run(LeaseLock(server, "ns", "l").update(lease, given_up, 1.0))

    spec = msgspec.json.decode(server.body)["spec"]
    assert spec["holderIdentity"] == ""
    assert (spec["leaseDurationSeconds"], spec["strategy"]) == (1, "OldestEmulationVersion")

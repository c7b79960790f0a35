"""What the end-to-end tests rely on while an API server is overloaded."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from apistub import Sandbox
from e2e.support import heartbeats
from e2e.support.api import Api, ApiRefusedError, Call
from e2e.support.heartbeats import Heartbeats
from tests.scenario.world import node_object


def test_a_watch_that_the_server_ends_continues(tmp_path: Path) -> None:
    """No event is missed, and none comes twice."""

    async def story() -> None:
        async with await Sandbox.start() as sandbox:
            sandbox.write_kubeconfig(tmp_path / "config")
            async with Api.connect(tmp_path / "config") as api:
                version = (await api.get("/api/v1/nodes?limit=1"))["metadata"]["resourceVersion"]
                seen = []
                async with asyncio.timeout(60):
                    sandbox.create(node_object("n0"))
                    async for kind, node in api.watch("/api/v1/nodes", version):
                        seen.append((kind, node["metadata"]["name"]))
                        if len(seen) == 3:
                            break
                        sandbox.faults.close_watches("nodes")
                        sandbox.create(node_object(f"n{len(seen)}"))
                assert seen == [("ADDED", f"n{index}") for index in range(3)]

    asyncio.run(story())


class RefusingApi:
    """Refuses the first renewals.

    Attributes:
        renewed: paths of the renewals that it accepted.
    """

    def __init__(self, refusals: int) -> None:
        self.renewed = asyncio.Queue[str]()
        self._refusals = refusals

    async def create_all(self, path: str, objects: Iterable[Any]) -> None:
        del path, objects

    async def call_all(self, calls: Iterable[Call]) -> None:
        if self._refusals:
            self._refusals -= 1
            raise ExceptionGroup("", [ApiRefusedError("PATCH", "lease", 500, b"")])
        for call in calls:
            self.renewed.put_nowait(call.path)


def test_heartbeats_go_on_after_one_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each node would be tainted for all later tests."""
    monkeypatch.setattr(heartbeats, "_RENEW_SECONDS", 0.01)

    async def story() -> None:
        api = RefusingApi(2)
        beats = Heartbeats(cast("Api", api))
        await beats.add(["roomy"])
        async with asyncio.timeout(60):
            assert (await api.renewed.get()).endswith("/roomy")

    asyncio.run(story())

"""What the end-to-end tests rely on while an API server is overloaded."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from apistub import Sandbox
from e2e.support import heartbeats, waiting
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


@pytest.mark.parametrize(("status", "verb"), [(500, "list"), (429, "watch")])
def test_what_the_server_asks_for_again_is_sent_again(
    tmp_path: Path, status: int, verb: str
) -> None:
    """Neither a request nor a watch fails."""

    async def story() -> None:
        async with await Sandbox.start() as sandbox:
            sandbox.write_kubeconfig(tmp_path / "config")
            async with Api.connect(tmp_path / "config") as api, asyncio.timeout(60):
                fault = sandbox.faults.answer(status, verb=verb, times=1, retry_after_seconds=1)
                version = (await api.get("/api/v1/nodes"))["metadata"]["resourceVersion"]
                sandbox.create(node_object("n0"))
                _, node = await anext(api.watch("/api/v1/nodes", version))
                assert (node["metadata"]["name"], fault.hits) == ("n0", 1)

    asyncio.run(story())


def test_a_condition_is_checked_once_more_after_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process may have been suspended while the condition became true."""
    now, checked = [0.0], [0]

    def condition() -> bool:
        checked[0] += 1
        now[0] += 3600
        return checked[0] == 2

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: None)
    monkeypatch.setattr(waiting, "time", clock)
    assert waiting.wait_for(condition, "the second check")

    with pytest.raises(waiting.WaitTimeoutError):
        waiting.wait_for(condition, "what never comes")


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

"""The API server as plugins have it."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from scheduler.daemon.driver.plugin_api import PluginApi
from scheduler.daemon.informers.kinds import RESOURCE_CLAIMS
from scheduler.errors import RequestError
from scheduler.kernel.engine.events import Event, ObjectRead

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "8"},
}


class FakeRequests:
    """Answers as it is told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        raise AssertionError("not asked")

    async def request(self, method: str, path: str, body: object = None) -> bytes:
        if isinstance(self.answer, bytes):
            return self.answer
        return msgspec.json.encode(self.answer)

    def turn(self, uid: str) -> AbstractAsyncContextManager[None]:
        raise AssertionError("not asked")

    async def until(self, holds: Any, listen: Any, seconds: float) -> bool:
        return bool(holds())


def ask(answer: Any) -> list[Event]:
    """What the engine hears when a request is answered so."""
    heard: list[Event] = []
    api = PluginApi(FakeRequests(answer), (RESOURCE_CLAIMS,), heard.append)
    assert asyncio.run(api.request("PATCH", "/x", {})) == answer
    return heard


@pytest.mark.parametrize("fails", [False, True], ids=["answered", "fails"])
@pytest.mark.parametrize("cancellations", [0, 1, 2])
def test_a_coroutine_runs_to_its_end_whatever_becomes_of_its_caller(
    cancellations: int, fails: bool
) -> None:
    """A cancellation takes effect afterwards; without one the caller has the result."""
    ended: list[str] = []

    async def write() -> str:
        await asyncio.sleep(0.01)
        ended.append("written")
        if fails:
            raise ValueError("refused")
        return "answer"

    async def story() -> Any:
        task = asyncio.create_task(PluginApi.run_to_end(write()))
        for _ in range(cancellations):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait([task])
        assert ended == ["written"]
        if task.cancelled():
            return "cancelled"
        return str(task.exception() or task.result())

    came = asyncio.run(story())

    assert came == ("cancelled" if cancellations else "refused" if fails else "answer")


def test_the_engine_hears_of_claims_with_the_answer() -> None:
    """Before the plugin goes on; the watch is still behind."""
    assert ask(CLAIM) == [ObjectRead("resourceclaims", RESOURCE_CLAIMS.convert(CLAIM))]


def test_other_answers_are_the_plugins_alone() -> None:
    """Other kinds, and what is no object."""
    assert ask({**CLAIM, "kind": "Pod"}) == []
    assert ask(None) == []
    assert ask([CLAIM]) == []


def test_a_claim_that_cannot_be_read_leaves_the_write_uncertain() -> None:
    """The API server may have carried it out; the engine hears nothing."""
    heard: list[Event] = []
    broken = {**CLAIM, "spec": {"devices": {"requests": "one"}}}
    api = PluginApi(FakeRequests(broken), (RESOURCE_CLAIMS,), heard.append)

    with pytest.raises(RequestError, match=r"PATCH /x: .*requests") as raised:
        asyncio.run(api.request("PATCH", "/x", {}))

    assert not raised.value.is_certain
    assert heard == []


@pytest.mark.parametrize(
    "raw", [b"<html>", b'{"a":"\xff"}', b"[" * 100_000], ids=["html", "utf-8", "deep"]
)
def test_bytes_that_are_no_json_leave_the_write_uncertain(raw: bytes) -> None:
    """A proxy may have answered."""
    api = PluginApi(FakeRequests(raw), (RESOURCE_CLAIMS,), lambda event: None)

    with pytest.raises(RequestError, match="PATCH /x: not JSON: ") as raised:
        asyncio.run(api.request("PATCH", "/x", {}))

    assert not raised.value.is_certain

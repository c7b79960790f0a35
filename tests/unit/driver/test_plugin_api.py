"""The API server as plugins have it."""

import asyncio
from typing import Any

from scheduler.daemon.driver.plugin_api import PluginApi
from scheduler.daemon.informers.kinds import RESOURCE_CLAIMS
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

    async def request(self, method: str, path: str, body: object = None) -> Any:
        return self.answer

    async def until(self, holds: Any, listen: Any, seconds: float) -> bool:
        return bool(holds())


def ask(answer: Any) -> list[Event]:
    """What the engine hears when a request is answered so."""
    heard: list[Event] = []
    api = PluginApi(FakeRequests(answer), (RESOURCE_CLAIMS,), heard.append)
    assert asyncio.run(api.request("PATCH", "/x", {})) == answer
    return heard


def test_the_engine_hears_of_claims_with_the_answer() -> None:
    """Before the plugin goes on; the watch is still behind."""
    assert ask(CLAIM) == [ObjectRead("resourceclaims", RESOURCE_CLAIMS.convert(CLAIM))]


def test_other_answers_are_the_plugins_alone() -> None:
    """Other kinds, and what is no object."""
    assert ask({**CLAIM, "kind": "Pod"}) == []
    assert ask(None) == []
    assert ask([CLAIM]) == []

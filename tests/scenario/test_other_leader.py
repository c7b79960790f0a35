"""A daemon that was started by hand says when the deployed one leads as well."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.clock import SystemClock
from scheduler.daemon.client.wire import micro_time
from tests.scenario.world import World, play

WARNING = "Another Stowage leads by another Lease"


def lease(renewed: str, holder: str = "stowage-1_abc") -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "stowage", "namespace": "stowage"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": renewed},
    }


def warnings(logs: Any) -> list[Any]:
    return [entry for entry in logs if entry["event"].startswith(WARNING)]


def test_the_deployed_one_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once per leader, with its name and what to do."""
    monkeypatch.setattr("scheduler.daemon.bootstrap.other_leader.LOOK_SECONDS", 0.01)

    async def story(world: World) -> None:
        namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "stowage"}}
        world.sandbox.create(namespace)
        world.sandbox.create(lease(micro_time(SystemClock().wall())))
        with capture_logs() as logs:
            await world.start_daemon()
            await world.until(lambda: warnings(logs), "a warning")
            await world.quiet()

        [told] = warnings(logs)
        assert (told["lease"], told["holder"]) == ("stowage/stowage", "stowage-1_abc")
        assert "--leader-elect-resource-namespace=stowage" in told["event"]

    play(story)


@pytest.mark.parametrize("renewed", ["2020-01-01T00:00:00.000000Z", "nonsense"])
def test_one_that_is_gone_is_nobody(monkeypatch: pytest.MonkeyPatch, renewed: str) -> None:
    """Its Lease stays behind."""
    monkeypatch.setattr("scheduler.daemon.bootstrap.other_leader.LOOK_SECONDS", 0.01)

    async def story(world: World) -> None:
        namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "stowage"}}
        world.sandbox.create(namespace)
        world.sandbox.create(lease(renewed))
        with capture_logs() as logs:
            await world.start_daemon()
            await world.quiet()

        assert warnings(logs) == []

    play(story)

"""A right of the ClusterRole is withdrawn, or admission refuses: the pod says so, and recovers."""

from collections.abc import Callable
from typing import Final

import pytest
from structlog.testing import capture_logs

from tests.scenario.test_devices import CONTROLLED, claim, device_class, named, resource_slice
from tests.scenario.test_extended_resources import GPU, extended
from tests.scenario.test_volumes import (
    claim as volume_claim,
    pod as pod_with_volume,
    storage_class,
    volume,
)
from tests.scenario.world import BINDINGS, World, play

STATUS: Final = "*/pods/p/status"
EXAMPLE: Final = "example.com/provisioner"
REFUSED: Final = "this user cannot do that"


def plain(world: World) -> None:
    world.node("a")
    world.pod("p")


def with_claim(world: World) -> None:
    world.node("a")
    world.sandbox.create(resource_slice("a", "gpu-0"), device_class(), claim())
    world.pod("p", resourceClaims=named())


def with_extended_resource(world: World) -> None:
    world.node("a")
    world.sandbox.create(resource_slice("a", "gpu-0"), device_class(extendedResourceName=GPU))
    extended(world)


def with_volume(world: World) -> None:
    world.node("a")
    world.sandbox.create(
        storage_class("kubernetes.io/no-provisioner"), volume_claim(), volume("v", "a")
    )
    pod_with_volume(world)


def with_provisioner(world: World) -> None:
    world.node("a")
    world.sandbox.create(storage_class(EXAMPLE), volume_claim())
    pod_with_volume(world)


@pytest.mark.parametrize(
    ("begin", "verb", "path"),
    [
        pytest.param(plain, "create", BINDINGS, id="create pods/binding"),
        pytest.param(with_claim, "patch", "*/resourceclaims/*/status", id="patch claims/status"),
        pytest.param(with_claim, "patch", "*/resourceclaims/shared", id="patch claims"),
        pytest.param(with_extended_resource, "create", "*/resourceclaims", id="create claims"),
        pytest.param(with_extended_resource, "patch", STATUS, id="patch pods/status"),
        pytest.param(with_volume, "patch", "*/persistentvolumes/v", id="patch volumes"),
        pytest.param(
            with_provisioner, "patch", "*/persistentvolumeclaims/data", id="patch volume claims"
        ),
    ],
)
def test_a_write_that_is_refused(begin: Callable[[World], None], verb: str, path: str) -> None:
    """The pod's event has the request and the reason; nothing stays taken; it is no loop."""

    async def story(world: World) -> None:
        refused = world.sandbox.faults.answer(
            403, verb=verb, path=path, message=REFUSED, times=None
        )
        begin(world)
        await world.start_daemon()
        queue = world.daemon.driver.engine.core.queue
        await world.until(lambda: refused.hits and queue.counts().backoff, "it to back off")

        assert world.is_settled()
        # The event's request, and that of the condition.
        assert refused.hits <= 2 * world.attempts("p")
        await world.until(lambda: world.events("p", "FailedScheduling"), "the event")
        note = world.events("p", "FailedScheduling")[0]["note"]
        assert f"403 Forbidden: {REFUSED}" in note
        assert f"{'POST' if verb == 'create' else 'PATCH'} /api" in note
        if path != STATUS:
            await world.rejected("p", reason="SchedulerError")
            assert note in str(world.condition("p"))

        world.sandbox.faults.clear()
        await world.until(lambda: not queue.counts().backoff, "another attempt")
        if begin in (with_volume, with_provisioner):
            # The binding of volumes is the controller's.
            await world.until(lambda: world.daemon.driver.in_flight, "the volumes to be asked for")
            await world.kill_daemon()
        else:
            assert await world.bound("p") == ["a"]
            await world.settled()

    play(story, CONTROLLED)


def test_events_that_are_refused() -> None:
    """As by a quota, or in a namespace that is ending: pods are bound, and one line says so."""

    async def story(world: World) -> None:
        world.node("a")
        refused = world.sandbox.faults.answer(
            403, verb="create", path="*/events", message=REFUSED, times=None
        )
        await world.start_daemon()
        names = [f"p{number}" for number in range(20)]
        with capture_logs() as logs:
            for name in names:
                world.pod(name)
            await world.bound(*names)
            await world.until(lambda: refused.hits == len(names), "all events to be refused")
            dropped = world.daemon.metrics.events_dropped["refused"]
            await world.until(lambda: dropped.value == len(names), "all of them to be counted")

        [told] = [entry for entry in logs if entry["event"] == "Event not sent"]
        assert REFUSED in told["err"]
        world.sandbox.faults.clear()
        world.pod("q")
        await world.until(lambda: world.events("q", "Scheduled"), "the event")

    play(story)

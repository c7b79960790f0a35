"""What is written of a pod group: where, under which name, and how often it is tried."""

import asyncio

import msgspec
import pytest

from scheduler.api.pod_group_apis import SCHEDULER_PLUGINS, V1BETA1, VOLCANO
from scheduler.api.pod_groups import V1ALPHA2
from scheduler.api.written import Condition
from scheduler.daemon.client.errors import (
    ApiError,
    ConflictError,
    FencedError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
)
from scheduler.daemon.client.status_tries import FIRST_PAUSE_SECONDS, LONGER, TRIES
from scheduler.kernel.engine.events import GroupStatusFailed
from scheduler.kernel.engine.instructions import PatchGroupStatus
from tests.unit.driver.fake_writes import settle
from tests.unit.driver.outbox_world import World, patch, play

SCHEDULED = Condition("PodGroupScheduled", "True", "Scheduled", "", has_moved=True)
PATIENCE_SECONDS = 10.0


def told(api_version: str = V1ALPHA2, condition: Condition = SCHEDULED) -> PatchGroupStatus:
    return PatchGroupStatus(api_version, "ml", "train", "uid of train", condition)


@pytest.mark.parametrize(
    ("api_version", "called"),
    [(V1ALPHA2, "PodGroupScheduled"), (V1BETA1, "PodGroupInitiallyScheduled")],
)
def test_each_api_has_its_own_name_for_the_condition(api_version: str, called: str) -> None:
    """It is written to the API that the group comes from."""

    async def story(world: World) -> None:
        world.outbox.patch_group(told(api_version))
        await settle()
        assert world.outbox.is_empty

    world = play(story)
    expected = msgspec.structs.replace(SCHEDULED, type=called)
    assert world.writes.bodies == [(api_version, "uid of train", world.clock.wall(), expected)]
    assert world.answers == []


@pytest.mark.parametrize("api_version", [SCHEDULER_PLUGINS, VOLCANO])
def test_nothing_is_written_to_a_foreign_group(api_version: str) -> None:
    """Its status is its own controller's."""

    async def story(world: World) -> None:
        world.outbox.patch_group(told(api_version))
        await settle()
        assert world.outbox.is_empty

    assert play(story).writes.sent == []


def _tries(*problems: Exception, is_told: bool = False) -> tuple[int, float]:
    """How often the condition is sent when these go wrong, and how long it takes.

    `is_told`: whether the engine hears at the end that it was not written.
    """
    took = 0.0

    async def story(world: World) -> None:
        nonlocal took
        now = asyncio.get_running_loop().time
        start = now()
        world.writes.fail("group", *problems)
        world.outbox.patch_group(told())
        await world.outbox.drain(PATIENCE_SECONDS)
        took = now() - start
        assert world.outbox.is_empty

    world = play(story)
    assert world.answers == [GroupStatusFailed("ml", "train", "uid of train")] * is_told
    return len(world.writes.sent), took


@pytest.mark.parametrize("kind", [UnavailableError, ConflictError])
def test_what_may_succeed_later_is_tried_again(kind: type[ApiError]) -> None:
    """A group that was scheduled is not tried again: nothing would say it a second time."""
    pauses = [FIRST_PAUSE_SECONDS * LONGER**n for n in range(TRIES - 1)]

    assert _tries(kind("PATCH")) == (2, pytest.approx(pauses[0]))
    all_fail = [kind("PATCH")] * TRIES
    assert _tries(*all_fail, is_told=True) == (TRIES, pytest.approx(sum(pauses)))


@pytest.mark.parametrize(
    "problem",
    [NotFoundError("PATCH", status=404), ForbiddenError("PATCH", status=403), FencedError("no")],
    ids=["gone", "no right", "fenced"],
)
def test_what_fails_for_good_is_tried_once(problem: Exception) -> None:
    is_told = not isinstance(problem, NotFoundError)
    assert _tries(problem, is_told=is_told) == (1, 0.0)


def test_of_several_conditions_that_wait_the_newest_is_sent() -> None:
    """One is under way at a time, and pods' own statuses are beside."""
    waits = Condition("PodGroupScheduled", "False", "Unschedulable", "why")

    async def story(world: World) -> None:
        world.writes.held = {"group"}
        for condition in (waits, waits, SCHEDULED):
            world.outbox.patch_group(told(condition=condition))
            await settle()
        world.outbox.patch(patch("p"))
        await settle()
        assert world.writes.hanging("group") == 1
        world.writes.release("group")
        await settle()
        world.writes.release("group")
        await settle()
        assert world.outbox.is_empty

    world = play(story)
    assert world.writes.sent == [("group", "train"), ("patch", "p"), ("group", "train")]
    assert [body[-1] for body in world.writes.bodies if body[0] == V1ALPHA2] == [waits, SCHEDULED]

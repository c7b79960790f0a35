"""Events: how they are counted, sent, tried again and dropped."""

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from scheduler.daemon.client.errors import (
    ConflictError,
    ForbiddenError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from scheduler.daemon.driver.event_broadcaster import FEW_EVENTS
from scheduler.daemon.driver.lanes import CONCURRENCY
from tests.unit.driver.fake_writes import settle
from tests.unit.driver.outbox_world import (
    World,
    bind,
    patch,
    play,
    tell,
)


def test_an_event_says_who_speaks_and_when() -> None:
    """Controller, host and moment; two of one moment have two names."""

    async def story(world: World) -> None:
        world.outbox.record_event(tell("p"))
        world.outbox.record_event(tell("p"))
        await settle()

    world = play(story)
    first, second = (occurrence.event for occurrence in world.writes.bodies)
    assert first.reporting_instance == "stowage-host"
    assert first.event_time == world.clock.wall()
    assert first.name != second.name


def test_repetitions_are_counted_in_one_object() -> None:
    """Two requests, however often; what happens once is not remembered."""

    async def story(world: World) -> None:
        for _ in range(5):
            world.outbox.record_event(tell("p", once=False))
            await settle()

    assert [occurrence.count for occurrence in play(story).writes.bodies] == [1, 2]


def test_the_count_of_a_series_that_ended_is_sent() -> None:
    """By the sweep that runs every minute."""

    async def story(world: World) -> None:
        for _ in range(5):
            world.outbox.record_event(tell("p", once=False))
        world.clock.advance(timedelta(minutes=7).total_seconds())
        world.outbox.events.sweep()
        await settle()

    assert [occurrence.count for occurrence in play(story).writes.bodies] == [1, 2, 5]


@pytest.mark.parametrize(
    "problem",
    [UnavailableError("POST"), TooManyRequestsError("POST"), UnauthorizedError("POST")],
    ids=["no answer", "too many", "unknown"],
)
def test_an_outage_delays_events_and_does_not_lose_them(problem: Exception) -> None:
    """Each is tried again, and was owed all the time."""

    async def story(world: World) -> None:
        world.writes.fail("event", problem, problem, problem)
        world.outbox.record_event(tell("p"))
        await settle()

    world = play(story, retry_seconds=0.0)
    assert len(world.writes.names("event")) == 4
    assert world.queues.retries["events"].value == 3
    assert world.outbox.events.owed == 0
    assert world.dropped == []


def test_an_event_that_waits_to_be_tried_again_holds_no_worker() -> None:
    """It is owed, and that is all."""

    async def story(world: World) -> None:
        problem = UnavailableError("POST", status=503)
        world.writes.fail("event", *[problem] * (2 * CONCURRENCY))
        for number in range(2 * CONCURRENCY):
            world.outbox.record_event(tell(f"p{number}"))
        await settle()
        assert world.outbox.events.owed == 2 * CONCURRENCY
        assert not world.outbox.is_empty

        world.outbox.record_event(tell("e"))
        world.outbox.patch(patch("p"))
        world.outbox.bind(bind("b"))
        await settle()
        assert world.outbox.events.owed == 2 * CONCURRENCY

    world = play(story, retry_seconds=1e6)
    assert {("patch", "p"), ("bind", "b"), ("event", "e")} <= set(world.writes.sent)


def test_while_nobody_answers_events_are_not_tried_one_after_the_other() -> None:
    """Those under way learn it; the others are sent when it has been quiet for a while."""

    async def story(world: World) -> None:
        world.writes.fail("event", *[UnavailableError("POST")] * FEW_EVENTS)
        for number in range(4 * FEW_EVENTS):
            world.outbox.record_event(tell(f"p{number}"))
        world.outbox.bind(bind("b"))
        await settle()
        tried = world.writes.names("event")
        assert 0 < len(tried) <= FEW_EVENTS
        await asyncio.sleep(1.1)  # the quiet while, and no event's own pause
        await settle()
        assert len(world.writes.names("event")) > len(tried)
        assert world.writes.names("bind") == ["b"]
        assert world.outbox.events.owed < 4 * FEW_EVENTS

    play(story)


@pytest.mark.parametrize(
    ("problem", "tries", "dropped"),
    [
        pytest.param(ForbiddenError("POST"), 1, ["refused"], id="forbidden"),
        pytest.param(ConflictError("POST"), 1, [], id="there already"),
        pytest.param(UnavailableError("POST"), 12, ["unreachable"], id="broken for long"),
    ],
)
def test_what_cannot_be_sent_is_dropped_and_counted(
    problem: Exception, tries: int, dropped: list[str]
) -> None:
    """And is owed no more."""

    async def story(world: World) -> None:
        world.writes.fail("event", *[problem] * 20)
        world.outbox.record_event(tell("p"))
        await settle()
        await settle()
        assert world.outbox.is_empty

    world = play(story, retry_seconds=0.0)
    assert len(world.writes.names("event")) == tries
    assert world.dropped == dropped


def test_events_that_are_refused_are_told_of_once_a_minute() -> None:
    """With the reason, and how many others there were; each is counted."""

    async def story(world: World) -> None:
        world.writes.fail("event", *[ForbiddenError("POST", message="no such right")] * 4)
        for name in "abc":
            world.outbox.record_event(tell(name))
        await settle()
        world.clock.advance(61)
        world.outbox.record_event(tell("d"))
        await settle()

    with capture_logs() as logs:
        world = play(story)

    assert world.dropped == ["refused"] * 4
    told = [(each["event"], each["reason"], each["others"]) for each in logs]
    assert told == [("Event not sent", "refused", 0), ("Event not sent", "refused", 2)]
    assert "no such right" in logs[0]["err"]

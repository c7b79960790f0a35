"""Lanes: what goes first, what leaves room for what, and what is owed at most."""

import asyncio
from contextlib import suppress
from time import process_time

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from scheduler.daemon.client.errors import (
    ApiError,
    UnavailableError,
)
from scheduler.daemon.client.http_connection import Response
from scheduler.daemon.client.writes import PodWrites
from scheduler.daemon.driver.event_broadcaster import FEW_EVENTS
from scheduler.daemon.driver.lanes import AHEAD, CONCURRENCY, FOR_BINDS, MAX_OWED, PATCH, Lane
from scheduler.kernel.engine.events import (
    Bound,
    Evicted,
)
from scheduler.kernel.engine.instructions import ReadPod
from scheduler.observability.instruments import Instruments
from scheduler.observability.work_queues import WorkQueueMetrics
from tests.support.clock import FakeClock
from tests.support.growth import growth
from tests.unit.driver.fake_writes import settle
from tests.unit.driver.outbox_world import (
    SlowWrites,
    World,
    bind,
    evict,
    patch,
    play,
    press,
    tell,
)


def test_binds_go_first_then_reads_then_status_then_events() -> None:
    """Whatever came first."""

    async def story(world: World) -> None:
        world.outbox.record_event(tell("event"))
        world.outbox.patch(patch("patch"))
        world.outbox.read(ReadPod(7, "ns", "read", "read"))
        world.outbox.bind(bind("bind"))
        await settle()

    assert [verb for verb, _ in play(story).writes.sent] == ["bind", "read", "patch", "event"]


def test_requests_at_a_time_are_bounded() -> None:
    """Binds beyond that wait for their turn, and all get it."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        for number in range(CONCURRENCY + 50):
            world.outbox.bind(bind(f"p{number}", number))
        await settle()
        assert world.writes.hanging("bind") == CONCURRENCY
        world.writes.held = set()
        world.writes.release("bind")
        await settle()

    world = play(story, max_owed=0)
    assert world.writes.most == CONCURRENCY
    assert world.answers == [Bound(number) for number in range(CONCURRENCY + 50)]


def test_status_and_events_that_hang_leave_room_for_binds() -> None:
    """As many requests as were promised are free for binds and reads."""

    async def story(world: World) -> None:
        world.writes.held = {"patch", "event", "bind"}
        for number in range(MAX_OWED // 2):
            world.outbox.patch(patch(f"p{number}"))
            world.outbox.record_event(tell(f"p{number}"))
        await settle()
        hanging = world.writes.hanging("patch") + world.writes.hanging("event")
        assert hanging == CONCURRENCY - CONCURRENCY // FOR_BINDS

        for number in range(CONCURRENCY // FOR_BINDS):
            world.outbox.bind(bind(f"b{number}", number))
        await settle()
        assert world.writes.hanging("bind") == CONCURRENCY // FOR_BINDS

        world.writes.release("bind")
        await settle()
        world.outbox.read(ReadPod(1, "ns", "read", "read"))
        await settle()
        assert world.writes.names("read") == ["read"]

    play(story)


# --- what is owed --------------------------------------------------------------------------------


def test_no_more_events_are_owed_than_allowed_while_none_gets_through() -> None:
    """Binds leave only while there is room for their events."""

    async def story(world: World) -> None:
        world.tells = True
        world.writes.held = {"event"}
        for number in range(3 * MAX_OWED):
            world.outbox.bind(bind(f"p{number}", number))
        await settle()
        assert world.outbox.events.owed == MAX_OWED
        assert len(world.writes.names("bind")) == MAX_OWED
        assert world.outbox.room <= 0

        world.writes.held = set()
        world.writes.release("event")
        await settle()
        await settle()
        assert world.outbox.is_empty

    world = play(story)
    assert len(world.answers) == len(world.writes.names("event")) == 3 * MAX_OWED
    assert world.most_owed == MAX_OWED
    assert world.dropped == []


def test_binds_go_on_where_no_event_is_taken_for_long() -> None:
    """As when the etcd of events is full: events are given up sooner while binds wait for room."""

    async def story(world: World) -> None:
        world.tells = True
        full = UnavailableError("POST", status=500)
        world.writes.fail("event", *[full] * (100 * MAX_OWED))
        for number in range(2 * MAX_OWED):
            world.outbox.bind(bind(f"p{number}", number))
        await asyncio.sleep(9.0)
        assert world.dropped == []
        await asyncio.sleep(51.0)
        assert len(world.writes.names("bind")) == 2 * MAX_OWED

    world = play(story)
    assert set(world.dropped) == {"unreachable"}


class SilentAboutEvents:
    """A session with a server that takes binds, and never answers a request of an event."""

    async def request(
        self, _method: str, path: str, _body: bytes, *, timeout: float, **_: object
    ) -> Response:
        if "/events" in path:
            await asyncio.sleep(timeout)
            raise UnavailableError("POST", message="no answer in time")
        await asyncio.sleep(0.01)
        return Response(201, {}, b"{}")


def test_binds_go_on_where_requests_of_events_hang_for_ever() -> None:
    """Some hundred a minute, from the first on: an event waits five seconds for its answer."""
    bound: list[int] = []

    async def story(world: World) -> None:
        world.tells = True
        number = 0
        for _ in range(4):
            before = len(world.answers)
            for _ in range(600):
                while world.outbox.room > 0:
                    number += 1
                    world.outbox.bind(bind(f"p{number}", number))
                await asyncio.sleep(0.1)
            bound.append(len(world.answers) - before)

    world = play(story, writes=PodWrites(SilentAboutEvents()), clock=FakeClock())
    assert min(bound) > 100
    assert sum(bound) > 1_000
    assert world.most_owed == MAX_OWED
    assert set(world.dropped) == {"unreachable"}


def test_the_more_events_are_owed_the_more_are_under_way() -> None:
    """A few while few are owed; the share of requests is that of what may be owed."""

    async def story(world: World) -> None:
        world.writes.held = {"event"}
        for number in range(MAX_OWED // 2):
            world.outbox.record_event(tell(f"p{number}"))
            if number == FEW_EVENTS:
                await settle()
                assert world.writes.hanging("event") == FEW_EVENTS
        await settle()
        assert world.writes.hanging("event") == CONCURRENCY // 2

        world.writes.held = set()
        world.writes.release("event")
        await settle()
        assert world.outbox.is_empty

    play(story)


def test_evictions_leave_only_while_there_is_room_for_their_events() -> None:
    """Together with binds; status goes on, and so do decisions while evictions only wait."""

    async def story(world: World) -> None:
        world.tells = True
        world.writes.held = {"evict", "event"}
        for number in range(3 * MAX_OWED):
            world.outbox.evict(evict(f"v{number}"))
        await settle()
        under_way = world.writes.hanging("evict")
        assert world.outbox.room > 0
        for number in range(2 * MAX_OWED):
            world.outbox.record_event(tell(f"q{number}", once=False))
        assert world.outbox.events.owed == MAX_OWED - under_way
        assert world.outbox.room <= 0

        world.writes.held = {"event"}
        world.writes.release("evict")
        world.outbox.bind(bind("b"))
        world.outbox.patch(patch("s"))
        await settle()
        assert len(world.answers) == under_way
        assert world.outbox.events.owed == MAX_OWED
        assert world.writes.names("patch") == ["s"]

        world.writes.held = set()
        world.writes.release("event")
        await settle()
        await settle()
        assert world.outbox.is_empty

    world = play(story)
    assert len(world.answers) == 3 * MAX_OWED + 1
    assert world.most_owed == MAX_OWED


def test_a_burst_of_other_events_leaves_the_room_of_binds_under_way() -> None:
    """A bind that has left will owe its event: others cannot take that place."""

    async def story(world: World) -> None:
        world.tells = True
        world.writes.held = {"event", "bind"}
        for number in range(CONCURRENCY):
            world.outbox.bind(bind(f"p{number}", number))
        await settle()
        for number in range(2 * MAX_OWED):
            world.outbox.record_event(tell(f"q{number}", once=False))
        assert world.outbox.events.owed == MAX_OWED - CONCURRENCY
        world.writes.release("bind")
        await settle()
        assert world.outbox.events.owed == MAX_OWED

    world = play(story)
    assert world.most_owed == MAX_OWED
    assert world.dropped == ["queue_full"] * (MAX_OWED + CONCURRENCY)


def test_binds_by_plugins_owe_events_too() -> None:
    """They need no worker, but leave only while there is room for their events."""

    async def story(world: World) -> None:
        world.tells = True
        world.writes.held = {"plugins", "event"}
        for number in range(2 * MAX_OWED):
            world.outbox.bind(bind(f"p{number}", number, by_plugins=True))
        await settle()
        assert world.writes.hanging("plugins") == MAX_OWED
        world.writes.held = {"event"}
        world.writes.release("plugins")
        await settle()

    world = play(story)
    assert world.most_owed == len(world.answers) == MAX_OWED
    assert world.writes.names("bind") == []


def test_plugins_that_take_long_to_bind_keep_no_other_write_waiting() -> None:
    """They may take ten minutes, and wait for a service that is no concern of others."""

    async def story(world: World) -> None:
        world.writes.held = {"plugins"}
        for number in range(CONCURRENCY):
            world.outbox.bind(bind(f"p{number}", number, by_plugins=True))
        await settle()
        world.outbox.bind(bind("q", CONCURRENCY))
        world.outbox.evict(evict("r"))
        await settle()

    assert play(story).answers == [Bound(CONCURRENCY), Evicted("uid of r")]


def test_there_is_room_again_after_a_backlog_of_binds() -> None:
    """Whoever decides is told so after each request."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        for number in range(CONCURRENCY * (AHEAD + 1)):
            assert world.outbox.room > 0
            world.outbox.bind(bind(f"p{number}", number))
            await asyncio.sleep(0)
        assert world.outbox.room <= 0
        before = world.on_sent
        world.writes.release("bind", 1)
        await settle()
        assert world.on_sent == before + 1
        assert world.outbox.room > 0

    play(story)


def test_without_a_bound_only_the_backlog_counts() -> None:
    """For benchmarks that leave events out."""

    async def story(world: World) -> None:
        world.writes.held = {"event"}
        for number in range(2 * MAX_OWED):
            world.outbox.record_event(tell(f"q{number}", once=False))
        assert world.outbox.room > 0

    assert play(story, max_owed=0).dropped == []


def test_events_without_a_bound_wait_for_all_binds() -> None:
    """Then all of them leave: what binds alone would reach can be measured."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        world.outbox.bind(bind("p0", 0))
        for number in range(4 * CONCURRENCY):
            world.outbox.record_event(tell(f"q{number}", once=False))
        await settle()
        assert world.writes.hanging("event") == 0
        world.writes.held = {"event"}
        world.writes.release("bind")
        await settle()
        assert world.writes.hanging("event") == CONCURRENCY - CONCURRENCY // FOR_BINDS

    play(story, max_owed=0)


# --- busy servers --------------------------------------------------------------------------------


FEW = 4
"""Requests at a time: binds, events and other changes have one each."""


@pytest.mark.parametrize(
    "seats", [pytest.param(64, id="for many at a time"), pytest.param(8, id="for few at a time")]
)
def test_binds_and_events_get_the_same_of_a_busy_server(seats: int) -> None:
    """All that it can take, and no more is owed than allowed."""
    seconds, most = 20.0, seats / 0.05

    world = press(SlowWrites(seats, 0.05), seconds)

    binds, events = len(world.answers), len(world.writes.names("event"))
    assert binds + events > 0.8 * most * seconds
    assert events >= binds - MAX_OWED
    assert world.most_owed <= MAX_OWED


def test_with_few_at_a_time_nobody_keeps_all_places() -> None:
    """Status that hangs leaves a place for binds and one for events."""
    writes = SlowWrites(8, 0.01)

    def hang(world: World) -> None:
        world.writes.held = {"patch"}
        for number in range(40):
            world.outbox.patch(patch(f"q{number}"))

    world = press(writes, 10.0, hang, concurrency=FEW)

    assert writes.hanging("patch") == FEW - 2
    assert len(world.answers) > 800
    assert len(writes.names("event")) >= len(world.answers) - MAX_OWED
    assert world.most_owed <= MAX_OWED


# --- one lane ---------------------------------------------------------------------------------


def lane() -> Lane[str]:
    return Lane(PATCH, WorkQueueMetrics(Instruments()), FakeClock().monotonic, lambda: None)


def test_what_replaces_a_write_that_waits_keeps_its_turn() -> None:
    """And counts as one; what is under way is not replaced."""
    patches = lane()
    for key, write in (("p", "first"), ("q", "other"), ("p", "second")):
        patches.put(key, write)

    taken = patches.take()

    assert taken is not None
    assert (taken.key, taken.write, len(patches.waiting)) == ("p", "second", 1)
    patches.put("p", "third")
    assert patches.get("p") == "third"


def test_a_write_waits_for_the_one_about_the_same_and_for_keys_that_are_busy() -> None:
    """Others pass it."""
    patches = lane()
    for key in ("p", "q", "r"):
        patches.put(key, key)
    first = patches.take()
    assert first is not None
    patches.put("p", "again")

    second = patches.take(busy={"q"})

    assert second is not None
    assert second.key == "r"
    assert patches.take(busy={"q"}) is None
    asyncio.run(patches.work(first, asyncio.sleep(0)))
    again = patches.take(busy={"q"})
    assert again is not None
    assert again.write == "again"


@pytest.mark.parametrize("fails", [False, True], ids=["done", "failed"])
def test_a_write_is_owed_until_it_is_done(*, fails: bool) -> None:
    """Whatever comes of it."""

    async def send() -> None:
        if fails:
            raise ApiError("no")

    patches = lane()
    patches.put("p", "")
    taken = patches.take()
    assert taken is not None
    assert patches.owed == 1

    with suppress(ApiError):
        asyncio.run(patches.work(taken, send()))

    assert patches.owed == 0


def test_the_first_of_very_many_is_taken_at_once() -> None:
    """However many were taken before: the time for each does not grow with their number."""

    def seconds(count: int) -> float:
        patches = lane()
        for key in range(count):
            patches.put(key, "")
        start = process_time()
        while patches.take() is not None:
            pass
        return (process_time() - start) / count

    assert growth(seconds, 1_000, 20_000) < 5


def test_a_write_waits_is_worked_on_and_done() -> None:
    """Metrics say so as client-go's do. Gauges are asked for at each scrape: what hangs shows."""
    registry, clock = CollectorRegistry(), FakeClock()
    lane = Lane[str](PATCH, WorkQueueMetrics(Instruments(registry)), clock.monotonic, lambda: None)

    def shown(*names: str) -> dict[str, float]:
        samples = generate_latest(registry).decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in samples if not line.startswith("#"))
        return {name: float(values[f'workqueue_{name}{{name="patches"}}']) for name in names}

    async def story() -> None:
        for key in ("a", "b", "c"):
            lane.put(key, key)
        first, second = lane.take(), lane.take()
        assert first is not None
        assert second is not None
        clock.advance(2)
        done = asyncio.Event()
        working = [asyncio.create_task(lane.work(first, done.wait()))]
        await asyncio.sleep(0)
        clock.advance(3)
        working.append(asyncio.create_task(lane.work(second, done.wait())))
        await asyncio.sleep(0)
        clock.advance(1)
        assert shown("depth", "unfinished_work_seconds", "longest_running_processor_seconds") == {
            "depth": 1,
            "unfinished_work_seconds": 5,
            "longest_running_processor_seconds": 4,
        }
        done.set()
        await asyncio.gather(*working)

    asyncio.run(story())
    lane.put_again("a", "a")

    names = "adds_total", "retries_total", "queue_duration_seconds_sum", "work_duration_seconds_sum"
    assert list(shown(*names).values()) == [4, 1, 7, 5]
    idle = shown("unfinished_work_seconds", "longest_running_processor_seconds")
    assert set(idle.values()) == {0}


def test_a_write_that_fails_is_done_as_well() -> None:
    """Its time counts, and it hangs no longer."""
    metrics, clock = WorkQueueMetrics(Instruments()), FakeClock()
    lane = Lane[str](PATCH, metrics, clock.monotonic, lambda: None)
    lane.put("a", "a")
    taken = lane.take()
    assert taken is not None

    async def fail() -> None:
        clock.advance(1)
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        asyncio.run(lane.work(taken, fail()))

    assert (metrics.worked["patches"].sum, lane.owed) == (1, 0)

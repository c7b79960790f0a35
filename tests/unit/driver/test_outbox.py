"""The outbox: what goes first, what waits for what, and what is owed at most."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from datetime import timedelta
from math import inf
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from scheduler.api.written import Condition, ObjectReference
from scheduler.daemon.client.errors import (
    ApiError,
    ConflictError,
    FencedError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from scheduler.daemon.driver.concurrency import FEWEST, MOST, ConcurrencyLimit
from scheduler.daemon.driver.outbox import (
    AHEAD,
    BUSY_SECONDS,
    FEW_EVENTS,
    FOR_BINDS,
    FOR_EVENTS,
    MANY,
    MAX_OWED,
    Outbox,
    OutboxSettings,
)
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Event,
    Evicted,
    EvictFailed,
    PodRead,
    ReadFailed,
)
from scheduler.kernel.engine.instructions import Bind, Evict, PatchStatus, ReadPod, Tell
from scheduler.observability.instruments import Instruments
from scheduler.observability.work_queues import WorkQueueMetrics
from tests.support.clock import FakeClock
from tests.support.shares import unseen_shares
from tests.support.virtual_time import run_in
from tests.unit.driver.fake_writes import FakeWrites, settle

POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
    "spec": {"containers": [], "nodeName": "n"},
}


WHY = Condition("DisruptionTarget", "True", "PreemptionByScheduler", "for another")


def bind(name: str, attempt: int = 1, *, by_plugins: bool = False) -> Bind:
    return Bind(attempt, "ns", name, name, "n", by_plugins)


def patch(name: str, message: str = "") -> PatchStatus:
    return PatchStatus("ns", name, name, Condition("PodScheduled", "False", "R", message))


def evict(name: str) -> Evict:
    return Evict("preemptor", "ns", name, f"uid of {name}", WHY)


def tell(name: str, *, once: bool = True) -> Tell:
    about = ObjectReference("Pod", name, "ns", name)
    return Tell(about, "Scheduled", "Binding", "there", "stowage", is_repeatable=not once)


class World:
    """An outbox between a fake engine and a fake API server.

    Attributes:
        answers: what the engine was told.
        dropped: why events were lost.
        tells: whether the engine tells of each pod bound or evicted, as the real one does.
        most_owed: the most events that were ever owed.
    """

    def __init__(
        self, writes: FakeWrites | None = None, clock: FakeClock | None = None, **settings: Any
    ) -> None:
        self.writes = writes or FakeWrites()
        self.clock = clock or FakeClock()
        self.answers: list[Event] = []
        self.dropped: list[str] = []
        self.queues = WorkQueueMetrics(Instruments())
        self.tells = False
        self.most_owed = 0
        self.on_sent = 0
        self.outbox = Outbox(
            self.writes,  # type: ignore[arg-type] # a fake of all that is asked of it
            self.clock,
            OutboxSettings("host", **settings),
            answer=self._answer,
            ask_others=self._ask_plugins,
            queues=self.queues,
            shares=unseen_shares(),
            on_sent=self._sent,
            on_dropped=self.dropped.append,
        )

    def _answer(self, event: Event) -> None:
        self.answers.append(event)
        if self.tells and isinstance(event, Bound):
            self.outbox.tell(tell(f"e{event.attempt}"))
        if self.tells and isinstance(event, Evicted) and event.was_there:
            self.outbox.tell(tell(f"of {event.uid}"))
        self._look()

    def _sent(self) -> None:
        self.on_sent += 1
        self._look()

    def _look(self) -> None:
        self.most_owed = max(self.most_owed, self.outbox.events_owed)

    async def _ask_plugins(self, asked: Bind) -> Event:
        try:
            await self.writes._send("plugins", asked.name)
        except ApiError as problem:
            return BindFailed(asked.attempt, str(problem))
        return Bound(asked.attempt)


def play(story: Callable[[World], Awaitable[None]], **settings: Any) -> World:
    """Run a story with an outbox that sends; waiting takes no time."""

    async def run() -> World:
        world = World(**settings)
        sending = asyncio.create_task(world.outbox.run())
        await settle()
        try:
            await story(world)
            if sending.done():
                await sending
                raise AssertionError("the outbox has ended")
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        return world

    return run_in(FakeClock(), run())


def test_what_extenders_bind_ends_with_the_outbox() -> None:
    """Nobody is left who would hear the answer."""

    async def story() -> bool:
        world = World()
        world.writes.held = {"plugins"}
        sending = asyncio.create_task(world.outbox.run())
        await settle()
        world.outbox.bind(msgspec.structs.replace(bind("p"), extender=0))
        await settle()
        [(_, _, answer)] = world.writes._waiting
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return answer.cancelled()

    assert asyncio.run(story())


# --- order ------------------------------------------------------------------------------------


def test_binds_go_first_then_reads_then_status_then_events() -> None:
    """Whatever came first."""

    async def story(world: World) -> None:
        world.outbox.tell(tell("event"))
        world.outbox.patch(patch("patch"))
        world.outbox.read(ReadPod(7, "ns", "read", "read"))
        world.outbox.bind(bind("bind"))
        await settle()

    assert [verb for verb, _ in play(story).writes.sent] == ["bind", "read", "patch", "event"]


def test_requests_at_a_time_are_bounded() -> None:
    """Binds beyond that wait for their turn, and all get it."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        for number in range(MOST + 50):
            world.outbox.bind(bind(f"p{number}", number))
        await settle()
        assert world.writes.hanging("bind") == MOST
        world.writes.held = set()
        world.writes.release("bind")
        await settle()

    world = play(story, max_owed=0)
    assert world.writes.most == MOST
    assert world.answers == [Bound(number) for number in range(MOST + 50)]


def test_status_and_events_that_hang_leave_room_for_binds() -> None:
    """As many requests as were promised are free for binds and reads."""

    async def story(world: World) -> None:
        world.writes.held = {"patch", "event", "bind"}
        for number in range(MAX_OWED // 2):
            world.outbox.patch(patch(f"p{number}"))
            world.outbox.tell(tell(f"p{number}"))
        await settle()
        hanging = world.writes.hanging("patch") + world.writes.hanging("event")
        assert hanging == MOST - MOST // FOR_BINDS

        for number in range(MOST // FOR_BINDS):
            world.outbox.bind(bind(f"b{number}", number))
        await settle()
        assert world.writes.hanging("bind") == MOST // FOR_BINDS

        world.writes.release("bind")
        await settle()
        world.outbox.read(ReadPod(1, "ns", "read", "read"))
        await settle()
        assert world.writes.names("read") == ["read"]

    play(story)


# --- one pod ----------------------------------------------------------------------------------


def test_a_bind_waits_for_the_status_of_the_same_pod() -> None:
    """No status arrives after the bind was sent; other pods do not wait."""

    async def story(world: World) -> None:
        world.writes.held = {"patch"}
        world.outbox.patch(patch("p"))
        await settle()
        world.outbox.bind(bind("p", 1))
        world.outbox.bind(bind("q", 2))
        await settle()
        assert world.writes.names("bind") == ["q"]
        assert world.outbox.binds_owed == 1

        world.writes.release("patch")
        await settle()
        assert world.writes.names("bind") == ["q", "p"]

    assert play(story).answers == [Bound(2), Bound(1)]


def test_a_status_that_waits_is_dropped_when_the_bind_comes() -> None:
    """It speaks of an earlier failure."""

    async def story(world: World) -> None:
        world.outbox.patch(patch("p"))
        world.outbox.bind(bind("p"))
        await settle()

    assert play(story).writes.sent == [("bind", "p")]


def test_of_several_changes_that_wait_only_the_newest_is_sent() -> None:
    """And never two at a time about one pod."""

    async def story(world: World) -> None:
        world.writes.held = {"patch"}
        for message in ("first", "second", "third"):
            world.outbox.patch(patch("p", message))
            await settle()
        assert world.writes.hanging("patch") == 1
        world.writes.release("patch")
        await settle()
        world.writes.release("patch")
        await settle()

    world = play(story)
    assert [condition.message for _, condition, _ in world.writes.bodies] == ["first", "third"]


def test_what_the_newest_change_leaves_alone_is_sent_with_it() -> None:
    """A nomination that is withdrawn keeps the condition that waits; the other way round too."""

    async def story(world: World) -> None:
        world.writes.held = {"patch"}
        for name in ("p", "q"):
            world.outbox.patch(patch(name, "first"))
        await settle()
        world.outbox.patch(patch("p", "why"))
        world.outbox.patch(PatchStatus("ns", "p", "p", nominated_node_name=""))
        world.outbox.patch(PatchStatus("ns", "q", "q", nominated_node_name="n"))
        world.outbox.patch(patch("q", "why"))
        world.writes.release("patch")
        await settle()

    world = play(story)
    sent = [(condition.message, node) for _, condition, node in world.writes.bodies]
    assert sent == [("first", None), ("first", None), ("why", ""), ("why", "n")]


# --- evictions --------------------------------------------------------------------------------


def test_an_eviction_is_answered() -> None:
    """With the victim, with whether it was there, or with why not; the fence is one reason."""

    async def story(world: World) -> None:
        world.writes.absent = {"absent"}
        problems = (None, None, ForbiddenError("no"), FencedError("not the leader"))
        world.writes.fail("evict", *problems)
        for name in ("p", "absent", "forbidden", "fenced"):
            world.outbox.evict(evict(name))
        assert not world.outbox.is_empty
        await settle()
        assert world.outbox.is_empty

    world = play(story)
    assert world.writes.bodies[0] == (
        "uid of p",
        world.clock.wall(),
        WHY,
    )
    assert world.answers == [
        Evicted("uid of p"),
        Evicted("uid of absent", was_there=False),
        EvictFailed("uid of forbidden", "no"),
        EvictFailed("uid of fenced", "not the leader"),
    ]


def test_evictions_that_hang_leave_room_for_binds_and_events() -> None:
    """However many binds come: each has its event sent, and none is owed. Status waits."""

    async def story(world: World) -> None:
        world.tells = True
        world.writes.held = {"evict"}
        world.outbox.patch(patch("q"))
        for number in range(MOST):
            world.outbox.evict(evict(f"p{number}"))
        await settle()
        others = MOST - MOST // FOR_BINDS
        assert world.writes.hanging("evict") == others - others // FOR_EVENTS
        assert world.writes.names("patch") == []

        for number in range(2 * MAX_OWED):
            world.outbox.bind(bind(f"b{number}", number))
        await settle()
        await settle()
        assert len(world.answers) == len(world.writes.names("event")) == 2 * MAX_OWED

    world = play(story)
    assert world.most_owed < MAX_OWED


def test_a_cancelled_bind_does_not_leave() -> None:
    """Neither from the queue nor from behind the status of its pod."""

    async def story(world: World) -> None:
        world.writes.held = {"patch"}
        world.outbox.patch(patch("p"))
        await settle()
        world.outbox.bind(bind("p", 1))
        world.outbox.bind(bind("q", 2))
        world.outbox.cancel(1)
        world.outbox.cancel(2)
        world.outbox.cancel(3)
        world.writes.release("patch")
        await settle()
        assert world.outbox.is_empty

    world = play(story)
    assert world.writes.names("bind") == []
    assert world.answers == []


def test_drain_ends_when_the_last_bind_is_cancelled() -> None:
    """Nothing is sent then that could end it."""

    async def story(world: World) -> None:
        world.writes.held = {"patch"}
        world.outbox.patch(patch("p"))
        await settle()
        world.outbox.bind(bind("p", 1))
        draining = asyncio.create_task(world.outbox.drain(3600.0, binds_only=True))
        await settle()
        assert not draining.done()
        world.outbox.cancel(1)
        await settle()
        assert draining.done()

    play(story)


# --- what is owed -----------------------------------------------------------------------------


def test_no_more_events_are_owed_than_allowed_while_none_gets_through() -> None:
    """Binds leave only while there is room for their events."""

    async def story(world: World) -> None:
        world.tells = True
        world.writes.held = {"event"}
        for number in range(3 * MAX_OWED):
            world.outbox.bind(bind(f"p{number}", number))
        await settle()
        assert world.outbox.events_owed == MAX_OWED
        assert len(world.writes.names("bind")) == MAX_OWED
        assert not world.outbox.has_room

        world.writes.held = set()
        world.writes.release("event")
        await settle()
        await settle()
        assert world.outbox.is_empty

    world = play(story)
    assert len(world.answers) == len(world.writes.names("event")) == 3 * MAX_OWED
    assert world.most_owed == MAX_OWED
    assert world.dropped == []


def test_the_more_events_are_owed_the_more_are_under_way() -> None:
    """A few while few are owed; the share of requests is that of what may be owed."""

    async def story(world: World) -> None:
        world.writes.held = {"event"}
        for number in range(MAX_OWED // 2):
            world.outbox.tell(tell(f"p{number}"))
            if number == FEW_EVENTS:
                await settle()
                assert world.writes.hanging("event") == FEW_EVENTS
        await settle()
        assert world.writes.hanging("event") == MOST // 2

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
        assert world.outbox.has_room
        for number in range(2 * MAX_OWED):
            world.outbox.tell(tell(f"q{number}", once=False))
        assert world.outbox.events_owed == MAX_OWED - under_way
        assert not world.outbox.has_room

        world.writes.held = {"event"}
        world.writes.release("evict")
        world.outbox.bind(bind("b"))
        world.outbox.patch(patch("s"))
        await settle()
        assert len(world.answers) == under_way
        assert world.outbox.events_owed == MAX_OWED
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
        for number in range(MOST):
            world.outbox.bind(bind(f"p{number}", number))
        await settle()
        for number in range(2 * MAX_OWED):
            world.outbox.tell(tell(f"q{number}", once=False))
        assert world.outbox.events_owed == MAX_OWED - MOST
        world.writes.release("bind")
        await settle()
        assert world.outbox.events_owed == MAX_OWED

    world = play(story)
    assert world.most_owed == MAX_OWED
    assert world.dropped == ["queue_full"] * (MAX_OWED + MOST)


def test_binds_by_plugins_owe_events_too() -> None:
    """They leave no faster than others, and as many at a time."""

    async def story(world: World) -> None:
        world.tells = True
        world.writes.held = {"plugins", "event"}
        for number in range(2 * MAX_OWED):
            world.outbox.bind(bind(f"p{number}", number, by_plugins=True))
        await settle()
        assert world.writes.hanging("plugins") == MOST
        world.writes.held = {"event"}
        world.writes.release("plugins")
        await settle()

    world = play(story)
    assert world.most_owed == len(world.answers) == MAX_OWED
    assert world.writes.names("bind") == []


def test_there_is_room_again_after_a_backlog_of_binds() -> None:
    """Whoever decides is told so after each request."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        for number in range(MOST * (AHEAD + 1)):
            assert world.outbox.has_room
            world.outbox.bind(bind(f"p{number}", number))
            await asyncio.sleep(0)
        assert not world.outbox.has_room
        before = world.on_sent
        world.writes.release("bind", 1)
        await settle()
        assert world.on_sent == before + 1
        assert world.outbox.has_room

    play(story)


def test_without_a_bound_only_the_backlog_counts() -> None:
    """For benchmarks that leave events out."""

    async def story(world: World) -> None:
        world.writes.held = {"event"}
        for number in range(2 * MAX_OWED):
            world.outbox.tell(tell(f"q{number}", once=False))
        assert world.outbox.has_room

    assert play(story, max_owed=0).dropped == []


def test_events_without_a_bound_wait_for_all_binds() -> None:
    """Then all of them leave: what binds alone would reach can be measured."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        world.outbox.bind(bind("p0", 0))
        for number in range(4 * MOST):
            world.outbox.tell(tell(f"q{number}", once=False))
        await settle()
        assert world.writes.hanging("event") == 0
        world.writes.held = {"event"}
        world.writes.release("bind")
        await settle()
        assert world.writes.hanging("event") == MOST - MOST // FOR_BINDS

    play(story, max_owed=0)


# --- outcomes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "is_certain"),
    [
        pytest.param(ConflictError("POST", status=409, message="why"), False, id="conflict"),
        pytest.param(UnavailableError("POST", message="why"), False, id="no answer"),
        pytest.param(NotFoundError("POST", status=404, message="why"), True, id="gone"),
        pytest.param(ForbiddenError("POST", status=403, message="why"), True, id="forbidden"),
        pytest.param(TooManyRequestsError("POST", status=429, message="why"), True, id="later"),
        pytest.param(FencedError("why"), True, id="fenced"),
    ],
)
def test_what_is_known_of_a_bind_that_failed(problem: Exception, is_certain: bool) -> None:
    """An earlier try may have arrived where the answer does not exclude it."""

    async def story(world: World) -> None:
        world.writes.fail("bind", problem)
        world.outbox.bind(bind("p", 1))
        world.outbox.bind(bind("q", 2))
        await settle()
        assert world.outbox.binds_owed == 0

    assert play(story).answers == [BindFailed(1, str(problem), is_certain=is_certain), Bound(2)]


def test_fenced_writes_end_no_worker() -> None:
    """More of them than there are workers, and the next write still leaves."""

    async def story(world: World) -> None:
        fenced = [FencedError("not ours")] * (2 * MOST)
        world.writes.fail("patch", *fenced)
        world.writes.fail("bind", *fenced)
        for number in range(2 * MOST):
            world.outbox.patch(patch(f"p{number}"))
            world.outbox.bind(bind(f"b{number}", number))
        await settle()
        world.outbox.patch(patch("p"))
        world.outbox.bind(bind("last", 99))
        world.outbox.tell(tell("e"))
        await settle()
        assert world.outbox.is_empty

    world = play(story)
    assert world.answers[-1] == Bound(99)
    assert {("patch", "p"), ("event", "e")} <= set(world.writes.sent)


@pytest.mark.parametrize(
    "problem",
    [NotFoundError("PATCH", status=404), UnavailableError("PATCH"), FencedError("no")],
    ids=["gone", "no answer", "fenced"],
)
def test_a_status_that_cannot_be_written_lets_the_bind_go(problem: Exception) -> None:
    """It is not tried again: the next failure says it anew."""

    async def story(world: World) -> None:
        world.writes.held = {"patch"}
        world.writes.fail("patch", problem)
        world.outbox.patch(patch("p"))
        await settle()
        world.outbox.bind(bind("p"))
        world.writes.release("patch")
        await settle()
        assert world.outbox.is_empty

    assert play(story).writes.sent == [("patch", "p"), ("bind", "p")]


def test_conditions_carry_the_time_of_day() -> None:
    """The clock's, as the request leaves."""

    async def story(world: World) -> None:
        world.outbox.patch(PatchStatus("ns", "p", "p", None, ""))
        await settle()

    world = play(story)
    assert world.writes.bodies == [(world.clock.wall(), None, "")]


# --- reads ------------------------------------------------------------------------------------


def _answer_to_read(body: object) -> list[Event]:
    async def story(world: World) -> None:
        world.writes.pod = body if isinstance(body, bytes) else msgspec.json.encode(body)
        world.outbox.read(ReadPod(7, "ns", "p", "p"))
        await settle()

    return play(story).answers


def test_a_pod_that_is_there_is_given_as_it_is() -> None:
    """Bound, or not."""
    [answer] = _answer_to_read(POD)

    assert isinstance(answer, PodRead)
    assert (answer.attempt, answer.pod.key, answer.pod.node_name) == (7, "ns/p", "n")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            {"metadata": {"name": "p", "namespace": "ns", "uid": "other"}}, id="successor"
        ),
        pytest.param({"status": {"phase": "Failed"}}, id="ended"),
    ],
)
def test_a_pod_that_needs_no_node_is_none(change: dict[str, Any]) -> None:
    """Nor is its successor of the same name."""
    assert _answer_to_read(POD | change) == [PodRead(7, None)]


def test_no_pod() -> None:
    """The server has none of this name."""

    async def story(world: World) -> None:
        world.outbox.read(ReadPod(7, "ns", "p", "p"))
        await settle()

    assert play(story).answers == [PodRead(7, None)]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"metadata": 1}, id="no pod"),
        pytest.param(b"<html>", id="no JSON"),
    ],
)
def test_what_cannot_be_read_is_no_answer(body: object) -> None:
    """The engine asks again; nothing ends."""
    assert _answer_to_read(body) == [ReadFailed(7)]


def test_a_read_that_fails_is_no_answer() -> None:
    """As when the connection breaks."""

    async def story(world: World) -> None:
        world.writes.fail("read", UnavailableError("GET"))
        world.outbox.read(ReadPod(7, "ns", "p", "p"))
        await settle()

    assert play(story).answers == [ReadFailed(7)]


# --- events -----------------------------------------------------------------------------------


def test_an_event_says_who_speaks_and_when() -> None:
    """Controller, host and moment; two of one moment have two names."""

    async def story(world: World) -> None:
        world.outbox.tell(tell("p"))
        world.outbox.tell(tell("p"))
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
            world.outbox.tell(tell("p", once=False))
            await settle()

    assert [occurrence.count for occurrence in play(story).writes.bodies] == [1, 2]


def test_the_count_of_a_series_that_ended_is_sent() -> None:
    """By the sweep that runs every minute."""

    async def story(world: World) -> None:
        for _ in range(5):
            world.outbox.tell(tell("p", once=False))
        world.clock.advance(timedelta(minutes=7).total_seconds())
        world.outbox.sweep()
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
        world.outbox.tell(tell("p"))
        await settle()

    world = play(story, retry_seconds=0.0)
    assert len(world.writes.names("event")) == 4
    assert world.queues.retries["events"].value == 3
    assert world.outbox.events_owed == 0
    assert world.dropped == []


def test_an_event_that_waits_to_be_tried_again_holds_no_worker() -> None:
    """It is owed, and that is all."""

    async def story(world: World) -> None:
        problem = UnavailableError("POST", status=503)
        world.writes.fail("event", *[problem] * (2 * MOST))
        for number in range(2 * MOST):
            world.outbox.tell(tell(f"p{number}"))
        await settle()
        assert world.outbox.events_owed == 2 * MOST
        assert not world.outbox.is_empty

        world.outbox.tell(tell("e"))
        world.outbox.patch(patch("p"))
        world.outbox.bind(bind("b"))
        await settle()
        assert world.outbox.events_owed == 2 * MOST

    world = play(story, retry_seconds=1e6)
    assert {("patch", "p"), ("bind", "b"), ("event", "e")} <= set(world.writes.sent)


def test_while_nobody_answers_events_are_not_tried_one_after_the_other() -> None:
    """Those under way learn it; the others are sent when it has been quiet for a while."""

    async def story(world: World) -> None:
        world.writes.fail("event", *[UnavailableError("POST")] * FEW_EVENTS)
        for number in range(4 * FEW_EVENTS):
            world.outbox.tell(tell(f"p{number}"))
        world.outbox.bind(bind("b"))
        await settle()
        tried = world.writes.names("event")
        assert 0 < len(tried) <= FEW_EVENTS
        await asyncio.sleep(1.1)  # the quiet while, and no event's own pause
        await settle()
        assert len(world.writes.names("event")) > len(tried)
        assert world.writes.names("bind") == ["b"]
        assert world.outbox.events_owed < 4 * FEW_EVENTS

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
        world.outbox.tell(tell("p"))
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
            world.outbox.tell(tell(name))
        await settle()
        world.clock.advance(61)
        world.outbox.tell(tell("d"))
        await settle()

    with capture_logs() as logs:
        world = play(story)

    assert world.dropped == ["refused"] * 4
    told = [(each["event"], each["reason"], each["others"]) for each in logs]
    assert told == [("Event not sent", "refused", 0), ("Event not sent", "refused", 2)]
    assert "no such right" in logs[0]["err"]


# --- drain ------------------------------------------------------------------------------------


def test_drain_waits_for_binds_or_for_everything() -> None:
    """Each ends at once when its part is done."""

    async def story(world: World) -> None:
        world.writes.held = {"bind", "event"}
        world.outbox.bind(bind("p"))
        world.outbox.tell(tell("p"))
        binds = asyncio.create_task(world.outbox.drain(3600.0, binds_only=True))
        everything = asyncio.create_task(world.outbox.drain(3600.0))
        await settle()
        assert (binds.done(), everything.done()) == (False, False)
        world.writes.release("bind")
        await settle()
        assert (binds.done(), everything.done()) == (True, False)
        world.writes.release("event")
        await settle()
        assert everything.done()

    play(story)


def test_drain_gives_up() -> None:
    """After the time it was given."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        world.outbox.bind(bind("p"))
        await world.outbox.drain(0.0)
        assert world.outbox.binds_owed == 1

    play(story)


def test_what_is_told_after_the_end_raises_nothing() -> None:
    """The last words of plugins may come when no worker is left."""

    async def story() -> int:
        world = World()
        sending = asyncio.create_task(world.outbox.run())
        await settle()
        sending.cancel()
        world.outbox.tell(tell("p"))
        await asyncio.gather(sending, return_exceptions=True)
        world.outbox.tell(tell("q"))
        return world.outbox.events_owed

    assert asyncio.run(story()) == 2


def test_every_write_goes_through_a_queue_that_is_told_of() -> None:
    """Once in, once out, of whatever kind."""

    async def story(world: World) -> None:
        world.outbox.bind(bind("b"))
        world.outbox.read(ReadPod(7, "ns", "r", "r"))
        world.outbox.evict(evict("v"))
        world.outbox.patch(patch("s"))
        world.outbox.tell(tell("e"))
        await settle()

    world = play(story)

    kinds = ["binds", "reads", "evictions", "patches", "events"]
    assert {name: world.queues.adds[name].value for name in kinds} == dict.fromkeys(kinds, 1)
    for family in (world.queues.queued, world.queues.worked):
        assert {name: sum(family[name].counts) for name in kinds} == dict.fromkeys(kinds, 1)


# --- how many at a time -----------------------------------------------------------------------


class SlowWrites(FakeWrites):
    """Requests to a server that works on so many at a time, and is slower the more there are.

    Args:
        seats: so many it works on.
        seconds: for so long, each.
        knee: with so many under way it takes twice as long, and so on.

    Attributes:
        under_way: requests without an answer.
    """

    def __init__(self, seats: int, seconds: float, knee: float = inf) -> None:
        super().__init__()
        self.under_way = 0
        self._free_at = [0.0] * seats
        self._seconds = seconds
        self._knee = knee

    @override
    async def _send(self, verb: str, name: str) -> None:
        self.under_way += 1
        try:
            # Known as the request comes: a server goes on while who asks it stands still.
            now = asyncio.get_running_loop().time()
            start = max(now, heapq.heappop(self._free_at))
            end = start + self._seconds * (1 + self.under_way / self._knee)
            heapq.heappush(self._free_at, end)
            await asyncio.sleep(end - now)
            await super()._send(verb, name)
        finally:
            self.under_way -= 1


def press(
    writes: SlowWrites,
    seconds: float,
    arrange: Callable[[World], None] = lambda _: None,
    **settings: Any,
) -> World:
    """Bind a pod whenever there is room for one, for so long."""
    clock = FakeClock(0.0)

    async def run() -> World:
        world = World(writes, clock, **settings)
        world.tells = True
        arrange(world)
        sending = asyncio.create_task(world.outbox.run())
        number = 0
        while clock.now < seconds:
            if world.outbox.has_room_again:
                while world.outbox.has_room:
                    number += 1
                    world.outbox.bind(bind(f"p{number}", number))
            await asyncio.sleep(0.005)
        assert writes.under_way <= 1.5 * world.outbox.concurrency
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return world

    return run_in(clock, run())


def begin_with_few(world: World) -> None:
    """As if more had brought nothing so far."""
    world.outbox._limit = ConcurrencyLimit(FEWEST)


def test_a_server_that_can_take_more_gets_more() -> None:
    """After it could take little; binds and events get the same."""
    seconds, most = 40.0, 64 / 0.05

    world = press(SlowWrites(64, 0.05), seconds, begin_with_few)

    binds, events = len(world.answers), len(world.writes.names("event"))
    assert binds + events > 0.8 * most * seconds
    assert events >= binds - MAX_OWED
    assert world.most_owed <= MAX_OWED


def test_a_server_that_can_take_little_gets_less_at_a_time() -> None:
    """And carries out as much: neither binds nor events are left out."""
    seconds, most = 30.0, 8 / (0.01 * (1 + 8 / 64))

    world = press(SlowWrites(8, 0.01, knee=64), seconds)

    binds, events = len(world.answers), len(world.writes.names("event"))
    assert world.outbox.concurrency < MOST
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

    world = press(writes, 10.0, hang, concurrency=FEWEST)

    assert writes.hanging("patch") == FEWEST - 2
    assert len(world.answers) > 800
    assert len(writes.names("event")) >= len(world.answers) - MAX_OWED
    assert world.most_owed <= MAX_OWED


def test_when_fewer_may_be_under_way_those_that_end_are_not_replaced() -> None:
    """Until there are no more than that."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        for number in range(3 * MOST):
            world.outbox.bind(bind(f"p{number}", number))
        await settle()
        assert world.writes.hanging("bind") == MOST
        world.outbox._limit.limit = FEWEST
        world.writes.release("bind", MOST - FEWEST)
        await settle()
        assert world.writes.hanging("bind") == FEWEST
        assert len(world.writes.names("bind")) == MOST

        world.writes.release("bind", 1)
        await settle()
        assert world.writes.hanging("bind") == FEWEST
        assert len(world.writes.names("bind")) == MOST + 1

    play(story, max_owed=0)


def test_what_is_sent_while_little_waits_says_nothing() -> None:
    """Fewer at a time would carry it out as well; more may come any moment."""
    clock, writes = FakeClock(), SlowWrites(64, 0.05)

    async def story() -> int:
        world = World(writes, clock)
        sending = asyncio.create_task(world.outbox.run())
        for second in range(60):
            for number in range(2 * MOST):
                world.outbox.tell(tell(f"e{second}-{number}"))
            await asyncio.sleep(1.0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return world.outbox.concurrency

    assert run_in(clock, story()) == MOST


def test_a_backlog_to_which_nothing_is_added_is_sent_by_more_at_a_time() -> None:
    """Whoever rests is woken when the number grows."""
    clock, writes = FakeClock(), SlowWrites(2 * MOST, 0.05)

    async def story() -> None:
        world = World(writes, clock, max_owed=0)
        begin_with_few(world)
        for number in range(5000):
            world.outbox.tell(tell(f"e{number}"))
        sending = asyncio.create_task(world.outbox.run())
        await world.outbox.drain(60.0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    run_in(clock, story())

    assert len(writes.names("event")) == 5000
    assert writes.most > 2 * FEWEST


class RestingClock(FakeClock):
    """Adds up for how long it held the loop up.

    Args:
        turn: seconds that pass whenever somebody looks, as if there was work in between.
    """

    def __init__(self, turn: float) -> None:
        super().__init__()
        self.rested = 0.0
        self._turn = turn

    @override
    def monotonic(self) -> float:
        self.now += self._turn
        return self.now

    @override
    def rest(self, seconds: float) -> None:
        self.rested += seconds
        super().rest(seconds)


@pytest.mark.parametrize(
    ("concurrency", "turn", "rests"),
    [
        pytest.param(MANY, 0.0, True, id="many"),
        pytest.param(MANY - 1, 0.0, False, id="few"),
        pytest.param(MANY, BUSY_SECONDS, False, id="busy"),
    ],
)
def test_while_many_answers_are_on_their_way_several_come_before_any_is_looked_at(
    concurrency: int, turn: float, *, rests: bool
) -> None:
    """The loop rests where it has nothing else to do, and waits for each of a few."""
    clock, writes = RestingClock(turn), SlowWrites(MOST, 0.05)

    async def story() -> float:
        world = World(writes, clock, concurrency=concurrency)
        for number in range(2000):
            world.outbox.bind(bind(f"p{number}", number))
        start = clock.now
        sending = asyncio.create_task(world.outbox.run())
        await world.outbox.drain(600.0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return clock.rested / (clock.now - start)

    share = run_in(clock, story())

    assert share > 0.9 if rests else share == 0
    assert len(writes.names("bind")) == 2000

"""The outbox: what is sent about one pod, what comes of it, and how it ends."""

import asyncio
import gc
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from scheduler.daemon.client.errors import (
    ApiError,
    ConflictError,
    FencedError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from scheduler.daemon.client.status_tries import TRIES
from scheduler.daemon.driver.lanes import CONCURRENCY, FOR_BINDS, FOR_EVENTS, MAX_OWED
from scheduler.daemon.driver.loop_rest import BUSY_SECONDS, MANY
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Event,
    Evicted,
    EvictFailed,
    PodRead,
    ReadFailed,
)
from scheduler.kernel.engine.instructions import Evict, PatchStatus, ReadPod
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.driver.fake_writes import settle
from tests.unit.driver.outbox_world import (
    WHY,
    SlowWrites,
    World,
    bind,
    evict,
    patch,
    play,
    tell,
)

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
    "spec": {"containers": [], "nodeName": "n"},
}


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


# --- evictions -----------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("pod", "is_evicted"),
    [
        (POD, False),
        (POD | {"metadata": POD["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, True),
        (POD | {"metadata": POD["metadata"] | {"uid": "other"}}, True),
        (None, True),
        ({"metadata": 1}, False),
    ],
    ids=["stays", "leaving", "successor", "gone", "unreadable"],
)
def test_an_eviction_without_an_answer_is_asked_about(pod: object, is_evicted: bool) -> None:
    """A preemptor that took it for failed could choose another victim in addition."""

    async def story(world: World) -> None:
        world.writes.pod = None if pod is None else msgspec.json.encode(pod)
        world.writes.fail("evict", UnavailableError("DELETE", status=504))
        world.outbox.evict(Evict("preemptor", "ns", "p", "p"))
        await settle()
        assert world.outbox.is_empty

    failed = EvictFailed("p", "DELETE: 504")
    assert play(story).answers == [Evicted("p") if is_evicted else failed]


def test_evictions_that_hang_leave_room_for_binds_and_events() -> None:
    """However many binds come: each has its event sent, and none is owed. Status waits."""

    async def story(world: World) -> None:
        world.tells = True
        world.writes.held = {"evict"}
        world.outbox.patch(patch("q"))
        for number in range(CONCURRENCY):
            world.outbox.evict(evict(f"p{number}"))
        await settle()
        others = CONCURRENCY - CONCURRENCY // FOR_BINDS
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


def test_held_bindings_leave_when_the_hold_ends() -> None:
    """Meanwhile no pod is decided about, and other writes leave."""

    async def story(world: World) -> None:
        world.is_held = True
        for name, attempt in (("p", 1), ("q", 2)):
            world.outbox.bind(bind(name, attempt))
        world.outbox.patch(patch("r"))
        await settle()
        assert world.writes.names("bind") == []
        assert world.writes.names("patch") == ["r"]
        assert world.outbox.room == 0
        assert not world.outbox.has_room_again

        world.is_held = False
        told = world.on_sent
        world.outbox.resume()
        assert world.on_sent == told + 1, "nothing may have to be sent before pods are decided"
        await settle()
        assert world.outbox.room > 0

    world = play(story)
    assert world.writes.names("bind") == ["p", "q"]
    assert world.answers == [Bound(1), Bound(2)]


def test_refused_bindings_are_answered_and_do_not_leave() -> None:
    """One under way is not among them: its answer comes."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        world.outbox.bind(bind("p", 1))
        await settle()
        world.is_held = True
        world.outbox.bind(bind("q", 2))
        world.outbox.bind(bind("r", 2))
        world.outbox.refuse_decided("set back")
        world.is_held = False
        world.writes.release("bind")
        world.outbox.resume()
        await settle()
        assert world.outbox.is_empty

    world = play(story)
    assert world.writes.names("bind") == ["p"]
    refused = BindFailed(2, "set back", is_certain=True)
    assert world.answers == [refused, refused, Bound(1)]


def test_held_evictions_leave_when_the_hold_ends() -> None:
    async def story(world: World) -> None:
        world.is_held = True
        world.outbox.evict(evict("victim"))
        await settle()
        assert world.writes.names("evict") == []

        world.is_held = False
        world.outbox.resume()
        await settle()

    assert play(story).writes.names("evict") == ["victim"]


def test_refused_evictions_are_answered_and_do_not_leave() -> None:
    """Restored pods may make them needless; one under way is not among them."""

    async def story(world: World) -> None:
        world.writes.held = {"evict"}
        world.outbox.evict(evict("sent"))
        await settle()
        world.is_held = True
        for name in ("v", "w"):
            world.outbox.evict(evict(name))
        draining = asyncio.create_task(world.outbox.drain(3600.0))
        await settle()
        world.outbox.refuse_decided("set back")
        world.is_held = False
        world.writes.release("evict")
        world.outbox.resume()
        await settle()
        assert draining.done()

    world = play(story)
    assert world.writes.names("evict") == ["sent"]
    refused = [EvictFailed(evict(name).uid, "set back") for name in ("v", "w")]
    assert world.answers[:2] == refused


def test_all_bindings_of_a_cancelled_attempt_are_forgotten() -> None:
    """Of each of its pods, as far as they wait."""

    async def story(world: World) -> None:
        world.writes.held = {"patch"}
        for name in ("p", "q", "r"):
            world.outbox.patch(patch(name))
        await settle()
        for name, attempt in (("p", 1), ("q", 1), ("r", 2)):
            world.outbox.bind(bind(name, attempt))
        world.outbox.cancel(1)
        world.writes.release("patch")
        await settle()

    assert play(story).writes.names("bind") == ["r"]


def test_drain_ends_when_the_last_bind_is_cancelled() -> None:
    """Nothing is sent then that could end it."""

    async def story(world: World) -> None:
        world.is_held = True
        world.outbox.bind(bind("p", 1))
        draining = asyncio.create_task(world.outbox.drain(3600.0, binds_only=True))
        await settle()
        assert not draining.done()
        world.outbox.cancel(1)
        await settle()
        assert draining.done()

    play(story)


# --- outcomes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "is_certain"),
    [
        pytest.param(ConflictError("POST", status=409, message="why"), False, id="conflict"),
        pytest.param(UnavailableError("POST", message="why"), False, id="no answer"),
        pytest.param(NotFoundError("POST", status=404, message="why"), False, id="gone"),
        pytest.param(ForbiddenError("POST", status=403, message="why"), True, id="forbidden"),
        pytest.param(TooManyRequestsError("POST", status=429, message="why"), True, id="later"),
        pytest.param(FencedError("why"), True, id="fenced"),
    ],
)
def test_what_is_known_of_a_bind_that_failed(problem: Exception, is_certain: bool) -> None:
    """An earlier try may have arrived where the answer does not exclude it; a pod may be gone."""

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
        fenced = [FencedError("not ours")] * (2 * CONCURRENCY)
        world.writes.fail("patch", *fenced)
        world.writes.fail("bind", *fenced)
        for number in range(2 * CONCURRENCY):
            world.outbox.patch(patch(f"p{number}"))
            world.outbox.bind(bind(f"b{number}", number))
        await settle()
        world.outbox.patch(patch("p"))
        world.outbox.bind(bind("last", 99))
        world.outbox.record_event(tell("e"))
        await settle()
        assert world.outbox.is_empty

    world = play(story)
    assert world.answers[-1] == Bound(99)
    assert {("patch", "p"), ("event", "e")} <= set(world.writes.sent)


@pytest.mark.parametrize(
    ("problem", "tries"),
    [
        (NotFoundError("PATCH", status=404), 1),
        (UnavailableError("PATCH"), TRIES),
        (FencedError("no"), 1),
    ],
    ids=["gone", "no answer", "fenced"],
)
def test_a_status_that_cannot_be_written_lets_the_bind_go(problem: Exception, tries: int) -> None:
    """After its last try; the next failure says it anew."""

    async def story(world: World) -> None:
        world.writes.held = {"patch"}
        world.writes.fail("patch", *[problem] * tries)
        world.outbox.patch(patch("p"))
        await settle()
        world.outbox.bind(bind("p"))
        world.writes.held = set()
        world.writes.release("patch")
        await asyncio.sleep(1)
        assert world.outbox.is_empty

    assert play(story).writes.sent == [("patch", "p")] * tries + [("bind", "p")]


@pytest.mark.parametrize("kind", [UnavailableError, ConflictError])
def test_a_status_is_tried_again(kind: type[ApiError]) -> None:
    """The pod may wait for minutes, and an autoscaler looks for its condition."""

    async def story(world: World) -> None:
        world.writes.fail("patch", kind("PATCH"))
        world.outbox.patch(patch("p"))
        await asyncio.sleep(1)
        assert world.outbox.is_empty

    assert play(story).writes.sent == [("patch", "p")] * 2


def test_a_status_is_not_tried_again_after_a_time_out() -> None:
    """The binding of the pod may wait for it."""

    async def story(world: World) -> None:
        world.writes.held = {"patch"}
        world.writes.fail("patch", UnavailableError("PATCH"))
        world.outbox.patch(patch("p"))
        await asyncio.sleep(30)
        world.writes.held = set()
        world.writes.release("patch")
        await asyncio.sleep(1)
        assert world.outbox.is_empty

    assert play(story).writes.sent == [("patch", "p")]


def test_conditions_carry_the_time_of_day() -> None:
    """The clock's, as the request leaves."""

    async def story(world: World) -> None:
        world.outbox.patch(PatchStatus("ns", "p", "p", None, ""))
        await settle()

    world = play(story)
    assert world.writes.bodies == [(world.clock.wall(), None, "")]


# --- reads ---------------------------------------------------------------------------------------


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


# --- the end -------------------------------------------------------------------------------------


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


def test_drain_waits_for_binds_or_for_everything() -> None:
    """Each ends at once when its part is done."""

    async def story(world: World) -> None:
        world.writes.held = {"bind", "event"}
        world.outbox.bind(bind("p"))
        world.outbox.record_event(tell("p"))
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


@pytest.mark.parametrize("verb", ["evict", "patch"])
def test_a_drain_of_binds_waits_for_what_has_left_about_other_pods(verb: str) -> None:
    """The lease is given back afterwards, and no write arrives after that. Held ones may wait."""

    async def story(world: World) -> None:
        world.writes.held = {verb}
        world.outbox.evict(evict("v")) if verb == "evict" else world.outbox.patch(patch("v"))
        await settle()
        world.is_held = True
        world.outbox.evict(evict("w"))
        draining = asyncio.create_task(world.outbox.drain(3600.0, binds_only=True))
        await settle()
        assert (draining.done(), world.outbox.awaits_answers) == (False, True)
        world.writes.release(verb)
        await settle()
        assert (draining.done(), world.outbox.awaits_answers) == (True, False)

    play(story)


def test_a_write_without_an_answer_is_awaited_and_an_event_is_not() -> None:
    """As long as its answer does not come, and be it for ever."""

    async def story(world: World) -> None:
        world.writes.held = {"event", "read", "bind"}
        world.outbox.record_event(tell("e"))
        world.outbox.read(ReadPod(1, "ns", "r", "r"))
        await settle()
        assert not world.outbox.awaits_answers
        world.writes.plugin_requests = 1
        assert world.outbox.awaits_answers
        world.writes.plugin_requests = 0
        world.is_held = True
        world.outbox.bind(bind("p"))
        await settle()
        assert not world.outbox.awaits_answers, "it has not left"
        world.is_held = False
        world.outbox.resume()
        await asyncio.sleep(10_000.0)
        assert world.outbox.awaits_answers

    play(story)


def test_what_extenders_have_bound_is_not_kept() -> None:
    """The outbox lives as long as the process."""

    def ended() -> int:
        gc.collect()
        return sum(isinstance(each, asyncio.Task) and each.done() for each in gc.get_objects())

    async def story(world: World) -> None:
        before = ended()
        for number in range(100):
            world.outbox.bind(msgspec.structs.replace(bind(f"p{number}"), extender=0))
        await settle()
        assert ended() < before + 10

    assert play(story).answers == [Bound(1)] * 100


@pytest.mark.parametrize(
    ("waiting", "max_owed", "has_room"),
    [(4, 0, True), (5, 0, False), (2, 4, True), (3, 4, False)],
)
def test_pods_are_decided_again_when_half_of_the_room_is_free(
    waiting: int, max_owed: int, *, has_room: bool
) -> None:
    """The room is two binds for each of four requests, or the events that may be owed."""
    world = World(concurrency=4, max_owed=max_owed)
    for number in range(waiting):
        world.outbox.bind(bind(f"p{number}", number))
    assert world.outbox.has_room_again == has_room


def test_drain_ends_when_the_last_bind_is_back_from_an_extender() -> None:
    """It holds no worker; its end is told all the same, and there may be room again."""

    async def story(world: World) -> None:
        world.writes.held = {"plugins"}
        world.outbox.bind(msgspec.structs.replace(bind("p"), extender=0))
        draining = asyncio.create_task(world.outbox.drain(3600.0, binds_only=True))
        await settle()
        assert (draining.done(), world.on_sent) == (False, 0)
        world.writes.release("plugins")
        await settle()
        assert (draining.done(), world.on_sent) == (True, 1)

    assert play(story).answers == [Bound(1)]


def test_drain_gives_up() -> None:
    """After the time it was given."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        world.outbox.bind(bind("p"))
        await world.outbox.drain(0.0)
        assert (world.outbox.binds_owed, world.outbox.awaits_answers) == (1, True)

    play(story)


def test_what_is_told_after_the_end_raises_nothing() -> None:
    """The last words of plugins may come when no worker is left."""

    async def story() -> int:
        world = World()
        sending = asyncio.create_task(world.outbox.run())
        await settle()
        sending.cancel()
        world.outbox.record_event(tell("p"))
        await asyncio.gather(sending, return_exceptions=True)
        world.outbox.record_event(tell("q"))
        return world.outbox.events.owed

    assert asyncio.run(story()) == 2


def test_every_write_goes_through_a_queue_that_is_told_of() -> None:
    """Once in, once out, of whatever kind."""

    async def story(world: World) -> None:
        world.outbox.bind(bind("b"))
        world.outbox.read(ReadPod(7, "ns", "r", "r"))
        world.outbox.evict(evict("v"))
        world.outbox.patch(patch("s"))
        world.outbox.record_event(tell("e"))
        await settle()

    world = play(story)

    kinds = ["binds", "reads", "evictions", "patches", "events"]
    assert {name: world.queues.adds[name].value for name in kinds} == dict.fromkeys(kinds, 1)
    for family in (world.queues.queued, world.queues.worked):
        assert {name: sum(family[name].counts) for name in kinds} == dict.fromkeys(kinds, 1)


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
    def sleep(self, seconds: float) -> None:
        self.rested += seconds
        super().sleep(seconds)


@pytest.mark.parametrize(
    ("concurrency", "of_plugins", "turn", "rests"),
    [
        pytest.param(MANY, 0, 0.0, True, id="many"),
        pytest.param(MANY - 8, 8, 0.0, True, id="many with those of plugins"),
        pytest.param(MANY - 1, 0, 0.0, False, id="few"),
        pytest.param(MANY, 0, BUSY_SECONDS, False, id="busy"),
    ],
)
def test_while_many_answers_are_on_their_way_several_come_before_any_is_looked_at(
    concurrency: int, of_plugins: int, turn: float, *, rests: bool
) -> None:
    """The loop rests where it has nothing else to do, and waits for each of a few."""
    clock, writes = RestingClock(turn), SlowWrites(CONCURRENCY, 0.05)
    writes.plugin_requests = of_plugins

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

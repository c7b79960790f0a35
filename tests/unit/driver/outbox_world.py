"""An outbox between a fake engine and a fake API server, and what it is told to send."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

from typing_extensions import override

from scheduler.api.written import Condition, ObjectReference
from scheduler.daemon.client.errors import ApiError
from scheduler.daemon.driver.lanes import CONCURRENCY, OutboxSettings
from scheduler.daemon.driver.outbox import Outbox
from scheduler.kernel.engine.events import BindFailed, Bound, Event, Evicted
from scheduler.kernel.engine.instructions import Bind, Evict, PatchStatus, RecordEvent
from scheduler.observability.instruments import Instruments
from scheduler.observability.work_queues import WorkQueueMetrics
from tests.support.clock import FakeClock
from tests.support.shares import unseen_shares
from tests.support.virtual_time import run_in
from tests.unit.driver.fake_writes import FakeWrites, settle

WHY = Condition("DisruptionTarget", "True", "PreemptionByScheduler", "for another")


def bind(name: str, attempt: int = 1, *, by_plugins: bool = False) -> Bind:
    return Bind(attempt, "ns", name, name, "n", by_plugins)


def patch(name: str, message: str = "") -> PatchStatus:
    return PatchStatus("ns", name, name, Condition("PodScheduled", "False", "R", message))


def evict(name: str) -> Evict:
    return Evict("preemptor", "ns", name, f"uid of {name}", WHY)


def tell(name: str, *, once: bool = True) -> RecordEvent:
    about = ObjectReference("Pod", name, "ns", name)
    return RecordEvent(about, "Scheduled", "Binding", "there", "stowage", is_repeatable=not once)


class World:
    """An outbox between a fake engine and a fake API server.

    Attributes:
        answers: what the engine was told.
        dropped: why events were lost.
        tells: whether the engine tells of each pod bound or evicted, as the real one does.
        most_owed: the most events that were ever owed.
        is_held: whether bindings and evictions wait.
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
        self.is_held = False
        self.on_sent = 0
        self.outbox = Outbox(
            self.writes,  # a fake of all that is asked of it
            self.clock,
            OutboxSettings("host", **settings),
            answer=self._answer,
            ask_others=self._ask_plugins,
            queues=self.queues,
            shares=unseen_shares(),
            on_sent=self._sent,
            on_dropped=self.dropped.append,
            is_held=lambda: self.is_held,
        )

    def _answer(self, event: Event) -> None:
        self.answers.append(event)
        if self.tells and isinstance(event, Bound):
            self.outbox.record_event(tell(f"e{event.attempt}"))
        if self.tells and isinstance(event, Evicted) and event.was_there:
            self.outbox.record_event(tell(f"of {event.uid}"))
        self._look()

    def _sent(self) -> None:
        self.on_sent += 1
        self._look()

    def _look(self) -> None:
        self.most_owed = max(self.most_owed, self.outbox.events.owed)

    async def _ask_plugins(self, asked: Bind) -> Event:
        try:
            await self.writes._send("plugins", asked.name)
        except ApiError as problem:
            return BindFailed(asked.attempt, str(problem))
        return Bound(asked.attempt)


def play(story: Callable[[World], Awaitable[None]], **settings: Any) -> World:
    """Run a story with an outbox that sends; waiting takes no time. `clock` is that of both."""

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

    return run_in(settings.get("clock") or FakeClock(), run())


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
                while world.outbox.room > 0:
                    number += 1
                    world.outbox.bind(bind(f"p{number}", number))
            await asyncio.sleep(0.005)
        assert writes.under_way <= 1.5 * CONCURRENCY
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return world

    return run_in(clock, run())

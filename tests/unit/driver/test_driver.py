"""The driver: when the engine is told what, and what becomes of what it says."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Pod
from scheduler.api.pods import PodInfo
from scheduler.daemon.driver.driver import (
    END_SECONDS,
    LONG_SECONDS,
    SET_BACK,
    SLICE_SECONDS,
    SLOT_SECONDS,
    Driver,
)
from scheduler.daemon.driver.lanes import AHEAD, CONCURRENCY, MAX_OWED, OutboxSettings
from scheduler.daemon.driver.outbox import Outbox
from scheduler.daemon.driver.plugin_api import PluginApi
from scheduler.kernel.engine import AttemptState, Engine
from scheduler.kernel.engine.engine import EngineSettings
from scheduler.kernel.engine.engine_state import EngineProfiles
from scheduler.kernel.engine.events import (
    Activate,
    BindFailed,
    Bound,
    Decide,
    Event,
    ObjectGone,
    ObjectSet,
    PreBound,
    SetBack,
    SlowDecision,
    Tick,
)
from scheduler.kernel.engine.instructions import Bind, Instruction, SetTimer
from scheduler.kernel.engine.placing import MAX_BATCH
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import BindPlugin, NodeFilterPlugin, Plugin
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import Code, Status, error, unschedulable
from tests.support.builders import make_node, make_pod_info
from tests.support.clock import FakeClock
from tests.support.engines import no_other_profiles, validating
from tests.support.fake_plugins import make_plugin_set
from tests.support.handles import make_services
from tests.support.shares import unseen_queues, unseen_shares
from tests.support.virtual_time import run_in
from tests.unit.driver.fake_writes import FakeWrites, settle
from tests.unit.engine.engine import Everything


class Plain(NodeFilterPlugin, BindPlugin, Shortcuts):
    """Any node will do; its pods are bound by the outbox."""

    NAME: ClassVar[str] = "Plain"
    ONLY_BINDS: ClassVar[bool] = True

    def __init__(self) -> None:
        pass

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status()

    @override
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        raise AssertionError("the outbox binds")


class Preparing(Everything, Shortcuts):
    """PreBind takes until it is told to go on; its pods are bound by the outbox."""

    ONLY_BINDS: ClassVar[bool] = True

    def __init__(self, **answers: Status | Exception) -> None:
        super().__init__("P", **answers)
        self.go_on = asyncio.Event()
        self.cancelled = 0

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        self.diary.append("begins")
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self._answer("pre_bind")


class Writing(Preparing):
    """PreBind ends only when its write is answered."""

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return await PluginApi.run_to_end(self._write())

    async def _write(self) -> Status:
        await self.go_on.wait()
        return Status()


class Deaf(Preparing):
    """PreBind goes on for an hour, although it is cancelled."""

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        for _ in range(3600):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1.0)
        return Status()


class Slow(Plain):
    """Each node takes so long, and so much of the processor."""

    def __init__(self, clock: FakeClock, seconds: float, cpu: float) -> None:
        super().__init__()
        self._clock = clock
        self.seconds = seconds
        self._cpu = cpu

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self._clock.advance(self.seconds)
        self._clock.used += self._cpu
        return Status()


class World:
    """A driver around a real engine and a real outbox, and time that jumps.

    Attributes:
        told: events of the engine in order, each with its time and what it answered.
    """

    def __init__(self, plugin: Callable[["World"], Plugin], **settings: Any) -> None:
        self.clock = FakeClock()
        self.told: list[tuple[Event, float, list[Instruction]]] = []
        self.plugin = plugin(self)
        framework = Framework(
            make_plugin_set([self.plugin], profile="test", now=self.clock.monotonic)
        )
        services = make_services()
        self.engine = validating(
            Engine(
                EngineProfiles({"test": framework}),
                EngineSettings(seed=1),
                services=services,
                rules_of=no_other_profiles,
                states=services.states,
            )
        )
        self.services = services
        self.driver = Driver(self.engine, self.clock, event_logs=(self,))
        self.writes = FakeWrites()
        self.outbox = self.driver.outbox = Outbox(
            self.writes,  # a fake of all that is asked of it
            self.clock,
            OutboxSettings("host", **settings),
            answer=self.driver.submit,
            ask_others=self.driver.bind_by_others,
            shares=unseen_shares(),
            queues=unseen_queues(),
            on_sent=self.driver.sent,
        )
        self.is_stopping = False

    def note(self, event: Event, now: float, instructions: Sequence[Instruction]) -> None:
        self.told.append((event, now, list(instructions)))

    def heard(self, kind: type[Event]) -> list[Event]:
        return [event for event, _, _ in self.told if isinstance(event, kind)]

    @property
    def scheduled(self) -> int:
        """Pods that have been given a node."""
        return sum(isinstance(each, Bind) for _, _, told in self.told for each in told)

    def times(self, kind: type[Event]) -> list[float]:
        return [now for event, now, _ in self.told if isinstance(event, kind)]

    def add_node(self, name: str = "n") -> None:
        self.driver.submit(ObjectSet("nodes", make_node(name)))

    def add_pods(self, count: int, name: str = "p") -> list[PodInfo]:
        pods = [make_pod_info(f"{name}{number}", scheduler_name="test") for number in range(count)]
        for pod in pods:
            self.driver.submit(ObjectSet("pods", pod))
        return pods

    def delete(self, pod: PodInfo) -> None:
        self.driver.submit(ObjectGone("pods", pod.namespace, pod.name, pod.uid))

    def stop(self) -> None:
        self.is_stopping = True
        self.driver.look_again()


def play(
    story: Callable[[World], Awaitable[None]],
    plugin: Callable[[World], Plugin] = lambda _: Plain(),
    *,
    decides: bool = True,
    **settings: Any,
) -> World:
    """Run a story beside a driver that decides and sends."""

    async def run(world: World) -> World:
        tasks = [asyncio.create_task(world.outbox.run())]
        if decides:
            tasks.append(asyncio.create_task(world.driver.decide(lambda: world.is_stopping)))
        await settle()
        try:
            await story(world)
        finally:
            await world.driver.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return world

    world = World(plugin, **settings)
    return run_in(world.clock, run(world))


# --- deciding -----------------------------------------------------------------------------------


def test_a_pod_that_comes_is_decided_about_and_bound() -> None:
    """Nobody has to look for it."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(3)
        await settle()

    world = play(story)
    assert world.writes.names("bind") == ["p0", "p1", "p2"]
    assert world.heard(Bound) == [Bound(1), Bound(2), Bound(3)]
    assert world.writes.names("event") == ["p0", "p1", "p2"]


def test_the_engine_hears_that_the_server_was_set_back_before_bindings_are_refused() -> None:
    """Else it would have plugins bind what an extender is refused."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(2)
        world.driver.submit(Decide(2))
        world.driver.set_back()
        await settle()

    world = play(story, decides=False)
    assert [event for event, _, _ in world.told[-3:]] == [
        SetBack(SET_BACK),
        BindFailed(1, SET_BACK),
        BindFailed(2, SET_BACK),
    ]
    assert world.writes.names("bind") == []


def test_decisions_make_way_for_others() -> None:
    """After a slice, even when more pods are ready."""
    decided = []

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(8)
        for _ in range(8):
            await asyncio.sleep(0)
            decided.append(world.scheduled)

    play(story, lambda world: Slow(world.clock, SLICE_SECONDS / 2, SLICE_SECONDS / 2))

    steps = [after - before for before, after in pairwise(decided)]
    assert decided[-1] == 8
    assert max(decided[0], *steps) == 2


def test_equal_pods_are_scheduled_together_as_far_as_a_slice_goes() -> None:
    """How many is found by what the step before has taken."""

    async def story(world: World) -> None:
        assert isinstance(world.plugin, Slow)
        world.add_node()
        world.add_pods(MAX_BATCH + 1)
        await settle()
        world.plugin.seconds = SLICE_SECONDS / 3.5
        world.add_pods(6, "slow")
        await settle()
        world.add_pods(6, "later")
        await settle()

    world = play(story, lambda world: Slow(world.clock, 0.0, 0.0))

    limits = [event.limit for event in world.heard(Decide) if isinstance(event, Decide)]
    assert limits == [1, MAX_BATCH, MAX_BATCH, 3, 3]
    assert world.scheduled == MAX_BATCH + 13


def test_scheduling_goes_on_after_a_backlog_of_binds() -> None:
    """Decisions stop while so many binds wait, and go on when they are answered."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        world.add_node()
        world.add_pods(400)
        await settle()
        assert world.scheduled == CONCURRENCY * AHEAD
        world.writes.held = set()
        world.writes.release("bind")
        await settle()
        await settle()

    world = play(story, max_owed=0)
    assert len(world.heard(Bound)) == 400


def test_scheduling_goes_on_after_a_debt_of_events() -> None:
    """Decisions stop while as many are owed as may be, and go on when they arrive."""

    async def story(world: World) -> None:
        world.writes.held = {"event"}
        world.add_node()
        world.add_pods(2 * MAX_OWED)
        await settle()
        assert world.scheduled == MAX_OWED
        world.writes.held = set()
        world.writes.release("event")
        await settle()
        await settle()

    world = play(story)
    assert len(world.writes.names("event")) == 2 * MAX_OWED


def test_nothing_is_decided_once_it_is_to_stop() -> None:
    """Also when pods are ready."""

    async def story(world: World) -> None:
        world.add_node()
        world.stop()
        await settle()
        world.add_pods(1)
        await settle()

    assert play(story).heard(Decide) == []


def test_a_decision_that_takes_long_is_told() -> None:
    """Once for each, with its seconds; others are not."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(2)
        await settle()

    slow = play(story, lambda world: Slow(world.clock, LONG_SECONDS + 1, LONG_SECONDS + 0.5))
    quick = play(story, lambda world: Slow(world.clock, LONG_SECONDS - 0.5, LONG_SECONDS - 0.5))

    took = LONG_SECONDS + 0.5
    assert slow.heard(SlowDecision) == [
        SlowDecision("default/p0", took),
        SlowDecision("default/p1", took),
    ]
    assert quick.heard(SlowDecision) == []


def test_time_without_the_processor_is_not_the_pods() -> None:
    """The process was stopped, or others had the processor."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(2)
        await settle()

    stopped = play(story, lambda world: Slow(world.clock, 60.0, 0.001))

    assert stopped.heard(SlowDecision) == []


def test_what_takes_long_and_is_about_no_pod_is_nobodys() -> None:
    """The pod of an earlier decision has nothing to do with it."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(1)
        await settle()
        queue = world.engine.core.queue

        def pop_nothing() -> None:
            world.clock.advance(60.0)
            world.clock.used += 60.0

        queue.pop = pop_nothing
        world.add_pods(2)
        await settle()
        world.stop()

    assert play(story).heard(SlowDecision) == []


# --- time ---------------------------------------------------------------------------------------


def ticking(
    story: Callable[[World], Awaitable[None]],
    start: float,
    plugin: Callable[[World], Plugin] = lambda _: Plain(),
) -> World:
    """Run a story while time is told to the engine."""

    async def run(world: World) -> None:
        world.clock.now = start
        task = asyncio.create_task(world.driver.tick())
        await story(world)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return play(run, plugin)


def test_time_is_told_at_whole_seconds() -> None:
    """Just after, so that what ends at the second has ended."""

    async def story(_: World) -> None:
        await asyncio.sleep(3.0)

    times = ticking(story, 1000.25).times(Tick)

    assert [int(time) for time in times] == [1001, 1002, 1003]
    assert all(0.0 <= time % 1.0 < 0.02 for time in times)


def test_time_is_told_whenever_the_engine_wants_to_know() -> None:
    """Each of several times, in whatever order they were asked for; near ones share a Tick."""

    async def story(world: World) -> None:
        for time in (1002.5, 1001.25, 1001.1, 1002.5, *(1002.3 + i / 100 for i in range(20))):
            world.driver._wake_me_at(SetTimer(time))
        await asyncio.sleep(2.9)

    times = ticking(story, 1000.0).times(Tick)

    assert [round(time, 1) for time in times] == [1001.0, 1001.2, 1002.0, 1002.5]


def test_patience_ends_at_its_time() -> None:
    """A pod that Permit holds is given up when the plugin's time is over, not a second later."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(1)
        await asyncio.sleep(59.9)
        assert len(world.engine.attempts) == 1
        await asyncio.sleep(0.1 + SLOT_SECONDS)
        assert len(world.engine.attempts) == 0

    ticking(story, 1000.3, lambda _: Everything(permit=Status(Code.WAIT)))


# --- plugins that may wait ----------------------------------------------------------------------


def test_pre_bind_runs_beside_other_decisions() -> None:
    """And its pod is bound when it is done."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(2)
        await settle()
        assert isinstance(world.plugin, Preparing)
        assert world.plugin.diary.count("begins") == 2
        assert world.heard(PreBound) == []
        world.plugin.go_on.set()
        await settle()

    world = play(story, lambda _: Preparing())
    assert world.heard(PreBound) == [PreBound(1), PreBound(2)]
    assert world.writes.names("event") == ["p0", "p1"]


def test_pre_bind_of_a_pod_that_is_gone_is_cancelled() -> None:
    """The engine hears when it has ended."""

    async def story(world: World) -> None:
        world.add_node()
        [pod] = world.add_pods(1)
        await settle()
        world.delete(pod)
        await settle()
        assert isinstance(world.plugin, Preparing)
        assert world.plugin.cancelled == 1

    world = play(story, lambda _: Preparing())
    assert world.heard(PreBound) == [PreBound(1, "cancelled")]
    assert not len(world.engine.attempts)


def test_pre_bind_of_a_pod_that_is_gone_may_write_to_its_end() -> None:
    """Others get its room only then, and nothing is bound."""

    async def story(world: World) -> None:
        world.add_node()
        [pod] = world.add_pods(1)
        await settle()
        world.delete(pod)
        await settle()
        assert isinstance(world.plugin, Writing)
        assert world.engine.core.cache.pods
        world.plugin.go_on.set()
        await settle()
        assert not world.engine.core.cache.pods

    world = play(story, lambda _: Writing())
    assert world.heard(PreBound) == [PreBound(1, "cancelled")]
    assert world.writes.names("bind") == []


def test_pre_bind_that_ends_with_the_process_gives_nothing_back() -> None:
    """Its pod stays as it was decided: the next leader reads what was written."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(1)
        await settle()
        await world.driver.stop()
        await settle()

    world = play(story, lambda _: Preparing())
    assert world.heard(PreBound) == []


def test_a_bind_that_waits_is_taken_back_when_the_pod_is_gone() -> None:
    """Nothing is written about it any more; those behind it have its place."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        world.add_node()
        pods = world.add_pods(CONCURRENCY + 3)
        await settle()
        world.delete(pods[CONCURRENCY + 1])
        world.writes.held = set()
        world.writes.release("bind")
        await settle()
        await settle()

    world = play(story)
    wanted = [f"p{number}" for number in range(CONCURRENCY + 3) if number != CONCURRENCY + 1]
    assert world.writes.names("bind") == wanted


def test_pre_bind_that_fails_says_why() -> None:
    """By its answer, or by raising; it is not cancelled by its own failure."""

    async def story(world: World) -> None:
        assert isinstance(world.plugin, Preparing)
        world.plugin.go_on.set()
        world.add_node()
        world.add_pods(1)
        await settle()

    answered = play(story, lambda _: Preparing(pre_bind=unschedulable("no disk")))
    raised = play(story, lambda _: Preparing(pre_bind=ZeroDivisionError("broken")))

    assert answered.heard(PreBound) == [PreBound(1, "no disk", is_rejection=True)]
    assert "broken" in str(raised.heard(PreBound)[0])
    assert not raised.heard(PreBound)[0].is_rejection
    assert answered.writes.names("bind") == raised.writes.names("bind") == []


def test_bind_plugins_bind_instead_of_the_binding() -> None:
    """Their success is as good as the API server's."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(1)
        await settle()

    world = play(story, lambda _: Everything())
    assert world.heard(Bound) == [Bound(1)]
    assert world.writes.names("bind") == []
    assert isinstance(world.plugin, Everything)
    assert "P.bind" in world.plugin.diary


@pytest.mark.parametrize(
    "answer", [ZeroDivisionError("broken"), error("no answer"), unschedulable("not now")]
)
def test_a_bind_plugin_that_fails_leaves_doubt(answer: Status | Exception) -> None:
    """It may have bound the pod before, as DefaultBinder does if the answer to it is lost."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(1)
        await settle()

    [failed] = play(story, lambda _: binding(answer)).heard(BindFailed)
    assert not failed.is_certain
    assert failed.message.endswith(str(answer.message if isinstance(answer, Status) else answer))
    assert failed.is_rejection == (isinstance(answer, Status) and answer.is_rejection)


def binding(answer: Status | Exception) -> Everything:
    return Everything(bind=answer)


def test_what_plugins_want_in_between_comes_back_as_an_event() -> None:
    """So that it is in the recording, and the engine alone acts on it."""

    async def story(world: World) -> None:
        world.services.activate([make_pod_info("p")])

    assert play(story).heard(Activate) == [Activate(("default/p",))]


# --- draining -----------------------------------------------------------------------------------


def test_drain_waits_for_pre_bind_and_then_for_the_bind() -> None:
    """As both are on their way to a node."""

    async def story(world: World) -> None:
        world.writes.held = {"bind"}
        world.add_node()
        world.add_pods(1)
        await settle()
        world.stop()
        draining = asyncio.create_task(world.driver.drain(20.0))
        await settle()
        assert world.driver.in_flight == 1
        assert not draining.done()
        assert isinstance(world.plugin, Preparing)
        world.plugin.go_on.set()
        await settle()
        assert not draining.done()
        world.writes.release("bind")
        await settle()
        assert draining.done()
        assert world.driver.in_flight == 0

    play(story, lambda _: Preparing())


def test_drain_does_not_wait_for_pods_that_permit_holds() -> None:
    """Nobody knows for how long."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(1)
        await settle()
        assert [attempt.state for attempt in world.engine.attempts] == [AttemptState.HELD]
        before = world.clock.now
        await world.driver.drain(20.0)
        assert world.clock.now == before

    play(story, lambda _: Everything(permit=Status(Code.WAIT)))


def test_drain_gives_up_and_says_how_many_were_left() -> None:
    """After the time it was given."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(2)
        await settle()
        before = world.clock.now
        with capture_logs() as logs:
            await world.driver.drain(20.0)
        assert world.clock.now == before + 20.0
        assert [(entry["event"], entry["count"]) for entry in logs] == [
            ("Binds still in flight after the drain", 2)
        ]

    play(story, lambda _: Preparing())


def test_stop_ends_what_still_runs() -> None:
    """No PreBind goes on behind our back."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(1)
        await settle()
        await world.driver.stop()
        assert isinstance(world.plugin, Preparing)
        assert world.plugin.cancelled == 1

    play(story, lambda _: Preparing())


def test_stop_does_not_wait_for_what_ignores_it() -> None:
    """A process that lost its lease must end, so that another one is started."""

    async def story(world: World) -> None:
        world.add_node()
        world.add_pods(1)
        await settle()
        before = world.clock.now
        with capture_logs() as logs:
            await world.driver.stop()
        assert world.clock.now == pytest.approx(before + END_SECONDS)
        assert [(entry["log_level"], entry["count"]) for entry in logs] == [("error", 1)]

    play(story, lambda _: Deaf())


def test_every_event_is_noted_with_its_time_and_answer() -> None:
    """In order, before anything that follows from it."""

    async def story(world: World) -> None:
        world.add_node()
        world.clock.advance(1.5)
        world.add_pods(1)
        await settle()

    world = play(story)
    kinds = [type(event) for event, _, _ in world.told]
    assert kinds == [ObjectSet, ObjectSet, Decide, Bound]
    assert [now for _, now, _ in world.told] == [1000.0, 1001.5, 1001.5, 1001.5]
    assert world.told[2][2] == [Bind(1, "default", "p0", "default/p0", "n")]


def test_a_log_of_events_that_raises_ends_alone() -> None:
    """The daemon goes on, and so do the other logs."""
    world = World(lambda _: Slow(FakeClock(), 0.0, 0.0))

    class Full:
        heard = 0

        def note(self, event: Event, now: float, instructions: Sequence[Instruction]) -> None:
            self.heard += 1
            raise ValueError("\ud800")

    full = Full()
    world.driver._event_logs.insert(0, full)

    world.add_node()
    world.add_pods(2)

    assert full.heard == 1
    assert len(world.heard(ObjectSet)) == 3

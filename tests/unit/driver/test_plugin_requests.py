"""Requests of plugins at PreBind: how long a pod waits behind those of very many other pods."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.daemon.client.errors import NotSentError, UnavailableError
from scheduler.daemon.client.session import Response
from scheduler.daemon.client.turns import Place
from scheduler.daemon.client.writes import PLUGIN_REQUESTS, PodWrites
from scheduler.daemon.driver.driver import Driver
from scheduler.daemon.driver.lanes import OutboxSettings
from scheduler.daemon.driver.outbox import Outbox
from scheduler.daemon.driver.plugin_api import PluginApi
from scheduler.kernel.engine import AttemptState, Engine
from scheduler.kernel.engine.engine import EngineSettings
from scheduler.kernel.engine.engine_state import EngineProfiles
from scheduler.kernel.engine.events import ObjectGone, ObjectSet
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import QueueSortPlugin
from scheduler.kernel.framework.results import Write
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import SKIP, SUCCESS, Status
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.plugins.priority_sort import PrioritySort
from tests.support.builders import make_node, make_pod_info
from tests.support.clock import FakeClock
from tests.support.engines import no_other_profiles
from tests.support.fake_plugins import make_plugin_set
from tests.support.handles import make_services
from tests.support.shares import unseen_queues, unseen_shares
from tests.support.virtual_time import run_in
from tests.unit.engine.engine import Everything

CLAIM_SECONDS = 0.05
WRITES = 2
"""Of a claim from a template: its finalizer, then its allocation."""
MANY = 320
"""Pods whose claims take 20 rounds of requests: a second."""
ALL_SECONDS = MANY * WRITES / PLUGIN_REQUESTS * CLAIM_SECONDS
SLACK = 1.1
"""The loop rests now and then."""


class Server:
    """Takes `CLAIM_SECONDS` for each write of a claim, and no time for others.

    Attributes:
        claims: the claims written, in the order of the requests.
        bound: the time of each pod's binding.
        hangs: whether writes of claims are not answered.
        under_way: number of writes of claims under way.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.claims: list[str] = []
        self.bound: dict[str, float] = {}
        self.hangs = False
        self.under_way = 0
        self._clock = clock

    async def request(
        self, method: str, path: str, _body: object, *, timeout: float, **_: object
    ) -> Response:
        if path.endswith("/binding"):
            self.bound[path.split("/")[-2]] = self._clock.now
        elif path.startswith("/claims/"):
            self.claims.append(path.removeprefix("/claims/"))
            self.under_way += 1
            try:
                await asyncio.sleep(timeout if self.hangs else CLAIM_SECONDS)
            finally:
                self.under_way -= 1
            if self.hangs:
                raise UnavailableError(method, message="no answer in time")
        return Response(200, {}, b"{}")


class Claiming(Everything, Shortcuts):
    """PreBind writes a claim, for pods whose names begin so; the outbox binds them.

    Attributes:
        problems: what requests raised.
    """

    ONLY_BINDS = True
    api: PluginApi

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[Exception] = []

    @override
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS if pod.name.startswith("claim") else SKIP

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return await self.api.run_to_end(self._write(pod))

    async def _write(self, pod: PodInfo) -> Status:
        try:
            for _ in range(WRITES):
                await self.api.request("PATCH", f"/claims/{pod.name}", {})
        except Exception as problem:
            self.problems.append(problem)
            raise
        return SUCCESS


class BindingItself(Claiming):
    """The same, in Bind."""

    ONLY_BINDS = False

    @override
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SKIP

    @override
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return await self._write(pod)


class ByPriority(PrioritySort):
    """As kube-scheduler orders."""

    NAME = "Sort"


class ByName(QueueSortPlugin):
    """The first in the alphabet comes first."""

    NAME = "Sort"

    @override
    def sort_key(self, queued: QueuedPodInfo) -> Any:
        return queued.pod_info.name


class World:
    """A driver with its engine and outbox, and a server that is slow with claims."""

    def __init__(self, plugin: Claiming, sort: QueueSortPlugin) -> None:
        self.clock = FakeClock(0.0)
        self.plugin = plugin
        services = make_services()
        plugins = make_plugin_set([sort, plugin], profile="test", now=self.clock.monotonic)
        engine = Engine(
            EngineProfiles({"test": Framework(plugins)}),
            EngineSettings(seed=1),
            rules_of=no_other_profiles,
            services=services,
            states=services.states,
        )
        self.driver = Driver(engine, self.clock)
        self.server = Server(self.clock)
        writes = PodWrites(self.server)  # a fake of all that is asked of it
        plugin.api = PluginApi(writes, (), self.driver.submit)
        self.driver.plugin_api = plugin.api
        self.outbox = self.driver.outbox = Outbox(
            writes,
            self.clock,
            OutboxSettings("host"),
            answer=self.driver.submit,
            ask_others=self.driver.bind_by_others,
            shares=unseen_shares(),
            queues=unseen_queues(),
            on_sent=self.driver.sent,
        )
        node = make_node(allocatable={"cpu": "10k", "memory": "10Ti", "pods": 10 * MANY})
        self.driver.submit(ObjectSet("nodes", node))

    def add(self, name: str, count: int = 1, priority: int = 0) -> list[PodInfo]:
        pods = [
            make_pod_info(f"{name}-{number}", scheduler_name="test", priority=priority)
            for number in range(count)
        ]
        for pod in pods:
            self.driver.submit(ObjectSet("pods", pod))
        return pods

    def delete(self, pod: PodInfo) -> None:
        self.driver.submit(ObjectGone("pods", pod.namespace, pod.name, pod.uid))

    @property
    def cancelled(self) -> int:
        """Attempts whose PreBind was cancelled and has not ended."""
        return sum(each.state is AttemptState.CANCELLED for each in self.driver.engine.attempts)

    async def until(self, holds: Callable[[], bool], seconds: float) -> float:
        """Wait, at most so long; return the time."""
        start = self.clock.now
        while not holds():
            assert self.clock.now < start + seconds, "it does not come"
            await asyncio.sleep(0.001)
        return self.clock.now


def play(
    story: Callable[[World], Awaitable[None]],
    plugin: Claiming | None = None,
    sort: QueueSortPlugin | None = None,
) -> World:
    """Run a story beside a driver that decides and sends; waiting takes no time."""

    async def run(world: World) -> World:
        tasks = [
            asyncio.create_task(world.outbox.run()),
            asyncio.create_task(world.driver.decide(lambda: False)),
        ]
        try:
            await story(world)
        finally:
            await world.driver.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return world

    world = World(plugin or Claiming(), sort or ByPriority())
    return run_in(world.clock, run(world))


def test_an_urgent_pod_waits_for_the_requests_under_way_and_no_others() -> None:
    """Each of its own waits for one of those at most; a pod without claims waits for none."""

    async def story(world: World) -> None:
        world.add("claim-low", MANY)
        await world.until(lambda: world.driver.in_flight + len(world.server.bound) == MANY, 1.0)
        assert len(world.server.bound) < MANY / 4
        start = world.clock.now
        world.add("claim-high", priority=1)
        world.add("plain")
        await world.until(lambda: len(world.server.bound) == MANY + 2, 2 * ALL_SECONDS)
        assert world.server.bound["plain-0"] - start < CLAIM_SECONDS / 2
        assert world.server.bound["claim-high-0"] - start < 2 * WRITES * CLAIM_SECONDS

    play(story)


@pytest.mark.parametrize("plugin", [Claiming, BindingItself], ids=["PreBind", "Bind"])
def test_requests_of_pods_go_by_priority(plugin: type[Claiming]) -> None:
    """Those of lower priority come last, although they were there first."""

    async def story(world: World) -> None:
        world.add("claim-first", PLUGIN_REQUESTS)
        await world.until(lambda: world.server.under_way == PLUGIN_REQUESTS, 1.0)
        world.add("claim-low", 16, priority=-1)
        await asyncio.sleep(CLAIM_SECONDS / 10)
        world.add("claim-high", 16, priority=1)
        everything = (PLUGIN_REQUESTS + 2 * 16) * WRITES
        await world.until(lambda: len(world.server.claims) == everything, 1.0)

    names = [name.rsplit("-", 1)[0] for name in play(story, plugin()).server.claims]
    turns = PLUGIN_REQUESTS
    assert set(names[:turns]) == {"claim-first"}
    assert names[turns : turns + 16] == ["claim-high"] * 16
    assert names[-16:] == ["claim-low"] * 16


@pytest.mark.parametrize("plugin", [Claiming, BindingItself], ids=["PreBind", "Bind"])
def test_requests_wait_in_the_order_of_the_queue(plugin: type[Claiming]) -> None:
    """Whatever the QueueSort plugin orders by."""

    async def story(world: World) -> None:
        world.add("claim-first", PLUGIN_REQUESTS)
        await world.until(lambda: world.server.under_way == PLUGIN_REQUESTS, 1.0)
        world.add("claim-z", 16, priority=1)
        await asyncio.sleep(CLAIM_SECONDS / 10)
        world.add("claim-a", 16)
        everything = (PLUGIN_REQUESTS + 2 * 16) * WRITES
        await world.until(lambda: len(world.server.claims) == everything, 1.0)

    claims = play(story, plugin(), ByName()).server.claims
    assert all(name.startswith("claim-a") for name in claims[PLUGIN_REQUESTS:][:16])
    assert all(name.startswith("claim-z") for name in claims[-16:])


def test_a_driver_that_stops_sends_nothing_new_for_pods() -> None:
    """Although writes under way run to their end: the pods will not be bound."""

    async def story(world: World) -> None:
        world.add("claim", MANY)
        await world.until(lambda: world.server.under_way == PLUGIN_REQUESTS, 1.0)
        begun = set(world.server.claims)
        await world.driver.stop()
        assert len(begun) == PLUGIN_REQUESTS
        assert set(world.server.claims) == begun
        assert len(world.server.claims) == PLUGIN_REQUESTS * WRITES
        assert not world.driver._places

    play(story)


def test_pods_are_bound_in_the_order_of_decisions_and_no_turn_is_lost() -> None:
    """The first ones while the last have sent nothing; together they are not later than before."""

    async def story(world: World) -> None:
        world.add("claim", MANY)
        await world.until(lambda: world.server.under_way == PLUGIN_REQUESTS, 1.0)
        start = world.clock.now
        end = await world.until(lambda: len(world.server.bound) == MANY, 2 * ALL_SECONDS)
        assert end - start < ALL_SECONDS * SLACK

    bound = [int(name.split("-")[1]) for name in play(story).server.bound]
    assert all(abs(number - at) < 2 * PLUGIN_REQUESTS for at, number in enumerate(bound))


def test_writes_of_claims_that_hang_delay_no_pod_without_claims() -> None:
    """However many pods wait behind them. An urgent one is next when they are given up."""

    async def story(world: World) -> None:
        world.server.hangs = True
        world.add("claim", MANY)
        await world.until(lambda: world.driver.in_flight == MANY, 1.0)
        start = world.clock.now
        world.add("plain", MANY)
        await world.until(lambda: len(world.server.bound) == MANY, 1.0)
        world.add("claim-high", priority=1)
        await asyncio.sleep(1.0)
        assert len(world.server.claims) == PLUGIN_REQUESTS

        await world.until(lambda: "claim-high-0" in world.server.claims, 60.0)
        assert world.server.claims.index("claim-high-0") == PLUGIN_REQUESTS
        assert world.clock.now - start < 31.0

    play(story)


def test_deleted_pods_that_have_sent_nothing_end_at_once() -> None:
    """Without a request, although no other request ends: a preemptor may wait for what they have.

    Those under way are answered first.
    """

    async def story(world: World) -> None:
        world.server.hangs = True
        pods = world.add("claim", MANY)
        await world.until(lambda: world.driver.in_flight == MANY, 1.0)
        start = world.clock.now
        for pod in pods:
            world.delete(pod)
        assert world.cancelled == MANY
        await world.until(lambda: world.cancelled == PLUGIN_REQUESTS, 1.0)
        assert world.clock.now - start < 0.1
        assert len(world.plugin.problems) == MANY - PLUGIN_REQUESTS
        assert all(isinstance(problem, NotSentError) for problem in world.plugin.problems)

        await world.until(lambda: not world.cancelled, 31.0)
        assert len(world.server.claims) == PLUGIN_REQUESTS
        assert not world.driver._places

    play(story)


def test_a_deleted_pod_whose_claim_is_half_written_goes_first() -> None:
    """Its devices are given back when the claim is written, before others are served."""

    async def story(world: World) -> None:
        [pod] = world.add("claim-low", priority=-1)
        await world.until(lambda: world.server.under_way == 1, 1.0)
        world.add("claim", MANY)
        await asyncio.sleep(3 * CLAIM_SECONDS)
        assert world.server.claims.count("claim-low-0") == 1

        world.delete(pod)
        await world.until(lambda: not world.cancelled, 3 * CLAIM_SECONDS)
        assert world.server.claims.count("claim-low-0") == WRITES

    play(story)


def test_writes_of_unreserve_and_of_post_filter_go_first() -> None:
    """They free what a pod waits for. An instruction may follow from any task's event."""

    async def story(world: World) -> None:
        world.add("claim", MANY, priority=1)
        await world.until(lambda: world.server.under_way == PLUGIN_REQUESTS, 1.0)

        with Place.of(0, 1).taken():
            world.driver._start(-1, world.driver._send(Write("PATCH", "/claims/freed")))
        await world.until(lambda: "freed" in world.server.claims, ALL_SECONDS)

        assert world.server.claims.index("freed") < 2 * PLUGIN_REQUESTS

    play(story)

"""Plugins that are not part of Stowage, at every point an attempt passes."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Pod
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
)
from scheduler.kernel.framework.interface import (
    EnqueueExtensions,
    NodeFilterPlugin,
    NodeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    ReservePlugin,
)
from scheduler.kernel.framework.status import Code, Status, error, unschedulable
from tests.scenario.world import World, play


def with_plugins(*plugins: type[Plugin], weights: Mapping[str, int] | None = None) -> Any:
    """Arguments of `start_daemon` for one profile with plugins beside the usual ones."""
    enabled = [
        {"name": plugin.NAME, **({"weight": w} if (w := (weights or {}).get(plugin.NAME)) else {})}
        for plugin in plugins
    ]
    profile = {"schedulerName": "stowage", "plugins": {"multiPoint": {"enabled": enabled}}}
    return {"profiles": [profile]}, {plugin.NAME: plugin for plugin in plugins}


async def start(world: World, *plugins: type[Plugin], **options: Any) -> None:
    config, out_of_tree = with_plugins(*plugins, **options)
    await world.start_daemon(config, out_of_tree=out_of_tree)


class OnlyRed(NodeFilterPlugin, EnqueueExtensions):
    NAME = "OnlyRed"

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        assert node.node is not None
        is_red = node.node.metadata.labels.get("color") == "red"
        return Status() if is_red else unschedulable("node(s) were not red")

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL))
        ]


class ByRank(NodeScorePlugin):
    NAME = "ByRank"

    @override
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        assert node.node is not None
        return int(node.node.metadata.labels["rank"])


def test_filter_and_score_in_node_form() -> None:
    """A filter decides which nodes, a score which of them, a registered event wakes."""

    async def story(world: World) -> None:
        for index in range(5):
            color = "red" if index < 3 else "blue"
            world.node(f"n{index}", labels={"rank": str(index * 20), "color": color})
        await start(world, OnlyRed, ByRank, weights={"ByRank": 100})

        world.pod("p")

        assert await world.bound("p") == ["n2"]
        for index in range(3):
            world.sandbox.patch("nodes", f"n{index}", {"metadata": {"labels": {"color": "blue"}}})
        # Nodes and pods come over watches of their own: the one may be faster.
        nodes = world.daemon.driver.engine.core.cache.nodes.values()
        await world.until(
            lambda: all(
                n.node is not None and n.node.metadata.labels["color"] == "blue" for n in nodes
            ),
            "the daemon to know the colors",
        )
        world.pod("q")
        await world.rejected("q")
        condition = world.condition("q")
        assert condition is not None
        assert condition["message"] == (
            "0/5 nodes are available: 5 node(s) were not red. no new claims to deallocate, "
            "preemption: 0/5 nodes are available: "
            "5 No preemption victims found for incoming pod."
        )
        world.sandbox.patch("nodes", "n4", {"metadata": {"labels": {"color": "red"}}})
        assert await world.bound("q") == ["n4"]

    play(story)


class Raises(NodeFilterPlugin):
    NAME = "Raises"

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        if "trap" in pod.metadata.labels:
            raise RuntimeError("trapped")
        return Status()


class Odd(NodeScorePlugin):
    """Answers what it must not when a pod asks for it."""

    NAME = "Odd"

    @override
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        answers: dict[str, Any] = {"nan": math.nan, "high": 101, "low": -1, "text": "many"}
        return answers.get(pod.metadata.labels.get("trap", ""), 50)


@pytest.mark.parametrize("trap", ["raise", "nan", "high", "low", "text"])
def test_a_plugin_that_fails_spoils_only_that_attempt(trap: str) -> None:
    """The pod is told, the others are bound, the failure is counted."""
    plugin: type[Plugin] = Raises if trap == "raise" else Odd

    async def story(world: World) -> None:
        world.node("n1")
        world.node("n2")
        await start(world, plugin)

        world.pod("victim", labels={"trap": trap})
        names = [f"p{index}" for index in range(5)]
        for name in names:
            world.pod(name)

        await world.bound(*names)
        await world.rejected("victim", reason="SchedulerError")
        condition = world.condition("victim")
        assert condition is not None
        assert plugin.NAME in condition["message"]
        assert len(world.daemon.driver.engine.core.cache.pods) == 5

    play(story)


class Holds(PermitPlugin, EnqueueExtensions):
    """Holds pods labelled so, for the time the label says."""

    NAME = "Holds"

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE))]

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        seconds = pod.pod.metadata.labels.get("hold")
        if seconds is None:
            return Status(), 0.0
        if seconds == "never":
            return unschedulable("not today"), 0.0
        return Status(Code.WAIT), float(seconds)


async def held(world: World, pod: str) -> str:
    """Wait until Permit holds a pod; its UID."""
    waiting = world.daemon.driver.engine.core.waiting
    await world.until(lambda: any(w.pod.name == pod for w in waiting), f"{pod} to be held")
    return next(w.pod.uid for w in waiting if w.pod.name == pod)


def test_permit_holds_and_lets_go() -> None:
    """The pod keeps its place meanwhile, and keeps nobody else waiting."""

    async def story(world: World) -> None:
        world.node("n", cpu="2")
        await start(world, Holds)
        world.pod("p", cpu="1", labels={"hold": "60"})
        uid = await held(world, "p")
        world.pod("q", cpu="1")
        await world.bound("q")
        world.pod("too-much", cpu="1")
        await world.rejected("too-much")
        assert not world.node_of("p")

        assert world.daemon.driver.engine.core.waiting.allow(uid, "Holds")

        assert await world.bound("p") == ["n"]

    play(story)


def test_permit_rejects_a_held_pod() -> None:
    """Its place goes to the pod that waits for it."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await start(world, Holds)
        world.pod("p", cpu="1", labels={"hold": "60"})
        uid = await held(world, "p")
        world.pod("q", cpu="1")
        await world.rejected("q")

        world.daemon.driver.engine.core.waiting.reject(uid, "Holds", "too late")

        assert await world.bound("q") == ["n"]
        await world.rejected("p")
        condition = world.condition("p")
        assert condition is not None
        assert "too late" in condition["message"] or "Insufficient cpu" in condition["message"]

    play(story)


def test_permit_runs_out_of_patience() -> None:
    """A time limit that passes is a rejection."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await start(world, Holds)

        world.pod("p", cpu="1", labels={"hold": "0.2"})

        await world.rejected("p")
        await world.until(lambda: world.events("p", "FailedScheduling"), "the event")
        assert world.events("p", "FailedScheduling")[0]["note"] == (
            "0/1 nodes are available: "
            "1 rejected due to timeout after waiting 200ms at plugin Holds."
        )
        # The end of its own reservation is nothing that could help it.
        await world.settled()
        await world.quiet(0.5)
        assert world.attempts("p") == 1

    play(story)


def test_permit_refuses_at_once() -> None:
    """Nothing is left of the assumption."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await start(world, Holds)

        world.pod("p", cpu="1", labels={"hold": "never"})

        await world.rejected("p")
        condition = world.condition("p")
        assert condition is not None
        assert condition["message"] == "0/1 nodes are available: 1 not today."
        world.pod("q", cpu="1")
        assert await world.bound("q") == ["n"]

    play(story)


def test_a_held_pod_that_is_deleted() -> None:
    """Its place is free at once."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await start(world, Holds)
        world.pod("p", cpu="1", labels={"hold": "60"})
        await held(world, "p")
        world.pod("q", cpu="1")
        await world.rejected("q")

        world.sandbox.delete("pods", "p", grace_seconds=0)

        assert await world.bound("q") == ["n"]
        await world.settled()
        assert list(world.daemon.driver.engine.core.waiting) == []

    play(story)


def test_the_end_does_not_wait_for_held_pods() -> None:
    """Nobody may ever let them go; the next daemon finds them waiting."""

    async def story(world: World) -> None:
        world.node("n")
        await start(world, Holds)
        world.pod("p", labels={"hold": "600"})
        await held(world, "p")

        async with asyncio.timeout(60):
            await world.stop_daemon()

        assert not world.node_of("p")

    play(story)


STORY: list[str] = []
"""What the plugins below were asked, in order."""


class Takes(ReservePlugin):
    NAME = "First"

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        STORY.append(f"{self.NAME}.reserve {pod.name}")
        return Status()

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        STORY.append(f"{self.NAME}.unreserve {pod.name}")


class TakesToo(Takes):
    NAME = "Second"


class TakesOnce(Takes):
    """Fails the first time."""

    NAME = "Third"

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        super().reserve(state, pod, node_name)
        return error("out of luck") if STORY.count(f"Third.reserve {pod.name}") == 1 else Status()


def test_a_failed_reservation_is_taken_back_in_reverse() -> None:
    """All Reserve plugins give back, the last one first; then the pod is tried again."""
    STORY.clear()

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await start(world, Takes, TakesToo, TakesOnce)

        world.pod("p", cpu="1")

        assert await world.bound("p") == ["n"]
        once = ["First.reserve p", "Second.reserve p", "Third.reserve p"]
        back = ["Third.unreserve p", "Second.unreserve p", "First.unreserve p"]
        assert [*once, *back, *once] == STORY
        await world.until(lambda: world.events("p", "FailedScheduling"), "the event")
        assert "out of luck" in world.events("p", "FailedScheduling")[0]["note"]

    play(story)


class Prepares(PreBindPlugin, PostBindPlugin):
    """Works before binding, fails the first time, takes note afterwards."""

    NAME = "Prepares"

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        STORY.append(f"pre_bind {pod.name}")
        await asyncio.sleep(0.05)
        return error("disk on fire") if STORY.count(f"pre_bind {pod.name}") == 1 else Status()

    @override
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        STORY.append(f"post_bind {pod.name} {node_name}")


def test_a_failed_preparation_stops_the_binding() -> None:
    """PreBind fails: Unreserve, no binding; the next attempt goes through to PostBind."""
    STORY.clear()

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await start(world, Takes, Prepares)

        world.pod("p", cpu="1")

        assert await world.bound("p") == ["n"]
        await world.settled()
        await world.until(lambda: world.events("p", "FailedScheduling"), "the event")
        assert "disk on fire" in world.events("p", "FailedScheduling")[0]["note"]
        assert world.bindings(None) == 1
        assert STORY == [
            "First.reserve p",
            "pre_bind p",
            "First.unreserve p",
            "First.reserve p",
            "pre_bind p",
            "post_bind p n",
        ]

    play(story)


class BrokenGate(PreEnqueuePlugin):
    NAME = "BrokenGate"

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        return Status() if "good" in pod.name else 1 / 0  # type: ignore[return-value]


def test_a_broken_gate_does_not_flood_the_log() -> None:
    """Every event may retry the pod that it gates; the log names that pod once."""

    async def story(world: World) -> None:
        world.node("n1")
        await start(world, BrokenGate)
        with capture_logs() as logs:
            world.pod("victim")
            names = [f"good{index}" for index in range(20)]
            for name in names:
                world.pod(name)
            await world.bound(*names)
        told = [each for each in logs if each["event"] == "Plugin failed"]
        assert [each["pod"] for each in told] == ["default/victim"]
        errors = world.daemon.driver.engine.core.frameworks["stowage"].calls.metrics.plugin_errors
        assert errors["BrokenGate", "PreEnqueue"].value > 2

    play(story)


class BurntDisk(PreBindPlugin):
    NAME = "BurntDisk"

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        raise RuntimeError("disk on fire")


def test_the_log_shows_where_a_plugin_raised() -> None:
    """Beside the failed attempt, whose line has the message only."""

    async def story(world: World) -> None:
        world.node("n")
        await start(world, BurntDisk)
        with capture_logs() as logs:
            world.pod("p")
            await world.until(lambda: world.events("p", "FailedScheduling"), "the event")
        [told] = [each for each in logs if each["event"] == "Plugin failed"]
        assert 'raise RuntimeError("disk on fire")' in told["trace"]

    play(story)

"""Pods that Permit plugins hold: let go and turned away by others, in groups, by another leader."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from together import GROUP, SIZE, Together
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.config.load import load_object
from scheduler.daemon.bootstrap import args_types_of, implemented_plugins
from scheduler.daemon.recording.files import Recording
from scheduler.daemon.recording.replay import replay
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
)
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    EnqueueExtensions,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    PreFilterPlugin,
)
from scheduler.kernel.framework.results import PreFilterResult
from scheduler.kernel.framework.status import SUCCESS, Code, Status
from scheduler.kernel.snapshot import Snapshot
from scheduler.tools.offline.cluster import Profiles
from tests.scenario.world import World, play

ELECTION = {
    "leaderElect": True,
    # No leader loses it, however long the machine stands still.
    "leaseDuration": "90s",
    "renewDeadline": "60s",
    "retryPeriod": "200ms",
}


class Gate(PermitPlugin, PreFilterPlugin, PreBindPlugin, PostBindPlugin, EnqueueExtensions):
    """Holds pods labelled so; a pod that names a point opens or shuts the gate from there."""

    NAME: ClassVar[str] = "Gate"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle

    @override
    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD))]

    def _turn(self, point: str, pod: PodInfo) -> None:
        if pod.labels.get("at") != point:
            return
        for held in self._handle.waiting:
            if pod.labels["do"] == "allow":
                assert self._handle.waiting.allow(held.pod.uid, self.NAME)
            else:
                assert self._handle.waiting.reject(held.pod.uid, self.NAME, "shut")

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        self._turn("preFilter", pod)
        return None, SUCCESS

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return (Status(Code.WAIT), 600.0) if "hold" in pod.labels else (SUCCESS, 0.0)

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        self._turn("preBind", pod)
        return SUCCESS

    @override
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._turn("postBind", pod)


def profiles(plugin: str, **more: Any) -> dict[str, Any]:
    """A configuration of one profile with a plugin of ours in it."""
    enabled = {"multiPoint": {"enabled": [{"name": plugin}]}}
    return {"profiles": [{"schedulerName": "stowage", "plugins": enabled}], **more}


def member(world: World, name: str, size: int = 3, **options: Any) -> None:
    """A pod of the group."""
    world.pod(name, cpu="1", labels={GROUP: "g", SIZE: str(size)}, **options)


async def held(world: World, *names: str) -> None:
    """Wait until exactly these pods are held."""
    waiting = world.daemon.driver.engine.core.waiting
    await world.until(
        lambda: {each.pod.name for each in waiting} == set(names), f"{names} to be held"
    )


@pytest.mark.parametrize("point", ["preFilter", "preBind", "postBind"])
@pytest.mark.parametrize("verb", ["allow", "reject"])
def test_other_pods_open_and_shut_the_gate(point: str, verb: str) -> None:
    """From every kind of point: within a decision, while a pod is prepared, after it is bound."""

    async def story(world: World) -> None:
        world.node("n")
        await world.start_daemon(profiles("Gate"), out_of_tree={"Gate": Gate})
        world.pod("p", labels={"hold": "yes"})
        world.pod("q", labels={"hold": "yes"})
        await held(world, "p", "q")

        world.pod("opener", labels={"at": point, "do": verb})

        await world.bound("opener")
        if verb == "allow":
            await world.bound("p", "q")
        else:
            await world.rejected("p", "q")
            for name in ("p", "q"):
                condition = world.condition(name)
                assert condition is not None
                assert condition["message"] == "0/1 nodes are available: 1 shut."
        await world.settled()
        assert not list(world.daemon.driver.engine.core.waiting)

    play(story)


def test_a_group_is_bound_at_once() -> None:
    """Nobody before the last one has a node; everybody after."""

    async def story(world: World) -> None:
        world.node("n")
        await world.start_daemon(profiles("Together"), out_of_tree={"Together": Together})
        member(world, "a")
        member(world, "b")
        await held(world, "a", "b")
        assert world.bindings(None) == 0

        member(world, "c")

        await world.bound("a", "b", "c")
        await world.settled()
        assert world.bindings(None) == 3

    play(story)


@pytest.mark.parametrize("grace", [0, 30])
def test_a_member_is_deleted_while_others_wait(grace: int) -> None:
    """Their room is free at once, and they are told why."""

    async def story(world: World) -> None:
        world.node("n", cpu="2")
        await world.start_daemon(profiles("Together"), out_of_tree={"Together": Together})
        member(world, "a")
        member(world, "b")
        await held(world, "a", "b")
        world.pod("big", cpu="2")
        await world.rejected("big")

        world.sandbox.delete("pods", "a", grace_seconds=grace)

        assert await world.bound("big") == ["n"]
        await world.rejected("b")
        await world.until(lambda: world.events("b", "FailedScheduling"), "the event")
        assert "group g is not complete" in world.events("b", "FailedScheduling")[0]["note"]
        await held(world)

    play(story)


def test_a_member_is_preempted_while_others_wait() -> None:
    """The API server hears of no deletion; the group comes back when there is room."""

    async def story(world: World) -> None:
        world.node("n", cpu="3")
        await world.start_daemon(profiles("Together"), out_of_tree={"Together": Together})
        member(world, "a")
        member(world, "b")
        await held(world, "a", "b")

        urgent = {"metadata": {"name": "urgent"}, "value": 100}
        world.sandbox.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **urgent}
        )
        world.pod("vip", cpu="3", priorityClassName="urgent")

        assert await world.bound("vip") == ["n"]
        await world.rejected("a", "b")
        assert world.sandbox.requests.count(verb="delete", resource="pods") == 0
        world.sandbox.delete("pods", "vip", grace_seconds=0)
        member(world, "c")
        await world.bound("a", "b", "c")

    play(story)


def test_the_leader_is_lost_while_pods_wait() -> None:
    """The next one decides about held pods anew, counts who runs, and binds nobody twice."""

    async def story(world: World) -> None:
        world.node("n", cpu="8")
        config = profiles("Together", leaderElection=ELECTION)
        out_of_tree = {"Together": Together}
        leader = await world.start_daemon(config, out_of_tree=out_of_tree)
        member(world, "a", size=4)
        member(world, "b", size=4)
        await held(world, "a", "b")
        standby = await world.start_daemon(config, out_of_tree=out_of_tree)

        world.daemon = leader
        await world.kill_daemon()
        world.end_lease()
        world.daemon = standby
        await held(world, "a", "b")
        # As if the one before had bound it in the middle.
        member(world, "d", size=4, nodeName="n")
        cache = world.daemon.driver.engine.core.cache
        await world.until(lambda: len(cache.pods) == 3, "the daemon to know of it")

        member(world, "c", size=4)

        await world.bound("a", "b", "c")
        await world.settled()
        assert world.bindings(201) == world.bindings(None) == 3

    play(story)


def test_what_was_held_is_replayed(tmp_path: Path) -> None:
    """Plugins that share a state, hold, release and reject decide the same again."""

    async def story(world: World) -> None:
        world.node("n", cpu="3")
        config = profiles("Together")
        await world.start_daemon(config, out_of_tree={"Together": Together}, record=str(tmp_path))
        member(world, "a")
        member(world, "b")
        await held(world, "a", "b")
        world.sandbox.delete("pods", "a", grace_seconds=0)
        await world.rejected("b")
        member(world, "c")
        member(world, "d")
        await world.bound("b", "c", "d")
        await world.settled()
        await world.stop_daemon()

    play(story)
    recording = Recording(sorted(tmp_path.iterdir()))
    config = load_object(
        recording.header.configuration,
        out_of_tree={"Together": implemented_plugins({"Together": Together})["Together"]},
        args_types=args_types_of({"Together": Together}),
    )
    engine = Profiles(config, {"Together": Together}).engine(recording.header.seed)

    replayed = replay(recording, engine)

    assert replayed.difference is None
    assert replayed.events > 20


def test_the_daemon_ends_in_order_while_pods_wait() -> None:
    """Nothing is bound of half a group, and the next daemon completes it."""

    async def story(world: World) -> None:
        world.node("n")
        config, out_of_tree = profiles("Together"), {"Together": Together}
        await world.start_daemon(config, out_of_tree=out_of_tree)
        member(world, "a", size=2)
        await held(world, "a")
        await world.stop_daemon()
        assert world.bindings(None) == 0

        await world.start_daemon(config, out_of_tree=out_of_tree)
        await held(world, "a")
        member(world, "b", size=2)

        await world.bound("a", "b")

    play(story)

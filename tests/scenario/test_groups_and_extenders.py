"""Gangs and extenders over real HTTP: what waits while one thinks, and what its answers do."""

import asyncio
from typing import Any

from tests.scenario.test_pod_group_stories import GROUPS, Stage
from tests.scenario.world import World, play
from tests.support.extender import Body, FakeExtender, failing, only

GPU = "example.com/gpu"
MANAGED = [{"name": GPU, "ignoredByScheduler": True}]
GANG = ("a", "b", "c")


def gang(world: World) -> None:
    """A gang of three comes; each asks for what the extender manages."""
    Stage(world).group("g", 3)
    for name in GANG:
        amounts = {"requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"}}
        container = {"name": "main", "image": "example.com/app:1", "resources": amounts}
        world.pod(name, containers=[container], schedulingGroup={"podGroupName": "g"})


def test_others_are_bound_while_an_extender_thinks_about_a_gang() -> None:
    """It is asked about all members at once, and they go where it lets them."""

    async def tell(world: World) -> None:
        thought = asyncio.Event()

        async def think(body: Body) -> Any:
            await thought.wait()
            return only("r1-1", "r1-2")(body)

        async with FakeExtender(filter=think) as extender:
            Stage(world).racks(r1=3)
            config = extender.config("filter", managedResources=MANAGED, httpTimeout="60s")
            daemon = await world.start_daemon({"extenders": [config]}, feature_gates=GROUPS)
            gang(world)
            await world.until(lambda: extender.most == len(GANG), "all to be asked about")
            world.pod("single", cpu="1")
            await world.bound("single")
            before = [world.node_of(name) for name in GANG]
            thought.set()
            nodes = await world.bound(*GANG)

            assert before == ["", "", ""]
            assert set(nodes) <= {"r1-1", "r1-2"}
            await world.stop_daemon(daemon)

    play(tell)


async def waits_until_answered(world: World, extender: FakeExtender) -> None:
    """A gang is rejected and holds nothing, and is bound once the extender answers."""
    gang(world)
    await world.rejected(*GANG, reason="SchedulerError")
    before = [world.node_of(name) for name in GANG]
    extender.replies["filter"] = only("r1-0", "r1-1")
    await world.bound(*GANG)

    assert before == ["", "", ""]


def test_a_gang_waits_for_an_extender_that_fails() -> None:
    """None is bound without its word; all are tried again after back-off."""

    async def tell(world: World) -> None:
        async with FakeExtender(filter=failing(500)) as extender:
            Stage(world).racks(r1=2)
            config = extender.config("filter", managedResources=MANAGED)
            daemon = await world.start_daemon({"extenders": [config]}, feature_gates=GROUPS)
            await waits_until_answered(world, extender)
            await world.stop_daemon(daemon)

    play(tell)


def test_a_gang_whose_answers_never_come_is_tried_again() -> None:
    """The time-out ends each question; the gang holds nothing until the extender answers."""

    async def tell(world: World) -> None:
        never = asyncio.Event()

        async def hang(_: Body) -> Any:
            await never.wait()

        async with FakeExtender(filter=hang) as extender:
            Stage(world).racks(r1=2)
            config = extender.config("filter", managedResources=MANAGED, httpTimeout="300ms")
            daemon = await world.start_daemon({"extenders": [config]}, feature_gates=GROUPS)
            await waits_until_answered(world, extender)
            never.set()
            await world.stop_daemon(daemon)

    play(tell)

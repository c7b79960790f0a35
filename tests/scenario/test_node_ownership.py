"""Two schedulers with nodes of their own in one cluster, told apart by labels."""

from scheduler.kernel.framework.events import POD_KIND
from tests.scenario.world import World, play

OURS = {"scheduler": "stowage"}
CONFIG = {
    "profiles": [
        {
            "schedulerName": "stowage",
            "plugins": {"multiPoint": {"enabled": [{"name": "NodeOwnership"}]}},
            "pluginConfig": [{"name": "NodeOwnership", "args": {"nodeSelector": OURS}}],
        }
    ]
}


def test_nodes_belong_to_one_scheduler_and_are_handed_over_by_their_labels() -> None:
    """Pods of others count on our nodes, and an event says that they are there."""

    async def story(world: World) -> None:
        world.node("ours", cpu="2", labels=OURS)
        world.node("theirs", cpu="8")
        await world.start_daemon(CONFIG)
        world.pod("first", cpu="500m")
        assert await world.bound("first") == ["ours"]

        world.pod("stranger", cpu="1", scheduler="other")
        core = world.daemon.driver.engine.core
        known = core.states.lister(POD_KIND)
        await world.until(lambda: known.get("stranger", "default") is not None, "the other pod")
        world.sandbox.bind("stranger", "ours")
        await world.until(lambda: len(core.cache.pods) == 2, "its binding")
        world.pod("second", cpu="500m")
        world.pod("third", cpu="500m")
        assert await world.bound("second") == ["ours"]
        await world.rejected("third")
        await world.until(lambda: world.events("stranger", "ForeignBinding"), "an event")

        condition = world.condition("third")
        assert condition is not None
        assert condition["message"].startswith(
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) belonged to another scheduler."
        )
        world.sandbox.patch("nodes", "theirs", {"metadata": {"labels": OURS}})
        assert await world.bound("third") == ["theirs"]

    play(story)

"""Room that is kept for a big pod: others leave it free, unless they end before."""

from typing import Any

from tests.scenario.test_devices import (
    CONTROLLED,
    device_class,
    from_template,
    resource_slice,
    template,
)
from tests.scenario.world import World, play, pod_object

CONFIG = {
    "profiles": [
        {
            "schedulerName": "stowage",
            "plugins": {"multiPoint": {"enabled": [{"name": "KeepRoom"}]}},
            "pluginConfig": [{"name": "KeepRoom", "args": {"afterSeconds": 0}}],
        }
    ]
}
END = "2126-01-01T00:00:00Z"


def stating(name: str, **annotations: str) -> Any:
    """A pod of half a core that says when it ends."""
    pod = pod_object(name, cpu="500m")
    written = {f"stowage.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    pod["metadata"]["annotations"] = written
    return pod


def test_only_a_pod_that_ends_before_uses_room_that_is_kept() -> None:
    """Another one waits, and is bound as soon as the big pod needs the room no more."""

    async def story(world: World) -> None:
        world.node("n", cpu="1500m")
        await world.start_daemon(CONFIG)
        world.sandbox.create(stating("first", expected_end=END))
        await world.bound("first")
        world.pod("big", cpu="1500m")
        told = f'room is kept on node "n", expected start {END}'
        await world.until(
            lambda: (world.condition("big") or {}).get("message", "").endswith(told),
            "the big pod to say that room is kept for it",
        )

        world.pod("plain", cpu="500m")
        await world.rejected("plain")
        world.sandbox.create(stating("brief", expected_duration="1m"))
        assert await world.bound("brief") == ["n"]
        assert world.node_of("plain") == ""

        world.sandbox.delete("pods", "big", "default")
        assert await world.bound("plain") == ["n"]

    play(story)


def test_a_device_that_is_free_is_kept_for_the_pod_that_waits_for_two() -> None:
    """Its claim is made from a template, and so are those that its devices come free of."""

    async def story(world: World) -> None:
        world.node("n")
        world.sandbox.create(resource_slice("n", "a", "b"), device_class())
        world.sandbox.create(template(), template("two", 2))
        await world.start_daemon(CONFIG)
        first = stating("first", expected_end=END)
        first["spec"]["resourceClaims"] = from_template()
        world.sandbox.create(first)
        await world.bound("first")
        world.pod("big", resourceClaims=from_template("two"))
        told = f'room is kept on node "n", expected start {END}'
        await world.until(
            lambda: (world.condition("big") or {}).get("message", "").endswith(told),
            "the big pod to say that devices are kept for it",
        )

        world.pod("small", resourceClaims=from_template())
        await world.rejected("small")
        brief = stating("brief", expected_duration="1m")
        brief["spec"]["resourceClaims"] = from_template()
        world.sandbox.create(brief)
        assert await world.bound("brief") == ["n"]

        world.sandbox.delete("pods", "brief", grace_seconds=0)
        world.sandbox.delete("pods", "first", grace_seconds=0)
        assert await world.bound("big") == ["n"]
        assert world.node_of("small") == ""

    play(story, CONTROLLED)

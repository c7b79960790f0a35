"""The console on a cluster that lives, and on the recording of one."""

import asyncio
from pathlib import Path
from typing import Any

from scheduler.clock import SystemClock
from scheduler.daemon.recording.files import Recording
from scheduler.tools.cli.comparing import compared_with, configured
from scheduler.tools.cli.live import ClusterAddress
from scheduler.tools.cli.watching import watching
from scheduler.tools.console.scenes import ClusterScene, RecordingScene
from scheduler.tools.offline.cluster import Profiles
from tests.scenario.world import World, play
from tests.support.console import JSON, lines, serving

EVICTING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: stowage
  plugins:
    score:
      disabled: [{name: "*"}]
      enabled: [{name: ImageLocality}]
"""


def kubeconfig(world: World, directory: Path) -> str:
    path = directory / "kubeconfig"
    world.sandbox.write_kubeconfig(path)
    return str(path)


def writes(world: World) -> int:
    """How many requests were to change something."""
    verbs = ("create", "update", "patch", "delete")
    return sum(world.sandbox.requests.count(verb=verb) for verb in verbs)


def test_a_cluster_is_watched_and_its_events_are_a_pods_story(tmp_path: Path) -> None:
    """What the daemon told of a pod is on its page; nothing but reading is asked of the server."""

    async def story(world: World) -> None:
        world.node("n", cpu="4")
        await world.start_daemon()
        world.pod("large", cpu="9")
        await world.rejected("large")
        await world.until(
            lambda: any(e["reason"] == "FailedScheduling" for e in world.sandbox.list("events")),
            "the event",
        )
        await world.stop_daemon()
        written = writes(world)
        place = ClusterAddress(kubeconfig(world, tmp_path))
        profiles, clock = Profiles(None), SystemClock()
        scene = ClusterScene(profiles, clock)
        async with watching(place, profiles, scene.submit, clock) as watched:
            scene.watch(watched)
            await watched.informers.wait_synced()
            async with serving(scene, session=watched.session) as (url, client):
                async with client.get(f"{url}/api/now") as answer:
                    now = await answer.json()
                async with client.get(f"{url}/api/explain?pod=large") as answer:
                    page = await answer.json()
                world.pod("small", cpu="1")
                world.sandbox.bind("small", "n")
                await world.until(lambda: len(scene.engine.core.cache.pods) == 1, "the change")

        assert (now["missing"], now["isLive"]) == ("", True)
        assert now["queue"]["unschedulable"] == 1
        told = {entry["what"]: entry["detail"] for entry in page["story"]}
        assert "1 Insufficient cpu" in told["FailedScheduling"]
        assert writes(world) == written

    play(story)


def recorded(directory: Path) -> Recording:
    """Two nodes, of which one is full; a pod that waits, and one that comes later."""

    async def story(world: World) -> None:
        world.node("a", cpu="4")
        world.node("b", cpu="4")
        await world.start_daemon(record=str(directory))
        world.pod("first", cpu="3")
        await world.bound("first")
        world.pod("large", cpu="9")
        await world.rejected("large")
        world.pod("last", cpu="3")
        await world.bound("last")
        await world.stop_daemon()

    play(story)
    return Recording(list(directory.iterdir()))


def test_a_recording_is_seen_at_any_moment(tmp_path: Path) -> None:
    """Back and forth; a pod's story and place are those that the engine had."""
    scene = RecordingScene(recorded(tmp_path), "recording")

    async def look() -> tuple[Any, Any, Any, Any]:
        async with serving(scene) as (url, client):

            async def get(path: str) -> Any:
                async with client.get(f"{url}{path}") as answer:
                    return await answer.json()

            at_end = await get("/api/now")
            at_start = await get("/api/now?at=0")
            again = await get("/api/now")
            return at_end, at_start, again, await get("/api/explain?pod=large")

    at_end, at_start, again, page = asyncio.run(look())
    assert (at_end["pods"], at_end["queue"]["unschedulable"]) == (2, 1)
    assert (at_start["pods"], at_start["waiting"]) == (0, [])
    assert again == at_end
    assert page["state"]["place"] == "unschedulable"
    assert "failed" in [entry["what"] for entry in page["story"]]


def test_a_recording_is_compared_as_replay_does(tmp_path: Path) -> None:
    """The numbers are those of the command; the curves end where they do."""
    recording = recorded(tmp_path)
    file = tmp_path / "config.yaml"
    file.write_text(EVICTING)
    asked = configured(recording.header, str(file), ())
    expected = compared_with(recording.header, recording, asked)

    async def ask() -> Any:
        async with (
            serving(RecordingScene(recording, "recording")) as (url, client),
            client.post(f"{url}/api/compare", json={"config": EVICTING}, headers=JSON) as answer,
        ):
            return (await lines(answer))[-1]["result"]

    found = asyncio.run(ask())
    assert (found["pods"], found["now"]["placed"]) == (expected.pods, expected.now.placed)
    assert len(found["elsewhere"]) == len(expected.elsewhere)
    curves = found["curves"]
    assert curves["times"] == sorted(curves["times"])
    for side in ("recorded", "now"):
        assert {len(values) for values in curves[side]["use"].values()} == {len(curves["times"])}
        assert len(curves[side]["waiting"]) == len(curves["times"])


def test_what_if_goes_back_to_the_moment_of_the_page(tmp_path: Path) -> None:
    """At the start there is nothing to drain."""
    scene = RecordingScene(recorded(tmp_path), "recording")

    async def ask() -> list[Any]:
        async with serving(scene) as (url, client):
            found = []
            for moment in (None, 0.0):
                question = {"drain": ["a"], "at": moment}
                async with client.post(f"{url}/api/what-if", json=question) as answer:
                    found.append((await lines(answer))[-1])
            return found

    at_end, at_start = asyncio.run(ask())
    assert at_end["result"]["heat"]["after"]["closed"] == [True, False]
    assert "there is no node 'a'" in at_start["error"]

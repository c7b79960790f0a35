"""`stowage top` on a cluster that lives, and on the recording of one."""

import asyncio
from pathlib import Path

import pytest
import yaml

from scheduler.api.pods import PodInfo
from scheduler.clock import SystemClock
from scheduler.kernel.engine.events import ObjectSet
from scheduler.tools.cli.live import ClusterAddress
from scheduler.tools.cli.recordings import recording_at
from scheduler.tools.cli.top.sources import ClusterSource, RecordingSource
from scheduler.tools.cli.top.view import View, view_of
from scheduler.tools.cli.watching import watching
from scheduler.tools.console.scenes import ClusterScene
from scheduler.tools.offline.cluster import Profiles
from tests.scenario.world import World, play


def kubeconfig(world: World, directory: Path) -> str:
    path = directory / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": world.sandbox.url}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    written = {"clusters": [cluster], "contexts": [context], "current-context": "c"}
    path.write_text(yaml.safe_dump({**written, "users": [{"name": "u", "user": {}}]}))
    return str(path)


def look(source: ClusterSource | RecordingSource) -> View:
    now, decides = source.now, source.decides
    return view_of(source.engine, source.profiles, source.rates, now, decides=decides)


def test_a_cluster_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes shows; what was there before is no news."""
    # So long that what came is news still, however slow the machine is.
    monkeypatch.setattr("scheduler.tools.cli.top.view.RATE_SECONDS", 1000.0)

    async def story(world: World) -> None:
        world.node("n", cpu="4")
        world.pod("before", cpu="1")
        await world.start_daemon()
        await world.bound("before")
        place = ClusterAddress(kubeconfig(world, tmp_path))
        source = ClusterSource(place, Profiles(None), SystemClock())
        async with source.running():
            title = f"{world.sandbox.url}  {place.kubeconfig}"
            await world.until(lambda: source.title == title, "everything is listed")
            await world.until(lambda: source.rates.per_second(source.now) == (0.0, 0.0), "begun")
            assert look(source).pods == 1
            world.pod("after", cpu="1")
            world.pod("large", cpu="9")
            await world.until(lambda: look(source).pods == 2, "the pod to show on its node")
            await world.until(lambda: look(source).waiting != (), "the other one to show")

            [waiting] = look(source).waiting
            assert [pod.name for pod in waiting.pods] == ["large"]
            assert "1 Insufficient cpu" in waiting.message
            await world.rejected("large")
            queue = {"active": 0, "unschedulable": 1, "gated": 0}
            await world.until(lambda: look(source).queue == queue, "the queue of the daemon")
            assert source.rates.per_second(source.now) == pytest.approx((0.001, 0.002))

    play(story)


def test_a_server_that_is_gone_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on the screen, or on the pages of the console, is old then."""
    monkeypatch.setattr("scheduler.daemon.informers.informer.BLIND_SECONDS", 0.1)

    async def story(world: World) -> None:
        place, clock = ClusterAddress(kubeconfig(world, tmp_path)), SystemClock()
        source = ClusterSource(place, Profiles(None), clock)
        scene = ClusterScene(Profiles(None), clock)
        async with (
            source.running(),
            watching(place, scene.profiles, scene.submit, clock) as watched,
        ):
            scene.watch(watched)
            await world.until(lambda: not scene.missing, "everything is listed")
            await world.until(lambda: source.title.endswith("kubeconfig"), "the same for top")
            await world.sandbox.stop()
            told = "out of date, without a watch of pods, nodes"
            await world.until(lambda: f"({told}" in source.title, "top to show it")
            await world.until(
                lambda: f"The cluster: {told}" in scene.missing, "the page to show it"
            )

    play(story)


def test_a_recording_is_moved_through(tmp_path: Path) -> None:
    """The same moment looks the same, whichever way it was come to."""

    async def story(world: World) -> None:
        world.node("n", cpu="4")
        await world.start_daemon(record=str(tmp_path))
        world.pod("p", cpu="1")
        world.pod("large", cpu="9")
        await world.bound("p")
        await world.rejected("large")
        await world.stop_daemon()

    play(story)
    source = RecordingSource(recording_at(list(tmp_path.iterdir()), None))

    async def walk() -> tuple[View, View, View]:
        # Its end is there before the first picture, not an empty cluster.
        async with source.running():
            assert source.title.endswith(f"  [{'=' * 20}]")
        at_end = look(source)
        assert source.title.endswith(f"  [{'=' * 20}]")
        source.move(-1e6)
        source.catch_up()
        at_start = look(source)
        assert source.title.endswith(f"  [{' ' * 20}]")
        source.move(1e6)
        source.catch_up()
        return at_end, at_start, look(source)

    async def first_shown() -> View:
        """At the very moment at which the daemon heard of the first pod."""
        heard = next(
            record.time
            for record in source.records
            if isinstance(record.event, ObjectSet) and isinstance(record.event.object, PodInfo)
        )
        source.move(heard - source.now)
        source.catch_up()
        return look(source)

    at_end, at_start, again = asyncio.run(walk())
    at_first = asyncio.run(first_shown())
    assert (at_end.pods, at_end.queue["unschedulable"]) == (1, 1)
    assert (at_start.pods, at_start.waiting) == (0, ())
    assert again == at_end
    assert at_first.pods + sum(at_first.queue.values()) == 1
    assert source.title.startswith("recording  ")

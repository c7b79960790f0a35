"""The API server is restored from a backup: room that restored pods have is not given away."""

from collections.abc import Callable, Mapping

import pytest

from scheduler.api.pods import PodInfo
from scheduler.daemon.informers import doubts
from scheduler.daemon.informers.informer import InformerOptions
from scheduler.daemon.informers.kinds import PODS
from tests.scenario.world import World, play

QUICK = InformerOptions(backoff_base=0.05, backoff_cap=0.2)
BINDING = "*/pods/new/binding"
BACKOFF_SECONDS = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


def pods_of(world: World) -> Mapping[str, PodInfo]:
    """The pods that the daemon knows."""
    return world.daemon._informers.of(PODS).store


async def fail_to_bind(world: World, change: Callable[[], None]) -> None:
    """Make room by a change; the pod `new` is bound there without success."""
    fault = world.sandbox.faults.drop(verb="create", path=BINDING, times=None)
    change()
    await world.until(lambda: fault.hits, "a binding to fail")


def test_no_pod_is_bound_before_the_restore_can_show() -> None:
    """The server is back, and the watch of pods is not: a restored pod has the only room."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await world.start_daemon(BACKOFF_SECONDS, informer_options=QUICK)
        world.pod("old", cpu="1")
        await world.bound("old")
        world.pod("new", cpu="1")
        await world.rejected("new")
        backup = world.sandbox.store.back_up()
        await fail_to_bind(world, lambda: world.sandbox.delete("pods", "old", grace_seconds=0))

        # Of a deletion alone nothing would tell once versions have counted up again.
        world.pod("newer", scheduler="another")
        await world.until(lambda: "default/newer" in pods_of(world), "the daemon to know it")

        faults = world.sandbox.faults
        faults.clear()
        for verb in ("list", "watch"):
            faults.drop(verb=verb, path="*/pods", times=None)
        world.sandbox.restore(backup)
        await world.quiet(2.5)
        assert world.node_of("new") == ""

        faults.clear()
        await world.rejected("new")
        await world.settled()
        await world.until(lambda: world.daemon.comparer.compare().agrees, "agreement")
        assert world.node_of("new") == ""
        world.sandbox.delete("pods", "old", grace_seconds=0)
        assert await world.bound("new") == ["n"]

    play(story)


def test_a_binding_that_waits_is_refused_when_the_restore_shows() -> None:
    """It was decided before: the pod is decided about again, with the restored pods."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await world.start_daemon(BACKOFF_SECONDS, informer_options=QUICK)
        world.pod("old", cpu="1")
        await world.bound("old")
        faults, outbox = world.sandbox.faults, world.daemon.driver.outbox
        # The binding of a pod waits for the end of an earlier change of its status.
        status = faults.hang(verb="patch", path="*/pods/new/status")
        world.pod("new", cpu="1")
        await world.until(lambda: status.hits, "a status that is not answered")
        backup = world.sandbox.store.back_up()
        world.sandbox.delete("pods", "old", grace_seconds=0)
        await world.until(lambda: outbox.binds_owed, "a binding that waits")
        world.pod("newer", scheduler="another")
        await world.until(lambda: "default/newer" in pods_of(world), "the daemon to know it")

        world.sandbox.restore(backup)
        await world.until(lambda: not outbox.binds_owed, "the binding to be refused", 10)
        await world.until(lambda: "default/old" in pods_of(world), "the daemon to know it")
        assert (world.node_of("new"), world.bindings(None)) == ("", 1)

    play(story)


def test_a_binding_that_waits_leaves_when_the_doubt_ends() -> None:
    """Nothing else is written then that could take it along."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await world.start_daemon(BACKOFF_SECONDS, informer_options=QUICK)
        world.pod("old", cpu="1")
        await world.bound("old")
        faults, daemon = world.sandbox.faults, world.daemon
        faults.delay(2.0, verb="patch", path="*/pods/new/status")
        world.pod("new", cpu="1")
        await world.until(lambda: world.events("new"), "the pod to be rejected")
        world.sandbox.delete("pods", "old", grace_seconds=0)
        await world.until(lambda: daemon.driver.outbox.binds_owed, "a binding that waits")
        for verb in ("list", "watch"):
            faults.drop(verb=verb, path="*/pods", times=None)
        faults.close_watches("pods", abort=True)
        await world.until(daemon.doubts.are_open, "a doubt")
        await world.rejected("new")
        await world.quiet()
        assert world.node_of("new") == ""

        faults.clear()
        assert await world.bound("new", seconds=10) == ["n"]

    play(story)


def test_no_pod_is_bound_before_every_kind_is_listed_again() -> None:
    """Pods are listed soon, nodes late: the room on a node was that of the lost state."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await world.start_daemon(BACKOFF_SECONDS, informer_options=QUICK)
        world.pod("new", cpu="2")
        world.pod("witness", scheduler="another")
        await world.rejected("new")
        backup = world.sandbox.store.back_up()
        more = {"status": {"allocatable": {"cpu": "2"}}}
        await fail_to_bind(
            world, lambda: world.sandbox.patch("nodes", "n", more, subresource="status")
        )

        # A pod that is as it was before tells at once, whatever has been written since.
        world.sandbox.patch("pods", "witness", {"metadata": {"labels": {"changed": ""}}})
        await world.until(
            lambda: pods_of(world)["default/witness"].pod.metadata.labels, "the daemon to know it"
        )
        faults = world.sandbox.faults
        faults.clear()
        late = faults.delay(2.5, verb="list", path="/api/v1/nodes", times=None)
        world.sandbox.restore(backup)
        await world.until(lambda: late.hits, "nodes to be listed")
        await world.quiet(2.0)
        assert world.bindings() == 0

        faults.clear()
        await world.until(lambda: world.daemon.comparer.compare().agrees, "agreement")
        await world.rejected("new")
        assert world.bindings() == 0
        world.sandbox.patch("nodes", "n", more, subresource="status")
        assert await world.bound("new") == ["n"]

    play(story)


def test_a_watch_that_never_comes_back_does_not_stop_all_bindings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the limit, pods that are known are bound all the same."""
    monkeypatch.setattr(doubts, "LIMIT_SECONDS", 1.0)

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await world.start_daemon(BACKOFF_SECONDS, informer_options=QUICK)
        world.pod("new", cpu="1", nodeSelector={"ready": ""})
        await world.rejected("new")
        for verb in ("list", "watch"):
            world.sandbox.faults.drop(verb=verb, path="*/pods", times=None)
        world.sandbox.faults.close_watches("pods", abort=True)
        await world.until(world.daemon.doubts.are_open, "a doubt")
        world.sandbox.patch("nodes", "n", {"metadata": {"labels": {"ready": ""}}})

        assert await world.bound("new") == ["n"]

        world.sandbox.faults.clear()
        await world.until(lambda: world.daemon.comparer.compare().agrees, "agreement")
        await world.settled()

    play(story)


def test_a_kind_that_is_not_served_holds_no_binding() -> None:
    """It is looked for once a minute only."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        world.sandbox.faults.answer(404, verb="list", path="*/resourceclaims", times=None)
        await world.start_daemon(informer_options=QUICK)
        backup = world.sandbox.store.back_up()
        world.pod("old", cpu="1")
        await world.bound("old")
        await world.settled()

        world.sandbox.restore(backup)
        await world.until(world.daemon.doubts.are_open, "a doubt")
        await world.until(lambda: not world.daemon.doubts.are_open(), "the doubts to end", 10)

        world.pod("new", cpu="1")
        assert await world.bound("new") == ["n"]

    play(story)

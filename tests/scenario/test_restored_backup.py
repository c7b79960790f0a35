"""The API server is restored from a backup: room that restored pods have is not given away."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.config.load import load_object
from scheduler.daemon.bootstrap import args_types_of, implemented_plugins
from scheduler.daemon.informers import doubts
from scheduler.daemon.informers.informer import InformerOptions
from scheduler.daemon.informers.kinds import PODS
from scheduler.daemon.recording.files import Recording
from scheduler.daemon.recording.replay import replay
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import PermitPlugin, Plugin, PreBindPlugin
from scheduler.kernel.framework.status import SUCCESS, Code, Status
from scheduler.tools.offline.cluster import Profiles
from tests.scenario.test_volumes import (
    SELECTED_NODE,
    VOLUMES,
    bind,
    claim,
    pod,
    reserve,
    storage_class,
    user_of,
    volume,
)
from tests.scenario.world import LIMIT_SECONDS, World, play

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


def test_a_restore_that_takes_longer_than_bindings_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for a kind without an answer where others have one: nothing is bound before."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        await world.start_daemon(BACKOFF_SECONDS, informer_options=QUICK)
        world.pod("old", cpu="1")
        await world.bound("old")
        world.pod("new", cpu="1")
        await world.rejected("new")
        backup = world.sandbox.store.back_up()
        await fail_to_bind(world, lambda: world.sandbox.delete("pods", "old", grace_seconds=0))
        world.pod("newer", scheduler="another")
        await world.until(lambda: "default/newer" in pods_of(world), "the daemon to know it")

        faults = world.sandbox.faults
        for verb in ("list", "watch", "create"):
            faults.drop(verb=verb, path="*", times=None)
        monkeypatch.setattr(doubts, "LIMIT_SECONDS", 2.0)
        faults.close_watches(abort=True)
        await world.until(lambda: PODS.name in world.daemon.doubts._limits, "a doubt about pods")
        # The next one must not end first, however slow the machine is.
        monkeypatch.setattr(doubts, "LIMIT_SECONDS", 2 * LIMIT_SECONDS)
        await world.quiet(3.0)
        faults.clear()
        for verb in ("list", "watch"):
            faults.drop(verb=verb, path="*/pods", times=None)
        world.sandbox.restore(backup)
        await world.quiet(1.5)
        assert world.node_of("new") == ""

        faults.clear()
        await world.rejected("new")
        assert world.node_of("new") == ""

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
        # Longer than the pod's back-off and the two steps after it.
        faults.delay(4.0, verb="patch", path="*/pods/new/status")
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


# --- pods on their way to a node ------------------------------------------------------------------

SET_BACK = "the API server was set back to an older state"


class Holds(PermitPlugin):
    """Holds the pod `new` for ten minutes."""

    NAME: ClassVar[str] = "Late"

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return (Status(Code.WAIT), 600.0) if pod.name == "new" else (SUCCESS, 0.0)


class Prepares(PreBindPlugin):
    """Ends when it is told to, or is cancelled."""

    NAME: ClassVar[str] = "Late"
    go_on: ClassVar[asyncio.Event]

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        if pod.name == "new":
            await self.go_on.wait()
        return SUCCESS


class Deaf(Prepares):
    """Goes on when it is cancelled for the first time, and succeeds."""

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        with suppress(asyncio.CancelledError):
            await super().pre_bind(state, pod, node_name)
        return await super().pre_bind(state, pod, node_name)


def state_of(world: World, pod: str = "new") -> str:
    """The state of a pod's attempt; empty without one."""
    attempts = world.daemon.driver.engine.attempts
    return next((each.state.value for each in attempts if each.pod.name == pod), "")


def says_set_back(world: World) -> bool:
    """Whether an event tells why the pod `new` is tried again."""
    return any(event["note"] == SET_BACK for event in world.events("new", "FailedScheduling"))


def waits_again(world: World) -> bool:
    """Whether the pod `new` was rejected since it failed: it was tried three times."""
    entries = world.daemon.driver.engine.core.queue.dump()
    [entry] = [each for each in entries if each["pod"] == "default/new"] or [{}]
    return entry.get("queue") == "unschedulable" and entry["attempts"] == 3


async def begin(world: World, plugin: type[Plugin], record: str = "") -> None:
    """A daemon with a plugin, and one node."""
    world.node("n", cpu="1")
    enabled = {"multiPoint": {"enabled": [{"name": "Late"}]}}
    profile = {"schedulerName": "stowage", "plugins": enabled}
    await world.start_daemon(
        {"profiles": [profile], **BACKOFF_SECONDS},
        out_of_tree={"Late": plugin},
        informer_options=QUICK,
        record=record,
    )


async def lose_the_place(world: World, state: str, **spec: Any) -> None:
    """The pod `new` comes to a state on the node of the pod `old`, which a restore brings back."""
    world.pod("old", cpu="1")
    await world.bound("old")
    world.pod("new", cpu="1", **spec)
    await world.rejected("new")
    backup = world.sandbox.store.back_up()
    world.sandbox.delete("pods", "old", grace_seconds=0)
    await world.until(lambda: state_of(world) == state, f"the pod to be {state}")
    # It is not in the backup, and so shows the restore.
    world.pod("newer", scheduler="another")
    await world.until(lambda: "default/newer" in pods_of(world), "the daemon to know it")

    world.sandbox.restore(backup)
    await world.until(lambda: "default/old" in pods_of(world), "the daemon to know it")
    await world.until(lambda: not world.daemon.doubts.are_open(), "the doubts to end")


async def waits_until_there_is_room(world: World) -> None:
    """The pod `new` waits, and is tried when the pod `old` is gone again."""
    await world.settled()
    assert world.node_of("new") == "", "the node has more than it can take"
    await world.until(lambda: says_set_back(world), "the event")
    await world.until(lambda: waits_again(world), "the pod to be tried")
    assert world.node_of("new") == ""
    world.sandbox.delete("pods", "old", grace_seconds=0)


def allow(world: World) -> None:
    """The Permit plugin allows what it holds."""
    waiting = world.daemon.driver.engine.core.waiting
    for held in waiting:
        assert waiting.allow(held.pod.uid, Holds.NAME)


def test_a_pod_that_permit_holds_gives_its_place_back(tmp_path: Path) -> None:
    """An answer that comes later binds nothing. A replay decides the same."""

    async def story(world: World) -> None:
        await begin(world, Holds, str(tmp_path))
        await lose_the_place(world, "held")
        allow(world)
        await waits_until_there_is_room(world)
        await world.until(lambda: state_of(world) == "held", "the pod to be held")
        allow(world)
        assert await world.bound("new") == ["n"]
        await world.settled()
        await world.stop_daemon()

    play(story)
    recording = Recording(sorted(tmp_path.iterdir()))
    plugins = {"Late": Holds}
    own = {"Late": implemented_plugins(plugins)["Late"]}
    config = load_object(
        recording.header.configuration, out_of_tree=own, args_types=args_types_of(plugins)
    )
    engine = Profiles(config, plugins).engine(recording.header.seed)
    assert replay(recording, engine).difference is None


def test_a_permit_plugin_that_never_answers_keeps_no_place() -> None:
    """The pod is held on the other node from then on."""

    async def story(world: World) -> None:
        await begin(world, Holds)
        await lose_the_place(world, "held")
        await world.until(lambda: waits_again(world), "the pod to be tried")

        world.node("m", cpu="1")
        waiting = world.daemon.driver.engine.core.waiting
        await world.until(lambda: [each.pod.node_name for each in waiting] == ["m"], "its turn")

    play(story)


@pytest.mark.parametrize("plugin", [Prepares, Deaf])
def test_a_pod_at_pre_bind_gives_its_place_back(plugin: type[Prepares]) -> None:
    """When PreBind has ended; one that ignores its cancellation and succeeds binds nothing."""

    async def story(world: World) -> None:
        plugin.go_on = asyncio.Event()
        await begin(world, plugin)
        await lose_the_place(world, "prebinding")
        plugin.go_on.set()
        await waits_until_there_is_room(world)
        assert await world.bound("new") == ["n"]

    play(story)


def test_a_pod_that_waits_for_its_volume_gives_its_place_back() -> None:
    """The volume comes all the same, and binds the pod to no full node."""

    async def story(world: World) -> None:
        chosen = claim()
        chosen["metadata"]["annotations"] = {SELECTED_NODE: "n"}
        world.sandbox.create(storage_class("example.com/disks"), chosen)
        await begin(world, Prepares)
        source = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        Prepares.go_on = asyncio.Event()
        Prepares.go_on.set()
        await lose_the_place(world, "prebinding", volumes=[source])

        found = volume("v", "n")
        del found["spec"]["nodeAffinity"]
        world.sandbox.create(found, keep_status=True)
        reserve(world, "v")
        bind(world, "v")
        await waits_until_there_is_room(world)
        assert await world.bound("new") == ["n"]

    play(story)


def test_a_volume_whose_reservation_is_lost_before_any_watch_shows_it_is_free() -> None:
    """The volume is again as the watch showed it last, so that no event tells of it."""

    async def story(world: World) -> None:
        local = storage_class("kubernetes.io/no-provisioner")
        world.node("n", cpu="4")
        world.sandbox.create(local, claim("lost"), claim("other"), volume("v", "n"))
        await world.start_daemon(BACKOFF_SECONDS, informer_options=QUICK)
        watches = world.sandbox.requests.count
        await world.until(lambda: watches(verb="watch", resource=VOLUMES), "the watch")
        world.sandbox.faults.silence_watches(VOLUMES)
        backup = world.sandbox.store.back_up()
        pod(world, "lost", "lost")
        await world.until(lambda: user_of(world, "v"), "the volume to be reserved")
        # It is not in the backup, and so shows the restore.
        world.pod("newer", scheduler="another")
        await world.until(lambda: "default/newer" in pods_of(world), "the daemon to know it")

        world.sandbox.restore(backup)
        await world.until(lambda: "default/newer" not in pods_of(world), "the restore to show")
        await world.until(lambda: not world.daemon.doubts.are_open(), "the doubts to end")
        pod(world, "other", "other")
        await world.until(lambda: user_of(world, "v"), "the other pod to get it")
        bind(world, "v", "other")

        assert await world.bound("other") == ["n"]

    play(story)

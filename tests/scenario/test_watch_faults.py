"""Watches break in every way; the daemon catches up and loses nothing."""

import json
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from apistub import Sandbox, Settings
from scheduler.daemon.informers import doubts
from scheduler.daemon.informers.informer import InformerOptions
from scheduler.daemon.informers.kinds import PODS
from scheduler.daemon.informers.paging import FIRST
from tests.scenario.world import World, node_object, play

QUICK = InformerOptions(backoff_base=0.05, backoff_cap=0.2)


def gone_as_event(sandbox: Sandbox) -> None:
    sandbox.forget_history()
    sandbox.faults.expire_watches()


def gone_as_status(sandbox: Sandbox) -> None:
    sandbox.faults.answers_gone_as_status = True
    sandbox.forget_history()
    sandbox.faults.close_watches(abort=True)


@pytest.mark.parametrize(
    "break_watches",
    [
        pytest.param(gone_as_event, id="410 event"),
        pytest.param(gone_as_status, id="410 status"),
        pytest.param(lambda s: s.faults.close_watches(), id="closed"),
        pytest.param(lambda s: s.faults.close_watches(abort=True), id="cut"),
    ],
)
def test_what_happened_meanwhile_is_seen(break_watches: Callable[[Sandbox], None]) -> None:
    """Pods and nodes come, change and go while nobody watches."""

    async def story(world: World) -> None:
        world.node("small", cpu="1")
        world.node("doomed", cpu="1")
        await world.start_daemon(informer_options=QUICK)
        world.pod("leaves", cpu="1")
        world.pod("stays", cpu="1")
        await world.bound("leaves", "stays")
        world.pod("waits", cpu="3")
        world.pod("gives-up", cpu="3")
        await world.rejected("waits", "gives-up")
        # No new watch comes about until everything has happened.
        closed = world.sandbox.faults.answer(500, verb="watch", times=None)
        lists = world.sandbox.faults.answer(500, verb="list", times=None)
        break_watches(world.sandbox)
        gone = world.node_of("leaves")
        world.sandbox.delete("pods", "leaves", grace_seconds=0)
        world.sandbox.delete("pods", "gives-up", grace_seconds=0)
        world.sandbox.delete("nodes", gone)
        world.node("big", cpu="3")
        world.pod("new", cpu="500m", nodeSelector={"kubernetes.io/hostname": "later"})
        world.node("later", cpu="1")
        await world.until(lambda: closed.hits or lists.hits, "the daemon to miss its watches")
        is_gone_as_status = world.sandbox.faults.answers_gone_as_status
        world.sandbox.faults.clear()
        world.sandbox.faults.answers_gone_as_status = is_gone_as_status

        assert await world.bound("waits", "new") == ["big", "later"]
        await world.settled()
        await world.until(lambda: world.daemon.comparer.compare().agrees, "agreement")
        assert set(world.daemon.driver.engine.core.cache.nodes) == {
            "small",
            "doomed",
            "big",
            "later",
        } - {gone}
        assert world.daemon.driver.engine.core.queue.dump() == []

    play(story)


def test_a_half_open_watch_is_given_up() -> None:
    """A connection that says nothing at all counts as dead after a while."""

    async def story(world: World) -> None:
        world.node("n")
        options = InformerOptions(backoff_base=0.05, backoff_cap=0.2, read_timeout=1.0)
        await world.start_daemon(informer_options=options)
        world.sandbox.faults.silence_watches("pods")

        world.pod("p")

        assert await world.bound("p") == ["n"]

    play(story, Settings(bookmark_seconds=0.2))


def test_a_malformed_object_is_left_out() -> None:
    """One warning, one count; the watch goes on without a new list."""

    async def story(world: World) -> None:
        world.node("n")
        await world.start_daemon(informer_options=QUICK)
        pods = world.daemon.metrics.informers.malformed_objects["pods"]
        broken = {
            "type": "ADDED",
            "object": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "broken",
                    "namespace": "default",
                    "uid": "u",
                    "resourceVersion": str(world.sandbox.store.version),
                },
                "spec": {
                    "schedulerName": "stowage",
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "a lot"}}}],
                },
            },
        }
        with capture_logs() as logs:
            line = json.dumps(broken).encode() + b"\n"
            # The list is there before its watch is.
            await world.until(lambda: world.sandbox.faults.inject(line, "pods"), "an open watch")
            watches = world.sandbox.requests.count(verb="watch", resource="pods")
            await world.until(lambda: pods.value == 1, "the count")
        world.pod("p")

        assert await world.bound("p") == ["n"]
        # A machine that stands still for a second is worth one of its own.
        all_warnings = [entry for entry in logs if entry["log_level"] == "warning"]
        warnings = [entry for entry in all_warnings if entry["event"] != "Event loop stalled"]
        assert len(warnings) == 1
        assert "default/broken" in str(warnings[0])
        assert world.sandbox.requests.count(verb="watch", resource="pods") == watches

    play(story)


def test_a_node_that_reports_nothing_takes_no_pod() -> None:
    """Without allocatable there is room for nothing, and the daemon goes on."""

    async def story(world: World) -> None:
        node = node_object("empty")
        del node["status"]
        world.sandbox.create(node)
        await world.start_daemon()
        world.pod("p")
        await world.rejected("p")
        condition = world.condition("p")
        assert condition is not None
        assert condition["message"] == (
            "0/1 nodes are available: 1 Too many pods. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod."
        )

        world.sandbox.patch(
            "nodes", "empty", {"status": {"allocatable": {"pods": "1"}}}, "", subresource="status"
        )

        assert await world.bound("p") == ["empty"]

    play(story)


def test_long_lists_are_complete() -> None:
    """Everything is known at the first decision, however many pages it took."""

    async def story(world: World) -> None:
        world.sandbox.create(
            *(node_object(f"n{i:04}", pods="1") for i in range(FIRST + 200)), keep_status=True
        )
        await world.start_daemon()

        assert world.daemon.driver.engine.core.cache.node_count() == FIRST + 200
        pages = world.sandbox.requests.count(verb="list", resource="nodes")
        assert pages == 2
        world.pod("p")
        await world.bound("p")

    play(story)


ELECTION = {"leaderElect": True, "resourceName": "stowage", "resourceNamespace": "default"}


async def stand_by(world: World) -> None:
    """Start a daemon while another one leads; there are a node and a pod for it."""
    world.sandbox.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "stowage", "namespace": "default"},
            "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600},
        }
    )
    world.node("n", cpu="1")
    await world.start_daemon({"leaderElection": ELECTION}, informer_options=QUICK)
    world.pod("new", cpu="1")
    pods = world.daemon._informers.of(PODS).store
    await world.until(lambda: "default/new" in pods, "the standby to know the pod")


def test_a_new_leader_without_a_watch_lists() -> None:
    """Nothing failed: the watch of pods ended in good order, and the next one has no answer."""

    async def story(world: World) -> None:
        await stand_by(world)
        hanging = world.sandbox.faults.hang(verb="watch", path="*/pods", times=None)
        world.sandbox.faults.close_watches("pods")
        await world.until(lambda: hanging.hits, "the next watch of pods")
        world.pod("old", cpu="1", nodeName="n", scheduler="another")
        world.end_lease()

        await world.rejected("new")
        assert world.node_of("new") == ""

    play(story)


def test_a_new_leader_lists_what_it_may_have_missed() -> None:
    """The leader before it fills the only node while the standby has no watch of pods."""

    async def story(world: World) -> None:
        await stand_by(world)
        broken = world.sandbox.faults.answer(500, verb="watch", path="*/pods", times=None)
        world.sandbox.faults.close_watches(abort=True)
        await world.until(lambda: broken.hits, "the watch of pods to fail")
        world.pod("old", cpu="1", nodeName="n", scheduler="another")
        world.end_lease()

        await world.rejected("new")
        assert world.node_of("new") == ""

    play(story)


def test_a_new_leader_whose_list_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bindings wait for it, and not for ever; the log says by which objects they are made."""
    monkeypatch.setattr(doubts, "LIMIT_SECONDS", 4.0)

    async def story(world: World) -> None:
        await stand_by(world)
        broken = world.sandbox.faults.answer(500, verb="watch", path="*/pods", times=None)
        world.sandbox.faults.close_watches(abort=True)
        await world.until(lambda: broken.hits, "the watch of pods to fail")
        lists = world.sandbox.faults.hang(verb="list", path="*/pods", times=None)
        with capture_logs() as logs:
            world.end_lease()
            await world.until(lambda: lists.hits, "a list")
            await world.quiet(1.0)
            assert world.node_of("new") == ""
            assert await world.bound("new") == ["n"]
        [told] = [each for each in logs if each["event"].startswith("Objects may be obsolete")]
        assert (told["log_level"], told["kind"]) == ("warning", "pods")

    play(story)


def test_a_new_leader_waits_although_the_standby_waited_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The leader before it fills the only node long after the standby's last news of pods."""
    monkeypatch.setattr(doubts, "LIMIT_SECONDS", 4.0)

    async def story(world: World) -> None:
        await stand_by(world)
        for verb in ("watch", "list"):
            world.sandbox.faults.answer(500, verb=verb, path="*/pods", times=None)
        with capture_logs() as logs:

            def is_told(start: str) -> bool:
                return any(each["event"].startswith(start) for each in logs)

            world.sandbox.faults.close_watches(abort=True)
            await world.until(lambda: is_told("Objects may be obsolete"), "the limit")
            world.pod("old", cpu="1", nodeName="n", scheduler="another")
            world.end_lease()
            await world.until(lambda: is_told("Leading"), "the standby to lead")
        await world.quiet(0.5)
        world.sandbox.faults.clear()

        await world.rejected("new")
        assert world.node_of("new") == ""

    play(story)


def test_a_new_leader_whose_watches_go_on_lists_nothing() -> None:
    async def story(world: World) -> None:
        await stand_by(world)
        listed = world.sandbox.faults.delay(0.0, verb="list", times=None)
        world.end_lease()

        assert await world.bound("new") == ["n"]
        assert not listed.hits

    play(story)

"""Whatever happens to a binding: the place is free again, the pod is not lost and bound once."""

from collections.abc import Callable

import pytest

from apistub import Sandbox, StatusError
from apistub.http.faults import Fault
from scheduler.daemon.driver.lanes import CONCURRENCY, FOR_BINDS, FOR_EVENTS
from tests.scenario.world import BINDINGS, World, play

OTHERS = CONCURRENCY - CONCURRENCY // FOR_BINDS
PATCHES_AT_A_TIME = OTHERS - OTHERS // FOR_EVENTS

PODS = 6


@pytest.mark.parametrize(
    ("arrange", "is_told"),
    [
        pytest.param(lambda s: s.faults.answer(409, path=BINDINGS, times=3), True, id="409"),
        pytest.param(lambda s: s.faults.answer(500, path=BINDINGS, times=3), True, id="500"),
        pytest.param(
            lambda s: s.faults.answer(429, path=BINDINGS, times=3, retry_after_seconds=1),
            False,
            id="429",
        ),
        pytest.param(lambda s: s.faults.drop(path=BINDINGS, times=3), True, id="dropped"),
    ],
)
def test_a_refused_binding_is_tried_again(
    arrange: Callable[[Sandbox], Fault], is_told: bool
) -> None:
    """The node is exactly full in the end; an error is told as SchedulerError on the way."""

    async def story(world: World) -> None:
        world.node("n", cpu=str(PODS))
        fault = arrange(world.sandbox)
        await world.start_daemon()

        names = [f"p{index}" for index in range(PODS)]
        for name in names:
            world.pod(name, cpu="1")

        await world.bound(*names)
        assert fault.hits == 3
        await world.settled()
        assert world.bindings() == PODS
        await world.until(
            lambda: len(world.events(reason="Scheduled")) == PODS, "an event for each"
        )
        if is_told:
            await world.until(lambda: world.events(reason="FailedScheduling"), "the errors' event")
        else:
            assert not world.events(reason="FailedScheduling")
        assert world.daemon.comparer.compare().agrees
        snapshot = world.daemon.driver.engine.core.snapshot
        world.daemon.driver.engine.core.cache.update_snapshot(snapshot)
        assert snapshot.table.pod_count[snapshot.table.row_of["n"]] == PODS

    play(story)


def test_an_error_is_a_scheduler_error() -> None:
    """Condition and event carry what the API server said."""

    async def story(world: World) -> None:
        world.node("n")
        world.sandbox.faults.answer(500, path=BINDINGS, message="etcd is unhappy", times=None)
        await world.start_daemon()

        world.pod("p")

        await world.rejected("p", reason="SchedulerError")
        condition = world.condition("p")
        assert condition is not None
        assert condition["status"] == "False"
        assert "etcd is unhappy" in condition["message"]
        await world.until(lambda: world.events("p"), "the event")
        assert "etcd is unhappy" in world.events("p")[0]["note"]
        assert len(world.daemon.driver.engine.core.cache.pods) == 0
        world.sandbox.faults.clear()
        assert await world.bound("p") == ["n"]
        await world.until(
            lambda: world.condition("p") == {"type": "PodScheduled", "status": "True"},
            "the condition of the binding to stay",
        )

    play(story)


def test_the_same_error_twice_is_told_once() -> None:
    """The second failure changes nothing in the status, so nothing is patched."""

    async def story(world: World) -> None:
        world.node("n")
        fault = world.sandbox.faults.answer(500, path=BINDINGS, message="no", times=2)
        await world.start_daemon()

        world.pod("p")

        await world.bound("p")
        assert fault.hits == 2
        assert world.sandbox.requests.count(verb="patch", resource="pods") == 1

    play(story)


def test_a_status_that_cannot_be_written_loses_no_pod() -> None:
    """The patch is refused; the pod is tried again all the same."""

    async def story(world: World) -> None:
        refused = world.sandbox.faults.answer(409, verb="patch", path="*/status", times=None)
        await world.start_daemon()
        world.pod("p")
        await world.until(lambda: refused.hits, "the patch")

        world.node("n")

        assert await world.bound("p") == ["n"]

    play(story)


def test_a_binding_that_hangs_keeps_nobody_waiting() -> None:
    """The others are bound meanwhile."""

    async def story(world: World) -> None:
        world.node("n")
        hung = world.sandbox.faults.hang(path="*/stuck/binding")
        await world.start_daemon()
        world.pod("stuck")
        await world.until(lambda: hung.hits, "the binding to hang")

        names = [f"p{index}" for index in range(50)]
        for name in names:
            world.pod(name)

        await world.bound(*names)
        assert not world.node_of("stuck")
        await world.kill_daemon()

    play(story)


def test_an_answer_that_is_lost() -> None:
    """The pod is bound, the daemon cannot know: the watch tells, and nothing is bound twice."""

    async def story(world: World) -> None:
        world.node("n", cpu="2")
        fault = world.sandbox.faults.drop(path="*/p/binding", after_commit=True)
        await world.start_daemon()

        world.pod("p", cpu="1")
        world.pod("q", cpu="1")

        await world.bound("p", "q")
        await world.settled()
        assert fault.hits == 1
        await world.until(
            lambda: world.daemon.driver.engine.core.queue.counts().backoff == 0, "no pod to wait"
        )
        assert world.daemon.comparer.compare().agrees
        assert world.condition("p") == {"type": "PodScheduled", "status": "True"}

    play(story)


def test_an_answer_that_is_lost_while_the_watch_is_behind() -> None:
    """The API server is asked at once: the place is taken, and is not given away."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        faults = world.sandbox.faults
        world.pod("p", cpu="1")
        world.pod("q", cpu="1")
        lost = faults.drop(path=BINDINGS, after_commit=True)
        lost.act = lambda: faults.silence_watches("pods")
        await world.start_daemon()

        await world.until(lambda: lost.hits, "the binding")
        await world.settled()
        await world.until(lambda: world.events(reason="Scheduled"), "the event", 10)
        await world.rejected("p" if world.node_of("q") else "q")
        assert world.bindings(None) == 1

    play(story)


def test_a_pod_deleted_before_it_is_bound() -> None:
    """Its place is free at once for the next."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        world.sandbox.faults.before(
            lambda: world.sandbox.delete("pods", "p", grace_seconds=0), path="*/p/binding"
        )
        await world.start_daemon()
        world.pod("p", cpu="1")
        await world.until(lambda: world.bindings(404), "the binding to be refused")

        world.pod("q", cpu="1")

        assert await world.bound("q") == ["n"]
        await world.settled()
        assert world.daemon.driver.engine.core.queue.dump() == []

    play(story)


def test_a_pod_replaced_before_it_is_bound() -> None:
    """Its successor of the same name is another pod, and gets its own decision."""

    async def story(world: World) -> None:
        world.node("n", cpu="4")
        uids = []

        def replace() -> None:
            uids.append(world.sandbox.get("pods", "p")["metadata"]["uid"])
            world.sandbox.delete("pods", "p", grace_seconds=0)
            world.pod("p", cpu="3")

        world.sandbox.faults.before(replace, path="*/p/binding")
        await world.start_daemon()

        world.pod("p", cpu="1")

        assert await world.bound("p") == ["n"]
        await world.settled()
        [pod] = world.sandbox.list("pods")
        assert pod["metadata"]["uid"] not in uids
        assert world.bindings() == 1
        assert world.bindings(409) == 1
        cached = world.daemon.driver.engine.core.cache.pods
        assert list(cached) == [pod["metadata"]["uid"]]

    play(story)


def test_a_pod_another_scheduler_was_faster_with() -> None:
    """It is where the other one put it, and counts there."""

    async def story(world: World) -> None:
        world.node("ours", cpu="1")
        world.sandbox.faults.before(lambda: world.sandbox.bind("p", "theirs"), path="*/p/binding")
        await world.start_daemon()

        world.pod("p", cpu="1")
        await world.bound("p")
        await world.settled()
        world.node("theirs", cpu="1")
        world.pod("q", cpu="1")

        assert await world.bound("q") == ["ours"]
        assert world.node_of("p") == "theirs"
        assert world.daemon.comparer.compare().agrees

    play(story)


def test_a_node_deleted_before_the_pod_is_bound() -> None:
    """The API server binds to nodes it does not know: the pod counts on a ghost."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        world.sandbox.faults.before(lambda: world.sandbox.delete("nodes", "n"), path="*/p/binding")
        await world.start_daemon()
        world.pod("p", cpu="1")
        await world.bound("p")
        world.pod("q", cpu="1")
        await world.rejected("q")

        world.node("n", cpu="2")

        assert await world.bound("q") == ["n"]
        await world.settled()
        snapshot = world.daemon.driver.engine.core.snapshot
        world.daemon.driver.engine.core.cache.update_snapshot(snapshot)
        assert snapshot.table.pod_count[snapshot.table.row_of["n"]] == 2

    play(story)


def test_a_pod_that_begins_to_end_while_it_is_bound() -> None:
    """A deletion with grace, refused binding: the pod is not tried again and holds nothing."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")

        def end() -> None:
            world.sandbox.delete("pods", "p")

        world.sandbox.faults.before(end, path="*/p/binding")
        await world.start_daemon()
        world.pod("p", cpu="1")
        await world.until(lambda: world.bindings(None), "the binding")

        world.pod("q", cpu="1")

        with pytest.raises(StatusError):
            world.sandbox.get("pods", "p")
        assert await world.bound("q") == ["n"]

    play(story)


def test_a_failure_that_is_told_too_late_is_not_told() -> None:
    """The patch about the first attempt still waits when the second one succeeds."""

    async def story(world: World) -> None:
        world.node("n")
        world.sandbox.faults.hang(verb="patch", path="*/status", times=PATCHES_AT_A_TIME)
        await world.start_daemon()
        # These keep everybody busy who sends patches.
        for index in range(PATCHES_AT_A_TIME):
            world.pod(f"giant-{index}", cpu="1000")
        await world.until(
            lambda: (
                world.daemon.driver.engine.core.queue.counts().unschedulable == PATCHES_AT_A_TIME
            ),
            "all to fail",
        )
        world.pod("p", cpu="5")
        await world.until(
            lambda: (
                world.daemon.driver.engine.core.queue.counts().unschedulable
                == PATCHES_AT_A_TIME + 1
            ),
            "p to fail",
        )
        world.node("big", cpu="8")
        await world.bound("p")
        await world.settled()

        outbox = world.daemon.driver.outbox

        assert outbox._patches.get(world.sandbox.get("pods", "p")["metadata"]["uid"]) is None
        await world.kill_daemon()

    play(story)

"""More important pods get the room of less important ones, whatever happens on the way."""

from collections.abc import Sequence
from typing import Any

import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import PermitPlugin
from scheduler.kernel.framework.status import Code, Status
from scheduler.testing.validation import validate_engine
from tests.scenario.world import Object, World, play


def deletions(world: World) -> int:
    """How often the daemon has deleted a pod."""
    return world.sandbox.requests.count(verb="delete", resource="pods", code=200)


def pod(world: World, name: str, priority: int, **options: Any) -> None:
    """Add a pod of one core and some priority; options as for `World.pod`."""
    class_name = f"p{priority}"
    if world.sandbox.find("priorityclasses.scheduling.k8s.io", class_name, "") is None:
        world.sandbox.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": class_name},
                "value": priority,
            }
        )
    world.pod(name, **{"cpu": "1", **options}, priorityClassName=class_name)


async def filled(world: World, *pods: str) -> None:
    """One node, and a daemon that has filled it with less important pods of one core each."""
    world.node("n", cpu=str(len(pods)))
    await world.start_daemon()
    for name in pods:
        pod(world, name, 1)
    await world.bound(*pods)
    await world.settled()


def leaving(world: World, pods: Sequence[str]) -> list[str]:
    """Which pods are being deleted."""
    found = ((pod, world.sandbox.find("pods", pod)) for pod in pods)
    return [pod for pod, it in found if it and "deletionTimestamp" in it["metadata"]]


def end(world: World, *pods: str) -> None:
    """What a kubelet does when the containers have ended."""
    for pod in pods:
        world.sandbox.delete("pods", pod, grace_seconds=0)


def status(world: World, pod: str) -> Object:
    return world.sandbox.get("pods", pod).get("status", {})


def target(world: World, pod: str) -> Object | None:
    """The DisruptionTarget condition without its times."""
    for condition in status(world, pod).get("conditions", ()):
        if condition["type"] == "DisruptionTarget":
            return {k: condition.get(k) for k in ("status", "reason", "message")}
    return None


def test_high_displaces_low() -> None:
    """The least important goes last; all are told; the room is for the preemptor."""
    low = ["a", "b", "c"]

    async def story(world: World) -> None:
        await filled(world, *low)

        pod(world, "waits", 1, cpu="3")
        await world.rejected("waits")
        pod(world, "high", 100, cpu="3")
        await world.until(lambda: len(leaving(world, low)) == 3, "the victims to be leaving")

        await world.until(
            lambda: status(world, "high").get("nominatedNodeName") == "n", "the nomination"
        )
        assert target(world, "a") == {
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "stowage: preempting to accommodate a higher priority pod",
        }
        end(world, *low)
        assert await world.bound("high") == ["n"]
        await world.until(lambda: len(world.events(reason="Preempted")) == 3, "the events")
        uid = world.sandbox.get("pods", "high")["metadata"]["uid"]
        for event in world.events(reason="Preempted"):
            assert event["note"] == f"Preempted by pod {uid} on node n"
            assert event["related"]["uid"] == uid
        assert deletions(world) == 3
        assert not world.node_of("waits")
        validate_engine(world.daemon.driver.engine)

    play(story)


def test_two_preemptors_for_one_place() -> None:
    """The more important one gets it, though it came later; the victim goes once."""

    async def story(world: World) -> None:
        await filled(world, "low")

        pod(world, "high", 100)
        await world.until(lambda: leaving(world, ["low"]), "the victim to be leaving")
        pod(world, "higher", 200)
        await world.until(
            lambda: status(world, "higher").get("nominatedNodeName"), "the second nomination"
        )
        end(world, "low")

        assert await world.bound("higher") == ["n"]
        await world.settled()
        assert deletions(world) == 1
        assert not world.node_of("high")

    play(story)


def test_a_preemptor_deleted_half_way() -> None:
    """What it still wanted evicted stays, until the next preemptor wants it."""
    low = ["a", "b", "c"]

    async def story(world: World) -> None:
        await filled(world, *low)
        hung = world.sandbox.faults.hang(verb="delete", path="*/pods/*")

        pod(world, "high", 100, cpu="3")
        await world.until(lambda: hung.hits, "the first eviction to hang")
        await world.until(lambda: leaving(world, low), "the second victim to be leaving")
        end(world, "high")
        await world.until(
            lambda: not world.daemon.driver.engine.core.queue.counts().gated, "the gate to open"
        )
        stays = [pod for pod in low if pod not in leaving(world, low)]
        assert len(stays) == 2
        pod(world, "next", 100, cpu="3")
        await world.rejected("next")
        assert deletions(world) == 1
        end(world, *low)

        assert await world.bound("next") == ["n"]
        assert deletions(world) == 1
        await world.kill_daemon()

    play(story)


def test_a_daemon_killed_before_it_binds() -> None:
    """The next one finds the nomination and the victim leaving, and waits."""

    async def story(world: World) -> None:
        await filled(world, "low")
        pod(world, "high", 100)
        await world.until(lambda: leaving(world, ["low"]), "the victim to be leaving")
        await world.until(
            lambda: status(world, "high").get("nominatedNodeName") == "n", "the nomination"
        )
        await world.kill_daemon()
        world.node("m", cpu="1", unschedulable=True)

        await world.start_daemon()
        await world.until(lambda: world.attempts("high"), "the first attempt")
        pod(world, "other", 50)
        await world.rejected("other")
        assert deletions(world) == 1
        end(world, "low")

        assert await world.bound("high") == ["n"]
        await world.settled()
        assert not world.node_of("other")
        assert deletions(world) == 1

    play(story)


@pytest.mark.parametrize(("verb", "path"), [("delete", "*/pods/low"), ("patch", "*/low/status")])
def test_a_successor_of_a_victim_is_left_alone(verb: str, path: str) -> None:
    """A pod of the same name that came in between is another pod."""

    async def story(world: World) -> None:
        await filled(world, "low")

        def replace() -> None:
            end(world, "low")
            pod(world, "low", 1, scheduler="other", nodeName="m")

        world.sandbox.faults.before(replace, verb=verb, path=path)
        pod(world, "high", 100)

        assert await world.bound("high") == ["n"]
        assert not leaving(world, ["low"])
        assert world.node_of("low") == "m"
        assert not world.events(reason="Preempted")

    play(story)


def test_an_eviction_that_is_refused_is_no_loop() -> None:
    """The preemptor backs off after each; when the right is there, it gets the room."""

    async def story(world: World) -> None:
        await filled(world, "low")
        refused = world.sandbox.faults.answer(403, verb="delete", path="*/pods/*", times=None)
        pod(world, "high", 100)
        queue = world.daemon.driver.engine.core.queue
        await world.until(
            lambda: refused.hits >= 2 and queue.counts().backoff, "it to back off again"
        )
        assert refused.hits == world.attempts("high")
        world.sandbox.faults.clear()
        await world.until(lambda: leaving(world, ["low"]), "the victim to be leaving")
        end(world, "low")
        assert await world.bound("high") == ["n"]

    play(story)


def test_an_eviction_whose_answer_is_lost_makes_no_other_pod_a_victim() -> None:
    """The API server is asked: the watch may be behind, and another node look better by now."""

    async def story(world: World) -> None:
        await filled(world, "low")
        world.node("m", cpu="1")
        pod(world, "lowest", 0)
        await world.bound("lowest")
        await world.settled()
        faults = world.sandbox.faults
        world.sandbox.patch("nodes", "m", {"spec": {"unschedulable": True}})
        # Silent once the first of the two writes about the victim arrives.
        condition = faults.before(
            lambda: faults.silence_watches("pods"), verb="patch", path="*/pods/low/status"
        )
        lost = faults.drop(after_commit=True, verb="delete", path="*/pods/*")
        pod(world, "high", 100)
        await world.until(lambda: lost.hits, "the eviction")
        assert condition.hits
        world.sandbox.patch("nodes", "m", {"spec": {"unschedulable": False}})
        await world.until(lambda: world.events("low", reason="Preempted"), "the event", 10)
        await world.quiet(1.5)
        assert leaving(world, ["low", "lowest"]) == ["low"]
        end(world, "low")
        faults.close_watches("pods", abort=True)

        assert await world.bound("high") == ["n"]
        assert not leaving(world, ["lowest"])

    play(story)


class Holds(PermitPlugin):
    """Holds what is labelled so."""

    NAME = "Holds"

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        is_held = "hold" in pod.labels
        return (Status(Code.WAIT), 600.0) if is_held else (Status(), 0.0)


def test_a_victim_that_permit_holds_is_taken_back() -> None:
    """The API server hears of no deletion; the victim waits again, and the preemptor runs."""

    async def story(world: World) -> None:
        world.node("n", cpu="1")
        profile = {
            "schedulerName": "stowage",
            "plugins": {"multiPoint": {"enabled": [{"name": "Holds"}]}},
        }
        await world.start_daemon({"profiles": [profile]}, out_of_tree={"Holds": Holds})
        pod(world, "low", 1, labels={"hold": "yes"})
        waiting = world.daemon.driver.engine.core.waiting
        await world.until(lambda: len(waiting), "low to be held")

        pod(world, "high", 100)

        assert await world.bound("high") == ["n"]
        await world.until(lambda: world.events("low", "Preempted"), "the event")
        [event] = world.events("low", "Preempted")
        uid = world.sandbox.get("pods", "high")["metadata"]["uid"]
        assert event["note"] == f"Preempted by pod {uid} on node n (in kube-scheduler memory)."
        assert deletions(world) == 0
        await world.rejected("low")
        assert len(waiting) == 0

    play(story)

"""`/debug/explain`: the daemon says where a pod is, and why, wherever it is."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import aiohttp
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import NodeFilterPlugin, PermitPlugin, PreBindPlugin
from scheduler.kernel.framework.status import Code, Status
from scheduler.testing.validation import validate_engine
from tests.scenario.test_plugins import with_plugins
from tests.scenario.test_preemption import pod as pod_of_priority
from tests.scenario.world import BINDINGS, Object, World, play
from tests.support.ports import free_port

NEVER = {"podInitialBackoffSeconds": 500, "podMaxBackoffSeconds": 500}


class Asking:
    """A world whose daemon is asked over its secure port."""

    def __init__(self, world: World, url: str, session: aiohttp.ClientSession) -> None:
        self.world = world
        self._url = url
        self._session = session

    async def get(self, query: str) -> tuple[int, str]:
        async with self._session.get(f"{self._url}/debug/explain{query}", ssl=False) as answer:
            return answer.status, await answer.text()

    async def explain(self, pod: str, more: str = "") -> Object:
        """What the daemon says about a pod."""
        status, text = await self.get(f"?pod=default/{pod}{more}")
        assert status == 200, text
        [answer] = json.loads(text)["pods"]
        assert answer["pod"] == f"default/{pod}"
        found: Object = answer
        return found

    async def state(self, pod: str) -> Object:
        """Where it says that the pod is; times are checked, and left out."""
        reported: Object = (await self.explain(pod))["schedulingState"]
        for name in ("since", "until"):
            if name in reported:
                datetime.fromisoformat(reported.pop(name))
        return reported


def asking(
    story: Callable[[Asking], Awaitable[None]],
    prepare: Callable[[World], None] = lambda world: world.node("n"),
    **options: Any,
) -> None:
    """Tell a story in which the daemon can be asked."""

    async def run(world: World) -> None:
        prepare(world)
        port = free_port()
        await world.start_daemon(secure_port=port, **options)
        async with aiohttp.ClientSession() as session:
            await story(Asking(world, f"https://127.0.0.1:{port}", session))

    play(run)


def plugin_options(*plugins: Any) -> dict[str, Any]:
    config, out_of_tree = with_plugins(*plugins)
    return {"config": {**config, **NEVER}, "out_of_tree": out_of_tree}


def story_of(state: Object) -> list[tuple[int, str, str]]:
    return [(entry["attempt"], entry["what"], entry["detail"]) for entry in state["story"]]


def test_a_rejected_pod_waits_for_events() -> None:
    """Who rejected it and what may help; every node with its reason; the message is the event's."""

    async def story(asked: Asking) -> None:
        asked.world.pod("huge", cpu="100")
        await asked.world.rejected("huge")

        answer = await asked.explain("huge", "&nodes=all")
        state = await asked.state("huge")

        condition = asked.world.condition("huge")
        assert condition is not None
        assert answer["nodes"] == [
            {
                "node": "n",
                "plugin": "NodeResourcesFit",
                "code": "UnschedulableAndUnresolvable",
                "reasons": ["Insufficient cpu"],
                "feasible": False,
            }
        ]
        assert condition["message"].startswith(answer["message"])
        assert state.pop("message") == condition["message"]
        [wakes] = state.pop("waitsFor")
        assert wakes["plugin"] == "NodeResourcesFit"
        assert any(event.startswith("NodeAdd") for event in wakes["events"])
        assert story_of(state) == [(1, "failed", condition["message"])]
        del state["story"]
        assert state == {
            "place": "unschedulable",
            "leading": True,
            "attempts": 1,
            "rejectedBy": ["NodeResourcesFit"],
        }

    asking(story)


def test_a_gated_pod_names_its_gate() -> None:
    """It has never been tried, and no node is spoken of."""

    async def story(asked: Asking) -> None:
        asked.world.pod("gated", schedulingGates=[{"name": "example.com/later"}])
        queue = asked.world.daemon.driver.engine.core.queue
        await asked.world.until(lambda: queue.counts().gated == 1, "the pod")

        answer = await asked.explain("gated")
        state = answer["schedulingState"]

        assert (state["place"], state["gatedBy"]) == ("gated", "SchedulingGates")
        assert state.get("attempts", 0) == 0
        [wakes] = state["waitsFor"]
        assert wakes["plugin"] == "SchedulingGates"
        assert answer["preEnqueue"]["plugin"] == "SchedulingGates"
        assert "counts" not in answer

    asking(story)


class Breaks(NodeFilterPlugin):
    NAME = "Breaks"
    is_broken = True

    @override
    def filter(self, state: CycleState, pod: Any, node: Any) -> Status:
        if self.is_broken:
            raise RuntimeError("broken")
        return Status()


def test_after_an_error_it_backs_off_until_a_time() -> None:
    """The failure is told; a plugin that fails again for who asks is an error of the answer."""

    async def story(asked: Asking) -> None:
        asked.world.pod("p")
        await asked.world.rejected("p", reason="SchedulerError")

        answer = await asked.explain("p")
        state = answer["schedulingState"]

        assert state["place"] == "backoff"
        wait = datetime.fromisoformat(state["until"]) - datetime.fromisoformat(state["since"])
        assert 490 <= wait.total_seconds() <= 510
        assert "broken" in state["message"]
        assert "broken" in answer["error"]

    asking(story, **plugin_options(Breaks))


class Holds(PermitPlugin):
    NAME = "Holds"

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 600.0


def test_a_held_pod_names_its_holder() -> None:
    """It counts on its node, and the answer says why there."""

    async def story(asked: Asking) -> None:
        asked.world.pod("p", cpu="1")
        waiting = asked.world.daemon.driver.engine.core.waiting
        await asked.world.until(lambda: len(waiting) == 1, "the pod to be held")

        answer = await asked.explain("p")
        state = answer["schedulingState"]

        assert (state["place"], state["node"]) == ("held", "n")
        [hold] = state["heldBy"]
        assert hold["plugin"] == "Holds"
        wait = datetime.fromisoformat(hold["until"]) - datetime.fromisoformat(state["since"])
        assert 590 <= wait.total_seconds() <= 610
        assert answer["placed"]["node"] == "n"
        assert answer["placed"]["fits"] is True
        assert [what for _, what, _ in story_of(state)] == ["assumed", "reserved", "held"]

    asking(story, **plugin_options(Holds))


class Prepares(PreBindPlugin):
    NAME = "Prepares"

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        await asyncio.Event().wait()
        return Status()


def test_a_pod_on_its_way_says_how_far_it_is() -> None:
    """PreBind at work; the binding on its way; the API server has it; it is there."""

    async def preparing(asked: Asking) -> None:
        asked.world.pod("p")
        driver = asked.world.daemon.driver
        await asked.world.until(lambda: driver.in_flight == 1, "PreBind")
        assert (await asked.state("p"))["place"] == "prebinding"

    async def binding(asked: Asking) -> None:
        fault = asked.world.sandbox.faults.hang(path=BINDINGS)
        asked.world.pod("p")
        await asked.world.until(lambda: fault.hits, "the binding")
        state = await asked.state("p")
        assert (state["place"], state["node"]) == ("binding", "n")

    async def there(asked: Asking) -> None:
        asked.world.node("other", cpu="8")
        await asked.world.until(
            lambda: len(asked.world.daemon.driver.engine.core.cache.nodes) == 2, "both nodes"
        )
        asked.world.pod("p", cpu="1")
        await asked.world.bound("p")
        await asked.world.settled()
        answer = await asked.explain("p")
        assert answer["schedulingState"]["place"] == "assigned"
        placed = answer["placed"]
        assert (placed["node"], placed["rank"]) == ("other", 1)
        assert placed["next"]["node"] == "n"
        assert placed["ahead"] == placed["total"] - placed["next"]["total"] > 0
        assert sum(placed["scores"].values()) == placed["ahead"]
        assert [what for _, what, _ in story_of(answer["schedulingState"])][-1] == "confirmed"

    asking(preparing, **plugin_options(Prepares))
    asking(binding)
    asking(there)


def test_a_preemptor_is_nominated() -> None:
    """While its victim goes it waits, gated by preemption, with a node in view."""

    async def story(asked: Asking) -> None:
        pod_of_priority(asked.world, "low", 1)
        await asked.world.bound("low")
        await asked.world.settled()
        pod_of_priority(asked.world, "high", 10)
        nominator = asked.world.daemon.driver.engine.core.queue.nominator
        await asked.world.until(lambda: len(nominator) == 1, "the nomination")

        state = await asked.state("high")

        assert state["nominatedNode"] == "n"
        assert state["place"] in ("gated", "unschedulable", "backoff")

    asking(story, lambda world: world.node("n", cpu="1"))


def test_a_preemptor_whose_victim_may_not_be_evicted() -> None:
    """An admission webhook, or a missing right: only the story of the preemptor can tell."""

    async def story(asked: Asking) -> None:
        pod_of_priority(asked.world, "low", 1)
        await asked.world.bound("low")
        await asked.world.settled()
        refused = asked.world.sandbox.faults.answer(
            403, verb="delete", path="*/pods/low", message="low is protected", times=None
        )
        pod_of_priority(asked.world, "high", 10)
        await asked.world.until(lambda: refused.hits, "the eviction")
        queue = asked.world.daemon.driver.engine.core.queue
        await asked.world.until(lambda: queue.counts().backoff, "the refusal")

        story = story_of(await asked.state("high"))

        [(_, _, told)] = [entry for entry in story if entry[1] == "not evicted"]
        request = "DELETE /api/v1/namespaces/default/pods/low"
        assert told == f"default/low: {request}: 403 Forbidden: low is protected"

    asking(story, lambda world: world.node("n", cpu="1"), config=NEVER)


def test_a_standby_answers_as_well() -> None:
    """It decides nothing: the pod is ready, and the answer says that somebody else leads."""
    lease = {"leaderElect": True, "resourceName": "theirs", "resourceNamespace": "kube-system"}

    def led_by_another(world: World) -> None:
        world.node("n")
        world.sandbox.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "theirs", "namespace": "kube-system"},
                "spec": {
                    "holderIdentity": "another",
                    "leaseDurationSeconds": 3600,
                    "renewTime": "2026-01-01T00:00:00.000000Z",
                },
            }
        )

    async def story(asked: Asking) -> None:
        asked.world.pod("p", cpu="1")
        queue = asked.world.daemon.driver.engine.core.queue
        await asked.world.until(lambda: queue.counts().active == 1, "the pod")
        tick = asked.world.daemon.driver.engine.core.snapshot.table
        await asked.world.until(lambda: tick.count == 1, "a tick")

        answer = await asked.explain("p")

        assert answer["schedulingState"]["place"] == "active"
        assert answer["schedulingState"]["leading"] is False
        assert (answer["counts"]["nodes"], answer["counts"]["feasible"]) == (1, 1)

    asking(story, led_by_another, config={"leaderElection": lease})


def test_pods_of_others_are_judged_by_the_first_profile() -> None:
    """They are nobody's concern here, and are explained all the same."""

    async def story(asked: Asking) -> None:
        asked.world.pod("p", cpu="100", scheduler="somebody-else")
        await asked.world.until(
            lambda: "default/p" in asked.world.daemon._informers._informers["pods"].store, "the pod"
        )

        answer = await asked.explain("p")

        assert answer["profile"] == "stowage"
        assert answer["schedulingState"]["place"] == "elsewhere"
        assert answer["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")

    asking(story)


def test_nodes_are_counted_unless_they_are_asked_for() -> None:
    """The long answer is the short one with each node instead of their numbers."""

    async def story(asked: Asking) -> None:
        asked.world.node("large", cpu="200")
        asked.world.node("other")
        asked.world.pod("huge", cpu="300")
        asked.world.pod("fits", cpu="100")
        await asked.world.rejected("huge")
        await asked.world.bound("fits")
        await asked.world.settled()

        for pod, fitting in (("huge", []), ("fits", ["large"])):
            short = await asked.explain(pod)
            long = await asked.explain(pod, "&nodes=all")

            nodes, counts = long.pop("nodes"), short.pop("counts")
            assert short == long
            rejected = [node for node in nodes if not node["feasible"]]
            assert counts["nodes"] == len(nodes) == 3
            assert counts["feasible"] == len(fitting)
            assert [node["node"] for node in counts["best"]] == fitting
            assert counts["best"] == [node for node in nodes if node["feasible"]]
            assert counts["rejected"] == [
                {
                    "nodes": len(rejected),
                    "plugin": "NodeResourcesFit",
                    "code": "UnschedulableAndUnresolvable",
                    "reasons": ["Insufficient cpu"],
                    "examples": [node["node"] for node in rejected],
                }
            ]

    asking(story)


def test_only_some_nodes_and_wrong_questions() -> None:
    """`node` narrows the answer; a pod must be named, and exist."""

    async def story(asked: Asking) -> None:
        asked.world.node("other")
        asked.world.pod("p", cpu="100")
        await asked.world.rejected("p")

        narrow = await asked.explain("p", "&node=n&node=gone&node=n")
        assert ([node["node"] for node in narrow["nodes"]], "counts" in narrow) == (["n"], False)
        assert (await asked.get(""))[0] == 400
        assert (await asked.get("?pod=p"))[0] == 400
        status, told = await asked.get("?pod=default/p&nodes=some")
        assert (status, "nodes=all" in told) == (400, True)
        assert await asked.get("?pod=default/q") == (404, "no pod default/q that has not ended\n")

    asking(story)


def test_asking_leaves_no_trace() -> None:
    """No metric, no class of pods that decisions use, no attempt changes by being asked."""

    async def story(asked: Asking) -> None:
        asked.world.pod("p", cpu="1")
        await asked.world.bound("p")
        asked.world.pod("huge", cpu="100")
        await asked.world.rejected("huge")
        await asked.world.settled()
        engine = asked.world.daemon.driver.engine

        def state() -> Any:
            metrics = asked.world.daemon.metrics.registry
            samples = {
                (s.name, *sorted(s.labels.items())): s.value
                for family in metrics.collect()
                for s in family.samples
                if s.name.startswith(("scheduler_framework", "scheduler_plugin", "scheduler_sched"))
                and "queueing" not in s.name
            }
            return samples, engine.core.snapshot.epoch, len(engine.attempts), engine.story("x")

        before = state()
        for _ in range(20):
            await asked.explain("huge")
            await asked.explain("p")

        assert state() == before
        validate_engine(engine)

    asking(story)


def test_configz_tells_no_password_of_an_extender() -> None:
    """The rest of it is there."""
    extender = {
        "urlPrefix": "https://scheduler:do-not-tell@extender.example/x",
        "filterVerb": "filter",
        "managedResources": [{"name": "example.com/gpu"}],
    }

    async def story(asked: Asking) -> None:
        async with asked._session.get(f"{asked._url}/configz", ssl=False) as answer:
            text = await answer.text()

        [shown] = json.loads(text)["componentconfig"]["extenders"]
        assert "do-not-tell" not in text
        assert "extender.example/x" in shown["urlPrefix"]

    asking(story, config={"extenders": [extender]})

"""What the daemon does with pods when nothing goes wrong."""

from collections import Counter
from typing import Any

import pytest

from tests.scenario.world import World, node_object, play, pod_object

BARE_MINIMUM = [{"name": name} for name in ("PrioritySort", "NodeResourcesFit", "DefaultBinder")]


def test_a_plain_pod_is_bound() -> None:
    """Binding, event and condition read as kube-scheduler's."""

    async def story(world: World) -> None:
        world.node("n")
        await world.start_daemon()

        world.pod("p", cpu="100m")

        assert await world.bound("p") == ["n"]
        await world.until(lambda: world.events("p"), "the event")
        [event] = world.events("p")
        assert {
            field: event[field]
            for field in ("type", "reason", "action", "note", "reportingController")
        } == {
            "type": "Normal",
            "reason": "Scheduled",
            "action": "Binding",
            "note": "Successfully assigned default/p to n",
            "reportingController": "stowage",
        }
        assert event["regarding"]["uid"] == world.sandbox.get("pods", "p")["metadata"]["uid"]
        assert world.condition("p") == {"type": "PodScheduled", "status": "True"}
        await world.settled()
        assert world.bindings() == 1
        assert not world.sandbox.requests.count(verb="patch", resource="pods")

    play(story)


def test_a_pod_that_fits_nowhere_waits() -> None:
    """Event and condition say why, once; what helps it wakes it, and nothing else does."""

    async def story(world: World) -> None:
        world.node("small", cpu="1")
        world.node("tainted", taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])
        await world.start_daemon()

        world.pod("p", cpu="2")

        await world.rejected("p")
        message = (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
            "no new claims to deallocate, preemption: "
            "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )
        assert world.condition("p") == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        await world.until(lambda: world.events("p"), "the event")
        [event] = world.events("p")
        assert {field: event[field] for field in ("type", "reason", "action", "note")} == {
            "type": "Warning",
            "reason": "FailedScheduling",
            "action": "Scheduling",
            "note": message,
        }
        # Neither a label of a node, nor a pod that takes something, nor our own patch helps.
        world.sandbox.patch("nodes", "small", {"metadata": {"labels": {"x": "y"}}})
        world.pod("other", cpu="100m")
        await world.bound("other")
        await world.settled()
        assert world.attempts("p") == 1
        world.sandbox.patch("nodes", "tainted", {"spec": {"taints": None}})
        assert await world.bound("p") == ["tainted"]
        assert world.sandbox.requests.count(verb="patch", resource="pods") == 1

    play(story)


def test_an_empty_cluster_is_said_so() -> None:
    """A pod that came before the first node is bound when a node appears."""

    async def story(world: World) -> None:
        await world.start_daemon()
        world.pod("p")
        await world.rejected("p")
        condition = world.condition("p")
        assert condition is not None
        assert condition["message"] == "no nodes available to schedule pods"

        world.node("n")

        assert await world.bound("p") == ["n"]

    play(story)


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param({}, id="default plugins"),
        pytest.param(
            {"multiPoint": {"disabled": [{"name": "*"}], "enabled": BARE_MINIMUM}}, id="no others"
        ),
    ],
)
def test_a_member_of_a_pod_group_waits_and_says_why(plugins: dict[str, Any]) -> None:
    """Bound alone it would hold room for a gang that never runs; no configuration changes that."""

    async def story(world: World) -> None:
        world.node("n")
        await world.start_daemon({"profiles": [{"schedulerName": "stowage", "plugins": plugins}]})
        reason = "pod groups wait for the feature gates GenericWorkload and GangScheduling"
        message = f"0/1 nodes are available: {reason}."

        world.pod("member", schedulingGroup={"podGroupName": "train"})
        world.pod("single")

        assert await world.bound("single") == ["n"]
        await world.rejected("member")
        assert world.condition("member") == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        await world.until(lambda: world.events("member"), "the event")
        [event] = world.events("member")
        assert (event["reason"], event["note"]) == ("FailedScheduling", message)
        assert world.bindings() == 1

    play(story)


def test_a_gated_pod_waits_for_the_last_gate() -> None:
    """No attempt, no event, no condition of ours before that."""

    async def story(world: World) -> None:
        world.node("n")
        await world.start_daemon()
        gates = [{"name": "example.com/one"}, {"name": "example.com/two"}]
        world.pod("p", schedulingGates=gates)
        queue = world.daemon.driver.engine.core.queue
        await world.until(lambda: queue.counts().gated == 1, "the pod to be gated")

        world.sandbox.patch("pods", "p", {"spec": {"schedulingGates": gates[:1]}})
        world.pod("plain")
        await world.bound("plain")

        assert queue.counts().gated == 1
        assert world.attempts("p") == 0
        assert not world.events("p")
        assert not world.sandbox.requests.count(verb="patch", resource="pods")
        world.sandbox.patch("pods", "p", {"spec": {"schedulingGates": []}})
        assert await world.bound("p") == ["n"]

    play(story)


def test_pods_of_others_stay_untouched() -> None:
    """They count for what they use, and that is all."""

    async def story(world: World) -> None:
        world.node("n", cpu="2")
        world.pod("foreign", scheduler="another")
        world.pod("taken", scheduler="another", cpu="1500m", nodeName="n")
        await world.start_daemon()

        world.pod("big", cpu="1")
        world.pod("fits", cpu="500m")

        assert await world.bound("fits") == ["n"]
        await world.rejected("big")
        foreign = world.sandbox.get("pods", "foreign")
        assert "nodeName" not in foreign["spec"]
        assert "conditions" not in foreign["status"]
        assert not world.events("foreign")
        # When the other scheduler's pod goes, ours fits.
        world.sandbox.delete("pods", "taken", grace_seconds=0)
        assert await world.bound("big") == ["n"]

    play(story)


def test_profiles_differ_in_their_plugins() -> None:
    """The same pod fits a cordoned node in one profile and not in the other."""
    config = {
        "profiles": [
            {"schedulerName": "strict"},
            {
                "schedulerName": "lax",
                "plugins": {
                    "multiPoint": {
                        "disabled": [{"name": "NodeUnschedulable"}, {"name": "TaintToleration"}]
                    }
                },
            },
        ]
    }

    async def story(world: World) -> None:
        world.node("cordoned", unschedulable=True)
        await world.start_daemon(config)

        world.pod("a", scheduler="strict")
        world.pod("b", scheduler="lax")

        assert await world.bound("b") == ["cordoned"]
        await world.rejected("a")
        await world.until(lambda: world.events("a") and world.events("b"), "the events")
        controllers = {e["regarding"]["name"]: e["reportingController"] for e in world.events()}
        assert controllers == {"a": "strict", "b": "lax"}

    play(story)


def test_important_pods_go_first() -> None:
    """All wait before the daemon starts; only two fit."""

    async def story(world: World) -> None:
        world.node("n", cpu="2")
        for name, value in (("high", 100), ("low", 1)):
            world.sandbox.create(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                }
            )
        for index in range(3):
            world.pod(f"low-{index}", cpu="1", priorityClassName="low")
        for index in range(2):
            world.pod(f"high-{index}", cpu="1", priorityClassName="high")

        await world.start_daemon()

        await world.bound("high-0", "high-1")
        await world.rejected("low-0", "low-1", "low-2")

    play(story)


def test_pods_of_a_service_spread_by_default() -> None:
    """Without constraints of their own, pods of one Service go to different zones and nodes."""

    async def story(world: World) -> None:
        for index in range(6):
            world.node(f"n{index}", zone=f"z{index % 3}")
        world.sandbox.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
            }
        )
        await world.start_daemon()

        names = [f"web-{index}" for index in range(6)]
        for name in names:
            world.pod(name, labels={"app": "web"})

        nodes = await world.bound(*names)
        assert sorted(nodes) == [f"n{index}" for index in range(6)]

    play(story)


def test_a_relabelled_namespace_wakes_an_affinity_pod() -> None:
    """The pod looks for a friend in namespaces of a team; a namespace joins the team."""

    async def story(world: World) -> None:
        world.node("n")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "friends"}}
        world.sandbox.create(namespace)
        world.sandbox.create(
            pod_object("friend", namespace="friends", labels={"app": "db"}, nodeName="n")
        )
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "db"}},
            "namespaceSelector": {"matchLabels": {"team": "a"}},
        }
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        await world.start_daemon()
        world.pod("p", affinity={"podAffinity": required})
        await world.rejected("p")

        world.sandbox.patch("namespaces", "friends", {"metadata": {"labels": {"team": "a"}}}, "")

        assert await world.bound("p") == ["n"]

    play(story)


def test_a_percentage_of_the_nodes_is_enough() -> None:
    """At 50 % of 300 nodes pods see 150 each, from a start that goes round."""

    async def story(world: World) -> None:
        nodes = [node_object(f"n{index:03}") for index in range(300)]
        world.sandbox.create(*nodes, keep_status=True)
        await world.start_daemon({"percentageOfNodesToScore": 50})
        names = [f"p{index}" for index in range(3)]
        starts = []
        for name in names:
            starts.append(world.daemon.driver.engine.core.algorithm.next_start_node_index)
            world.pod(name)
            await world.bound(name)

        assert starts == [0, 150, 0]
        places = [int(world.node_of(name)[1:]) for name in names]
        assert [place // 150 for place in places] == [0, 1, 0]

    play(story)


def test_many_pods_fill_the_nodes_and_no_more() -> None:
    """Every place is used, every pod is bound once and told so once."""

    async def story(world: World) -> None:
        for index in range(20):
            world.node(f"n{index}", pods="20")
        await world.start_daemon()

        names = [f"p{index}" for index in range(400)]
        for name in names:
            world.pod(name)
        world.pod("one-too-many", priority=None)

        await world.until(
            lambda: sum(bool(world.node_of(n)) for n in [*names, "one-too-many"]) == 400, "400 pods"
        )
        await world.settled()
        counts = Counter(pod["spec"].get("nodeName") for pod in world.sandbox.list("pods"))
        assert counts.pop(None) == 1
        assert set(counts.values()) == {20}
        assert world.bindings() == 400
        await world.until(lambda: len(world.events(reason="Scheduled")) == 400, "an event for each")
        assert world.daemon.comparer.compare().agrees

    play(story)

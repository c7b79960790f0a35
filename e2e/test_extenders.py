"""Promise: with the same extender, Stowage and kube-scheduler behave the same."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.objects import Json, make_binding, make_node, make_pod
from e2e.support.processes import Program
from e2e.support.waiting import wait_for
from tests.support.extender import (
    FakeExtender,
    Reply,
    agreeing,
    failing,
    names_of,
    only,
    serving,
)

KUBE_SCHEDULER: Final = "reference"
SCHEDULERS: Final = (KUBE_SCHEDULER, "stowage")
NODES: Final = ("n0", "n1", "n2", "n3")
CLASSES: Final = {"e2e-ext-low": 1, "e2e-ext-high": 1000}
UNCONFIRMED_SECONDS: Final = 240
"""Timeout for what follows 30 s in which nothing confirms a binding."""


def lower(body: Json) -> Json:
    return {"nodenames": ["n2"], "failednodes": {"n1": "no"}, "ERROR": None}


def whole(body: Json) -> Json:
    """Return whole nodes; even a nodeCacheCapable extender may do so."""
    return {"Nodes": {"items": [{"metadata": {"name": "n1"}}]}}


FILTERS: Final[dict[str, Reply]] = {
    "one": only("n3"),
    "lower case": lower,
    "whole nodes": whole,
    "bytes after it": lambda _: b'{"NodeNames":["n1"]} and more',
    "none, with reasons": only(
        FailedNodes={"n0": "too warm", "n1": "too warm", "n2": "too far"},
        FailedAndUnresolvableNodes={"n2": "much too far"},
    ),
    "none, without a word": only(),
    "nothing": lambda _: {},
    "null": lambda _: {"NodeNames": None},
    "an error": lambda _: {"Error": "no idea"},
    "a stranger": lambda _: {"NodeNames": ["n0", "elsewhere"]},
    "500": failing(500),
    "204": failing(204),
}
TOLD_OTHERWISE: Final[dict[str, Reply]] = {
    "empty": lambda _: b"",
    "no JSON": lambda _: b"ok",
    "a number": lambda _: {"NodeNames": [1]},
}
"""Failures for which the messages of the schedulers differ."""

SCORES: Final[dict[str, list[Json]]] = {
    "ten is best": [{"Host": "n1", "Score": 3}, {"Host": "n2", "Score": 10}],
    "negative": [{"Host": name, "Score": -5} for name in NODES if name != "n3"],
    "beyond the range": [{"Host": "n0", "Score": 10}, {"Host": "n1", "Score": 1000}],
    "twice": [{"Host": "n0", "Score": 6}, {"host": "n2", "score": 4}, {"Host": "n2", "Score": 4}],
    "strangers": [{"Host": "elsewhere", "Score": 99}, {"Host": "n3", "Score": 1}],
    "wrapped around": [{"Host": "n0", "Score": 2**62}, {"Host": "n1", "Score": 1}],
}


@pytest.fixture(autouse=True)
def classes(cluster: Cluster) -> Iterator[None]:
    with cluster.priority_classes(CLASSES):
        yield


class Both:
    """kube-scheduler and Stowage with the same extenders on one cluster."""

    def __init__(
        self, cluster: Cluster, control_plane: ControlPlane, run_stowage: StartStowage, *args: Json
    ) -> None:
        self.cluster = cluster
        self._control_plane = control_plane
        profile = {"percentageOfNodesToScore": 100, "extenders": list(args)}
        self._reference: Program = control_plane.start_kube_scheduler(
            {**profile, "profiles": [{"schedulerName": KUBE_SCHEDULER}]}
        )
        run_stowage(configuration=profile)

    def stop(self) -> None:
        self._control_plane.stop_program(self._reference)

    def decide(self, namespace: str, name: str, **options: Any) -> dict[str, tuple[str, ...]]:
        """Create a pod for each scheduler; return node, or nomination, reason and message."""
        return {
            scheduler: self.decide_by(scheduler, namespace, f"{name}-{number}", **options)
            for number, scheduler in enumerate(SCHEDULERS)
        }

    def decide_by(
        self, scheduler: str, namespace: str, name: str, **options: Any
    ) -> tuple[str, ...]:
        """Create a pod for one scheduler; return node, or nomination, reason and message."""
        options = {"namespace": namespace, "scheduler_name": scheduler, **options}
        self.cluster.create_pods([make_pod(name, **options)])
        fate = wait_for(lambda: self._fate(namespace, name), f"{name} to be decided")
        self.cluster.delete_pods(namespace, [name])
        return fate

    def _fate(self, namespace: str, pod: str) -> tuple[str, ...]:
        found = self.cluster.pod(namespace, pod)
        node = found["spec"].get("nodeName")
        if node:
            return (node,)
        status = found["status"]
        for condition in status.get("conditions", ()):
            if condition["type"] == "PodScheduled":
                nominated = status.get("nominatedNodeName", "")
                return nominated, condition["reason"], condition["message"]
        return ()


@pytest.fixture
def start_both(
    cluster: Cluster, own_cluster: ControlPlane, run_stowage: StartStowage
) -> Iterator[Callable[..., Both]]:
    started: list[Both] = []

    def start(*extenders: Json) -> Both:
        both = Both(cluster, own_cluster, run_stowage, *extenders)
        started.append(both)
        return both

    yield start
    for both in started:
        both.stop()


def test_filters_and_scores_mean_the_same(
    cluster: Cluster, namespace: str, start_both: Callable[..., Both]
) -> None:
    """Nodes, rejections and failure messages are identical."""
    cluster.create_nodes([make_node(name) for name in NODES])
    with serving(FakeExtender()) as extender:
        both = start_both(extender.config("filter", "prioritize", weight=100, httpTimeout="60s"))
        extender.replies["prioritize"] = lambda _: []
        for number, (what, reply) in enumerate((FILTERS | TOLD_OTHERWISE).items()):
            extender.replies["filter"] = reply
            found = both.decide(namespace, f"f{number}")
            theirs, ours = found.values()
            if what in TOLD_OTHERWISE:
                assert theirs[:2] == ours[:2] == ("", "SchedulerError"), what
            else:
                assert theirs == ours, what
        extender.replies["filter"] = lambda body: {"NodeNames": names_of(body)}
        for number, (what, listed) in enumerate(SCORES.items()):
            extender.replies["prioritize"] = answering(listed)
            theirs, ours = both.decide(namespace, f"s{number}").values()
            assert theirs == ours, what

        asked = [body["Pod"]["spec"]["schedulerName"] for body in extender.bodies("filter")]
        assert set(asked) == set(SCHEDULERS)


def test_both_send_the_same(
    cluster: Cluster, namespace: str, start_both: Callable[..., Both]
) -> None:
    """Both send the same fields of pods and nodes, except for managedFields."""
    cluster.create_nodes([make_node(name) for name in NODES])

    def one(body: Json) -> Json:
        return {"Nodes": {"items": [n for n in body["Nodes"]["items"] if named(n) == "n1"]}}

    with serving(FakeExtender(filter=one)) as extender:
        both = start_both(extender.config("filter", nodeCacheCapable=False))
        theirs, ours = both.decide(namespace, "p", requests={"cpu": "1"}).values()

        assert theirs == ours == ("n1",)
        sent = [
            next(b for b in extender.bodies("filter") if b["Pod"]["spec"]["schedulerName"] == name)
            for name in SCHEDULERS
        ]
        assert [sorted(body) for body in sent] == [["NodeNames", "Nodes", "Pod"]] * 2
        nodes = [{named(n): n for n in body["Nodes"]["items"]} for body in sent]
        first, second = (comparable(each["n2"]) for each in nodes)
        # kube-scheduler drops managedFields from pods only; no extender needs them.
        assert first["metadata"].pop("managedFields", None)
        assert first == second
        pods = [comparable(body["Pod"]) for body in sent]
        for pod in pods:
            pod["spec"].pop("schedulerName")
            for own in ("name", "uid", "resourceVersion", "creationTimestamp"):
                pod["metadata"].pop(own)
        assert pods[0] == pods[1]


def answering(listed: list[Json]) -> Reply:
    return lambda _: listed


def named(node: Json) -> str:
    name: str = node["metadata"]["name"]
    return name


def comparable(value: Any) -> Any:
    """Remove empty fields, which Go may omit, and versions, which heartbeats change."""
    if isinstance(value, dict):
        pairs = ((key, comparable(item)) for key, item in value.items() if key != "resourceVersion")
        return {key: item for key, item in pairs if item not in (None, "", {}, [])} | (
            {"resourceVersion": ""} if "resourceVersion" in value else {}
        )
    return [comparable(item) for item in value] if isinstance(value, list) else value


def test_victims_are_struck_off_alike(
    cluster: Cluster, namespace: str, start_both: Callable[..., Both]
) -> None:
    """Both evict the pods of the same node, or none with the same message."""
    cluster.create_nodes([make_node(name, allocatable={"cpu": "1"}) for name in NODES])

    def but(*names: str) -> Reply:
        def reply(body: Json) -> Json:
            given = agreeing(body)["NodeNameToMetaVictims"]
            return {"NodeNameToMetaVictims": {n: v for n, v in given.items() if n not in names}}

        return reply

    def unknown(body: Json) -> Json:
        given = agreeing(body)["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {n: {"Pods": [{"UID": "u"}]} for n in given if n == "n1"}}

    def empty(body: Json) -> Json:
        return {"NodeNameToMetaVictims": {"n1": {"Pods": []}}}

    replies: dict[str, Reply] = {
        "nobody": but(*NODES),
        "500": failing(500),
        "no victims": empty,
        "unknown victims": unknown,
        "all but one": but("n0", "n1", "n3"),
    }
    with serving(FakeExtender()) as extender:
        both = start_both(extender.config("preempt"))
        for number, (what, reply) in enumerate(replies.items()):
            extender.replies["preempt"] = reply
            fates = []
            for scheduler in SCHEDULERS:
                for node in NODES:
                    fill(cluster, namespace, f"low-{node}", node)
                name = f"high-{number}-{scheduler}"
                options = {"requests": {"cpu": "1"}, "priorityClassName": "e2e-ext-high"}
                fate = both.decide_by(scheduler, namespace, name, **options)
                # Without grace, victims are deleted at once, and the pod may be bound already.
                # kube-scheduler prints a Go pointer for an unknown victim.
                fates.append(fate[:1] if fate[0] else (*fate[:2], fate[2].replace("&{u}", "u")))
                cluster.delete_pods(namespace)
                wait_for(lambda: not cluster.pods(namespace), "the pods to be gone")
            assert fates[0] == fates[1], what
            assert bool(fates[0][0]) is (what == "all but one")


def fill(cluster: Cluster, namespace: str, name: str, node: str) -> None:
    """Create a pod of low priority on a node."""
    cluster.create_pods(
        [
            make_pod(
                name,
                namespace=namespace,
                scheduler_name="nobody",
                requests={"cpu": "1"},
                priorityClassName="e2e-ext-low",
                nodeName=node,
            )
        ]
    )


def test_it_binds(cluster: Cluster, namespace: str, run_stowage: StartStowage) -> None:
    """The extender binds pods with its resource, Stowage all others; failures are retried."""
    gpu = "example.com/gpu"
    cluster.create_nodes([make_node(name) for name in NODES])
    api = cluster.api
    tries: list[str] = []

    async def bind(body: Json) -> Any:
        name = body["PodName"]
        tries.append(name)
        if tries.count(name) == 1:
            return {"Error": "not now"}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        binding = make_binding(name, body["Node"], namespace=namespace)
        await asyncio.to_thread(lambda: cluster.run(api.post(path, binding)))
        return {}

    with serving(FakeExtender(bind=bind)) as extender:
        managed = [{"name": gpu, "ignoredByScheduler": True}]
        run_stowage(
            configuration={
                "extenders": [extender.config("bind", managedResources=managed, httpTimeout="60s")]
            }
        )
        request = {"requests": {gpu: "1"}, "limits": {gpu: "1"}}
        container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": request}
        cluster.create_pods(
            [
                make_pod("plain", namespace=namespace),
                *(
                    make_pod(f"gpu{n}", namespace=namespace, containers=[container])
                    for n in range(3)
                ),
            ]
        )
        cluster.wait_until_bound(namespace)
        # The events come after the extender's answers, and these after the bindings.
        wait_for(lambda: len(cluster.events(namespace, "Scheduled")) == 4, "the events")

    assert sorted(tries) == sorted(["gpu0", "gpu1", "gpu2"] * 2)
    told = {event["regarding"]["name"] for event in cluster.events(namespace, "Scheduled")}
    assert told == {"plain", "gpu0", "gpu1", "gpu2"}


def test_it_reports_a_binding_and_makes_none(
    cluster: Cluster, namespace: str, run_stowage: StartStowage
) -> None:
    """The event and the condition name its URL; the pod is tried again, and bound at last."""
    cluster.create_nodes([make_node(name) for name in NODES])
    with serving(FakeExtender(bind=lambda _: {})) as extender:
        run_stowage(configuration={"extenders": [extender.config("bind")]})
        cluster.create_pods([make_pod("p", namespace=namespace)])
        wait_for(lambda: extender.bodies("bind"), "the extender to be asked")

        [event] = wait_for(
            lambda: cluster.events(namespace, "FailedScheduling"), "the event", UNCONFIRMED_SECONDS
        )
        condition = wait_for(lambda: cluster.scheduled_condition(namespace, "p"), "the condition")
        assert condition is not None
        extender.replies["bind"] = failing(404)
        wait_for(lambda: len(extender.bodies("bind")) > 1, "the extender to be asked again")

    assert condition["status"] == "False"
    assert condition["reason"] == "SchedulerError"
    for told in (event["note"], condition["message"]):
        assert f"extender at URL {extender.url}" in told
        assert "reported the pod as bound, but the pod has no node" in told

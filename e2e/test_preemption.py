"""Promise: pods of high priority displace pods of lower priority, each victim once."""

import time
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from e2e.conftest import StartStowage
from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.processes import Program
from e2e.support.waiting import wait_for

CLASSES = {"e2e-low": 1, "e2e-middle": 100, "e2e-high": 1000, "e2e-higher": 2000}


@pytest.fixture(autouse=True)
def classes(cluster: Cluster) -> Iterator[None]:
    """Create the priority classes of this file."""
    with cluster.priority_classes(CLASSES):
        yield


class Room:
    """One namespace, with helpers for its pods."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def pods(
        self, *names: str, priority: str, cpu: str = "1", grace: int = 0, **more: object
    ) -> None:
        """Create pods of one kind."""
        self.cluster.create_pods(
            make_pod(
                name,
                namespace=self.namespace,
                requests={"cpu": cpu},
                priorityClassName=f"e2e-{priority}",
                terminationGracePeriodSeconds=grace,
                **more,  # type: ignore[arg-type] # fields of the spec, and labels
            )
            for name in names
        )

    def fill(self, *names: str, **options: object) -> None:
        """Create pods of low priority and wait until they are bound."""
        self.pods(*names, **{"priority": "low", **options})  # type: ignore[arg-type] # see pods
        self.bound(*names)

    def find(self, name: str) -> Json | None:
        try:
            return self.cluster.pod(self.namespace, name)
        except ApiRefusedError as error:
            if error.status != 404:
                raise
            return None

    def node_of(self, name: str) -> str:
        pod = self.find(name)
        return "" if pod is None else pod["spec"].get("nodeName", "")

    def bound(self, *names: str, seconds: float = 120) -> None:
        wait_for(lambda: all(map(self.node_of, names)), f"{names} to be bound", seconds)

    def gone(self, *names: str) -> set[str]:
        """Return the names of pods that no longer exist."""
        return {name for name in names if self.find(name) is None}

    def leaving(self) -> list[str]:
        """Return terminating pods, which a kubelet would end."""
        return [
            pod["metadata"]["name"]
            for pod in self.cluster.pods(self.namespace)
            if "deletionTimestamp" in pod["metadata"]
        ]

    def end(self, *names: str) -> None:
        """Delete a pod as a kubelet does when the containers have ended."""
        self.cluster.delete_pods(self.namespace, names)

    def budget(self, name: str, label: str, allowed: int) -> None:
        """Create a PodDisruptionBudget that currently allows this many evictions."""
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": label}}}
        self.cluster.run(self.cluster.api.post(path, {"metadata": {"name": name}, "spec": spec}))
        status = {
            "disruptionsAllowed": allowed,
            "currentHealthy": 3,
            "desiredHealthy": 3 - allowed,
            "expectedPods": 3,
            "observedGeneration": 1,
        }
        self.cluster.run(self.cluster.api.patch(f"{path}/{name}/status", {"status": status}))

    def deletions(self) -> Counter[str]:
        """Return the number of the scheduler's deletions of each pod, from the audit log."""
        return Counter(
            event.object_ref.name
            for event in self.cluster.audit_events()
            if event.verb == "delete"
            and event.object_ref.resource == "pods"
            and event.object_ref.namespace == self.namespace
            and "stowage" in event.user.username
        )

    def deleted(self, *names: str) -> None:
        """Wait until the audit log has one deletion by the scheduler of each of these pods only.

        A pod is gone before the request that deletes it ends, and is logged.
        """
        wait_for(lambda: self.deletions() == dict.fromkeys(names, 1), f"{names} to be deleted once")

    def told(self, name: str) -> list[str]:
        """Return the messages of a victim's Preempted events."""
        return [
            event["note"]
            for event in self.cluster.events(self.namespace, "Preempted")
            if event["regarding"]["name"] == name
        ]


@pytest.fixture
def room(cluster: Cluster, namespace: str) -> Room:
    return Room(cluster, namespace)


def nodes(*names: str, cpu: str = "3") -> list[Json]:
    return [make_node(name, allocatable={"cpu": cpu}) for name in names]


def test_high_priorities_displace_low_ones(
    cluster: Cluster, own_cluster: ControlPlane, room: Room, stowage: Program
) -> None:
    """The necessary number of pods is evicted, each once; events and conditions give the reason."""
    del own_cluster, stowage
    cluster.create_nodes(nodes("a", "b"))
    low = [f"low-{i}" for i in range(6)]
    room.fill(*low)

    room.pods("high-0", "high-1", priority="high", cpu="2")
    room.bound("high-0", "high-1")

    gone = room.gone(*low)
    assert len(gone) == 4
    room.deleted(*gone)
    uids = [cluster.pod(room.namespace, name)["metadata"]["uid"] for name in ("high-0", "high-1")]
    wait_for(lambda: all(map(room.told, gone)), "an event for each victim")
    for name in gone:
        [note] = room.told(name)
        assert any(note.startswith(f"Preempted by pod {uid} on node ") for uid in uids)
    events = cluster.events(room.namespace, "Preempted")
    assert {event["related"]["uid"] for event in events} == set(uids)
    assert {event["action"] for event in events} == {"Preempting"}


def test_budgets_are_kept_where_that_is_possible(
    cluster: Cluster, own_cluster: ControlPlane, room: Room, stowage: Program
) -> None:
    """The preemptor gets the node whose pods may be disrupted; the others are not evicted."""
    del own_cluster, stowage
    cluster.create_nodes(nodes("a", "b"))
    room.budget("guarded", "guarded", 0)
    room.budget("free", "free", 3)
    guarded, free = [f"g-{i}" for i in range(3)], [f"f-{i}" for i in range(3)]
    room.fill(*guarded, labels={"app": "guarded"}, nodeSelector={"kubernetes.io/hostname": "a"})
    room.fill(*free, labels={"app": "free"}, nodeSelector={"kubernetes.io/hostname": "b"})

    room.pods("high", priority="high", cpu="3")
    room.bound("high")

    assert room.node_of("high") == "b"
    assert room.gone(*guarded, *free) == set(free)
    room.deleted(*free)


def test_a_budget_that_never_allows_is_broken_at_last(
    cluster: Cluster, own_cluster: ControlPlane, room: Room, stowage: Program
) -> None:
    """Preemption violates a budget only if nothing else helps, and evicts few pods."""
    del own_cluster, stowage
    cluster.create_nodes(nodes("a"))
    room.budget("never", "guarded", 0)
    room.fill("g-0", "g-1", labels={"app": "guarded"})
    room.fill("plain", priority="middle")

    room.pods("first", priority="high", cpu="1")
    room.bound("first")
    assert room.gone("g-0", "g-1", "plain") == {"plain"}
    room.pods("second", priority="high", cpu="1")
    room.bound("second")

    gone = room.gone("g-0", "g-1")
    assert len(gone) == 1
    room.deleted("plain", *gone)


def test_victims_with_long_grace_are_waited_for(
    cluster: Cluster, own_cluster: ControlPlane, room: Room, stowage: Program
) -> None:
    """During a long grace period the preemptor stays nominated, and no other pod is evicted."""
    del own_cluster, stowage
    cluster.create_nodes(nodes("a", "b"))
    low = [f"low-{i}" for i in range(6)]
    room.fill(*low, grace=600)

    room.pods("high", priority="high", cpu="3")
    wait_for(lambda: len(room.leaving()) == 3, "the victims to be leaving")
    victims = room.leaving()
    for name in victims:
        [condition] = [
            c
            for c in cluster.pod(room.namespace, name)["status"]["conditions"]
            if c["type"] == "DisruptionTarget"
        ]
        assert (condition["status"], condition["reason"], condition["message"]) == (
            "True",
            "PreemptionByScheduler",
            "stowage: preempting to accommodate a higher priority pod",
        )
    nominated = wait_for(
        lambda: cluster.pod(room.namespace, "high")["status"].get("nominatedNodeName"),
        "the nomination",
    )
    # Other pods are created and deleted meanwhile, and requeue the preemptor.
    for i in range(3):
        room.pods(f"tiny-{i}", priority="low", cpu="4")
        cluster.run(cluster.api.patch("/api/v1/nodes/a", {"metadata": {"labels": {"n": str(i)}}}))
        room.end(victims[i])
        time.sleep(1)
    room.bound("high")

    assert room.node_of("high") == nominated
    assert room.leaving() == []
    assert {name: room.deletions()[name] for name in low} == {
        name: int(name in victims) for name in low
    }


def test_two_preemptors_for_one_place(
    cluster: Cluster, own_cluster: ControlPlane, room: Room, stowage: Program
) -> None:
    """The preemptor of higher priority gets the place; one victim is evicted, the other waits."""
    del own_cluster, stowage
    cluster.create_nodes(nodes("a"))
    room.fill("low", cpu="3", grace=600)

    room.pods("high", priority="high", cpu="3")
    wait_for(lambda: room.leaving() == ["low"], "the victim to be leaving")
    room.pods("higher", priority="higher", cpu="3")
    wait_for(
        lambda: cluster.pod(room.namespace, "higher")["status"].get("nominatedNodeName"),
        "the second nomination",
    )
    room.end("low")
    room.bound("higher")

    room.deleted("low")
    assert room.node_of("high") == ""
    assert room.gone("high") == set()


def test_a_preemptor_deleted_half_way(
    cluster: Cluster, own_cluster: ControlPlane, room: Room, stowage: Program
) -> None:
    """The next pod gets the room; no pod is evicted twice."""
    del own_cluster, stowage
    cluster.create_nodes(nodes("a"))
    room.fill("low-0", "low-1", "low-2", grace=600)

    room.pods("high", priority="high", cpu="3")
    wait_for(lambda: len(room.leaving()) >= 2, "victims to be leaving")
    room.end("high")
    room.pods("next", priority="high", cpu="3")
    wait_for(lambda: len(room.leaving()) == 3, "all victims to be leaving")
    room.end("low-0", "low-1", "low-2")
    room.bound("next")

    room.deleted("low-0", "low-1", "low-2")


def test_a_daemon_killed_between_nomination_and_binding(
    cluster: Cluster, own_cluster: ControlPlane, room: Room, run_stowage: StartStowage
) -> None:
    """The next daemon continues: no second eviction, and the same node."""
    del own_cluster
    cluster.create_nodes(nodes("a", "b"))
    first = run_stowage()
    room.fill("low-0", "low-1", cpu="3", grace=600)

    room.pods("high", priority="high", cpu="3")
    wait_for(room.leaving, "the victim to be leaving")
    nominated = wait_for(
        lambda: cluster.pod(room.namespace, "high")["status"].get("nominatedNodeName"),
        "the nomination",
    )
    first.kill()
    run_stowage()
    [victim] = room.leaving()
    time.sleep(2)
    assert room.leaving() == [victim]
    room.end(victim)
    room.bound("high")

    assert room.node_of("high") == nominated
    assert room.deletions()[victim] == 1
    assert len(room.gone("low-0", "low-1")) == 1


def test_the_status_of_a_successor_cannot_be_patched_by_the_uid_of_a_victim(
    room: Room, cluster: Cluster
) -> None:
    """The server calls the UID an invalid field, not a conflict; `PodWrites.evict` expects both."""
    room.pods("successor", priority="low")
    patch = {"metadata": {"uid": "of-the-victim"}, "status": {"reason": "Preempted"}}
    path = f"/api/v1/namespaces/{room.namespace}/pods/successor/status"

    with pytest.raises(ApiRefusedError) as refused:
        cluster.run(cluster.api.patch(path, patch))

    assert refused.value.status == HTTPStatus.UNPROCESSABLE_ENTITY

"""Promise: preemption works with kubelets, as in sig-scheduling's end-to-end tests.

Pods start and end gracefully, and ReplicaSets replace evicted pods.

Source: kubernetes test/e2e/scheduling/preemption.go (v1.36).
"""

import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from e2e.conftest import EARLIER_AUDIT_EVENTS
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.kwok import start_kwok
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.processes import Program
from e2e.support.waiting import wait_for
from e2e.test_preemption import Room, classes

CONTROLLERS = ("replicaset-controller", "serviceaccount-controller", "node-lifecycle-controller")
CHURN_SECONDS = float(os.environ.get("E2E_CHURN_SECONDS", "30"))
"""Timeout; upstream's tests use five minutes."""
HOSTNAME = "kubernetes.io/hostname"

__all__ = ["classes"]


@pytest.fixture(scope="module")
def shared_cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """A control plane with kubelets and the controllers of ReplicaSets."""
    options = Options(controller_manager=True, controllers=",".join(CONTROLLERS))
    directory = tmp_path_factory.mktemp("kubelets")
    with (
        ControlPlane(options) as own,
        start_kwok(own, directory),
        Cluster("own control plane", own.kubeconfig, directory, control_plane=own) as cluster,
    ):
        yield cluster
        pytestconfig.stash.setdefault(EARLIER_AUDIT_EVENTS, []).extend(cluster.audit_events())


class Owners(Room):
    """A namespace with ReplicaSets."""

    def replicas(
        self, name: str, count: int, priority: str, cpu: str = "1", grace: int = 1
    ) -> None:
        """Create a ReplicaSet whose pods take this long to end."""
        pod = make_pod(
            name,
            requests={"cpu": cpu},
            priorityClassName=f"e2e-{priority}",
            terminationGracePeriodSeconds=grace,
        )
        spec = {
            "replicas": count,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]},
        }
        path = f"/apis/apps/v1/namespaces/{self.namespace}/replicasets"
        body = {"metadata": {"name": name}, "spec": spec}
        self.cluster.run(self.cluster.api.post(path, body))

    def stop(self, *names: str) -> None:
        """Delete the ReplicaSets, so that cleanup does not recreate pods."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/replicasets"
        for name in names:
            self.cluster.run(self.cluster.api.delete(f"{path}/{name}?propagationPolicy=Orphan"))

    def running(self) -> Counter[str]:
        """Return the number of running pods of each ReplicaSet that are not terminating."""
        return Counter(
            pod["metadata"].get("labels", {}).get("app", "")
            for pod in self.cluster.pods(self.namespace)
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        )

    def wait_running(self, seconds: float = 120, **counts: int) -> None:
        wait_for(
            lambda: all(self.running()[name] == count for name, count in counts.items()),
            f"{counts} to run",
            seconds,
        )

    def condition(self, name: str, kind: str) -> Json | None:
        pod = self.find(name)
        conditions = [] if pod is None else pod["status"].get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), None)


@pytest.fixture
def room(cluster: Cluster, namespace: str, stowage: Program) -> Owners:
    del stowage
    return Owners(cluster, namespace)


def on(node: str) -> Json:
    return {"nodeSelector": {HOSTNAME: node}}


def test_basic_preemption(cluster: Cluster, room: Owners) -> None:
    """Of two pods with a lower priority than the preemptor, the lowest one is evicted."""
    cluster.create_nodes([make_node(name, allocatable={"cpu": "3"}) for name in ("a", "b")])
    room.fill("low", cpu="2", grace=1, **on("a"))
    room.fill("middle", priority="middle", cpu="2", grace=1, **on("b"))

    room.pods("high", priority="high", cpu="2")
    room.bound("high")

    assert room.node_of("high") == "a"
    assert room.gone("low", "middle") == {"low"}
    room.deleted("low")


def test_critical_pods(cluster: Cluster, room: Owners) -> None:
    """A pod of system-cluster-critical evicts the pod of lowest priority."""
    cluster.create_nodes([make_node(name, allocatable={"cpu": "3"}) for name in ("a", "b")])
    room.fill("low", cpu="2", grace=1, **on("a"))
    room.fill("high", priority="high", cpu="2", grace=1, **on("b"))
    critical = make_pod("critical", namespace="kube-system", requests={"cpu": "2"})
    critical["spec"]["priorityClassName"] = "system-cluster-critical"

    # `cluster.create_pods` would make the cleanup delete all pods of kube-system.
    cluster.run(cluster.api.post("/api/v1/namespaces/kube-system/pods", critical))
    system = Room(cluster, "kube-system")
    system.bound("critical")
    cluster.delete_pods("kube-system", ["critical"])

    assert room.gone("low", "high") == {"low"}


def test_replica_sets_of_four_priorities(cluster: Cluster, room: Owners) -> None:
    """Evicted pods are recreated and wait; no pod is evicted needlessly."""
    cluster.create_nodes([make_node("a", allocatable={"cpu": "10"})])
    room.replicas("rs1", 5, "low")
    room.wait_running(rs1=5)
    room.replicas("rs2", 4, "middle")
    room.wait_running(rs1=5, rs2=4)
    room.replicas("rs3", 4, "high")
    room.wait_running(rs1=2, rs2=4, rs3=4)
    room.replicas("rs4", 1, "higher", cpu="5")
    room.wait_running(rs1=0, rs2=1, rs3=4, rs4=1)
    deletions = room.deletions()
    room.stop("rs1", "rs2", "rs3", "rs4")

    assert set(deletions.values()) == {1}
    assert Counter(name.partition("-")[0] for name in deletions) == {"rs1": 5, "rs2": 3}


def test_spread_preemption(cluster: Cluster, room: Owners) -> None:
    """The victims make the preemptor's hard spread constraint hold, and are no more than needed."""
    zone = "topology.kubernetes.io/zone"
    cluster.create_nodes(
        [make_node(name, allocatable={"cpu": "10"}, zone=f"zone-{name}") for name in ("a", "b")]
    )
    labels = {"app": "spread"}
    room.fill("high", priority="high", cpu="9", labels=labels, **on("a"))
    room.fill("low-0", "low-1", "low-2", cpu="3", grace=1, labels=labels, **on("b"))
    constraint = {
        "maxSkew": 1,
        "topologyKey": zone,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }

    room.pods(
        "middle", priority="middle", cpu="4", labels=labels, topologySpreadConstraints=[constraint]
    )
    room.bound("middle")

    gone = room.gone("high", "low-0", "low-1", "low-2")
    assert room.node_of("middle") == "b"
    assert len(gone) == 2
    assert gone < {"low-0", "low-1", "low-2"}
    room.deleted(*gone)


def test_the_condition_of_a_victim(cluster: Cluster, room: Owners) -> None:
    """Victims get a condition before their deletion; a victim with a finalizer stays readable."""
    cluster.create_nodes([make_node("a", allocatable={"cpu": "2"})])
    victim = make_pod(
        "victim", namespace=room.namespace, requests={"cpu": "2"}, priorityClassName="e2e-low"
    )
    victim["metadata"]["finalizers"] = ["stowage.dev/e2e"]
    victim["spec"]["terminationGracePeriodSeconds"] = 1
    cluster.create_pods([victim])
    room.bound("victim")

    room.pods("high", priority="high", cpu="2")
    wait_for(lambda: room.leaving() == ["victim"], "the victim to be leaving")
    condition = room.condition("victim", "DisruptionTarget")
    path = f"/api/v1/namespaces/{room.namespace}/pods/victim"
    cluster.run(cluster.api.patch(path, {"metadata": {"finalizers": None}}))
    room.bound("high")

    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")


def test_preemptors_of_many_priorities_at_once(cluster: Cluster, room: Owners) -> None:
    """The preemptors of highest priority get the room, even if others already wait for victims."""
    names = [f"n-{i}" for i in range(5)]
    cluster.create_nodes([make_node(name, allocatable={"cpu": "1"}) for name in names])
    low = [f"low-{i}" for i in range(5)]
    room.fill(*low, grace=2)

    # The preemptors of lower priority come first, so that they are nominated.
    room.pods(*(f"middle-{i}" for i in range(5)), priority="middle")
    room.pods(*(f"high-{i}" for i in range(5)), priority="high")
    room.pods(*(f"higher-{i}" for i in range(3)), priority="higher")
    wait_for(lambda: len(room.gone(*low)) == 5, "all victims to be gone")
    room.bound(*(f"higher-{i}" for i in range(3)))
    wait_for(
        lambda: sum(bool(room.node_of(f"high-{i}")) for i in range(5)) == 2, "two of the others"
    )

    # A preemptor of middle priority may have been bound before the others came, and then evicted.
    assert all(room.node_of(f"middle-{i}") == "" for i in range(5) if room.find(f"middle-{i}"))
    assert set(room.deletions().values()) == {1}
    assert {name: room.deletions()[name] for name in low} == dict.fromkeys(low, 1)


def test_churn_is_no_loop(cluster: Cluster, room: Owners) -> None:
    """Victims are recreated and end gracefully; each pod is evicted once."""
    cluster.create_nodes([make_node(name, allocatable={"cpu": "4"}) for name in "abc"])
    room.replicas("low", 12, "low", grace=1)
    room.wait_running(low=12)
    until, high = time.monotonic() + CHURN_SECONDS, 0
    while time.monotonic() < until:
        room.pods(f"high-{high}", priority=("high", "middle")[high % 2], cpu="2", grace=1)
        if high >= 4:
            room.cluster.delete_pods(room.namespace, [f"high-{high - 4}"])
        high += 1
        time.sleep(1.5)

    last = [f"high-{i}" for i in range(high - 4, high)]
    room.bound(*last)
    room.wait_running(low=4)
    deletions = room.deletions()
    room.stop("low")
    assert set(deletions.values()) == {1}
    assert all(name.startswith("low-") for name in deletions)
    assert len(deletions) <= 2 * high

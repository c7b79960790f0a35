"""Promise: pods that Permit holds are bound together or not at all, even if the leader changes.

The plugin is the example `together`, found by its entry point like an installed package.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import make_node, make_pod
from e2e.support.placements import bindings_by_pod
from e2e.support.plugins import install_package
from e2e.support.processes import Program
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.waiting import wait_for

PATIENCE_SECONDS: Final = 10
SIZE: Final = 4


def configuration(patience_seconds: float) -> dict[str, Any]:
    """Return a configuration of one profile with the plugin."""
    enabled = {"multiPoint": {"enabled": [{"name": "Together"}]}}
    args = {"name": "Together", "args": {"patienceSeconds": patience_seconds}}
    return {"profiles": [{"schedulerName": "stowage", "plugins": enabled, "pluginConfig": [args]}]}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the plugin for daemons started later."""
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    install_package(CHECKOUT / "examples" / "plugins" / "together", plugins)
    monkeypatch.setenv("PYTHONPATH", str(plugins))


class Group:
    """Pods that are held until all have a node."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def pods(self, *names: str, cpu: str = "1", grouped: bool = True) -> None:
        labels = {"acme.com/group": "g", "acme.com/group-size": str(SIZE)} if grouped else {}
        self.cluster.create_pods(
            make_pod(name, namespace=self.namespace, requests={"cpu": cpu}, labels=labels)
            for name in names
        )

    def bound(self) -> set[str]:
        return {
            pod["metadata"]["name"]
            for pod in self.cluster.pods(self.namespace)
            if pod["spec"].get("nodeName")
        }

    def bindings(self) -> dict[str, int]:
        """Return the number of bindings of each pod, from the audit log."""
        of_all = bindings_by_pod(self.cluster.audit_events())
        places = (key.split("/") for key in of_all)
        ours = (name for namespace, name in places if namespace == self.namespace)
        return {name: of_all[f"{self.namespace}/{name}"] for name in ours}

    def message(self, name: str) -> str:
        """Return the message of the PodScheduled condition; empty if its status is not False."""
        for condition in self.cluster.pod(self.namespace, name)["status"].get("conditions", ()):
            if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
                return str(condition["message"])
        return ""

    def await_held(self, daemon: Program, count: int) -> None:
        """Wait until this many pods are held in Permit, which the API server does not show."""
        # A probe that does not fit beside the held pods becomes unschedulable once they are held.
        probe = f"probe-{count}"
        self.pods(probe, cpu=str(SIZE - count + 1), grouped=False)
        wait_for(lambda: "Insufficient cpu" in self.message(probe), "the room to be taken")
        self.cluster.delete_pods(self.namespace, [probe])
        assert daemon.is_running()


@pytest.fixture
def group(cluster: Cluster, own_cluster: ControlPlane, namespace: str) -> Group:
    """An empty group, and a node with room for all its pods."""
    del own_cluster
    cluster.create_nodes([make_node("n", allocatable={"cpu": str(SIZE)})])
    return Group(cluster, namespace)


def test_a_complete_group_is_bound(group: Group, run_stowage: StartStowage) -> None:
    """No pod is bound before the last one is created; then each is bound once."""
    daemon = run_stowage(configuration=configuration(600))
    group.pods("a", "b", "c")
    group.await_held(daemon, 3)
    assert group.bound() == set()

    group.pods("d")
    wait_for(lambda: group.bound() == {"a", "b", "c", "d"}, "the group to be bound")

    wait_for(lambda: group.bindings() == {"a": 1, "b": 1, "c": 1, "d": 1}, "their audit events")


def test_an_incomplete_group_gives_everything_back(group: Group, run_stowage: StartStowage) -> None:
    """After the timeout each pod reports why, and the room is free for others and a new attempt."""
    daemon = run_stowage(configuration=configuration(PATIENCE_SECONDS))
    group.pods("a", "b", "c")
    group.await_held(daemon, 3)

    wait_for(lambda: all(map(group.message, "abc")), "the group to be given back")
    timeout = f"1 rejected due to timeout after waiting {PATIENCE_SECONDS}s at plugin Together."
    others = "1 group g is not complete."
    told = [group.message(name) for name in "abc"]
    assert set(told) <= {f"0/1 nodes are available: {why}" for why in (timeout, others)}
    assert f"0/1 nodes are available: {timeout}" in told
    group.pods("other", cpu=str(SIZE), grouped=False)
    wait_for(lambda: group.bound() == {"other"}, "the room to be others'")
    group.cluster.delete_pods(group.namespace, ["other"])
    group.pods("d")
    wait_for(lambda: group.bound() == {"a", "b", "c", "d"}, "the group to be bound")


def test_the_leader_is_killed_while_pods_wait(
    cluster: Cluster, group: Group, run_stowage: StartStowage
) -> None:
    """The next leader holds the pods again and completes the group; no pod is bound twice."""
    flags = [
        "--leader-elect-lease-duration=10s",
        "--leader-elect-renew-deadline=8s",
        "--leader-elect-retry-period=500ms",
        f"--leader-elect-resource-name={group.namespace}",
        "--leader-elect-resource-namespace=default",
    ]

    def start(name: str) -> Program:
        return run_stowage(
            scheduler_kubeconfig(cluster, name),
            name=name,
            configuration=configuration(600),
            leader_elect=True,
            arguments=flags,
        )

    leader = start("permit-a")
    wait_for(lambda: "Leading" in leader.tail(100), "the first replica to lead")
    standby = start("permit-b")
    group.pods("a", "b", "c")
    group.await_held(leader, 3)

    leader.kill()
    wait_for(lambda: "Leading" in standby.tail(100), "the other replica to lead")
    group.pods("d")
    wait_for(lambda: group.bound() == {"a", "b", "c", "d"}, "the group to be bound")

    wait_for(lambda: group.bindings() == {"a": 1, "b": 1, "c": 1, "d": 1}, "their audit events")

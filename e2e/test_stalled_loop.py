"""Promise: an event loop stall of seconds costs a warning; one of a minute costs the lease."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.objects import make_node, make_pod, make_pods
from e2e.support.placements import bindings_by_pod
from e2e.support.processes import Program
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.waiting import wait_for

LEADER, STANDBY = "replica-a", "replica-b"
PODS: Final = 20
TAKEOVER_SECONDS: Final = 40.0
"""Ten seconds until the renewing thread gives up, fifteen until the lease expires, and CPU time."""

PLUGIN = '''
import time
from pathlib import Path

from scheduler.kernel.framework.interface import NodeFilterPlugin
from scheduler.kernel.framework.status import SUCCESS


class Holds(NodeFilterPlugin):
    """Computes for as long as a pod says, once."""

    NAME = "Holds"

    def filter(self, state, pod, node):
        seconds = pod.metadata.labels.get("seconds")
        if seconds:
            try:
                Path(FOLDER, pod.metadata.name).touch(exist_ok=False)
            except FileExistsError:
                return SUCCESS
            end = time.monotonic() + float(seconds)
            while time.monotonic() < end:
                pass
        return SUCCESS
'''


class Replicas:
    """Two replicas with the plugin; the first leads."""

    def __init__(self, cluster: Cluster, namespace: str, run_stowage: StartStowage) -> None:
        self.cluster = cluster
        self.namespace = namespace
        plugins = {"multiPoint": {"enabled": [{"name": "Holds"}]}}
        configuration: dict[str, Any] = {
            "profiles": [{"schedulerName": "stowage", "plugins": plugins}],
            "leaderElection": {"resourceName": namespace, "resourceNamespace": "default"},
        }

        def start(name: str) -> Program:
            return run_stowage(
                scheduler_kubeconfig(cluster, name),
                name=name,
                configuration=configuration,
                leader_elect=True,
                arguments=["--logging-format=json"],
            )

        self.leader = start(LEADER)
        wait_for(lambda: told(self.leader, "Leading"), "the first replica to lead")
        self.standby = start(STANDBY)

    def hold(self, seconds: int) -> None:
        """Make the leader's event loop stall for this many seconds."""
        labels = {"seconds": str(seconds)}
        self.cluster.create_pods([make_pod("held", namespace=self.namespace, labels=labels)])

    def bindings(self) -> dict[str, int]:
        """Return the number of bindings of each pod, from the audit log."""
        of_all = bindings_by_pod(self.cluster.audit_events())
        return {k: n for k, n in of_all.items() if k.startswith(f"{self.namespace}/")}


@pytest.fixture
def replicas(
    cluster: Cluster,
    own_cluster: ControlPlane,
    run_stowage: StartStowage,
    tmp_path: Path,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Replicas:
    """Replicas with their own users, which the audit log distinguishes."""
    folder = tmp_path / "plugins"
    info = folder / "holds-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "holds.py").write_text(PLUGIN.replace("FOLDER", repr(str(tmp_path))))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: holds\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stowage.plugins]\nHolds = holds:Holds\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    cluster.create_nodes([make_node("node")])
    return Replicas(cluster, namespace, run_stowage)


def told(replica: Program, message: str) -> list[dict[str, Any]]:
    """Return a replica's log entries with this message."""
    lines = replica.log.read_text().splitlines(keepends=True)
    logged = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
    return [line for line in logged if line["msg"] == message]


def long_stall(replica: Program) -> dict[str, Any]:
    """Return the log entry of the first stall of about twelve seconds or more; else nothing."""
    stalls = told(replica, "Event loop stalled")
    return next((stall for stall in stalls if stall["seconds"] > 11.5), {})


def test_a_step_of_twelve_seconds_costs_a_warning(
    cluster: Cluster, namespace: str, replicas: Replicas
) -> None:
    """A thread renews the lease meanwhile; without it, leadership would end after ten seconds."""
    replicas.hold(12)
    cluster.create_pods(make_pods(PODS, prefix="later", namespace=namespace))
    cluster.wait_until_bound(namespace)

    # A slow machine has shorter stalls too, and adds to the long one.
    warning = wait_for(lambda: long_stall(replicas.leader), "the warning")
    assert warning["level"] == "warning"
    assert warning["seconds"] < 30
    assert warning["decisions"] > 11.5
    assert not told(replicas.leader, "Leader election lost")
    assert not told(replicas.standby, "Leading")
    assert replicas.leader.is_running()
    assert set(replicas.bindings().values()) == {1}


def test_a_step_of_a_minute_costs_the_lease(
    cluster: Cluster, namespace: str, replicas: Replicas
) -> None:
    """The other replica leads before the stall ends, and no pod is bound twice."""
    replicas.hold(60)
    cluster.create_pods(make_pods(PODS, prefix="later", namespace=namespace))
    wait_for(lambda: told(replicas.standby, "Leading"), "the take-over", TAKEOVER_SECONDS)
    cluster.wait_until_bound(namespace, timeout_seconds=20)
    assert told(replicas.leader, "Lease left to others: event loop stalled")
    assert replicas.leader.is_running()

    wait_for(lambda: not replicas.leader.is_running(), "the old leader to end", 90)

    assert replicas.leader.stop() == 1
    assert told(replicas.leader, "Leader election lost")
    assert len(replicas.bindings()) == PODS + 1
    assert set(replicas.bindings().values()) == {1}

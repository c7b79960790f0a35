"""Promise: one of two replicas schedules; when it ends the other takes over, and never both."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from e2e.conftest import StartStowage
from e2e.support.audit import AuditEvent
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.objects import make_nodes, make_pods
from e2e.support.placements import bindings_by_pod, overcommitted_nodes
from e2e.support.processes import Program
from e2e.support.proxy import FaultProxy
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.waiting import wait_for

LEASE_SECONDS = 15.0
TAKEOVER_SECONDS = 10.0
"""Limit from the lease to the first binding; a standby without filled caches would take longer."""
HANDOVER_SECONDS = 5.0
"""Limit from a release to the next claim: the standby looks several times in a second."""
LEADER, STANDBY = "replica-a", "replica-b"


@dataclass
class Replicas:
    """Two replicas; the first leads."""

    leader: Program
    standby: Program
    proxy: FaultProxy

    def ends(self, how: str) -> None:
        if how == "killed":
            self.leader.kill()
        elif how == "frozen":
            self.leader.signal(signal.SIGSTOP)
        else:
            self.proxy.cut()

    def returns(self, how: str) -> None:
        if how == "frozen":
            self.leader.signal(signal.SIGCONT)
        elif how == "cut off":
            self.proxy.restore()


@pytest.fixture
def replicas(
    cluster: Cluster,
    own_cluster: ControlPlane,
    run_stowage: StartStowage,
    tmp_path: Path,
    namespace: str,
) -> Iterator[Replicas]:
    """Replicas with their own users, which the audit log distinguishes."""
    flags = [
        f"--leader-elect-lease-duration={LEASE_SECONDS:g}s",
        "--leader-elect-renew-deadline=10s",
        "--leader-elect-retry-period=500ms",
        f"--leader-elect-resource-name={namespace}",
        "--leader-elect-resource-namespace=default",
    ]
    with FaultProxy(scheduler_kubeconfig(cluster, LEADER)) as proxy:
        through_proxy = proxy.kubeconfig(tmp_path / "a.kubeconfig")
        leader = run_stowage(through_proxy, name=LEADER, leader_elect=True, arguments=flags)
        wait_for(lambda: "Leading" in leader.tail(100), "the first replica to lead")
        direct = scheduler_kubeconfig(cluster, STANDBY)
        standby = run_stowage(direct, name=STANDBY, leader_elect=True, arguments=flags)
        yield Replicas(leader, standby, proxy)


def is_lease_write(event: AuditEvent) -> bool:
    return (
        event.object_ref.resource == "leases"
        and event.verb in ("create", "update")
        and event.code in (200, 201)
    )


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize("how", ["killed", "frozen", "cut off"])
def test_the_other_replica_takes_over(
    cluster: Cluster, namespace: str, replicas: Replicas, how: str
) -> None:
    """Under load no pod is bound twice, and none by a replica that may have lost the lease."""
    cluster.create_nodes(make_nodes(200))
    requests = {"cpu": "50m"}
    with ThreadPoolExecutor(1) as background:
        before = make_pods(2000, namespace=namespace, requests=requests)
        creating = background.submit(cluster.create_pods, before)
        wait_for(
            lambda: cluster.bound(namespace, "stowage", limit=1),
            "the leader to bind",
            every_seconds=0.02,
        )

        replicas.ends(how)
        creating.result()
    cluster.create_pods(make_pods(500, prefix="later", namespace=namespace, requests=requests))
    wait_for(lambda: "Leading" in replicas.standby.log.read_text(), "the take-over")
    replicas.returns(how)

    cluster.wait_until_bound(namespace, timeout_seconds=600)
    time.sleep(1)
    pods = cluster.pods(namespace)
    assert overcommitted_nodes(cluster.nodes(), pods) == {}
    events = [e for e in cluster.audit_events() if e.user.username in (LEADER, STANDBY)]
    check_audit(events, namespace)
    if how != "killed":
        wait_for(lambda: not replicas.leader.is_running(), "the old leader to end")
        assert replicas.leader.stop() == 1


def check_audit(events: list[AuditEvent], namespace: str) -> None:
    """Check the bindings of both replicas in the audit log."""
    ours = [e for e in events if e.object_ref.namespace == namespace]
    assert set(bindings_by_pod(ours).values()) == {1}
    taken = min(
        at(e.stage_timestamp)
        for e in events
        if e.user.username == STANDBY and e.object_ref.name == namespace and is_lease_write(e)
    )
    late = [
        e.request_uri
        for e in ours
        if e.user.username == LEADER and e.is_binding() and at(e.request_received_timestamp) > taken
    ]
    assert late == []
    first_bind = min(
        at(e.request_received_timestamp)
        for e in ours
        if e.user.username == STANDBY and e.is_binding()
    )
    assert first_bind - taken < TAKEOVER_SECONDS


def test_a_leader_that_is_asked_to_end_hands_over_at_once(
    cluster: Cluster, namespace: str, replicas: Replicas
) -> None:
    """The leader releases the lease, so the standby does not wait for its expiry."""
    assert replicas.leader.stop() == 0
    wait_for(lambda: "Leading" in replicas.standby.log.read_text(), "the take-over")

    times: dict[str, list[float]] = {LEADER: [], STANDBY: []}
    for event in cluster.audit_events():
        if event.object_ref.name == namespace and is_lease_write(event):
            times[event.user.username].append(at(event.stage_timestamp))
    # The last write of the leader is its release.
    assert min(times[STANDBY]) - max(times[LEADER]) < HANDOVER_SECONDS
    lease = cluster.run(
        cluster.api.get(f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{namespace}")
    )
    assert lease["spec"]["leaseTransitions"] >= 1
    wait_for(
        lambda: any(
            event["note"].endswith(" became leader")
            for event in cluster.events("default", "LeaderElection", about=namespace)
        ),
        "the event of a leader",
    )

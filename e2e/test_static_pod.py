"""Promise: Stowage takes kube-scheduler's place with its kubeconfig and Lease, and gives it back.

The configuration is that of `deploy/static-pod`. No kubelet runs the static pod.
"""

import shutil
from pathlib import Path

import yaml

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import make_nodes, make_pods

CONFIG = yaml.safe_load((CHECKOUT / "deploy" / "static-pod" / "config.yaml").read_text())
LEASE = CONFIG["leaderElection"]
USER = "system:kube-scheduler"
STOWAGE = "e2e:static-pod"
"""Group in Stowage's certificate, by which the audit log distinguishes it; it has no rights."""
OTHER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/stowage/leases/stowage"
"""The Lease of `deploy/base`, which Stowage looks at and need not see."""


def test_it_takes_the_place_of_kube_scheduler_and_gives_it_back(
    cluster: Cluster,
    own_cluster: ControlPlane,
    run_stowage: StartStowage,
    namespace: str,
    tmp_path: Path,
) -> None:
    """One of the two schedules the pods of `default-scheduler`, the other one stands by."""
    theirs = Path(shutil.copy(own_cluster.kubeconfig_for(USER), tmp_path / "theirs"))
    ours = Path(shutil.copy(own_cluster.kubeconfig_for(USER, [STOWAGE]), tmp_path / "ours"))
    configuration = {key: CONFIG[key] for key in ("leaderElection", "profiles")}

    def bind(prefix: str) -> None:
        pods = make_pods(3, prefix=prefix, namespace=namespace, scheduler_name="default-scheduler")
        cluster.create_pods(pods)
        cluster.wait_until_bound(namespace, scheduler_name="default-scheduler")

    cluster.create_nodes(make_nodes(3))
    first = own_cluster.start_kube_scheduler({"leaderElection": LEASE}, kubeconfig=theirs)
    bind("before")
    stowage = run_stowage(ours, configuration=configuration, leader_elect=True)
    bind("beside")
    own_cluster.stop_program(first)
    bind("instead")
    second = own_cluster.start_kube_scheduler(
        {"leaderElection": LEASE}, kubeconfig=theirs, name="kube-scheduler-again"
    )
    assert stowage.stop() == 0
    bind("after")
    own_cluster.stop_program(second)

    events = cluster.audit_events()
    bound = {
        (event.object_ref.name.partition("-")[0], STOWAGE in event.user.groups)
        for event in events
        if event.is_binding() and event.object_ref.namespace == namespace
    }
    assert bound == {("before", False), ("beside", False), ("instead", True), ("after", False)}
    refused = {
        (event.verb, event.request_uri)
        for event in events
        if STOWAGE in event.user.groups and event.code in (401, 403)
    }
    assert refused <= {("get", OTHER_LEASE)}

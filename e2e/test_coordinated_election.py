"""Promise: with its feature gate, the control plane elects the leader, the oldest version first.

The API server needs the gate, so the test starts its own control plane. `deploy/base` does not
grant the candidates' permissions, so these requests do not count in test_rights.py.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.objects import Json, make_nodes, make_pods
from e2e.support.placements import bindings_by_pod
from e2e.support.processes import Program
from e2e.support.rights import GROUP, grant, group, scheduler_kubeconfig
from e2e.support.stowage import start_stowage
from e2e.support.waiting import wait_for

GATE = "--feature-gates=CoordinatedLeaderElection=true"
LEASE = "chosen"
LEASE_SECONDS = 12
FLAGS = (
    GATE,
    f"--leader-elect-lease-duration={LEASE_SECONDS}s",
    "--leader-elect-renew-deadline=9s",
    "--leader-elect-retry-period=1s",
    f"--leader-elect-resource-name={LEASE}",
    "--leader-elect-resource-namespace=default",
)
PATIENCE = 240
_AS_VERSION = """
import importlib.metadata as metadata, sys
version = metadata.version
metadata.version = lambda name: {!r} if name == "stowage-scheduler" else version(name)
from scheduler.__main__ import main
main()
"""
_API = "/apis/coordination.k8s.io"
RULE = {
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leasecandidates"],
    "verbs": ["get", "create", "update", "delete"],
}
"""The RBAC rule of `deploy/components/coordinated-election`."""


@pytest.fixture(scope="module")
def choosing_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of 1.36 with coordinated leader election, and four nodes."""
    arguments = (GATE, "--runtime-config=coordination.k8s.io/v1beta1=true")
    directory = tmp_path_factory.mktemp("choosing")
    with (
        ControlPlane(Options(api_server_arguments=arguments)) as own,
        Cluster("own control plane", own.kubeconfig, directory, control_plane=own) as cluster,
    ):
        grant(cluster, "stowage-candidates", [RULE], group(GROUP))
        cluster.create_nodes(make_nodes(4))
        yield cluster


def candidates(cluster: Cluster) -> dict[str, str]:
    """Return the versions of the candidates by name."""
    path = f"{_API}/v1beta1/namespaces/default/leasecandidates"
    found = cluster.run(cluster.api.list_items(path))
    return {each["metadata"]["name"]: each["spec"]["binaryVersion"] for each in found}


def leads(cluster: Cluster, version: str, *, renewed: bool = True) -> bool:
    """Report whether a candidate of this version holds the Lease and, by default, renewed it."""
    path = f"{_API}/v1/namespaces/default/leases"
    leases = {each["metadata"]["name"]: each for each in cluster.run(cluster.api.list_items(path))}
    spec: Json = leases.get(LEASE, {}).get("spec", {})
    held = candidates(cluster).get(spec.get("holderIdentity", "")) == version
    # The control plane creates leases of five seconds.
    return held and (not renewed or spec["leaseDurationSeconds"] == LEASE_SECONDS)


def test_the_oldest_version_leads_and_another_follows_when_it_goes(
    choosing_cluster: Cluster, tmp_path: Path
) -> None:
    """A newer leader yields to an older candidate; a standby replaces a leader that ends."""
    cluster = choosing_cluster
    with ExitStack() as stack:

        def start(name: str, version: str) -> Program:
            program = start_stowage(
                scheduler_kubeconfig(cluster),
                tmp_path,
                name=name,
                leader_elect=True,
                arguments=FLAGS,
                wait=False,
                command=(sys.executable, "-c", _AS_VERSION.format(version), "run"),
            )
            stack.callback(program.stop)
            return program

        def bind(prefix: str) -> None:
            cluster.create_pods(make_pods(3, prefix=prefix, namespace="default"))
            cluster.wait_until_bound("default")

        new = start("new", "9.9.9")
        wait_for(lambda: leads(cluster, "9.9.9"), "the only candidate to lead", PATIENCE)
        bind("first")

        old = start("old", "0.5.0")
        wait_for(lambda: leads(cluster, "0.5.0"), "the older version to lead", PATIENCE)
        wait_for(lambda: not new.is_running(), "the newer version to end", PATIENCE)
        assert "9.9.9" not in candidates(cluster).values(), "it has taken its candidate back"
        bind("second")

        standby = start("standby", "9.9.9")
        wait_for(lambda: "9.9.9" in candidates(cluster).values(), "the standby to stand", PATIENCE)
        old.kill()
        wait_for(lambda: leads(cluster, "9.9.9"), "the standby to follow", PATIENCE)
        bind("third")

        start("last", "9.9.8")
        wait_for(lambda: "9.9.8" in candidates(cluster).values(), "the last to stand", PATIENCE)
        # The stopped leader releases the Lease: the API server accepts one without a holder.
        standby.stop()
        wait_for(lambda: leads(cluster, "9.9.8"), "the last to follow", PATIENCE)
        bind("fourth")
    # The API server has bound the last pod before it logs that it did.
    wait_for(lambda: len(bindings_by_pod(cluster.audit_events())) == 12, "the audit log")
    assert set(bindings_by_pod(cluster.audit_events()).values()) == {1}

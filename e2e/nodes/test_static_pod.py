"""Promise: kubelet runs Stowage as a static pod, in the place of kube-scheduler.

The files are those of `deploy/static-pod`. The lab has no other scheduler.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from e2e.conftest import REPORTERS
from e2e.nodes.lab import Lab, is_ready
from e2e.nodes.node import Node
from e2e.nodes.test_manifests import deployment, running
from e2e.support.go_programs import CHECKOUT
from e2e.support.waiting import wait_for

FILES: Final = CHECKOUT / "deploy" / "static-pod"
LEASE: Final = ("kube-system", "kube-scheduler")
KUBERNETES: Final = "/var/lib/kubelet/etc"
"""The node's /etc/kubernetes: that folder of the machine is not the node's own."""
MANIFEST: Final = f"{KUBERNETES}/manifests/kube-scheduler.yaml"


@pytest.fixture(scope="module")
def without_scheduler() -> Iterator[Lab]:
    """A cluster of one node without a scheduler."""
    with Lab(1, kube_scheduler=False) as lab:
        yield lab


@pytest.fixture
def lab(without_scheduler: Lab, request: pytest.FixtureRequest) -> Lab:
    request.node.stash.setdefault(REPORTERS, []).append(without_scheduler.report)
    return without_scheduler


def test_it_schedules_until_its_manifest_is_removed(lab: Lab) -> None:
    """Then it gives the Lease back, so that a kube-scheduler could go on at once."""
    [node], control_plane = lab.nodes, lab.control_plane
    kubeconfig = control_plane.kubeconfig_for(
        "system:kube-scheduler", server=control_plane.server_for_nodes
    )
    pod = (FILES / "kube-scheduler.yaml").read_text()
    put(node, f"{KUBERNETES}/scheduler.conf", kubeconfig.read_text())
    put(node, f"{KUBERNETES}/stowage/config.yaml", (FILES / "config.yaml").read_text())
    put(node, MANIFEST, pod.replace("{path: /etc/kubernetes/", f"{{path: {KUBERNETES}/"))
    node.restart_kubelet(staticPodPath=f"{KUBERNETES}/manifests")

    wait_for(lambda: any(map(is_ready, lab.pods(LEASE[0]))), "the static pod to be ready", 180)
    assert lab.holder(*LEASE)
    with lab.applied_text(deployment("anything", replicas=2, scheduler="default-scheduler")):
        running(lab, "default", 2)

    node.run("rm", MANIFEST)
    wait_for(lambda: not lab.holder(*LEASE), "the Lease to have no holder", 60)


def put(node: Node, path: str, text: str) -> None:
    """Write a file on the node."""
    node.run("sh", "-c", 'mkdir -p "$(dirname "$1")" && cat >"$1"', "sh", path, stdin=text)

"""Promise: with its feature gate, a DeviceTaintRule keeps pods from devices until it is deleted.

The API server needs the gate and the API version, so the test starts its own control plane.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.devices import Devices, make_device_pod
from e2e.support.objects import make_nodes
from e2e.support.rights import GROUP, grant, group, scheduler_kubeconfig
from e2e.support.scraping import fetch
from e2e.support.stowage import start_stowage
from e2e.support.waiting import wait_for

GATE = "--feature-gates=DRADeviceTaintRules=true"
TOLD = "1 cannot allocate all claims"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
RULE = {
    "apiGroups": ["resource.k8s.io"],
    "resources": ["devicetaintrules"],
    "verbs": ["list", "watch"],
}
"""The RBAC rule of docs/devices.md."""


@pytest.fixture(scope="module")
def cluster_with_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of 1.36 with taint rules, which the scheduler may read."""
    directory = tmp_path_factory.mktemp("rules")
    arguments = (GATE, "--runtime-config=resource.k8s.io/v1beta2=true")
    with (
        ControlPlane(Options(api_server_arguments=arguments)) as own,
        Cluster("own control plane", own.kubeconfig, directory, control_plane=own) as cluster,
    ):
        grant(cluster, "stowage-taint-rules", [RULE], group(GROUP))
        yield cluster


def test_a_rule_keeps_pods_away_until_it_goes(cluster_with_rules: Cluster, tmp_path: Path) -> None:
    """A rule created while the daemon runs applies too; allocated devices stay allocated."""
    cluster = cluster_with_rules
    cluster.create_nodes(make_nodes(1))
    devices = Devices(cluster)
    devices.offer("node-00000", 2)
    spec = {
        "deviceSelector": {"pool": "node-00000"},
        "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
    }
    arguments = [GATE, "--serve-without-authorization"]
    daemon = start_stowage(scheduler_kubeconfig(cluster), tmp_path, arguments=arguments)
    try:
        for name in ("first", "second", "probe"):
            devices.claim("default", name)
        cluster.create_pods([make_device_pod("first", "default", claim="first")])
        cluster.wait_until_bound("default")

        # The rule and the second pod come by different watches: the rule must be known first.
        probe = make_device_pod("probe", "default", claim="probe", schedulerName="unserved")
        cluster.create_pods([probe])
        url = f"{daemon.url}/debug/explain?pod=default/probe"
        cluster.run(cluster.api.post(RULES, {"metadata": {"name": "broken"}, "spec": spec}))
        wait_for(lambda: TOLD in fetch(url), "the daemon to know the rule")
        cluster.create_pods([make_device_pod("second", "default", claim="second")])
        told = wait_for(
            lambda: cluster.events("default", "FailedScheduling", about="second"),
            "second to be told",
        )
        assert TOLD in told[-1]["note"]

        cluster.run(cluster.api.delete(f"{RULES}/broken"))
        cluster.wait_until_bound("default")
    finally:
        daemon.stop()

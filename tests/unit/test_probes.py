"""Everything that is deployed is probed alike, and rolled alike."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.config.flags import options_from_flags
from scheduler.config.load import load
from scheduler.daemon.driver.daemon import DRAIN_SECONDS, LAST_WORDS_SECONDS
from scheduler.daemon.driver.driver import END_SECONDS

DEPLOY = Path(__file__).parents[2] / "deploy"
PROBES = {
    "livenessProbe": {
        "periodSeconds": 10,
        "timeoutSeconds": 10,
        "failureThreshold": 3,
        "terminationGracePeriodSeconds": 10,
    },
    "startupProbe": {"periodSeconds": 2, "timeoutSeconds": 10, "failureThreshold": 120},
    "readinessProbe": {"periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3},
}


def container(path: str) -> dict[str, Any]:
    """The one container of a manifest."""
    manifest = yaml.safe_load((DEPLOY / path).read_text())
    pod = manifest["spec"].get("template", manifest)
    [found] = pod["spec"]["containers"]
    probes: dict[str, Any] = found
    return probes


def of_the_chart() -> dict[str, Any]:
    """Its template is no YAML; the probes in it are."""
    text = (DEPLOY / "helm/stowage/templates/deployment.yaml").read_text()
    [block] = re.findall(r"^ +livenessProbe:.*?(?=^ +resources:)", text, re.MULTILINE | re.DOTALL)
    probes: dict[str, Any] = yaml.safe_load(textwrap.dedent(block))
    return probes


@pytest.mark.parametrize(
    "probes",
    [
        pytest.param(container("base/deployment.yaml"), id="base"),
        pytest.param(container("shadow/deployment.yaml"), id="shadow"),
        pytest.param(container("operator/deployment.yaml"), id="operator"),
        pytest.param(container("static-pod/kube-scheduler.yaml"), id="static pod"),
        pytest.param(of_the_chart(), id="chart"),
    ],
)
def test_probes_are_the_same_everywhere(probes: dict[str, Any]) -> None:
    """A start is not killed before it is probed for life."""
    numbers = {name: {k: v for k, v in probes[name].items() if k != "httpGet"} for name in PROBES}

    assert numbers == PROBES
    assert probes["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert probes["startupProbe"]["httpGet"] == probes["livenessProbe"]["httpGet"]


def test_liveness_is_no_stricter_than_the_lease() -> None:
    """A leader that is ended by its probe has lost the lease before."""
    election = load((DEPLOY / "base/config.yaml").read_text()).leader_election
    live = container("base/deployment.yaml")["livenessProbe"]

    assert live["timeoutSeconds"] * live["failureThreshold"] > election.lease_duration_seconds


@pytest.mark.parametrize("path", ["base/deployment.yaml", "static-pod/kube-scheduler.yaml", "helm"])
def test_the_end_of_a_leader_has_its_time(path: str) -> None:
    """A pod that is killed before keeps its lease: no other leads for 15 s."""
    place = "helm/stowage/templates/deployment.yaml" if path == "helm" else path
    [grace] = re.findall(
        r"^ {2,6}terminationGracePeriodSeconds: (\d+)$", (DEPLOY / place).read_text(), re.MULTILINE
    )
    election = load((DEPLOY / "base/config.yaml").read_text()).leader_election
    release = election.renew_deadline_seconds / 2

    assert int(grace) >= DRAIN_SECONDS + release + LAST_WORDS_SECONDS + END_SECONDS


@pytest.mark.parametrize(
    "path",
    ["base/deployment.yaml", "operator/deployment.yaml", "helm/stowage/templates/deployment.yaml"],
)
def test_a_rollout_spreads_the_new_replicas_by_themselves(path: str) -> None:
    """Both would go into one zone if both old ones are in another, as after an outage."""
    text = (DEPLOY / path).read_text()
    [block] = re.findall(r"^( +)topologySpreadConstraints:\n((?:\1 +.*\n)+)", text, re.MULTILINE)

    assert block[1].count("whenUnsatisfiable:") == block[1].count(
        "matchLabelKeys: [pod-template-hash]"
    )


@pytest.mark.parametrize(
    "path",
    [
        "base/poddisruptionbudget.yaml",
        "operator/poddisruptionbudget.yaml",
        "helm/stowage/templates/poddisruptionbudget.yaml",
    ],
)
def test_replicas_that_are_not_ready_stop_no_drain(path: str) -> None:
    """Two that cannot start, for instance for lack of a right, would hold every node."""
    text = (DEPLOY / path).read_text()

    assert re.findall(r"^  (maxUnavailable: .*|unhealthy.*)$", text, re.MULTILINE) == [
        "maxUnavailable: 1",
        "unhealthyPodEvictionPolicy: AlwaysAllow",
    ]


def test_the_static_pod_stands_in_for_kube_scheduler() -> None:
    """It has kube-scheduler's name, kubeconfig and Lease, and mounts what it names."""
    pod = yaml.safe_load((DEPLOY / "static-pod/kube-scheduler.yaml").read_text())
    config = load((DEPLOY / "static-pod/config.yaml").read_text())
    of_stowage = container("static-pod/kube-scheduler.yaml")
    [command, *flags] = of_stowage["args"]
    words = [flag.split("=", 1) for flag in flags]
    options = options_from_flags([(name.lstrip("-"), value) for name, value in words])
    mounted = [mount["mountPath"] for mount in of_stowage["volumeMounts"]]

    assert command == "run"
    assert f"{Path(options.config).parent}" in mounted
    assert config.client_connection.kubeconfig in mounted
    election = config.leader_election
    assert (election.resource_namespace, election.resource_name) == (
        pod["metadata"]["namespace"],
        pod["metadata"]["name"],
    )
    assert "default-scheduler" in [profile.scheduler_name for profile in config.profiles]
    assert options.notices == ()

"""Everything that is deployed is probed alike, and rolled alike."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.config.load import load

DEPLOY = Path(__file__).parents[2] / "deploy"
LENIENT = {
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
    deployment = yaml.safe_load((DEPLOY / path).read_text())
    [found] = deployment["spec"]["template"]["spec"]["containers"]
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
        pytest.param(of_the_chart(), id="chart"),
    ],
)
def test_probes_are_the_same_everywhere(probes: dict[str, Any]) -> None:
    """A start is not killed before it is probed for life; of readiness the operator has none."""
    found = {name: probes[name] for name in LENIENT if name in probes}
    numbers = {
        name: {k: v for k, v in probe.items() if k != "httpGet"} for name, probe in found.items()
    }

    assert numbers == {name: LENIENT[name] for name in numbers}
    assert {"livenessProbe", "startupProbe"} <= found.keys()
    assert probes["startupProbe"]["httpGet"] == probes["livenessProbe"]["httpGet"]


def test_liveness_is_no_stricter_than_the_lease() -> None:
    """A leader that is ended by its probe has lost the lease before."""
    election = load((DEPLOY / "base/config.yaml").read_text()).leader_election
    live = container("base/deployment.yaml")["livenessProbe"]

    assert live["timeoutSeconds"] * live["failureThreshold"] > election.lease_duration_seconds

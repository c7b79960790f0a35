"""Promise: `kubectl apply -k deploy/operator` runs an operator, and its instances run.

Operator and instance run as pods from their images, with a plugin wheel from a ConfigMap and a
team's profile.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.nodes.lab import Lab, is_ready
from e2e.support.objects import Json
from e2e.support.waiting import wait_for
from e2e.support.wheels import example_wheel

SPACE = "scheduling"
OPERATOR = "stowage-operator"


@pytest.fixture
def deployed(lab: Lab) -> Iterator[None]:
    """Apply the operator's manifests; delete its custom resources before the CRDs."""
    with lab.applied("deploy/operator"):
        yield
        lab.kubectl("delete", "schedulers", "--all", "--all-namespaces", "--timeout=300s")


@pytest.fixture
def space(lab: Lab, deployed: None) -> Iterator[None]:
    """A namespace for the instance, and nodes in racks of two temperatures."""
    lab.kubectl("create", "namespace", SPACE)
    lab.kubectl("label", "node", "node-1", "acme.com/rack-celsius=20")
    lab.kubectl("label", "node", "node-2", "acme.com/rack-celsius=30")
    yield
    lab.kubectl("label", "nodes", "--all", "acme.com/rack-celsius-")
    lab.kubectl("uncordon", "node-1", "node-2")
    lab.kubectl("delete", "schedulers", "--all", f"--namespace={SPACE}", "--timeout=300s")
    lab.kubectl("delete", "namespace", SPACE)


def apply(lab: Lab, kind: str, name: str, spec: Json) -> None:
    """Apply a custom resource."""
    metadata = {"name": name, "namespace": SPACE}
    written = {"apiVersion": "stowage.dev/v1alpha1", "kind": kind, "metadata": metadata}
    lab.kubectl("apply", "--filename=-", stdin=json.dumps({**written, "spec": spec}))


def run_pod(lab: Lab, name: str) -> str:
    """Create a pod for the team's profile, wait until it is Ready, and return its node."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    written = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"schedulerName": "racks", "containers": [container]},
    }
    lab.kubectl("apply", "--filename=-", stdin=json.dumps(written))
    wait_for(lambda: is_ready(lab.pod(SPACE, name)), f"{name} to be Ready", 300)
    return str(lab.pod(SPACE, name)["spec"]["nodeName"])


def racks(weight: int) -> Json:
    """Build the team's profile, which prefers cool racks."""
    enabled = [{"name": "CoolRacks", "weight": weight}]
    return {"schedulerName": "racks", "plugins": {"score": {"enabled": enabled}}}


def served(lab: Lab) -> str:
    """Return the configuration of the instance."""
    found = lab.get("configmap", f"--namespace={SPACE}", "main-config")
    return str(found["data"]["config.yaml"])


def reason(lab: Lab, kind: str, name: str, condition: str) -> str:
    """Return a condition's reason, once the status has the current generation."""
    found = lab.get(kind, f"--namespace={SPACE}", name)
    status = found.get("status", {})
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return ""
    reasons = {each["type"]: each["reason"] for each in status["conditions"]}
    return str(reasons[condition])


def test_it_runs_and_keeps_an_instance_running(lab: Lab, space: None, tmp_path: Path) -> None:
    """Its pod is deleted and a node is drained; a pod of the team runs each time."""
    lab.wait_for_rollout(OPERATOR, OPERATOR)
    operators = lab.pods(OPERATOR)
    wheel = example_wheel("cool-racks", tmp_path)
    lab.kubectl(
        *("create", "configmap", "wheels", f"--namespace={SPACE}"),
        f"--from-file=cool_racks.whl={wheel}",
    )
    package = {"name": "racks", "wheel": {"configMap": "wheels", "key": "cool_racks.whl"}}
    apply(lab, "SchedulingProfile", "racks", racks(100))
    apply(lab, "Scheduler", "main", {"profileSelector": {}, "plugins": [package]})

    wait_for(lambda: reason(lab, "scheduler", "main", "Progressing") == "Complete", "main", 300)
    assert reason(lab, "schedulingprofile", "racks", "Accepted") == "InForce"
    assert run_pod(lab, "first") == "node-1"

    # The operator's leader is deleted; the other replica continues.
    leader = lab.leader(OPERATOR, OPERATOR)
    assert leader in {pod["metadata"]["name"] for pod in operators}
    lab.kubectl("delete", "pod", leader, f"--namespace={OPERATOR}")
    apply(lab, "SchedulingProfile", "racks", racks(99))
    wait_for(lambda: "weight: 99" in served(lab), "the change to be written", 300)
    assert lab.leader(OPERATOR, OPERATOR) not in ("", leader)

    # A node is drained: operator and instance move to the other one.
    lab.wait_for_rollout(OPERATOR, OPERATOR)
    lab.kubectl(
        *("drain", "node-1", "--ignore-daemonsets", "--force", "--timeout=300s"),
        timeout=330,
    )
    lab.wait_for_rollout(SPACE, "main")
    lab.wait_for_rollout(OPERATOR, OPERATOR)
    apply(lab, "SchedulingProfile", "racks", racks(98))
    wait_for(lambda: "weight: 98" in served(lab), "the change to be written", 300)
    assert run_pod(lab, "second") == "node-2"
    wait_for(lambda: reason(lab, "scheduler", "main", "Progressing") == "Complete", "main", 300)

    # No container crashed, and deleting the instance deletes its objects.
    pods = [*lab.pods(OPERATOR), *lab.pods(SPACE, "app.kubernetes.io/name=main")]
    restarts = [each["status"]["containerStatuses"][0]["restartCount"] for each in pods]
    assert restarts == [0, 0, 0, 0]
    lab.kubectl("delete", "scheduler", "main", f"--namespace={SPACE}", "--timeout=300s")
    wait_for(lambda: lab.pods(SPACE, "app.kubernetes.io/name=main") == [], "its pods to go", 300)
    roles = lab.get("clusterroles", "--selector=app.kubernetes.io/managed-by=stowage-operator")
    assert roles["items"] == []

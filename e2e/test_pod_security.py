"""Promise: the pods meet the restricted Pod Security Standard, which the namespace enforces.

The API server's admission plugin checks the pods in a namespace with the labels of deploy/base.
"""

import copy
import json
import uuid
from typing import Any

import pytest

from e2e.support.cluster import Cluster
from e2e.test_deployment import kubectl

pytestmark = pytest.mark.usefixtures("deployed")
WEAKENED: tuple[tuple[str, object], ...] = (
    ("allowPrivilegeEscalation", True),
    ("capabilities", {}),
    ("runAsNonRoot", False),
)


@pytest.fixture
def deployed(cluster: Cluster) -> None:
    """The namespace with its labels, and the pods' service account."""
    kubectl(cluster, "apply", "-k", "deploy/base")


def pod_of_deployment(cluster: Cluster) -> dict[str, Any]:
    """Build a pod of the Deployment."""
    shown = kubectl(cluster, "-n", "stowage", "get", "deployment", "stowage", "-o", "json")
    template = json.loads(shown)["spec"]["template"]
    spec: dict[str, Any] = template["spec"]
    # The harness lacks kube-system's priority classes, which this test does not concern.
    spec.pop("priorityClassName", None)
    metadata = {"name": f"p-{uuid.uuid4().hex[:6]}", "namespace": "stowage"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def refusal(cluster: Cluster, pod: dict[str, Any]) -> str:
    """Return the API server's reason to reject a pod; empty if it accepts the pod."""
    path = cluster.directory / f"{pod['metadata']['name']}.json"
    path.write_text(json.dumps(pod))
    try:
        kubectl(cluster, "create", "--dry-run=server", "-f", str(path))
    except AssertionError as problem:
        return str(problem)
    return ""


def test_the_pods_are_admitted(cluster: Cluster) -> None:
    """The namespace enforces the standard and admits the pods."""
    assert refusal(cluster, pod_of_deployment(cluster)) == ""


@pytest.mark.parametrize(("field", "value"), WEAKENED, ids=[field for field, _ in WEAKENED])
def test_each_restriction_is_needed(cluster: Cluster, field: str, value: object) -> None:
    """Without one of the restrictions the plugin rejects the pod, so it does check them."""
    pod = copy.deepcopy(pod_of_deployment(cluster))
    pod["spec"]["securityContext"].pop("runAsNonRoot")
    pod["spec"]["containers"][0]["securityContext"]["runAsNonRoot"] = True
    pod["spec"]["containers"][0]["securityContext"][field] = value

    assert 'violates PodSecurity "restricted' in refusal(cluster, pod)

"""Creates PodGroups and their pods, and configures a 1.36 control plane that serves them."""

from typing import Any

from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.controlplane import Options
from e2e.support.objects import Json, make_pod
from e2e.support.waiting import wait_for

API = "scheduling.k8s.io/v1alpha2"
SCHEDULER_GATES = ("--feature-gates=GenericWorkload=true,GangScheduling=true",)
"""Feature gates of a daemon that schedules pod groups."""
API_SERVER_ARGUMENTS = ("--feature-gates=GenericWorkload=true", f"--runtime-config={API}=true")
"""Flags of an API server that serves PodGroups."""

OPTIONS = Options(
    controller_manager=True,
    controllers=(
        "podgroup-protection-controller,job-controller,"
        "serviceaccount-controller,node-lifecycle-controller"
    ),
    api_server_arguments=(
        "--feature-gates=GenericWorkload=true,WorkloadWithJob=true",
        f"--runtime-config={API}=true",
    ),
    controller_manager_arguments=("--feature-gates=GenericWorkload=true,WorkloadWithJob=true",),
)
"""A control plane that serves PodGroups, protects them from deletion, and creates them for Jobs."""

CONDITION = "PodGroupScheduled"


def make_gang(cluster: Cluster, namespace: str, name: str, min_count: int, key: str = "") -> None:
    """Create a PodGroup with a gang policy and, if ``key`` is given, a topology constraint."""
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    group = {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    cluster.run(cluster.api.post(_path(namespace), group))


def make_members(count: int, *, group: str, namespace: str, cpu: str = "1") -> list[Json]:
    """Build the pods of a group."""
    return [
        make_pod(
            f"{group}-{index:03}",
            namespace=namespace,
            requests={"cpu": cpu},
            schedulingGroup={"podGroupName": group},
        )
        for index in range(count)
    ]


def places(cluster: Cluster, namespace: str, group: str) -> list[str]:
    """Return the node of each of the group's pods; an empty string for an unbound pod."""
    return [
        pod["spec"].get("nodeName", "")
        for pod in cluster.pods(namespace)
        if pod["spec"].get("schedulingGroup", {}).get("podGroupName") == group
    ]


def condition_of(cluster: Cluster, namespace: str, group: str) -> tuple[str, str, str] | None:
    """Return status, reason and message of the group's condition, or None without one."""
    try:
        found: Json = cluster.run(cluster.api.get(f"{_path(namespace)}/{group}"))
    except ApiRefusedError:
        return None
    conditions: list[dict[str, Any]] = found.get("status", {}).get("conditions", [])
    for each in conditions:
        if each["type"] == CONDITION:
            return each["status"], each["reason"], each.get("message", "")
    return None


def wait_for_condition(
    cluster: Cluster, namespace: str, group: str, status: str, seconds: float = 60
) -> tuple[str, str, str]:
    """Wait until the group's condition has this status, and return the condition."""

    def ask() -> tuple[str, str, str] | None:
        found = condition_of(cluster, namespace, group)
        return found if found and found[0] == status else None

    found = wait_for(ask, f"{group} to have the condition {CONDITION} {status}", seconds)
    assert found is not None
    return found


def _path(namespace: str) -> str:
    return f"/apis/{API}/namespaces/{namespace}/podgroups"

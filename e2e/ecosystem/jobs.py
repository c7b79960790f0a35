"""Simulates the kubelet for job pods: tests set their phase."""

from collections.abc import Iterable

from e2e.ecosystem.conftest import NAMESPACE
from e2e.support.cluster import Cluster
from e2e.support.objects import Json

SECONDS = 120
"""Timeout for controllers on a busy machine."""


def pods_with(cluster: Cluster, key: str, value: str) -> list[Json]:
    """Return the pods with a label that have not ended."""
    return [
        pod
        for pod in cluster.pods(NAMESPACE)
        if pod["metadata"]["labels"].get(key) == value
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
        and "deletionTimestamp" not in pod["metadata"]
    ]


def bound(pods: Iterable[Json]) -> int:
    """Return the number of bound pods."""
    return sum("nodeName" in pod["spec"] for pod in pods)


def groups_of(pods: Iterable[Json]) -> set[str]:
    """Return the names of the pods' groups."""
    return {pod["spec"].get("schedulingGroup", {}).get("podGroupName", "") for pod in pods}


def delete_terminating(cluster: Cluster) -> None:
    """Delete terminating pods, as a kubelet does."""
    ending = [pod for pod in cluster.pods(NAMESPACE) if "deletionTimestamp" in pod["metadata"]]
    if ending:
        cluster.delete_pods(NAMESPACE, [pod["metadata"]["name"] for pod in ending])


def set_phase(cluster: Cluster, pods: Iterable[Json], phase: str) -> None:
    """Set the phase of pods, as a kubelet does."""
    for pod in pods:
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/status"
        cluster.run(cluster.api.patch(path, {"status": {"phase": phase}}))

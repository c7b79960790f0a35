"""Promise: an unschedulable pod is bound soon after it fits, and is not retried before."""

import time
from collections.abc import Callable

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.objects import make_node, make_pod
from e2e.support.waiting import wait_for

SOON_SECONDS = 10.0
"""It takes a fraction of a second; a pod that is not woken is retried after five minutes."""
NO_SCHEDULE = {"key": "reserved", "value": "yes", "effect": "NoSchedule"}


def failed_attempts(cluster: Cluster, namespace: str, pod: str) -> int:
    """Return the number of failed attempts, according to the pod's events."""
    return sum(
        event.get("series", {}).get("count", 1)
        for event in cluster.events(namespace, "FailedScheduling")
        if event["regarding"]["name"] == pod
    )


def condition(cluster: Cluster, namespace: str, pod: str) -> tuple[str, str, str]:
    for each in cluster.pod(namespace, pod)["status"].get("conditions", []):
        if each["type"] == "PodScheduled":
            return each["status"], each.get("reason", ""), each.get("message", "")
    return "", "", ""


def add_node(cluster: Cluster, namespace: str) -> None:
    cluster.create_nodes([make_node("roomy", allocatable={"cpu": "8"})])


def remove_taint(cluster: Cluster, namespace: str) -> None:
    cluster.run(cluster.api.patch("/api/v1/nodes/tainted", {"spec": {"taints": None}}))


def delete_pod(cluster: Cluster, namespace: str) -> None:
    cluster.delete_pods(namespace, ["filler"])


@pytest.mark.parametrize(
    ("help_arrives", "message"),
    [
        pytest.param(add_node, "Insufficient cpu", id="a node that fits appears"),
        pytest.param(remove_taint, "node(s) had untolerated taint(s)", id="a taint is removed"),
        pytest.param(delete_pod, "Insufficient cpu", id="another pod is deleted"),
    ],
)
def test_a_pod_is_bound_soon_after_it_fits(
    cluster: Cluster,
    namespace: str,
    run_stowage: StartStowage,
    help_arrives: Callable[[Cluster, str], None],
    message: str,
) -> None:
    """The pod is not retried after events that cannot make it schedulable."""
    tainted = help_arrives is remove_taint
    cluster.create_nodes([make_node("tainted", taints=[NO_SCHEDULE] if tainted else [])])
    run_stowage()
    if not tainted:
        cluster.create_pods([make_pod("filler", namespace=namespace, requests={"cpu": "3"})])
        cluster.wait_until_bound(namespace)
    cluster.create_pods([make_pod("waits", namespace=namespace, requests={"cpu": "3500m"})])
    wait_for(lambda: failed_attempts(cluster, namespace, "waits") == 1, "the first attempt")
    # The condition is written in another request than the event.
    wait_for(lambda: condition(cluster, namespace, "waits")[0], "the pod's condition")
    status, reason, text = condition(cluster, namespace, "waits")
    assert (status, reason) == ("False", "Unschedulable")
    assert text.startswith(f"0/1 nodes are available: 1 {message}. no new claims to deallocate, ")
    make_noise(cluster, namespace)
    assert failed_attempts(cluster, namespace, "waits") == 1

    start = time.monotonic()
    help_arrives(cluster, namespace)
    wait_for(
        lambda: cluster.pod(namespace, "waits")["spec"].get("nodeName"),
        "the pod to be bound",
        every_seconds=0.02,
    )

    assert time.monotonic() - start < SOON_SECONDS
    assert failed_attempts(cluster, namespace, "waits") == 1


def make_noise(cluster: Cluster, namespace: str) -> None:
    """Cause events that cannot help a pod without enough CPU or without a toleration."""
    for i in range(3):
        label = {"metadata": {"labels": {"noise": str(i)}}}
        cluster.run(cluster.api.patch("/api/v1/nodes/tainted", label))
        cluster.create_pods(
            [make_pod(f"foreign-{i}", namespace=namespace, scheduler_name="somebody-else")]
        )
    time.sleep(3)

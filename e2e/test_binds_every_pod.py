"""Promise: every pod of Stowage is bound exactly once; pods of other schedulers stay untouched."""

import time
from pathlib import Path

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.objects import Json, make_nodes, make_pods
from e2e.support.placements import bindings_by_pod, overcommitted_nodes
from e2e.support.waiting import wait_for

NODES = 500
PODS = 5000
BOUND_SECONDS = 600
"""Timeout for all pods, of which a slow machine binds ten per second."""
DRAIN_SECONDS = 25
"""What docs/operations.md allows for writes in flight and last events."""
FOREIGN = ("somebody-else", "another-scheduler")


def mixed_pods(namespace: str) -> list[Json]:
    """Build pods of Stowage and, between them, pods of two other schedulers."""
    requests = {"cpu": "100m", "memory": "200Mi"}
    pods = make_pods(PODS, namespace=namespace, requests=requests)
    for name in FOREIGN:
        pods += make_pods(
            100, prefix=name, namespace=namespace, scheduler_name=name, requests=requests
        )
    return sorted(pods, key=lambda pod: pod["metadata"]["name"][::-1])


def check_end_state(cluster: Cluster, namespace: str, *, lost_answers: int = 0) -> None:
    """Check that Stowage's pods are bound once, and other pods are not bound.

    Up to ``lost_answers`` bindings may lack a response in the audit log.
    """
    pods = cluster.pods(namespace)
    ours = [p for p in pods if p["spec"]["schedulerName"] == "stowage"]
    theirs = [p for p in pods if p["spec"]["schedulerName"] in FOREIGN]
    assert len(ours) == PODS
    assert [p["metadata"]["name"] for p in ours if not p["spec"].get("nodeName")] == []
    assert len(theirs) == 100 * len(FOREIGN)
    assert [p["metadata"]["name"] for p in theirs if p["spec"].get("nodeName")] == []
    assert [p["metadata"]["name"] for p in theirs if "conditions" in p["status"]] == []
    assert overcommitted_nodes(cluster.nodes(), pods) == {}
    if cluster.control_plane is not None:

        def bindings() -> dict[str, int]:
            bound = bindings_by_pod(cluster.audit_events())
            return {k: n for k, n in bound.items() if k.startswith(f"{namespace}/")}

        # The API server has bound the pod before it logs that it did.
        wait_for(lambda: len(bindings()) >= PODS - lost_answers, "the bindings in the audit log")
        assert set(bindings().values()) == {1}


def scheduled_events(cluster: Cluster, namespace: str) -> set[str]:
    return {event["regarding"]["name"] for event in cluster.events(namespace, "Scheduled")}


def test_all_of_ours_are_bound_and_none_of_theirs(
    cluster: Cluster, namespace: str, run_stowage: StartStowage
) -> None:
    """The cluster has 500 nodes and 5,000 pods, plus pods of two other schedulers."""
    cluster.create_nodes(make_nodes(NODES))
    run_stowage()

    cluster.create_pods(mixed_pods(namespace))

    cluster.wait_until_bound(namespace, timeout_seconds=BOUND_SECONDS)
    check_end_state(cluster, namespace)
    wait_for(
        lambda: len(scheduled_events(cluster, namespace)) == PODS,
        "a Scheduled event for each pod",
        BOUND_SECONDS,
        # Lists of so many events take the time of the API server.
        every_seconds=1,
    )
    note = cluster.events(namespace, "Scheduled")[0]
    name = note["regarding"]["name"]
    node = cluster.pod(namespace, name)["spec"]["nodeName"]
    assert note["note"] == f"Successfully assigned {namespace}/{name} to {node}"
    assert (note["type"], note["action"]) == ("Normal", "Binding")
    assert note["reportingController"] == "stowage"


def test_killed_in_the_middle_and_started_again(
    cluster: Cluster, namespace: str, run_stowage: StartStowage
) -> None:
    """SIGKILL during bindings does not change the final state."""
    cluster.create_nodes(make_nodes(NODES))
    cluster.create_pods(mixed_pods(namespace))
    first = run_stowage()
    wait_for(
        lambda: len(cluster.bound(namespace, "stowage", limit=PODS // 10)) == PODS // 10,
        "a tenth of the pods to be bound",
        every_seconds=0.02,
    )

    first.kill()
    left = len(cluster.unbound(namespace, "stowage", limit=1))
    run_stowage()

    assert left > 0
    cluster.wait_until_bound(namespace, timeout_seconds=BOUND_SECONDS)
    # The API server executes the requests of a killed client, but logs no 201 for them.
    check_end_state(cluster, namespace, lost_answers=100)


def test_sigterm_lets_binds_end_and_exits_0(
    cluster: Cluster, namespace: str, run_stowage: StartStowage
) -> None:
    """The daemon takes no further pod, completes running bindings, and exits with 0."""
    cluster.create_nodes(make_nodes(50))
    cluster.create_pods(make_pods(3000, namespace=namespace, requests={"cpu": "10m"}))
    daemon = run_stowage()
    wait_for(
        lambda: len(cluster.bound(namespace, "stowage", limit=100)) == 100,
        "binding to begin",
        every_seconds=0.02,
    )

    started = time.monotonic()
    status = daemon.stop()

    assert status == 0
    assert time.monotonic() - started < DRAIN_SECONDS
    assert cluster.unbound(namespace, "stowage", limit=1) != []
    assert overcommitted_nodes(cluster.nodes(), cluster.pods(namespace)) == {}


@pytest.mark.parametrize("content", ["", "not: [yaml", "apiVersion: v1\nkind: Config\n"])
def test_a_broken_kubeconfig_is_one_clear_message(
    tmp_path: Path, run_stowage: StartStowage, cluster: Cluster, content: str
) -> None:
    """The daemon prints one message without a traceback."""
    file = tmp_path / "broken.kubeconfig"
    file.write_text(content)

    daemon = run_stowage(kubeconfig=file, wait=False)
    wait_for(lambda: not daemon.is_running(), "the process to end")

    output = daemon.tail(50)
    assert daemon.stop() == 2
    assert "Traceback" not in output
    assert "broken.kubeconfig" in output

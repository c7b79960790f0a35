"""Promise: a JobSet whose pods form a gang runs whole, also after JobSet restarts it."""

import pytest

from e2e.ecosystem.conftest import EXAMPLES, NAMESPACE, StartController
from e2e.ecosystem.jobs import SECONDS, bound, delete_terminating, groups_of, pods_with, set_phase
from e2e.support.cluster import Cluster
from e2e.support.job_controllers import JOBSET
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.pod_groups import wait_for_condition
from e2e.support.waiting import wait_for

ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


@pytest.mark.usefixtures("stowage")
def test_a_jobset_runs_as_a_gang_and_is_started_again_whole(
    cluster: Cluster, start_controller: StartController
) -> None:
    """The manifests of docs/groups.md on two nodes; one pod uses part of the room at first."""
    start_controller(JOBSET)
    cluster.create_nodes([make_node(name, allocatable={"cpu": "2"}) for name in ("a", "b")])
    cluster.create_pods([make_pod("in-the-way", namespace="other", requests={"cpu": "1"})])
    cluster.wait_until_bound("other", timeout_seconds=SECONDS)
    cluster.create_from_files(EXAMPLES / "label.yaml", EXAMPLES / "jobset.yaml")

    first = _members(cluster, attempt=0)
    wait_for_condition(cluster, NAMESPACE, "train", "False", SECONDS)
    assert groups_of(first) == {"train"}
    assert bound(_members(cluster, attempt=0)) == 0

    cluster.delete_pods("other")
    cluster.wait_until_bound(NAMESPACE, timeout_seconds=SECONDS)
    assert bound(_members(cluster, attempt=0)) == 4

    # Cordon one node, so that the restarted gang does not fit and waits as a whole.
    cluster.run(cluster.api.patch("/api/v1/nodes/b", {"spec": {"unschedulable": True}}))
    set_phase(cluster, _members(cluster, attempt=0)[:1], "Failed")
    second = _members(cluster, attempt=1)
    wait_for(lambda: _tried(cluster) == 4, "all members to be tried", SECONDS, 0.2)
    assert groups_of(second) == {"train"}
    assert bound(_members(cluster, attempt=1)) == 0

    cluster.run(cluster.api.patch("/api/v1/nodes/b", {"spec": {"unschedulable": False}}))
    cluster.wait_until_bound(NAMESPACE, timeout_seconds=SECONDS)
    assert bound(_members(cluster, attempt=1)) == 4


def _tried(cluster: Cluster) -> int:
    """Count rejected pods of the second attempt, since the group's condition stays True."""
    return sum(
        condition["type"] == "PodScheduled" and condition["status"] == "False"
        for pod in pods_with(cluster, ATTEMPT, "1")
        for condition in pod["status"].get("conditions", ())
    )


def _members(cluster: Cluster, attempt: int) -> list[Json]:
    """Return the four pods of an attempt, once all exist."""

    def four() -> list[Json]:
        delete_terminating(cluster)
        found = pods_with(cluster, ATTEMPT, str(attempt))
        return found if len(found) == 4 else []

    return wait_for(four, f"the pods of start {attempt}", SECONDS, 0.2)

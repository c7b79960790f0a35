"""Promise: Kueue admits a gang by quota; then Stowage schedules it whole."""

import pytest

from e2e.ecosystem.conftest import EXAMPLES, NAMESPACE, StartController
from e2e.ecosystem.jobs import SECONDS, bound, groups_of, pods_with, set_phase
from e2e.support.cluster import Cluster
from e2e.support.job_controllers import KUEUE
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.pod_groups import make_gang, wait_for_condition
from e2e.support.waiting import wait_for

JOB = "batch.kubernetes.io/job-name"
GATE = "kueue.x-k8s.io/admission"


@pytest.mark.usefixtures("stowage")
def test_of_two_gangs_with_quota_for_one_the_second_runs_after_the_first(
    cluster: Cluster, start_controller: StartController
) -> None:
    """The manifests of docs/groups.md; the nodes fit both gangs, only quota holds one."""
    _start(cluster, start_controller)
    cluster.create_from_files(EXAMPLES / "kueue.yaml")

    running, waiting = _in_order(cluster)
    members = pods_with(cluster, JOB, running)
    assert groups_of(members) == {running}
    assert _job(cluster, waiting)["spec"]["suspend"]
    assert pods_with(cluster, JOB, waiting) == []

    set_phase(cluster, members, "Succeeded")
    wait_for(lambda: _running(cluster) == waiting, "the other job to be placed", SECONDS)
    assert groups_of(pods_with(cluster, JOB, waiting)) == {waiting}
    wait_for_condition(cluster, NAMESPACE, waiting, "True", SECONDS)


@pytest.mark.usefixtures("stowage")
def test_a_gang_of_plain_pods_behind_kueues_gate(
    cluster: Cluster, start_controller: StartController
) -> None:
    """The members wait with scheduling gates for quota, and then are scheduled together."""
    _start(cluster, start_controller)
    cluster.create_from_files(EXAMPLES / "kueue.yaml")
    running, waiting = _in_order(cluster)
    cluster.run(cluster.api.delete(f"{_path(waiting)}?propagationPolicy=Background"))
    make_gang(cluster, NAMESPACE, "plain", 2)
    cluster.create_pods([_plain(f"plain-{index}") for index in range(2)])

    gang = pods_with(cluster, "gang", "plain")
    for pod in gang:
        assert GATE in {each["name"] for each in pod["spec"]["schedulingGates"]}
    assert groups_of(gang) == {"plain"}

    set_phase(cluster, pods_with(cluster, JOB, running), "Succeeded")
    wait_for(lambda: bound(pods_with(cluster, "gang", "plain")) == 2, "the gang to run", SECONDS)
    wait_for_condition(cluster, NAMESPACE, "plain", "True", SECONDS)


def _start(cluster: Cluster, start_controller: StartController) -> None:
    cluster.create_nodes([make_node(name) for name in ("a", "b")])
    start_controller(KUEUE)


def _in_order(cluster: Cluster) -> tuple[str, str]:
    """Return the running job, once there is one, and the other job."""
    running = wait_for(lambda: _running(cluster), "a job to be admitted and placed", SECONDS)
    return running, "second" if running == "first" else "first"


def _running(cluster: Cluster) -> str:
    """Return the job with both pods bound; empty if there is none."""
    return next(
        (job for job in ("first", "second") if bound(pods_with(cluster, JOB, job)) == 2), ""
    )


def _job(cluster: Cluster, name: str) -> Json:
    return cluster.run(cluster.api.get(_path(name)))


def _path(job: str) -> str:
    return f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}"


def _plain(name: str) -> Json:
    pod = make_pod(
        name,
        namespace=NAMESPACE,
        requests={"cpu": "1"},
        labels={
            "gang": "plain",
            "kueue.x-k8s.io/queue-name": "ml",
            "kueue.x-k8s.io/pod-group-name": "plain",
        },
        schedulingGroup={"podGroupName": "plain"},
    )
    pod["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    return pod

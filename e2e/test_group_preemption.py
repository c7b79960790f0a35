"""Promise: a gang of high priority evicts the necessary gangs as a whole, or nothing.

The API server needs a feature gate for the priority of groups, so the test starts its own control
plane.
"""

from collections.abc import Iterator

import pytest

from e2e.conftest import StartStowage, module_control_plane
from e2e.support.cluster import Cluster
from e2e.support.controlplane import Options
from e2e.support.objects import Json, make_nodes
from e2e.support.pod_groups import API, condition_of, make_members, places
from e2e.support.waiting import wait_for

GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
CLASSES = {"gang-low": 1, "gang-middle": 5, "gang-high": 1000}
SECONDS = 240


@pytest.fixture(scope="module")
def shared_cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """A control plane of 1.36 with the feature gates enabled."""
    options = Options(api_server_arguments=(GATES, f"--runtime-config={API}=true"))
    with (
        module_control_plane(options, tmp_path_factory, pytestconfig) as cluster,
        cluster.priority_classes(CLASSES),
    ):
        yield cluster


def make_group(cluster: Cluster, namespace: str, name: str, least: int, priority: str) -> None:
    """Create a gang that is disrupted as a whole, and its pods."""
    group: Json = {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": least}},
            "disruptionMode": "PodGroup",
            "priorityClassName": f"gang-{priority}",
        },
    }
    cluster.run(cluster.api.post(f"/apis/{API}/namespaces/{namespace}/podgroups", group))
    pods = make_members(least, group=name, namespace=namespace)
    for pod in pods:
        pod["spec"] |= {"priorityClassName": f"gang-{priority}", "terminationGracePeriodSeconds": 0}
    cluster.create_pods(pods)


def wait_until_whole(cluster: Cluster, namespace: str, name: str, least: int) -> None:
    """Wait until this many members are bound."""
    wait_for(
        lambda: sum(map(bool, places(cluster, namespace, name))) == least,
        f"{name} to run whole",
        SECONDS,
    )


def wait_for_message(cluster: Cluster, namespace: str, name: str, message: str) -> None:
    """Wait until the group's condition contains the message."""
    wanted = ("False", "Unschedulable", message)
    wait_for(lambda: condition_of(cluster, namespace, name) == wanted, message, SECONDS)


def two_gangs(cluster: Cluster, run_stowage: StartStowage, namespace: str) -> None:
    """Fill six CPUs: three with a gang of low priority, three with one of middle priority."""
    run_stowage(arguments=(GATES,))
    cluster.create_nodes(make_nodes(3, allocatable={"cpu": "2"}))
    cluster.create_namespace(namespace)
    make_group(cluster, namespace, "low", 3, "low")
    wait_until_whole(cluster, namespace, "low", 3)
    make_group(cluster, namespace, "middle", 3, "middle")
    wait_until_whole(cluster, namespace, "middle", 3)


def test_an_important_gang_evicts_the_gang_it_must_whole(
    cluster: Cluster, run_stowage: StartStowage
) -> None:
    """The preemptor needs two places; the gang of low priority is evicted, the other stays."""
    two_gangs(cluster, run_stowage, "whole")

    make_group(cluster, "whole", "high", 2, "high")
    wait_until_whole(cluster, "whole", "high", 2)

    assert all(places(cluster, "whole", "middle"))
    assert places(cluster, "whole", "low") == []
    notes = wait_for(
        lambda: {event["note"] for event in cluster.events("whole", "Preempted")},
        "events about the victims",
        SECONDS,
    )
    [note] = notes
    assert note.startswith("Preempted by podgroup ")
    assert note.endswith(" on node cluster")
    wait_for(
        lambda: condition_of(cluster, "whole", "high") == ("True", "Scheduled", ""),
        "the group's condition",
        SECONDS,
    )
    cluster.delete_pods("whole")


def test_a_gang_that_would_not_fit_all_the_same_evicts_nothing(
    cluster: Cluster, run_stowage: StartStowage
) -> None:
    """The gang needs seven of six places."""
    two_gangs(cluster, run_stowage, "none")

    make_group(cluster, "none", "high", 7, "high")
    fails = "pod group is unschedulable"
    wait_for_message(cluster, "none", "high", f"{fails}, {fails}")

    assert all(places(cluster, "none", "low"))
    assert all(places(cluster, "none", "middle"))
    assert cluster.events("none", "Preempted") == []
    cluster.delete_pods("none")


def test_a_budget_sends_the_choice_elsewhere(cluster: Cluster, run_stowage: StartStowage) -> None:
    """A budget protects the gang of low priority, so the other one is evicted."""
    path = "/apis/policy/v1/namespaces/budget/poddisruptionbudgets"
    selector = {"matchLabels": {"kept": "yes"}}
    budget: Json = {
        "metadata": {"name": "keeps"},
        "spec": {"minAvailable": 3, "selector": selector},
    }
    # The daemon has to know the budget before the gang, which comes by another watch.
    cluster.create_namespace("budget")
    cluster.run(cluster.api.post(path, budget))
    two_gangs(cluster, run_stowage, "budget")
    for pod in cluster.pods("budget"):
        if pod["metadata"]["name"].startswith("low"):
            patch = {"metadata": {"labels": {"kept": "yes"}}}
            name = pod["metadata"]["name"]
            cluster.run(cluster.api.patch(f"/api/v1/namespaces/budget/pods/{name}", patch))

    make_group(cluster, "budget", "high", 2, "high")
    wait_until_whole(cluster, "budget", "high", 2)

    assert all(places(cluster, "budget", "low"))
    assert places(cluster, "budget", "middle") == []
    cluster.delete_pods("budget")

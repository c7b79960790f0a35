"""Promise: a gang runs with its required number of pods or not at all, and reports why it waits.

The API server needs a feature gate for `spec.schedulingGroup`, so the test starts its own control
plane.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.conftest import module_control_plane
from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.controlplane import Options
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.pod_groups import SCHEDULER_GATES
from e2e.support.processes import Program
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.scraping import fetch, total
from e2e.support.stowage import start_stowage
from e2e.support.waiting import wait_for

END = "2126-01-01T00:00:00Z"
"""Expected end of the pod that occupies the gang's room."""
KEEPS_ROOM: Json = {
    "profiles": [
        {
            "schedulerName": "stowage",
            "plugins": {"multiPoint": {"enabled": [{"name": "KeepRoom"}]}},
            "pluginConfig": [{"name": "KeepRoom", "args": {"afterSeconds": 2}}],
        }
    ]
}
OFF = "pod groups wait for the feature gates GenericWorkload and GangScheduling"
LET_DOWN = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or "
    "more plugins asked to wait and no plugin rejected pod"
)
ARGUMENTS = (
    "--feature-gates=GenericWorkload=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOREIGN = {
    "scheduling.x-k8s.io": ("v1alpha1", {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}),
    "scheduling.volcano.sh": (
        "v1beta1",
        {"annotations": {"scheduling.k8s.io/group-name": "train"}},
    ),
}


@pytest.fixture(scope="module")
def cluster_with_groups(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """A control plane of 1.36 with pod groups, and one node of four CPUs."""
    options = Options(api_server_arguments=ARGUMENTS)
    with module_control_plane(options, tmp_path_factory, pytestconfig) as cluster:
        cluster.create_nodes([make_node("n")])
        yield cluster


@contextmanager
def running(
    cluster: Cluster,
    directory: Path,
    *arguments: str,
    rights: bool = True,
    configuration: Json | None = None,
) -> Iterator[Program]:
    """Run a daemon with the deployed permissions, or as administrator."""
    kubeconfig = scheduler_kubeconfig(cluster) if rights else cluster.kubeconfig
    daemon = start_stowage(
        kubeconfig,
        directory,
        configuration=configuration,
        arguments=[*arguments, "--serve-without-authorization"],
    )
    try:
        yield daemon
    finally:
        daemon.stop()


def members(namespace: str, *names: str) -> list[Json]:
    """Build pods of the group `train`, with one CPU each."""
    group = {"podGroupName": "train"}
    return [
        make_pod(name, namespace=namespace, requests={"cpu": "1"}, schedulingGroup=group)
        for name in names
    ]


def create_group(cluster: Cluster, namespace: str, least: int) -> None:
    """Create the group `train`."""
    cluster.create_namespace(namespace)
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
    body: Json = {"metadata": {"name": "train"}, "spec": spec}
    cluster.run(cluster.api.post(GROUPS.format(namespace), body))


def group_condition(cluster: Cluster, namespace: str) -> tuple[str, str, str] | None:
    """Return status, reason and message of the only condition of the group `train`."""
    found = cluster.run(cluster.api.get(f"{GROUPS.format(namespace)}/train"))
    conditions = found.get("status", {}).get("conditions", [])
    if not conditions:
        return None
    [condition] = conditions
    assert condition["type"] == "PodGroupScheduled"
    assert condition["lastTransitionTime"]
    return condition["status"], condition["reason"], condition["message"]


def gated(daemon: Program) -> float:
    """Return the number of gated pods, which have no condition, as upstream."""
    return total(fetch(f"{daemon.url}/metrics"), "scheduler_pending_pods", queue="gated")


def message(cluster: Cluster, namespace: str, name: str) -> str:
    """Return the message of the pod's condition with status False, or an empty string."""
    conditions = cluster.pod(namespace, name)["status"].get("conditions", [])
    return next((c["message"] for c in conditions if c["status"] == "False"), "")


def test_a_member_of_a_group_waits_without_the_gates(
    cluster_with_groups: Cluster, tmp_path: Path
) -> None:
    """With the default configuration, the member waits and a pod without a group is bound."""
    cluster = cluster_with_groups
    with running(cluster, tmp_path):
        cluster.create_pods([*members("off", "member"), make_pod("single", namespace="off")])
        cluster.wait_until_bound("off", but=1)
        wait_for(lambda: cluster.events("off", "FailedScheduling"), "the event about the member")
        wait_for(lambda: message(cluster, "off", "member"), "the condition of the member")

    member = cluster.pod("off", "member")
    assert member["spec"]["schedulingGroup"] == {"podGroupName": "train"}
    assert "nodeName" not in member["spec"]
    [condition] = member["status"]["conditions"]
    [event] = cluster.events("off", "FailedScheduling")
    assert condition["reason"] == "Unschedulable"
    assert condition["message"] == event["note"] == f"0/1 nodes are available: {OFF}."
    cluster.delete_pods("off")


def test_a_gang_runs_whole_or_waits(cluster_with_groups: Cluster, tmp_path: Path) -> None:
    """First pods are missing, then room, then the gang is bound; conditions give the reason.

    The daemon names the pod that has to end, and the gang runs after its deletion.
    """
    cluster = cluster_with_groups
    with running(cluster, tmp_path, *SCHEDULER_GATES) as daemon:
        create_group(cluster, "gang", 3)
        cluster.create_pods(members("gang", "a", "b"))
        wait_for(lambda: gated(daemon) == 2, "the gang to lack a pod")
        assert group_condition(cluster, "gang") is None

        blocker = make_pod("blocker", namespace="room", requests={"cpu": "2"})
        blocker["metadata"]["annotations"] = {"stowage.dev/expected-end": END}
        cluster.create_pods([blocker])
        cluster.wait_until_bound("room")
        cluster.create_pods(members("gang", "c"))
        waits = ("False", "Unschedulable", "pod group is unschedulable")
        wait_for(lambda: group_condition(cluster, "gang") == waits, "the group's condition")
        wait_for(
            lambda: LET_DOWN in {message(cluster, "gang", name) for name in "abc"},
            "the members to say why",
        )
        assert not any("nodeName" in pod["spec"] for pod in cluster.pods("gang"))
        answer = json.loads(fetch(f"{daemon.url}/debug/explain?pod=gang/a&estimate=1"))
        estimate = answer["pods"][0]["estimate"]
        assert (estimate["time"], estimate["count"]) == (END, 1)
        assert [each["pod"] for each in estimate["ends"]] == ["room/blocker"]
        assert estimate["text"].startswith("The group fits about 2126-01-01 00:00 UTC, if this pod")

        cluster.delete_pods("room")
        cluster.wait_until_bound("gang")
        runs = ("True", "Scheduled", "")
        wait_for(lambda: group_condition(cluster, "gang") == runs, "the group's condition")
        attempts = "scheduler_podgroup_schedule_attempts_total"
        metrics = wait_for(
            lambda: (
                text
                if total(text := fetch(f"{daemon.url}/metrics"), attempts, result="scheduled")
                else ""
            ),
            "the attempt to be counted",
        )

    assert total(metrics, attempts, result="scheduled") == 1
    assert total(metrics, attempts, result="unschedulable") >= 1
    assert 'kubernetes_feature_enabled{name="GangScheduling",stage="ALPHA"} 1.0' in metrics
    cluster.delete_pods("gang")


def test_room_is_kept_for_a_gang_that_waits_long(
    cluster_with_groups: Cluster, tmp_path: Path
) -> None:
    """A pod that ends earlier uses the room; another one waits until the gang has started."""
    cluster, namespace = cluster_with_groups, "kept"
    create_group(cluster, namespace, 3)
    with running(cluster, tmp_path, *SCHEDULER_GATES, configuration=KEEPS_ROOM) as daemon:
        blocker = stating("blocker", "3", expected_end=END)
        cluster.create_pods([blocker])
        cluster.wait_until_bound("busy")
        cluster.create_pods(members(namespace, "a", "b", "c"))
        kept = (
            f"pod group is unschedulable, room is kept on 1 node for 3 pods, expected start {END}"
        )
        waits = ("False", "Unschedulable", kept)
        wait_for(lambda: group_condition(cluster, namespace) == waits, "room to be kept")

        cluster.create_pods(
            [stating("plain", "500m"), stating("brief", "500m", expected_duration="1m")]
        )
        wait_for(lambda: "nodeName" in cluster.pod("busy", "brief")["spec"], "backfill")
        wait_for(lambda: message(cluster, "busy", "plain"), "the other pod to wait")
        answer = json.loads(fetch(f"{daemon.url}/debug/explain?pod=busy/plain"))
        assert answer["pods"][0]["kept"] == [
            {"waiter": f"pod group {namespace}/train", "pods": 3, "nodes": 1, "until": END}
        ]

        cluster.delete_pods("busy", ["blocker"])
        cluster.wait_until_bound(namespace)
        cluster.wait_until_bound("busy")

    cluster.delete_pods(namespace)
    cluster.delete_pods("busy")


def stating(name: str, cpu: str, **stated: str) -> Json:
    """Build a pod with an expected end."""
    pod = make_pod(name, namespace="busy", requests={"cpu": cpu})
    annotations = {f"stowage.dev/{key.replace('_', '-')}": text for key, text in stated.items()}
    pod["metadata"]["annotations"] = annotations
    return pod


@pytest.mark.parametrize("api", FOREIGN)
def test_a_gang_of_another_api_is_a_gang(
    cluster_with_groups: Cluster, tmp_path: Path, api: str
) -> None:
    """A flag enables the API while its CRD exists; the daemon does not write its status."""
    cluster, (version, metadata) = cluster_with_groups, FOREIGN[api]
    namespace = api.replace(".", "-")
    cluster.create_namespace(namespace)
    with running(
        cluster, tmp_path, *SCHEDULER_GATES, f"--pod-group-apis={api}", rights=False
    ) as daemon:
        wait_for(lambda: "Not served" in daemon.log.read_text(), "a line about the lack")
    define(cluster, api, version)
    groups = f"/apis/{api}/{version}/namespaces/{namespace}/podgroups"
    group: Json = {
        "apiVersion": f"{api}/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"minMember": 2},
    }
    cluster.run(cluster.api.post(groups, group))
    with running(
        cluster, tmp_path, *SCHEDULER_GATES, f"--pod-group-apis={api}", rights=False
    ) as daemon:
        pods = [make_pod(name, namespace=namespace) for name in "ab"]
        for pod in pods:
            pod["metadata"] |= metadata
        cluster.create_pods(pods[:1])
        wait_for(lambda: gated(daemon) == 1, "the gang to lack a pod")
        cluster.create_pods(pods[1:])
        cluster.wait_until_bound(namespace)
        assert "status" not in cluster.run(cluster.api.get(f"{groups}/train"))

        cluster.run(cluster.api.delete(f"{DEFINITIONS}/podgroups.{api}"))
        # The first daemon's line is in the same file.
        wait_for(lambda: daemon.log.read_text().count("Not served") == 2, "a second line")

    cluster.delete_pods(namespace)


def test_a_label_makes_a_pod_a_member(cluster_with_groups: Cluster, tmp_path: Path) -> None:
    """The policy of docs/groups.md sets the field, for controllers that drop it."""
    cluster = cluster_with_groups
    create_group(cluster, "labelled", 2)
    cluster.create_from_files(CHECKOUT / "examples" / "groups" / "label.yaml")
    pods = [make_pod(f"member-{i}", namespace="labelled") for i in range(2)]
    for pod in pods:
        pod["metadata"]["labels"] = {"pod-group": "train"}

    def is_in_force() -> bool:
        tried = cluster.api.post("/api/v1/namespaces/labelled/pods?dryRun=All", pods[0])
        return "schedulingGroup" in cluster.run(tried)["spec"]

    wait_for(is_in_force, "the policy to be in force")
    with running(cluster, tmp_path, *SCHEDULER_GATES) as daemon:
        cluster.create_pods(pods[:1])
        wait_for(lambda: gated(daemon) == 1, "the gang to lack a pod")
        cluster.create_pods([*pods[1:], make_pod("single", namespace="labelled")])
        cluster.wait_until_bound("labelled")

    groups = {
        pod["metadata"]["name"]: pod["spec"].get("schedulingGroup")
        for pod in cluster.pods("labelled")
    }
    group = {"podGroupName": "train"}
    assert groups == {"member-0": group, "member-1": group, "single": None}
    cluster.delete_pods("labelled")


def define(cluster: Cluster, api: str, version: str) -> None:
    """Create the CRD of a foreign PodGroup API."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    definition: Json = {
        "metadata": {
            "name": f"podgroups.{api}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": api,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "kind": "PodGroup", "listKind": "PodGroupList"},
            "versions": [served],
        },
    }
    cluster.run(cluster.api.post(DEFINITIONS, definition))

    def is_served() -> bool:
        try:
            cluster.run(cluster.api.list_items(f"/apis/{api}/{version}/podgroups"))
        except ApiRefusedError:
            return False
        return True

    wait_for(is_served, "the definition to be served")

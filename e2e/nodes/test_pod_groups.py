"""Promise: with the component `pod-groups` a gang runs whole on real nodes, or waits whole."""

import yaml

from e2e.nodes.lab import Lab, is_ready
from e2e.support.controlplane import Options
from e2e.support.objects import Json
from e2e.support.pod_groups import API
from e2e.support.waiting import wait_for

COMPONENT = "deploy/components/pod-groups"
GATE = "--feature-gates=GenericWorkload=true"
OPTIONS = Options(
    api_server_arguments=(GATE, f"--runtime-config={API}=true"),
    controller_manager_arguments=(GATE,),
)
GROUP: Json = {
    "apiVersion": API,
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
}


def a_pod(name: str, **spec: object) -> Json:
    """A pod for Stowage."""
    spec |= {"schedulerName": "stowage", "terminationGracePeriodSeconds": 1}
    spec["containers"] = [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def member(name: str) -> Json:
    """A pod of the group."""
    return a_pod(name, schedulingGroup={"podGroupName": "train"})


def test_a_gang_runs_whole() -> None:
    """Two of three members wait beside a pod that runs; with the third all of them run."""
    with (
        Lab(options=OPTIONS) as lab,
        lab.applied("deploy/base", components=[COMPONENT]),
        lab.applied_text(yaml.safe_dump_all([GROUP, member("a"), member("b")])),
    ):
        lab.wait_for_rollout("stowage", "stowage")
        with lab.applied_text(yaml.safe_dump(a_pod("single"))):
            wait_for(lambda: running(lab) == ["single"], "the pod without a group to run", 60)
        assert [pod["spec"].get("nodeName") for pod in lab.pods("default")] == [None, None]

        with lab.applied_text(yaml.safe_dump(member("c"))):
            wait_for(lambda: running(lab) == ["a", "b", "c"], "all members to run", 60)
            group = lab.get("podgroups.scheduling.k8s.io", "--namespace=default", "train")

    [condition] = group["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodGroupScheduled", "True")


def running(lab: Lab) -> list[str]:
    """The names of the pods that are Ready."""
    return sorted(pod["metadata"]["name"] for pod in lab.pods("default") if is_ready(pod))

"""Promise: what is behind feature gates works as pods on real nodes, as it is shipped."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from e2e.conftest import REPORTERS
from e2e.nodes.devices import CLAIM, DRIVER, devices, dra_driver
from e2e.nodes.lab import Lab, is_ready
from e2e.nodes.test_kubelets import message, pod, ready, text
from e2e.nodes.test_manifests import released
from e2e.support.controlplane import Options
from e2e.support.objects import Json
from e2e.support.pod_groups import API
from e2e.support.waiting import wait_for

COMPONENT = "deploy/components/pod-groups"
RULES = "resource.k8s.io/v1beta2"
GATES = "--feature-gates=GenericWorkload=true,DRADeviceTaintRules=true"
OPTIONS = Options(
    api_server_arguments=(GATES, f"--runtime-config={API}=true,{RULES}=true"),
    controller_manager_arguments=(GATES,),
)
GROUP: Json = {
    "apiVersion": API,
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
}


@pytest.fixture(scope="module")
def lab_with_gates() -> Iterator[Lab]:
    """A cluster in which the gates are on, with two real nodes."""
    with Lab(options=OPTIONS) as lab:
        yield lab


@pytest.fixture
def lab(lab_with_gates: Lab, request: pytest.FixtureRequest) -> Lab:
    """The same; what a test makes in it, it removes again."""
    request.node.stash.setdefault(REPORTERS, []).append(lab_with_gates.report)
    return lab_with_gates


def a_pod(name: str, **spec: object) -> Json:
    """A pod for Stowage."""
    spec |= {"schedulerName": "stowage", "terminationGracePeriodSeconds": 1}
    spec["containers"] = [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def member(name: str) -> Json:
    """A pod of the group."""
    return a_pod(name, schedulingGroup={"podGroupName": "train"})


def test_a_gang_runs_whole(lab: Lab) -> None:
    """Two of three members wait beside a pod that runs; with the third all of them run."""
    with (
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


def test_a_rule_that_taints_devices(lab: Lab) -> None:
    """With the chart's flag and the rights of the page: a pod waits until the rule goes."""
    rule = {
        "apiVersion": RULES,
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": DRIVER},
            "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
        },
    }
    flag = "--feature-gates=DRADeviceTaintRules=true"
    with (
        granted(lab),
        released(lab, {"image": {"tag": "dev"}, "extraArgs": [flag]}),
        dra_driver(lab.node("node-2"), lab),
        lab.applied_text(text(*devices())),
        lab.applied_text(text(pod("first", **CLAIM))),
    ):
        ready(lab, "first")
        with lab.applied_text(text(rule)), lab.applied_text(text(pod("second", **CLAIM))):
            wait_for(lambda: "cannot allocate" in message(lab, "second"), "it to wait", 60)
            lab.kubectl("delete", "devicetaintrule", "broken")
            ready(lab, "second")


@contextmanager
def granted(lab: Lab) -> Iterator[None]:
    """The rights that docs/devices.md grants."""
    name = "stowage-taint-rules"
    what = ("--verb=list,watch", "--resource=devicetaintrules.resource.k8s.io")
    lab.kubectl("create", "clusterrole", name, *what)
    whom = (f"--clusterrole={name}", "--serviceaccount=stowage:stowage")
    lab.kubectl("create", "clusterrolebinding", name, *whom)
    yield
    lab.kubectl("delete", f"clusterrole/{name}", f"clusterrolebinding/{name}")


def running(lab: Lab) -> list[str]:
    """The names of the pods that are Ready."""
    return sorted(pod["metadata"]["name"] for pod in lab.pods("default") if is_ready(pod))

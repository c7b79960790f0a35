"""Submitted pods are completed as an API server's admission would, wherever they come from."""

import json
from typing import Any

import pytest

from scheduler.api.pods import PodInfo
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.reading import (
    ClusterObjects,
    documents_from_text,
    objects_from_documents,
)
from tests.support.manifests import node_manifest, pod_manifest

Object = dict[str, Any]
URGENT: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
    "preemptionPolicy": "Never",
}
SANDBOX: Object = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "sandbox"},
    "handler": "s",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {
        "nodeSelector": {"sandbox": "yes"},
        "tolerations": [{"key": "sandbox", "operator": "Exists"}],
    },
}
UNREADY = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


def read(*objects: Object, admission: Admission | None = None) -> ClusterObjects:
    text = json.dumps({"kind": "List", "items": [node_manifest("n"), *objects]})
    given = Admission() if admission is None else admission
    return objects_from_documents(documents_from_text(text, "f"), admission=given)


def completed(*objects: Object, **spec: Any) -> PodInfo:
    """The pod of this spec beside the objects, which come after it."""
    [pod] = read(pod_manifest("p", **spec), *objects).pods
    return pod


@pytest.mark.parametrize(
    ("name", "priority", "policy"),
    [
        ("urgent", 1000, "Never"),
        ("system-cluster-critical", 2_000_000_000, "PreemptLowerPriority"),
        ("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
    ],
)
def test_priority_is_that_of_the_class(name: str, priority: int, policy: str) -> None:
    """Of the file, wherever it stands, and the two that every API server makes."""
    pod = completed(URGENT, priorityClassName=name)

    assert (pod.spec.priority, pod.spec.preemption_policy) == (priority, policy)


def test_the_default_class_is_for_pods_without_one() -> None:
    """Of several the lowest; pods that an API server has written are complete."""
    low, high = ({**URGENT, "metadata": {"name": n}, "globalDefault": True} for n in ("a", "b"))
    written = pod_manifest("w")
    written["metadata"]["uid"] = "1"

    pods = read(pod_manifest("p"), written, {**low, "value": 7}, {**high, "value": 9}).pods

    assert [pod.spec.priority for pod in pods] == [7, None]


def test_runtime_class_brings_overhead_and_nodes() -> None:
    pod = completed(SANDBOX, runtimeClassName="sandbox", nodeSelector={"a": "b"})

    assert pod.spec.overhead == {"cpu": "250m"}
    assert pod.spec.node_selector == {"a": "b", "sandbox": "yes"}
    assert [each.key for each in pod.spec.tolerations] == ["sandbox", *UNREADY]


def test_an_empty_scheduler_name_is_that_of_the_default_scheduler() -> None:
    """Templates write it that leave the name open."""
    assert completed(schedulerName="").spec.scheduler_name == "default-scheduler"


def test_limit_ranges_give_what_containers_leave_out() -> None:
    """Of the pod's own namespace; a default limit stands in for a default request."""
    limits: Object = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l"},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "default": {"memory": "1Gi"},
                    "defaultRequest": {"cpu": "500m"},
                    "max": {"example.com/gpu": 2},
                    "min": {"ephemeral-storage": "1Gi"},
                },
                {"type": "Pod", "max": {"cpu": "9"}},
            ]
        },
    }
    other = {**limits, "metadata": {"name": "l", "namespace": "other"}}
    other["spec"] = {"limits": [{"type": "Container", "default": {"cpu": "7"}}]}
    own = {"name": "c", "resources": {"requests": {"cpu": "1"}}}

    pod = completed(limits, other, containers=[own, {"name": "d"}])

    requests = [dict(each.resources.requests) for each in pod.spec.containers if each.resources]
    common = {"memory": "1Gi", "example.com/gpu": 2, "ephemeral-storage": "1Gi"}
    assert requests == [{**common, "cpu": "1"}, {**common, "cpu": "500m"}]


def test_a_limit_without_a_request_is_the_request() -> None:
    """Not the default request; a default limit is no limit of the container itself."""
    amounts = {"type": "Container", "default": {"memory": "2Gi"}}
    amounts |= {"defaultRequest": {"cpu": "100m", "memory": "1Gi"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}}
    limits["spec"] = {"limits": [amounts]}
    own = {"name": "c", "resources": {"limits": {"cpu": "2"}}}

    pod = completed(limits, containers=[own], initContainers=[own])

    for [container] in (pod.spec.containers, pod.spec.init_containers):
        assert dict(container.resources.requests) == {"cpu": "2", "memory": "1Gi"}


def test_limit_ranges_do_not_change_what_a_pod_requests_as_a_whole() -> None:
    """Its limit is its request, as the API server sets that before the LimitRanges count."""
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}}
    limits["spec"] = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]}

    pod = completed(limits, containers=[{"name": "c"}], resources={"limits": {"cpu": "4"}})

    assert pod.shape.requests["cpu"] == 4000


def test_nodes_that_stop_to_answer_are_tolerated() -> None:
    """Unless the pod says itself for how long."""
    mine = {"key": UNREADY[0], "operator": "Exists", "effect": "NoExecute"}

    assert [each.key for each in completed().spec.tolerations] == UNREADY
    assert [each.key for each in completed(tolerations=[mine]).spec.tolerations] == UNREADY
    [every] = completed(tolerations=[{"operator": "Exists"}]).spec.tolerations
    assert every.key == ""


def test_a_claim_gets_the_default_storage_class() -> None:
    """The newest of several."""
    classes = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": name,
                "creationTimestamp": f"{year}-01-01T00:00:00Z",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "p",
        }
        for name, year in (("old", 2020), ("new", 2025))
    ]
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {},
    }

    watched = read(claim, *classes).watched

    [found] = [each for kind, each in watched if kind.kind == "PersistentVolumeClaim"]
    assert found.class_name == "new"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"priorityClassName": "urgant"},
            'spec.priorityClassName: there is no PriorityClass "urgant"; did you mean "urgent"?',
            id="priority class",
        ),
        pytest.param(
            {"runtimeClassName": "none"},
            'spec.runtimeClassName: there is no RuntimeClass "none"',
            id="runtime class",
        ),
        pytest.param(
            {"priorityClassName": "urgent", "priority": 5},
            'spec.priority: expected 1000 as in PriorityClass "urgent", got 5',
            id="another priority",
        ),
    ],
)
def test_what_an_api_server_would_refuse_is_said(spec: Object, expected: str) -> None:
    assert read(URGENT, pod_manifest("p", **spec)).warnings == [f"f: items[2]: Pod p: {expected}"]


def test_what_is_known_of_the_cluster_counts() -> None:
    """And is not changed by what a file adds."""
    cluster = read(URGENT).admission

    [pod] = read(pod_manifest("p", priorityClassName="urgent"), admission=cluster).pods
    read({**URGENT, "value": 3}, admission=cluster)
    [again] = read(pod_manifest("p", priorityClassName="urgent"), admission=cluster).pods

    assert pod.spec.priority == again.spec.priority == 1000

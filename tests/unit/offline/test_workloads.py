"""Workloads written by hand are the pods that their controllers would make."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from scheduler.api.pods import PodInfo
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import (
    ClusterObjects,
    InputError,
    documents_from_text,
    objects_from_documents,
)
from tests.support.manifests import node_manifest, pod_manifest

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "500m"}}}]},
}
APPS = "apps/v1"


def workload(kind: str, api_version: str = APPS, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE, **spec},
    }


def read(*objects: dict[str, Any], submitted: bool = True) -> ClusterObjects:
    text = json.dumps({"kind": "List", "items": objects})
    return objects_from_documents(
        documents_from_text(text, "f"), admission=Admission() if submitted else None
    )


def pods(*objects: dict[str, Any]) -> list[PodInfo]:
    return read(node_manifest("n"), *objects).pods


@pytest.mark.parametrize(
    ("made_of", "names"),
    [
        pytest.param(workload("Deployment", replicas=2), ["web-0", "web-1"], id="Deployment"),
        pytest.param(workload("Deployment"), ["web-0"], id="one by default"),
        pytest.param(workload("ReplicaSet", replicas=0), [], id="none"),
        pytest.param(
            workload("ReplicationController", "v1", selector={"app": "web"}), ["web-0"], id="RC"
        ),
        pytest.param(
            workload("StatefulSet", replicas=2, ordinals={"start": 3}),
            ["web-3", "web-4"],
            id="StatefulSet",
        ),
        pytest.param(
            workload("Job", "batch/v1", parallelism=3, completions=2), ["web-0", "web-1"], id="Job"
        ),
        pytest.param(workload("Job", "batch/v1", suspend=True), [], id="suspended Job"),
        pytest.param(
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"jobTemplate": {"spec": {"parallelism": 2, "template": TEMPLATE}}},
            },
            ["web-0", "web-1"],
            id="CronJob",
        ),
    ],
)
def test_as_many_pods_as_the_controller_makes(made_of: dict[str, Any], names: list[str]) -> None:
    """With the template's labels and requests, and an owner."""
    found = pods(made_of)

    assert [pod.key for pod in found] == [f"shop/{name}" for name in names]
    for pod in found:
        assert pod.labels["app"] == "web"
        assert pod.shape.requests == {"cpu": 500}
        [owner] = pod.pod.metadata.owner_references
        assert owner.controller


def test_what_an_api_server_has_written_stands_for_nothing() -> None:
    """Its controllers have made the pods, which are in the input themselves."""
    known = workload("Deployment", replicas=5)
    known["metadata"]["uid"] = "u1"

    assert pods(known) == []
    assert read(node_manifest("n"), workload("ReplicaSet"), submitted=False).pods == []


def test_the_pods_of_a_deployment_spread_by_its_replica_set() -> None:
    """Default constraints go by the selector of the owner, which is there to be found."""
    nodes = [
        node_manifest(f"n{i}", labels={"topology.kubernetes.io/zone": f"z{i}"}) for i in range(2)
    ]
    running = pod_manifest("old", namespace="shop", labels={"app": "web"}, nodeName="n0")

    objects = read(*nodes, running, workload("Deployment"))
    [kind] = [kind.kind for kind, _ in objects.watched]

    assert kind == "ReplicaSet"


def test_the_pods_of_a_stateful_set_have_claims() -> None:
    """Each its own, made from the templates unless it is there."""
    claims = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "s"}}]
    known = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-0", "namespace": "shop"},
        "spec": {"storageClassName": "known"},
    }

    objects = read(
        node_manifest("n"), known, workload("StatefulSet", replicas=2, volumeClaimTemplates=claims)
    )

    found = [(claim.metadata.name, claim.class_name) for _, claim in objects.watched[:2]]
    assert found == [("data-web-0", "known"), ("data-web-1", "s")]
    assert objects.pods[1].labels["apps.kubernetes.io/pod-index"] == "1"
    [volume] = objects.pods[1].pod.volumes
    assert volume.persistent_volume_claim is not None
    assert volume.persistent_volume_claim.claim_name == "data-web-1"


def test_a_daemon_set_has_a_pod_per_node_that_it_may_use() -> None:
    """Pinned there; it tolerates what its controller adds, and nothing else."""
    tainted = [{"key": "gpu", "effect": "NoSchedule"}]
    pressed = [{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]
    cordoned = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    nodes = [
        node_manifest("a", labels={"disk": "ssd"}),
        node_manifest("b"),
        node_manifest("c", labels={"disk": "ssd"}, taints=tainted),
        node_manifest("d", labels={"disk": "ssd"}, taints=pressed),
        node_manifest("e", labels={"disk": "ssd"}, taints=cordoned, unschedulable=True),
    ]
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}}

    objects = read(*nodes, workload("DaemonSet", template=template))

    assert [pod.name for pod in objects.pods] == ["web-a", "web-d", "web-e"]
    cluster = Profiles(None).load(objects)
    framework = Profiles(None).framework_of(objects.pods[0])
    for pod, row in zip(objects.pods, ("a", "d", "e"), strict=True):
        found = framework.filtering.find_nodes_that_fit(pod, cluster.snapshot)
        names = [cluster.snapshot.table.names[i] for i in found.feasible_rows().tolist()]
        assert names == [row]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"replicas": "3"}, "spec.replicas: expected a whole number from 0", id="text"),
        pytest.param({"replicas": -1}, "spec.replicas: expected a whole number from 0", id="less"),
        pytest.param({"replicas": 10**9}, "spec.replicas: expected a whole number", id="too many"),
        pytest.param({"template": {}}, "spec.template.spec: required", id="no template"),
        pytest.param(
            {"template": {"spec": {"priority": "high"}}},
            "its Pod: spec.priority: expected a whole number, got a text",
            id="a template that is wrong",
        ),
    ],
)
def test_what_cannot_be_made_is_said(spec: dict[str, Any], expected: str) -> None:
    """With the workload and the field."""
    with pytest.raises(InputError) as raised:
        pods(workload("Deployment", **spec))
    assert str(raised.value).startswith("f: items[1]: Deployment web: ")
    assert expected in str(raised.value)


_scalars = st.none() | st.booleans() | st.integers(-1, 2) | st.text(max_size=3)
_anything = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "spec",
                    "metadata",
                    "name",
                    "labels",
                    "tolerations",
                    "volumes",
                    "affinity",
                    "template",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(
    kind=st.sampled_from(["Deployment", "StatefulSet", "Job", "CronJob", "DaemonSet"]),
    spec=st.dictionaries(
        st.sampled_from(
            [
                "replicas",
                "template",
                "selector",
                "volumeClaimTemplates",
                "ordinals",
                "parallelism",
                "jobTemplate",
            ]
        ),
        _anything,
    ),
)
def test_nothing_crashes_on_a_broken_workload(kind: str, spec: dict[str, Any]) -> None:
    """It is read, or refused in words."""
    versions = {"Job": "batch/v1", "CronJob": "batch/v1"}
    broken = {
        "apiVersion": versions.get(kind, APPS),
        "kind": kind,
        "metadata": {"name": "w"},
        "spec": {"template": TEMPLATE, **spec},
    }
    with suppress(InputError):
        read(node_manifest("n"), broken)

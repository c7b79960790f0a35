"""Slips in input written by hand are said; what is right, or an API server's, is not."""

import json
from typing import Any

import pytest

from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.reading import (
    ClusterObjects,
    InputError,
    documents_from_text,
    objects_from_documents,
)
from tests.support.manifests import node_manifest, pod_manifest
from tests.unit.offline.known_fields import PAGE, written

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def read(*objects: dict[str, Any]) -> ClusterObjects:
    documents = [d for o in objects for d in documents_from_text(json.dumps(o), "f")]
    return objects_from_documents(documents, admission=Admission())


def warnings(*objects: dict[str, Any]) -> list[str]:
    """What is said about objects beside a node."""
    return read(node_manifest("n"), *objects).warnings


def test_the_fields_are_those_of_the_package() -> None:
    """`python -m tests.unit.offline.known_fields` writes them again."""
    assert PAGE.read_text() == written()


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        pytest.param(
            pod_manifest("p", nodeSelectr={}),
            "Pod p: spec.nodeSelectr: unknown field (did you mean nodeSelector?)",
            id="one letter",
        ),
        pytest.param(
            pod_manifest("p", Tolerations=[]),
            "Pod p: spec.Tolerations: unknown field (did you mean tolerations?)",
            id="capital",
        ),
        pytest.param(
            pod_manifest("p", affinity={"nodeAffinity": {"required": {}}}),
            "Pod p: spec.affinity.nodeAffinity.required: unknown field",
            id="deep, and like nothing",
        ),
        pytest.param(
            pod_manifest("p", tolerations=[{"key": "a"}, {"efect": "NoSchedule"}]),
            "Pod p: spec.tolerations[1].efect: unknown field (did you mean effect?)",
            id="in a list",
        ),
        pytest.param(
            {**node_manifest("m"), "stats": {}},
            "Node m: stats: unknown field (did you mean status?)",
            id="at the top",
        ),
        pytest.param(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {"replica": 3, "template": {"spec": {"containers": [{"name": "c"}]}}},
            },
            "Deployment d: spec.replica: unknown field (did you mean replicas?)",
            id="workload",
        ),
    ],
)
def test_unknown_fields_are_said_with_a_guess(wrong: dict[str, Any], expected: str) -> None:
    """With file and path."""
    assert warnings(wrong) == [f"f: {expected}"]


def test_nothing_is_said_about_what_is_right() -> None:
    """Fields that scheduling does not read, maps with free keys, and what a server has written."""
    full = pod_manifest("p", labels={"any": "thing"}, nodeSelector={"any": "thing"})
    full["spec"]["containers"][0] |= {"livenessProbe": {"tcpSocket": {"port": 1}}, "image": "i"}
    of_a_server = pod_manifest("q", newerThanWeKnow=True)
    of_a_server["metadata"]["resourceVersion"] = "5"

    assert warnings(full, of_a_server, {"kind": "ConfigMap", "apiVersion": "v1"}) == []


@pytest.mark.parametrize(
    ("kind", "api_version", "expected"),
    [
        pytest.param(
            "Deploymnt",
            "apps/v1",
            "f: Deploymnt is not a kind of Kubernetes (did you mean Deployment?): left out",
            id="misspelt",
        ),
        pytest.param(
            "Widget",
            "example.com/v1",
            "f: Widget is a kind of another API, which scheduling does not read: left out",
            id="somebody else's",
        ),
        pytest.param("Secret", "v1", "", id="known, and not read"),
        pytest.param(
            "Pod",
            "v2",
            "f: Pod: apiVersion: expected v1, got v2: left out",
            id="another version",
        ),
        pytest.param(
            "Deployment",
            "extensions/v1beta1",
            "f: Deployment: apiVersion: expected apps/v1, got extensions/v1beta1: left out",
            id="workload of an old version",
        ),
        pytest.param(
            "Job",
            "batch.volcano.sh/v1alpha1",
            "f: Job: apiVersion: expected batch/v1, got batch.volcano.sh/v1alpha1: left out",
            id="somebody else's workload",
        ),
        pytest.param(
            "CompositePodGroup",
            "scheduling.k8s.io/v1alpha3",
            "f: CompositePodGroup: composite pod groups are not supported by this scheduler: "
            "left out",
            id="composite pod group",
        ),
        pytest.param(
            "PodGroup",
            "scheduling.k8s.io/v1alpha1",
            "f: PodGroup: apiVersion: expected scheduling.k8s.io/v1alpha2, got "
            "scheduling.k8s.io/v1alpha1: left out",
            id="pod group of an old version",
        ),
        pytest.param(
            "PodGroup",
            "scheduling.x-k8s.io/v1alpha1",
            "f: PodGroup is a kind of another API, which scheduling does not read: left out",
            id="somebody else's pod group",
        ),
        pytest.param(
            "ResourceClaimTemplate",
            "resource.k8s.io/v1beta1",
            "f: ResourceClaimTemplate: apiVersion: expected resource.k8s.io/v1, got "
            "resource.k8s.io/v1beta1: left out",
            id="template of claims of an older version",
        ),
        pytest.param("Event", "events.k8s.io/v1", "", id="of two groups"),
    ],
)
def test_unknown_kinds_are_said(kind: str, api_version: str, expected: str) -> None:
    """Those that exist and do not matter are not."""
    found = warnings({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})

    assert found == ([expected] if expected else [])


def test_an_object_that_is_given_twice_is_said() -> None:
    """With both places; namespaces tell objects apart."""
    pods = [pod_manifest("p"), pod_manifest("p", namespace="other"), pod_manifest("p")]
    text = json.dumps({"kind": "List", "items": [node_manifest("n"), *pods]})

    found = objects_from_documents(documents_from_text(text, "f")).warnings

    assert found == [
        "f: items[3]: Pod default/p: is in f: items[1] as well; what comes last counts"
    ]


def test_nodes_that_are_missing_are_said() -> None:
    """Once for each node; and once when there is none at all."""
    pods = [pod_manifest(f"p{i}", nodeName="gone") for i in range(5)]

    named = "default/p0, default/p1, default/p2 and 2 more"
    assert warnings(*pods) == [f"there is no node gone, on which there are pods: {named}"]
    assert read(*pods).warnings == ["there are no nodes: no pod can have one"]


DEMAND = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values"


def _demanding(**requirement: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "k", **requirement}]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": []}, "spec.containers: required", id="containers"),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": "", "maxSkew": 1}]},
            "spec.topologySpreadConstraints[0].topologyKey: required",
            id="spread",
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": ""}]}}},
            f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey: required",
            id="anti-affinity",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {}}]}}},
            f"spec.affinity.podAffinity.{PREFERRED}[0].podAffinityTerm.topologyKey: required",
            id="preferred affinity",
        ),
        pytest.param(
            _demanding(operator="In"), f"{DEMAND}: required with the operator In", id="no value"
        ),
        pytest.param(
            _demanding(operator="Exists", values=["a"]),
            f"{DEMAND}: not allowed with the operator Exists",
            id="a value",
        ),
        pytest.param(
            _demanding(operator="Gt", values=["1", "2"]),
            f"{DEMAND}: expected one value with the operator Gt, got 2",
            id="two values",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 0}]},
            "spec.topologySpreadConstraints[0].maxSkew: expected 1 or more, got 0",
            id="skew",
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": {"cpu": "-1"}}}]},
            "spec.containers[0].resources.requests[cpu]: expected 0 or more, got -1",
            id="amount",
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": {"cpu": "abc"}}}]},
            "abc",
            id="no amount",
        ),
    ],
)
def test_what_an_api_server_requires_is_required(spec: dict[str, Any], expected: str) -> None:
    """It would refuse the pod; scheduling would take it for one without the constraint."""
    with pytest.raises(InputError) as refused:
        read(node_manifest("n"), pod_manifest("p", **spec))

    assert expected in str(refused.value)

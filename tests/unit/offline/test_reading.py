"""Objects from files: what is read, and what is said about what cannot be read."""

import json
from typing import Any

import pytest

from scheduler.api.objects import OwnerReference
from scheduler.kernel.framework.events import POD_GROUP_KIND, ObjectKind
from scheduler.tools.offline.reading import (
    ClusterObjects,
    InputError,
    documents_from_text,
    objects_from_documents,
)
from tests.support.builders import make_pod_info


def read(*texts: str) -> ClusterObjects:
    """The objects in texts that stand for files f0, f1, ..."""
    documents = [d for i, text in enumerate(texts) for d in documents_from_text(text, f"f{i}")]
    return objects_from_documents(documents)


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_lists_documents_and_files_come_together_in_order() -> None:
    """A List, a PodList whose items have no kind, and several documents are the same to us."""
    nodes = {"kind": "List", "items": [node("n2"), node("n1")]}
    pods = {"kind": "PodList", "items": [{k: v for k, v in pod("b").items() if k != "kind"}]}
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n---\n---\nkind: ConfigMap\n"

    objects = read(json.dumps(nodes), json.dumps(pods), text)

    assert [n.metadata.name for n in objects.nodes] == ["n1", "n2"]
    assert [p.key for p in objects.pods] == ["default/a", "default/b"]


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def test_what_is_given_last_counts() -> None:
    """Files that overlap, such as a newer one behind an older one, are no problem."""
    running = pod("p", nodeName="n1")
    ended = {**running, "status": {"phase": "Succeeded"}}

    assert [p.node_name for p in read(json.dumps(pod("p")), json.dumps(running)).pods] == ["n1"]
    assert read(json.dumps(running), json.dumps(ended)).pods == []


def test_a_renamed_copy_of_a_pod_is_a_pod_of_its_own() -> None:
    """As `kubectl get -o yaml` and an editor make it; also where the original is elsewhere."""
    original, copy = ({**pod(), "metadata": {"name": name, "uid": "u"}} for name in "ab")
    told = "Pod b: metadata.uid: is that of default/a as well; it counts for default/a only"

    both = read(json.dumps(original), json.dumps(original), json.dumps(copy))
    beside = objects_from_documents([("f", copy)], pods=both.pods[:1], is_whole=False)

    assert [(p.key, p.uid) for p in both.pods] == [("default/a", "u"), ("default/b", "default/b")]
    assert f"f2: {told}" in both.warnings
    assert [p.uid for p in beside.pods] == ["default/b"]
    assert beside.warnings == [f"f: {told}"]


def test_objects_of_other_groups_are_not_mistaken() -> None:
    """A Service of somebody else's API has the same kind and another meaning."""
    foreign = {
        "apiVersion": "serving.example.com/v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"selector": ["strange"]},
    }

    assert read(json.dumps(foreign)).watched == []


def test_hand_written_pods_are_completed() -> None:
    """Namespace, UID, requests from limits, host ports of the host network, unquoted times."""
    text = """
kind: Pod
metadata: {name: p, creationTimestamp: 2024-01-02T03:04:05Z, labels: null}
spec:
  hostNetwork: true
  containers:
  - resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 500m}}
    ports: [{containerPort: 80}]
"""

    (found,) = read(text).pods

    assert (found.key, found.uid) == ("default/p", "default/p")
    assert found.shape.requests == {"cpu": 500, "memory": 2**30}
    assert [port.port for port in found.shape.host_ports] == [80]
    assert found.pod.metadata.creation_timestamp == "2024-01-02T03:04:05Z"


def test_workloads_without_a_namespace_are_in_default() -> None:
    """As the API server would have put them there."""
    service = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}}}

    ((kind, found),) = read(json.dumps(service)).watched

    assert (kind, found.metadata.namespace) == (ObjectKind("Service"), "default")


def of_devices(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object of resource.k8s.io/v1."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": spec,
    }


CAPACITIES = {"a": {"value": "1"}, "b": {"value": "1", "requestPolicy": {"default": "1x"}}}
ASKED = "devices.requests[0].firstAvailable[0].capacity.requests"
ASKS = {
    "devices": {
        "requests": [{"name": "r", "firstAvailable": [{"capacity": {"requests": {"m": "1x"}}}]}]
    }
}
CONTAINER = "spec.containers[1]"
QUANTITY = "'1x' is not a quantity: expected a number with an optional suffix"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GREATER = {"matchFields": [{"key": "metadata.name", "operator": "Gt", "values": ["1"]}]}
UNKNOWN = {"matchExpressions": [{"key": "k", "operator": "Equals", "values": ["1"]}]}
SELECTOR_PATH = (
    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
    ".labelSelector.matchExpressions[0].operator"
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(pod() | {"spec": 5}, "Pod p: spec: expected a mapping, got a whole number"),
        pytest.param(
            {"kind": "Pod", "metadata": {"name": "p"}}, "Pod p: spec: required", id="no spec"
        ),
        pytest.param({"kind": "Pod", "spec": {}}, "Pod: metadata.name: required", id="no name"),
        pytest.param({"a": "b"}, "kind: expected the kind of a Kubernetes object", id="no kind"),
        pytest.param(
            pod(containers=[{}, {"resources": {"requests": {"cpu": "1", "memory": "1x"}}}]),
            f"Pod p: {CONTAINER}.resources.requests[memory]: {QUANTITY}",
            id="quantity of a pod",
        ),
        pytest.param(
            of_devices("ResourceSlice", {"devices": [{"name": "d", "capacity": CAPACITIES}]}),
            f"ResourceSlice x: spec.devices[0].capacity[b].requestPolicy.default: {QUANTITY}",
            id="quantity of a slice",
        ),
        pytest.param(
            of_devices("ResourceClaim", ASKS),
            f"ResourceClaim x: spec.{ASKED}[m]: {QUANTITY}",
            id="quantity of a claim",
        ),
        pytest.param(
            of_devices("ResourceClaimTemplate", {"spec": ASKS}),
            f"ResourceClaimTemplate x: spec.spec.{ASKED}[m]: {QUANTITY}",
            id="quantity of a claim template",
        ),
        pytest.param(
            of_devices("ResourceClaimTemplate", {"spec": {"devices": {"requests": 5}}}),
            "ResourceClaimTemplate x: spec.spec.devices.requests: "
            "expected a list, got a whole number",
            id="type in a claim template",
        ),
        pytest.param(
            node("n") | {"status": {"allocatable": {"cpu": "1x"}}},
            f"Node n: status.allocatable[cpu]: {QUANTITY}",
            id="quantity of a node",
        ),
        pytest.param(
            node("n") | {"status": {"allocatable": {"cpu": [1]}}},
            "Node n: status.allocatable[cpu]: expected a number or a text, got a list",
            id="type of a quantity",
        ),
        pytest.param(
            pod(nodeSelector={"a": "b", "c": 5}),
            "Pod p: spec.nodeSelector[c]: expected a text, got a whole number",
            id="label that is a number",
        ),
        pytest.param(
            pod(
                affinity={
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "z",
                                "labelSelector": {
                                    "matchExpressions": [{"key": "k", "operator": "Gt"}]
                                },
                            }
                        ]
                    }
                }
            ),
            f"Pod p: {SELECTOR_PATH}: operator 'Gt' of key 'k' is not one of",
            id="operator",
        ),
        pytest.param(
            pod(tolerations=[{"key": "a", "operator": "Exist"}]),
            "Pod p: spec.tolerations[0].operator: expected one of Equal, Exists, Gt, Lt, got",
            id="operator of a toleration",
        ),
        pytest.param(
            pod(tolerations=[{"key": "a", "effect": "noschedule"}]),
            "Pod p: spec.tolerations[0].effect: expected one of NoExecute, NoSchedule,",
            id="effect of a toleration",
        ),
        pytest.param(
            pod(topologySpreadConstraints=[{"topologyKey": "z", "whenUnsatisfiable": "Never"}]),
            "Pod p: spec.topologySpreadConstraints[0].whenUnsatisfiable: expected one of",
            id="action of a constraint",
        ),
        pytest.param(
            pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}, GREATER]}}}),
            f"Pod p: spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[1]"
            ".matchFields[0].operator: expected one of In, NotIn, got 'Gt'",
            id="operator of a field",
        ),
        pytest.param(
            pod(affinity={"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": UNKNOWN}]}}),
            f"Pod p: spec.affinity.nodeAffinity.{PREFERRED}[0].preference"
            ".matchExpressions[0].operator: expected one of DoesNotExist, Exists, Gt, In, Lt",
            id="operator of a preference",
        ),
        pytest.param(
            node("n") | {"spec": {"taints": [{"key": "a", "effect": "NoSchedul"}]}},
            "Node n: spec.taints[0].effect: expected one of NoExecute, NoSchedule,",
            id="effect of a taint",
        ),
        pytest.param(
            {"kind": "List", "items": 5}, "items: expected a list, got 5", id="items no list"
        ),
        pytest.param(
            {"kind": "List", "items": ""}, "items: expected a list, got ''", id="items empty text"
        ),
        pytest.param(
            {"kind": "List", "items": [pod(), 5]},
            "items[1]: expected a Kubernetes object, got 5",
            id="item no object",
        ),
        pytest.param([1], "expected a Kubernetes object, got a list", id="no object"),
    ],
)
def test_the_field_is_named(raw: object, expected: str) -> None:
    """File, object and field, and what was expected there."""
    with pytest.raises(InputError) as raised:
        read(json.dumps(raw))

    assert str(raised.value).startswith(f"f0: {expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("kind: Pod\n---\nfoo\n", "f0: document 1: Pod: metadata.name", id="yaml"),
        pytest.param("---\nfoo\n", "f0: document 1: expected a Kubernetes object, got 'foo'"),
        pytest.param("a: [b\n", "f0:2:1: not valid YAML: ", id="not yaml"),
        pytest.param("a: \x00", "f0: not valid YAML: ", id="not text"),
        pytest.param(
            f"a: {'9' * 5000}",
            f"f0:1:4: not valid YAML: '{'9' * 40}' cannot be read as int",
            id="too many digits",
        ),
        pytest.param("a: !!int x", "f0:1:4: not valid YAML: 'x' cannot", id="no whole number"),
        pytest.param("a: !!bool x", "f0:1:4: not valid YAML: 'x' cannot", id="no boolean"),
        pytest.param("!!bool x: a", "f0:1:1: not valid YAML: 'x' is no text", id="no boolean key"),
        pytest.param("!!timestamp x", "f0: document 1: expected a Kubernetes obj", id="a time"),
        pytest.param("[" * 5000 + "]" * 5000, "f0: lists and mappings are nested", id="too deep"),
        pytest.param(
            "kind: Pod\nspec:\n  a: 1\n  b: 2\n  a: 3\n",
            "f0:5:3: not valid YAML: 'a' is given twice, first in line 3; keep one of them",
            id="twice",
        ),
        pytest.param("x: [{a: 1, a: 1}]", "f0:1:12: not valid YAML: 'a' is given", id="in a line"),
        pytest.param(
            "\n".join(
                ["a: &a0 [x]", *(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]" for n in range(1, 30))]
            ),
            "f0:1:1: not valid YAML: aliases stand for more than 100,000 values; write the values",
            id="aliases of aliases",
        ),
        *(
            pytest.param(
                f"x: {{{key}: a}}",
                f"f0:1:5: not valid YAML: '{key}' is no text as a key; expected it in quotes",
                id=f"the key {key}",
            )
            for key in ("1.5", "12:30", "0x1F", "010", "1_000", "~", ".inf", "9" * 19)
        ),
        *(
            pytest.param(f"x: {{{keys}}}", f"f0:1:11: not valid YAML: '{key}' is given", id=keys)
            for keys, key in (("1: a, '1': b", "1"), ("on: a,true: b", "true"))
        ),
        pytest.param("", "f0: empty; expected Kubernetes objects", id="empty"),
    ],
)
def test_the_document_is_named(text: str, expected: str) -> None:
    """YAML files say which document, or which line."""
    with pytest.raises(InputError) as raised:
        read(text)

    assert str(raised.value).startswith(expected)


def test_keys_are_texts_as_in_json() -> None:
    """`kubectl apply` takes such labels; a value must be quoted there as well."""
    text = (
        "kind: Pod\napiVersion: v1\nspec: {}\n"
        "metadata: {name: p, labels: {5: five, Yes: yes-sir, '1.50': half, null-ish: x}}\n"
    )

    [found] = read(text).pods

    assert found.labels == {"5": "five", "true": "yes-sir", "1.50": "half", "null-ish": "x"}


def test_merged_keys_may_be_given_again() -> None:
    """As in YAML: what stands beside `<<` wins, however often a mapping is merged."""
    text = "a: &a {k: 1, z: 1}\nb: &b {<<: *a, k: 2}\nc: {<<: *b, k: 3}\nd: {<<: *b}\n"

    ((_, found),) = documents_from_text(text, "f")

    assert found["c"] == {"k": 3, "z": 1}
    assert found["d"] == found["b"] == {"k": 2, "z": 1}


def test_pod_groups_of_every_version_are_read_as_one_kind() -> None:
    """Those of other APIs are not; what an API server would refuse is an error with its path."""
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    versions = ("v1alpha2", "v1beta1", "v1alpha3")

    def group(version: str, spec: dict[str, Any], api: str = "scheduling.k8s.io") -> str:
        metadata = {"name": version, "namespace": "ml"}
        written = {"apiVersion": f"{api}/{version}", "kind": "PodGroup", "metadata": metadata}
        return json.dumps({**written, "spec": spec})

    objects = read(*(group(version, policy) for version in versions))
    other = read(group("v1alpha1", {"minMember": 2}, "scheduling.x-k8s.io"))
    with pytest.raises(InputError) as refused:
        read(group("v1alpha2", {}))

    assert {kind for kind, _ in objects.watched} == {POD_GROUP_KIND}
    assert {found.api_version.partition("/")[2] for _, found in objects.watched} == set(versions)
    assert all(found.min_count == 2 for _, found in objects.watched)
    assert other.watched == []
    assert other.left_out == [
        "f0: PodGroup is a kind of another API, which scheduling does not read: left out"
    ]
    assert str(refused.value) == (
        "f0: PodGroup v1alpha2: spec.schedulingPolicy: expected exactly one of `basic` and `gang`, "
        "got neither"
    )


def test_pods_that_have_ended_tell_how_long_they_ran() -> None:
    """As their containers say; of pods that do not say it nothing is learned."""

    def run(name: str, *ended: str) -> dict[str, Any]:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j"}
        states = [{"name": "c", "state": {"terminated": {"finishedAt": end}}} for end in ended]
        return {
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [{**owner, "controller": True}]},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
            "status": {
                "phase": "Succeeded",
                "startTime": "2026-01-01T00:00:00Z",
                **({"containerStatuses": states} if states else {}),
            },
        }

    ends = ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z", "2026-01-01T00:03:00Z"]
    pods = [run(f"p-{i}", "2026-01-01T00:00:01Z", end) for i, end in enumerate(ends)]
    found = objects_from_documents([("f", each) for each in (*pods, run("untold"))])

    owner = OwnerReference(kind="Job", name="j", uid="j", controller=True)
    assert found.pods == []
    assert found.durations.of(make_pod_info(owner_references=(owner,))) == (180.0, 3)

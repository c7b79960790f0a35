"""What the server makes of pods, and what it refuses."""

from typing import Any

import pytest

from apistub import Sandbox
from tests.unit.apistub.support import PODS, Client, Object, causes, pod, serve

EVICTION_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{taint}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for taint in ("not-ready", "unreachable")
]


def created(*objects: Object) -> Object:
    """The last of some objects, as the server holds it."""
    held: list[Object] = []

    async def story(sandbox: Sandbox, _client: Client) -> None:
        held.extend(sandbox.create(*objects))

    serve(story)
    return held[-1]


def test_a_plain_pod_is_filled_in() -> None:
    """A pod of one container comes back with what schedulers and kubectl look at."""
    held = created(pod("p", containers=[{"name": "c", "image": "app"}]))

    assert held["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "app",
                "resources": {},
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "tolerations": EVICTION_TOLERATIONS,
    }
    assert held["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_own_tolerations_replace_the_added_ones() -> None:
    """A pod that says how it takes a failing node gets nothing added for that."""
    own = {"operator": "Exists", "effect": "NoExecute"}

    held = created(pod(tolerations=[own]))

    assert held["spec"]["tolerations"] == [own]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({}, "BestEffort", id="nothing"),
        pytest.param({"requests": {"example.com/gpu": "0"}, "limits": {"example.com/gpu": "0"}},
                     "BestEffort", id="other resources"),
        pytest.param({"requests": {"cpu": "1"}}, "Burstable", id="requests only"),
        pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed", id="all limits"),
        pytest.param({"limits": {"cpu": "1"}}, "Burstable", id="one limit"),
        pytest.param(
            {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
            "Burstable",
            id="less than the limit",
        ),
    ],
)  # fmt: skip
def test_the_quality_of_service_follows_the_resources(resources: Object, expected: str) -> None:
    """QoS is computed from cpu and memory of all containers."""
    held = created(pod(containers=[{"name": "c", "image": "a", "resources": resources}]))

    assert held["status"]["qosClass"] == expected


def test_a_gated_pod_says_so() -> None:
    """Scheduling gates give the condition PodScheduled=False with its reason."""
    held = created(pod(schedulingGates=[{"name": "example.com/gate"}]))

    assert held["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": "2026-01-01T00:16:40Z",
        }
    ]


def priority_class(name: str, value: int, **more: Any) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def test_a_priority_class_gives_the_priority() -> None:
    """The class sets priority and preemption policy; the lowest global default serves the rest."""
    high = priority_class("high", 1000, preemptionPolicy="Never")
    default = priority_class("some", 7, globalDefault=True)

    named = created(high, default, pod(priorityClassName="high"))["spec"]
    unnamed = created(high, default, pod())["spec"]
    system = created(pod(priorityClassName="system-node-critical"))["spec"]

    assert (named["priority"], named["preemptionPolicy"]) == (1000, "Never")
    assert (unnamed["priority"], unnamed["priorityClassName"]) == (7, "some")
    assert system["priority"] == 2_000_001_000


def container(**more: Any) -> Object:
    return {"name": "c", "image": "a", **more}


def test_all_faults_are_told_at_once() -> None:
    """A pod with several faults gets one answer with a cause for each."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        given = pod("Bad_Name", labels={"a": "b c"}, containers=[{"name": "c"}])

        answer = await client.post(PODS, given)

        assert [field for field, _ in causes(answer)] == [
            "metadata.name",
            "metadata.labels",
            "spec.containers[0].image",
        ]
        assert answer.status == 422
        assert "spec.containers[0].image: is needed" in answer.message

    serve(story)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"containers": []}, "spec.containers", id="no containers"),
        pytest.param({"containers": [container(name="A b")]}, "spec.containers[0].name", id="name"),
        pytest.param(
            {"containers": [container(resources={"requests": {"cpu": "lots"}})]},
            "spec.containers[0].resources.requests.cpu",
            id="no quantity",
        ),
        pytest.param(
            {"containers": [container(resources={"limits": {"memory": "-1Gi"}})]},
            "spec.containers[0].resources.limits.memory",
            id="below zero",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "g"}], "nodeName": "n"}, "spec.nodeName", id="gated"
        ),
    ],
)
def test_a_wrong_pod_is_refused(spec: Object, field: str) -> None:
    """The answer names the field."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.post(PODS, pod("p", **spec))

        assert answer.status == 422
        assert field in [where for where, _ in causes(answer)]

    serve(story)


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        pytest.param({"priorityClassName": "unknown"}, 403, id="a class that is not there"),
        pytest.param({"priority": 7}, 403, id="a priority without its class"),
        pytest.param({"containers": "c"}, 400, id="a text for containers"),
        pytest.param({"containers": [container(resources=[])]}, 400, id="a list of resources"),
    ],
)
def test_a_pod_that_makes_no_sense_is_refused(spec: Object, status: int) -> None:
    """Neither contradictions nor other shapes come into the store, or break the server."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        answer = await client.post(PODS, pod("p", **spec))

        assert answer.status == status
        assert sandbox.find("pods", "p") is None

    serve(story)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        pytest.param({"nodeSelector": {"a": "b"}}, 422, id="node selector"),
        pytest.param({"schedulerName": "other"}, 422, id="scheduler"),
        pytest.param({"tolerations": []}, 422, id="tolerations taken away"),
        pytest.param({"schedulingGates": [{"name": "late"}]}, 422, id="a gate added"),
        pytest.param({"containers": [container(image="b")]}, 200, id="an image"),
        pytest.param({"activeDeadlineSeconds": 5}, 200, id="a deadline"),
    ],
)
def test_most_of_a_pod_may_not_change(changes: Object, status: int) -> None:
    """Only images, the deadline and more tolerations are taken."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("p", containers=[container()], tolerations=[{"key": "k"}]))

        answer = await client.patch(f"{PODS}/p", {"spec": changes}, "strategic")

        assert answer.status == status

    serve(story)


def test_a_gated_pod_may_be_narrowed_and_released() -> None:
    """Gates may go, tolerations may come, and while gated the node selector may grow."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("p", schedulingGates=[{"name": "a"}], nodeSelector={"x": "1"}))
        tolerations = [*EVICTION_TOLERATIONS, {"key": "k", "operator": "Exists"}]

        narrowed = await client.patch(
            f"{PODS}/p", {"spec": {"nodeSelector": {"y": "2"}, "tolerations": tolerations}}
        )
        released = await client.patch(f"{PODS}/p", {"spec": {"schedulingGates": None}})
        too_late = await client.patch(f"{PODS}/p", {"spec": {"nodeSelector": {"z": "3"}}})

        assert narrowed.object["spec"]["nodeSelector"] == {"x": "1", "y": "2"}
        assert "schedulingGates" not in released.object["spec"]
        assert too_late.status == 422

    serve(story)

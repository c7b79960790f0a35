"""What the server makes of pods, and what it refuses."""

from typing import Any

import pytest

from scheduler.sandbox import Sandbox, StatusError
from tests.unit.sandbox.support import PODS, Client, Object, causes, node, pod, serve

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
    """A pod of one container comes back with everything a real server adds."""
    held = created(pod("p", containers=[{"name": "c", "image": "app"}]))

    assert held["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "app",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "tolerations": EVICTION_TOLERATIONS,
    }
    assert held["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("host:5000/app", "Always"),
        ("app:1", "IfNotPresent"),
        ("host:5000/app:1", "IfNotPresent"),
        ("app@sha256:0123", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    """No tag and `latest` are pulled always."""
    held = created(pod(containers=[{"name": "c", "image": image}]))

    assert held["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_own_tolerations_replace_the_added_ones() -> None:
    """A pod that says how it takes a failing node gets nothing added for that."""
    own = {"operator": "Exists", "effect": "NoExecute"}

    held = created(pod(tolerations=[own]))

    assert held["spec"]["tolerations"] == [own]


def test_quantities_are_stored_in_canonical_form() -> None:
    """1000m is one, and limits become requests where those are missing."""
    resources = {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}}

    held = created(pod(containers=[{"name": "c", "image": "a", "resources": resources}]))

    assert held["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }
    assert held["status"]["qosClass"] == "Burstable"


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


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"priorityClassName": "none"},
            'pods "p" is forbidden: no PriorityClass with name none was found',
            id="unknown class",
        ),
        pytest.param(
            {"priority": 5},
            'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod '
            "spec; priority admission controller computed 0 from the given PriorityClass name",
            id="own number",
        ),
    ],
)
def test_a_priority_without_class_is_forbidden(spec: Object, message: str) -> None:
    """A pod cannot give itself a priority."""
    with pytest.raises(StatusError) as refusal:
        created(pod(**spec))

    assert (refusal.value.code, refusal.value.reason) == (403, "Forbidden")
    assert refusal.value.message == message


def test_match_label_keys_are_merged_into_selectors() -> None:
    """The pod's own values of matchLabelKeys become part of the selectors, as upstream does."""
    selector = {"matchLabels": {"app": "web"}}
    term = {"topologyKey": "zone", "labelSelector": selector, "mismatchLabelKeys": ["tier"]}
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "matchLabelKeys": ["version", "absent"],
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    held = created(
        pod(
            labels={"app": "web", "version": "2", "tier": "front"},
            topologySpreadConstraints=[spread],
            affinity=affinity,
        )
    )["spec"]

    merged = held["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"]
    assert merged == [{"key": "version", "operator": "In", "values": ["2"]}]
    (rule,) = held["affinity"]["podAntiAffinity"].popitem()[1]
    assert rule["labelSelector"]["matchExpressions"] == [
        {"key": "tier", "operator": "NotIn", "values": ["front"]}
    ]


def container(**more: Any) -> Object:
    return {"name": "c", "image": "a", **more}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({"containers": []}, "spec.containers", "Required value", id="no container"),
        pytest.param(
            {"containers": [{"image": "a"}]}, "spec.containers[0].name", "Required value",
            id="nameless container",
        ),
        pytest.param(
            {"containers": [{"name": "c"}]}, "spec.containers[0].image", "Required value",
            id="no image",
        ),
        pytest.param(
            {"containers": [container(), container()]}, "spec.containers[1].name",
            'Duplicate value: "c"', id="two containers of a name",
        ),
        pytest.param(
            {"containers": [container()], "initContainers": [container()]},
            "spec.initContainers[0].name", 'Duplicate value: "c"', id="init container of that name",
        ),
        pytest.param(
            {"containers": [container(resources={"requests": {"cpu": "-1"}})]},
            "spec.containers[0].resources.requests[cpu]",
            'Invalid value: "-1": must be greater than or equal to 0', id="negative request",
        ),
        pytest.param(
            {"containers": [container(resources={"requests": {"cores": "1"}})]},
            "spec.containers[0].resources.requests[cores]",
            'Invalid value: "cores": must be a standard resource type or fully qualified',
            id="unknown resource",
        ),
        pytest.param(
            {"containers": [
                container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
            "spec.containers[0].resources.requests",
            'Invalid value: "2": must be less than or equal to cpu limit of 1',
            id="more requested than allowed",
        ),
        pytest.param(
            {"containers": [container(resources={"requests": {"example.com/gpu": "1"}})]},
            "spec.containers[0].resources.limits",
            "Required value: Limit must be set for non overcommitable resources",
            id="extended resource without limit",
        ),
        pytest.param(
            {"containers": [container(ports=[{"containerPort": 99999}])]},
            "spec.containers[0].ports[0].containerPort",
            "Invalid value: 99999: must be between 1 and 65535, inclusive", id="port too high",
        ),
        pytest.param(
            {"containers": [container(ports=[
                {"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}])]},
            "spec.containers[0].ports[1].hostPort", 'Duplicate value: "TCP//80"',
            id="host port twice",
        ),
        pytest.param(
            {"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])]},
            "spec.containers[0].volumeMounts[0].name", 'Not found: "v"', id="unknown volume",
        ),
        pytest.param({"restartPolicy": "Sometimes"}, "spec.restartPolicy",
                     'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", '
                     '"Never"', id="restart policy"),
        pytest.param({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector", 'Invalid value: "a b": '
                     "name part must consist of", id="node selector key"),
        pytest.param({"tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0].operator",
                     'Invalid value: "Equal": operator must be Exists when `key` is empty',
                     id="toleration of nothing"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
                     "spec.tolerations[0].operator",
                     'Invalid value: "b": value must be empty when `operator` is \'Exists\'',
                     id="toleration with useless value"),
        pytest.param({"tolerations": [{"key": "a", "effect": "Never"}]},
                     "spec.tolerations[0].effect", 'Unsupported value: "Never"',
                     id="toleration effect"),
        pytest.param(
            {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]},
            "spec.tolerations[0].effect", 'Invalid value: "NoSchedule": effect must be',
            id="toleration seconds",
        ),
        pytest.param({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, "spec.schedulingGates[1]",
                     'Duplicate value: "a"', id="gate twice"),
        pytest.param({"schedulingGates": [{"name": "a"}], "nodeName": "n"}, "spec.nodeName",
                     "Forbidden: cannot be set until all schedulingGates have been cleared",
                     id="gated and bound"),
        pytest.param(
            {"topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].maxSkew",
            "Invalid value: 0: must be greater than zero", id="no skew",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].topologyKey", "Required value: can not be empty",
            id="no topology key",
        ),
        pytest.param(
            {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway",
                 "minDomains": 2}]},
            "spec.topologySpreadConstraints[0].minDomains",
            "Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "
            "ScheduleAnyway", id="soft minDomains",
        ),
        pytest.param(
            {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}] * 2},
            "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}",
            'Duplicate value: "{z, DoNotSchedule}"', id="constraint twice",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms", "Required value: must have at least one node selector term",
            id="no node term",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 0, "preference": {}}]}}},
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
            "Invalid value: 0: must be in the range 1-100", id="weight",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                 "topologyKey": "z"}]}}},
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
            ".labelSelector.matchExpressions[0].values",
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            id="selector without values",
        ),
    ],
)  # fmt: skip
def test_a_wrong_pod_is_refused(spec: Object, field: str, message: str) -> None:
    """The cause names the field, and what was expected."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.post(PODS, pod("p", **spec))

        assert (answer.status, answer.object["reason"]) == (422, "Invalid")
        assert answer.message.startswith('Pod "p" is invalid: ')
        assert causes(answer)[0][0] == field
        assert causes(answer)[0][1].startswith(message)

    serve(story)


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
        assert answer.message.startswith('Pod "Bad_Name" is invalid: [metadata.name: Invalid value')

    serve(story)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            b'{"spec": {"overhead": {"cpu": "1x"}}}', "quantities must match the regular",
            id="quantity",
        ),
        pytest.param(
            b'{"spec": {"priority": "high"}}',
            "json: cannot unmarshal string into Go struct field Pod.spec.priority of type int",
            id="type",
        ),
        pytest.param(b'{"spec": ', "the body is not valid JSON", id="no JSON"),
        pytest.param(b'{"kind": "Node"}', "must be of type Pod", id="another kind"),
        pytest.param(
            b'{"apiVersion": "v2"}',
            "the API version in the data (v2) does not match the expected API version (v1)",
            id="another version",
        ),
        pytest.param(
            b'{"metadata": {"namespace": "x"}}', "the namespace of the provided object does not",
            id="another namespace",
        ),
    ],
)  # fmt: skip
def test_what_does_not_decode_is_refused(body: bytes, message: str) -> None:
    """A body that is not a pod is answered 400."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.post(PODS, body)

        assert (answer.status, answer.object["reason"]) == (400, "BadRequest")
        assert message in answer.message

    serve(story)


def test_unknown_fields_are_dropped_warned_of_or_refused() -> None:
    """The parameter fieldValidation decides what happens to a field nobody knows."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        def given(name: str) -> Object:
            return pod(name, schedulerNam="x")

        ignored = await client.post(f"{PODS}?fieldValidation=Ignore", given("a"))
        warned = await client.post(PODS, given("b"))
        refused = await client.post(f"{PODS}?fieldValidation=Strict", given("c"))

        assert (ignored.status, ignored.headers.get("Warning")) == (201, None)
        assert warned.headers["Warning"] == r'299 - "unknown field \"spec.schedulerNam\""'
        assert "schedulerNam" not in warned.object["spec"]
        assert refused.status == 400
        assert refused.message.endswith('strict decoding error: unknown field "spec.schedulerNam"')

    serve(story)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"nodeName": "n"}, "spec", id="node"),
        pytest.param({"schedulerName": "x"}, "spec", id="scheduler"),
        pytest.param({"containers": []}, "spec.containers", id="containers"),
        pytest.param({"tolerations": []}, "spec.tolerations", id="tolerations taken away"),
        pytest.param(
            {"schedulingGates": [{"name": "a"}, {"name": "b"}]},
            "spec.schedulingGates[1].name",
            id="gate added",
        ),
        pytest.param({"nodeSelector": {"x": "2"}}, "spec.nodeSelector", id="selector changed"),
    ],
)
def test_most_of_a_pod_may_not_change(changes: Object, field: str) -> None:
    """A change to what must stay is refused, naming the field."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(
            pod(
                "p",
                schedulingGates=[{"name": "a"}],
                nodeSelector={"x": "1"},
                tolerations=[{"key": "k", "operator": "Exists"}],
            )
        )

        answer = await client.patch(f"{PODS}/p", {"spec": changes})

        assert answer.status == 422
        assert field in [field for field, _ in causes(answer)]

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


def test_a_node_is_checked() -> None:
    """Taints must be complete and unique; capacity becomes allocatable."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        taint = {"key": "a", "effect": "NoSchedule"}
        twice = await client.post("/api/v1/nodes", node("n", taints=[taint, taint]))
        vague = await client.post("/api/v1/nodes", node("n", taints=[{"key": "a"}]))
        fine = await client.post("/api/v1/nodes", node("n", taints=[taint]))

        assert "taints must be unique by key and effect pair" in twice.message
        assert causes(vague) == [("metadata.taints[0].effect", "Required value")]
        assert fine.object["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}

    serve(story)

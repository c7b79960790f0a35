"""Requests that a real API server and the sandbox should answer alike, in order."""

from dataclasses import dataclass
from typing import Any

NAMESPACE = "agreement"
HOME = f"/api/v1/namespaces/{NAMESPACE}"
PODS = f"{HOME}/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

Object = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One request."""

    name: str
    method: str
    path: str
    body: Any = None
    """An object, or text that is sent as it is."""
    media_type: str = "application/json"


def pod(name: str, **spec: Any) -> Object:
    labels = spec.pop("labels", {})
    spec.setdefault("containers", [{"name": "c", "image": "a:1"}])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def container(**more: Any) -> Object:
    return {"name": "c", "image": "a:1", **more}


def one(**more: Any) -> Object:
    return {"containers": [container(**more)]}


def spread(**more: Any) -> Object:
    base = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**base, **more}]}


def node_terms(*terms: Object) -> Object:
    required = {"nodeSelectorTerms": list(terms)}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return {"affinity": {"nodeAffinity": rule}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def pod_term(**term: Any) -> Object:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAffinity": rule}}


def binding(name: str, node: str, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"kind": "Node", "name": node},
    }


RICH_POD = pod(
    "rich",
    containers=[
        container(
            resources={
                "limits": {"cpu": "1000m", "memory": "1024Mi", "example.com/gpu": "2"},
                "requests": {"cpu": 0.5},
            },
            ports=[{"containerPort": 80, "hostPort": 80}],
            livenessProbe={"httpGet": {"port": 80}},
            env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            volumeMounts=[{"name": "v", "mountPath": "/v"}],
        )
    ],
    initContainers=[
        {"name": "i", "image": "b@sha256:" + "0" * 64, "restartPolicy": "Always"},
    ],
    volumes=[
        {"name": "v"},
        {"name": "cm", "configMap": {"name": "x"}},
        {"name": "h", "hostPath": {"path": "/x"}},
    ],
)
HOST_NETWORK = {"hostNetwork": True, **one(ports=[{"containerPort": 8}])}
GATED_POD = pod(
    "gated",
    labels={"v": "1"},
    schedulingGates=[{"name": "example.com/g"}],
    affinity={
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "z",
                    "labelSelector": {"matchLabels": {"a": "b"}},
                    "mismatchLabelKeys": ["v"],
                }
            ]
        }
    },
    **spread(labelSelector={"matchLabels": {"a": "b"}}, matchLabelKeys=["v", "w"]),
)

WRONG_SPECS: dict[str, Object] = {
    "no container": {"containers": []},
    "nameless container": {"containers": [{"image": "a"}]},
    "no image": {"containers": [{"name": "c"}]},
    "two containers of a name": {"containers": [container(), container()]},
    "init container of that name": {"containers": [container()], "initContainers": [container()]},
    "negative request": one(resources={"requests": {"cpu": "-1"}}),
    "unknown resource": one(resources={"requests": {"cores": "1"}}),
    "request above limit": one(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    "extended without limit": one(resources={"requests": {"example.com/gpu": "1"}}),
    "part of a device": one(resources={"limits": {"example.com/gpu": "1500m"}}),
    "port too high": one(ports=[{"containerPort": 99999}]),
    "no port": one(ports=[{}]),
    "host port twice": one(
        ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]
    ),
    "port name twice": one(
        ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]
    ),
    "bad port name": one(ports=[{"containerPort": 80, "name": "ABC-"}]),
    "unknown volume": one(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
    "pull policy": one(imagePullPolicy="No"),
    "restart policy": {"restartPolicy": "Sometimes"},
    "node selector key": {"nodeSelector": {"a b": "c"}},
    "node selector value": {"nodeSelector": {"a": "c d"}},
    "toleration of nothing": {"tolerations": [{"operator": "Equal"}]},
    "useless value": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
    "toleration effect": {"tolerations": [{"key": "a", "effect": "Never"}]},
    "toleration seconds": {
        "tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]
    },
    "numeric toleration": {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
    "toleration operator": {"tolerations": [{"key": "a", "operator": "Foo"}]},
    "gate twice": {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
    "bad gate": {"schedulingGates": [{"name": "a b"}]},
    "gated and bound": {"schedulingGates": [{"name": "a"}], "nodeName": "n"},
    "no skew": spread(maxSkew=0),
    "no topology key": spread(topologyKey=""),
    "when unsatisfiable": spread(whenUnsatisfiable="x"),
    "soft minDomains": spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2),
    "constraint twice": {"topologySpreadConstraints": spread()["topologySpreadConstraints"] * 2},
    "taints policy": spread(nodeTaintsPolicy="x"),
    "no node term": node_terms(),
    "node expressions": node_terms(
        {"matchExpressions": [expression("a", "In")]},
        {"matchExpressions": [expression("a", "Gt", "1", "2")]},
        {"matchExpressions": [expression("a", "Foo")]},
        {"matchExpressions": [expression("a", "Exists", "b")]},
        {"matchFields": [expression("a", "In", "b")]},
        {"matchFields": [expression("metadata.name", "Exists")]},
    ),
    "node weight": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 0, "preference": {"matchExpressions": [expression("a", "Exists")]}}
                ]
            }
        }
    },
    "pod selector without values": pod_term(
        topologyKey="z", labelSelector={"matchExpressions": [expression("a", "In")]}
    ),
    "pod term without key": pod_term(labelSelector={"matchLabels": {"a": "b"}}),
    "pod weight": {
        "affinity": {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 101,
                        "podAffinityTerm": {
                            "labelSelector": {},
                            "topologyKey": "z",
                            "namespaces": ["A"],
                        },
                    }
                ]
            }
        }
    },
    "unknown priority class": {"priorityClassName": "none"},
    "own priority": {"priority": 5},
    "own preemption policy": {"preemptionPolicy": "x"},
    "node name": {"nodeName": "A_B"},
    "scheduler name": {"schedulerName": "a b"},
    "overhead without class": {"overhead": {"cpu": "1"}},
    "negative grace": {"terminationGracePeriodSeconds": -1},
    "volume twice": {"volumes": [{"name": "v"}, {"name": "v"}]},
    "volume of two types": {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
    "bad volume name": {"volumes": [{"name": "V"}]},
    "claim without name": {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
    "dns policy": {"dnsPolicy": "x"},
}

EVENT: Object = {
    "metadata": {"name": "e1"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "stowage",
    "reportingInstance": "stowage-1",
    "action": "Binding",
    "reason": "Scheduled",
    "regarding": {"kind": "Pod", "namespace": NAMESPACE, "name": "p"},
    "note": "n",
    "type": "Normal",
}


def _event(**changes: Any) -> Object:
    return {**EVENT, "metadata": {"name": "e2"}, **changes}


def _deployment(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": spec}


def _template(labels: Object, containers: list[Object]) -> Object:
    return {"metadata": {"labels": labels}, "spec": {"containers": containers}}


STREAMED = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"

STEPS: list[Step] = [
    Step("namespace", "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
    Step("plain pod", "POST", PODS, pod("p1")),
    Step("read pod", "GET", f"{PODS}/p1"),
    Step("pod again", "POST", PODS, pod("p1")),
    Step("rich pod", "POST", PODS, RICH_POD),
    Step("gated pod", "POST", PODS, GATED_POD),
    Step("host network", "POST", PODS, pod("h", **HOST_NETWORK)),
    Step("pod-level limits", "POST", PODS, pod("pl", resources={"limits": {"cpu": "2"}})),
    Step("tolerates all", "POST", PODS,
         pod("t", tolerations=[{"operator": "Exists"}], priorityClassName="system-node-critical")),
    *(
        Step(f"wrong pod: {name}", "POST", PODS, pod(f"bad{index}", **spec))
        for index, (name, spec) in enumerate(WRONG_SPECS.items())
    ),
    Step("wrong names", "POST", PODS, pod("Bad_Name", labels={"a": "b c", "x/y/z": "1"})),
    Step("empty pod", "POST", PODS, {"metadata": {}, "spec": {}}),
    Step("wrong quantity", "POST", PODS, '{"spec": {"overhead": {"cpu": "1x"}}}'),
    Step("wrong type", "POST", PODS, '{"spec": {"priority": "high"}}'),
    Step("no JSON", "POST", PODS, '{"spec": '),
    Step("another kind", "POST", PODS, '{"kind":"Node","apiVersion":"v1"}'),
    Step("another version", "POST", PODS, '{"apiVersion":"v2","kind":"Pod"}'),
    Step("another namespace", "POST", PODS, '{"metadata":{"namespace":"x","name":"a"}}'),
    Step("strict", "POST", f"{PODS}?fieldValidation=Strict", pod("s", schedulerNam="x")),
    Step("warn", "POST", f"{PODS}?fieldValidation=Warn", pod("w", schedulerNam="x")),
    Step("unknown validation", "POST", f"{PODS}?fieldValidation=Foo", pod("w2")),
    Step("no namespace", "POST", "/api/v1/namespaces/none/pods", pod("p")),
    Step("get nothing", "GET", f"{PODS}/none"),
    Step("no such resource", "GET", "/api/v1/gadgets"),
    Step("no such group", "GET", "/apis/none/v1/x"),
    Step("delete nothing", "DELETE", f"{PODS}/none"),
    Step("replace nothing", "PUT", f"{PODS}/none", pod("none")),
    Step("patch nothing", "PATCH", f"{PODS}/none", "{}", MERGE),
    Step("replace by another name", "PUT", f"{PODS}/p1", pod("other")),
    Step("create at a name", "POST", f"{PODS}/p1", pod("p1")),
    Step("node in a namespace", "GET", f"{HOME}/nodes/x"),
    Step("unknown subresource", "GET", f"{PODS}/p1/foo"),
    Step("subresource of another kind", "POST", "/api/v1/nodes/x/binding", {}),
    Step("change the node", "PATCH", f"{PODS}/p1", {"spec": {"nodeName": "n"}}, MERGE),
    Step("take tolerations", "PATCH", f"{PODS}/p1", {"spec": {"tolerations": []}}, MERGE),
    Step("add a container", "PATCH", f"{PODS}/p1",
         {"spec": {"containers": [{"name": "d", "image": "x"}]}}, STRATEGIC),
    Step("change the image", "PATCH", f"{PODS}/p1",
         {"spec": {"containers": [{"name": "c", "image": "b:2"}]}}, STRATEGIC),
    Step("old version", "PATCH", f"{PODS}/p1", {"metadata": {"resourceVersion": "1"}}, MERGE),
    Step("change the uid", "PATCH", f"{PODS}/p1", {"metadata": {"uid": "x"}}, MERGE),
    Step("remove nothing", "PATCH", f"{PODS}/p1",
         [{"op": "remove", "path": "/metadata/labels/x"}], JSON_PATCH),
    Step("failed test", "PATCH", f"{PODS}/p1",
         [{"op": "test", "path": "/metadata/name", "value": "x"}], JSON_PATCH),
    Step("patch of no form", "PATCH", f"{PODS}/p1", "{}", "text/plain"),
    Step("object of no form", "POST", PODS, "{}", "text/plain"),
    Step("item without key", "PATCH", f"{PODS}/p1", {"spec": {"containers": [{"image": "x"}]}},
         STRATEGIC),
    Step("narrow a gated pod", "PATCH", f"{PODS}/gated", {"spec": {"nodeSelector": {"a": "b"}}},
         MERGE),
    Step("widen a gated pod", "PATCH", f"{PODS}/gated", {"spec": {"nodeSelector": {"a": "c"}}},
         MERGE),
    Step("add a gate", "PATCH", f"{PODS}/gated", {"spec": {"schedulingGates": [{"name": "x.y/z"}]}},
         MERGE),
    Step("remove the gate", "PATCH", f"{PODS}/gated", {"spec": {"schedulingGates": None}}, MERGE),
    Step("narrow too late", "PATCH", f"{PODS}/gated",
         {"spec": {"nodeSelector": {"q": "c"}}}, MERGE),
    Step("status", "PATCH", f"{PODS}/p1/status",
         {"status": {"nominatedNodeName": "n", "conditions": [
             {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"},
         ]}}, STRATEGIC),
    Step("node", "POST", "/api/v1/nodes", {
        "metadata": {"name": "agreement-1", "labels": {"topology.kubernetes.io/zone": "z1"}},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4000m", "memory": "8Gi", "pods": 110}},
    }),
    Step("taint twice", "POST", "/api/v1/nodes", {
        "metadata": {"name": "n2"},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}}),
    Step("taint without effect", "POST", "/api/v1/nodes",
         {"metadata": {"name": "n2"}, "spec": {"taints": [{"key": "a"}]}}),
    Step("wrong taint", "POST", "/api/v1/nodes",
         {"metadata": {"name": "n2"}, "spec": {"taints": [{"key": "a b", "effect": "x"}]}}),
    Step("bind nothing", "POST", f"{PODS}/none/binding", binding("none", "agreement-1")),
    Step("bind by another name", "POST", f"{PODS}/p1/binding", binding("x", "agreement-1")),
    Step("bind to nothing", "POST", f"{PODS}/p1/binding", binding("p1", "")),
    Step("bind to a pod", "POST", f"{PODS}/p1/binding",
         {"metadata": {"name": "p1"}, "target": {"kind": "Pod", "name": "x"}}),
    Step("bind another uid", "POST", f"{PODS}/p1/binding", binding("p1", "agreement-1", uid="abc")),
    Step("bind", "POST", f"{PODS}/p1/binding",
         binding("p1", "agreement-1", annotations={"a": "b"})),
    Step("bound", "GET", f"{PODS}/p1"),
    Step("bind twice", "POST", f"{PODS}/p1/binding", binding("p1", "agreement-1")),
    Step("bind by the old path", "POST", f"{HOME}/bindings", binding("t", "agreement-1")),
    Step("bound by the old path", "GET", f"{PODS}/t"),
    Step("second gated pod", "POST", PODS, pod("g2", schedulingGates=[{"name": "a"}])),
    Step("bind a gated pod", "POST", f"{PODS}/g2/binding", binding("g2", "agreement-1")),
    Step("delete another uid", "DELETE", f"{PODS}/p1", {"preconditions": {"uid": "x"}}),
    Step("delete gracefully", "DELETE", f"{PODS}/p1"),
    Step("bind a deleted pod", "POST", f"{PODS}/p1/binding", binding("p1", "agreement-1")),
    Step("delete at once", "DELETE", f"{PODS}/p1?gracePeriodSeconds=0"),
    Step("deleted", "GET", f"{PODS}/p1"),
    Step("delete unbound", "DELETE", f"{PODS}/g2"),
    Step("delete node", "DELETE", "/api/v1/nodes/agreement-1"),
    Step("unknown field", "GET", f"{PODS}?fieldSelector=spec.foo%3Da"),
    Step("broken selector", "GET", f"{PODS}?labelSelector=a%20in%20(b"),
    Step("wrong version", "GET", f"{PODS}?resourceVersion=abc"),
    Step("match without version", "GET", f"{PODS}?resourceVersionMatch=Exact"),
    Step("unknown match", "GET", f"{PODS}?resourceVersionMatch=Best&resourceVersion=1"),
    Step("wrong token", "GET", f"{PODS}?continue=abc"),
    Step("limited list", "GET", f"{PODS}?limit=1&fieldSelector=metadata.name%3Dt"),
    Step("streamed without match", "GET", f"{PODS}?watch=true&sendInitialEvents=true"),
    Step("match without streaming", "GET", f"{PODS}?watch=true&resourceVersionMatch=NotOlderThan"),
    Step("streamed list", "GET",
         f"{PODS}?{STREAMED}&timeoutSeconds=1&fieldSelector=metadata.name%3Dt"),
    Step("watch", "GET", f"{PODS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dt"),
    Step("future version", "GET", "/api/v1/pods?resourceVersion=99999999999"),
    Step("create lease by put", "PUT", f"{LEASES}/l", {
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15,
                 "renewTime": "2026-01-01T00:00:00.000000Z"}}),
    Step("blind put", "PUT", f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {}}),
    Step("no microseconds", "POST", LEASES,
         {"metadata": {"name": "l2"}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}}),
    Step("no duration", "POST", LEASES,
         {"metadata": {"name": "l2"}, "spec": {"leaseDurationSeconds": 0}}),
    Step("no lease", "GET", f"{LEASES}/x"),
    Step("lease again", "POST", LEASES, {"metadata": {"name": "l"}}),
    Step("delete lease", "DELETE", f"{LEASES}/l"),
    Step("event", "POST", EVENTS, EVENT),
    Step("core event", "GET", f"{HOME}/events/e1"),
    Step("event without time", "POST", EVENTS, _event(eventTime=None)),
    Step("empty event", "POST", EVENTS, _event(
        type="x", reason="", action="", reportingController="", reportingInstance="")),
    Step("long note", "POST", EVENTS, _event(note="x" * 1025)),
    Step("event about a node", "POST", EVENTS, _event(regarding={"kind": "Node", "name": "n"})),
    Step("event elsewhere", "POST", f"{HOME}/events", {
        "metadata": {"name": "e3"},
        "involvedObject": {"kind": "Pod", "namespace": "o", "name": "p"}}),
    Step("events by field", "GET", f"{EVENTS}?fieldSelector=regarding.name%3Dp"),
    Step("events by nothing", "GET", f"{EVENTS}?fieldSelector=reason%3Dx"),
    Step("core events by field", "GET",
         f"{HOME}/events?fieldSelector=involvedObject.name%3Dp,reason%3DScheduled"),
    Step("series", "PATCH", f"{EVENTS}/e1",
         {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}, MERGE),
    Step("priority class", "POST", CLASSES, {"metadata": {"name": "agreement"}, "value": 1000}),
    Step("change priority", "PATCH", f"{CLASSES}/agreement", {"value": 5}, MERGE),
    Step("priority too high", "POST", CLASSES, {"metadata": {"name": "x"}, "value": 1000000001}),
    Step("system priority", "POST", CLASSES, {"metadata": {"name": "system-x"}, "value": 1}),
    Step("pod of a class", "POST", PODS, pod("prio", priorityClassName="agreement")),
    Step("delete class", "DELETE", f"{CLASSES}/agreement"),
    Step("deployment", "POST", DEPLOYMENTS, _deployment(
        "d", selector={"matchLabels": {"a": "b"}}, template=_template({"a": "b"}, [container()]))),
    Step("wrong template", "POST", DEPLOYMENTS, _deployment(
        "d2", selector={"matchLabels": {"a": "b"}}, template=_template({"a": "c"}, []))),
    Step("empty deployment", "POST", DEPLOYMENTS, _deployment("d3")),
    Step("scale", "GET", f"{DEPLOYMENTS}/d/scale"),
    Step("rescale", "PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}, MERGE),
    Step("delete deployment", "DELETE", f"{DEPLOYMENTS}/d"),
    Step("budget of both kinds", "POST", BUDGETS,
         {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}}),
    Step("budget of words", "POST", BUDGETS,
         {"metadata": {"name": "b"}, "spec": {"minAvailable": "half"}}),
    Step("budget", "POST", BUDGETS, {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
    Step("wrong claim", "POST", f"{HOME}/persistentvolumeclaims",
         {"metadata": {"name": "c"}, "spec": {"accessModes": ["Often"]}}),
    Step("claim", "POST", f"{HOME}/persistentvolumeclaims", {
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "x",
                 "resources": {"requests": {"storage": "1Gi"}}}}),
    Step("storage class of nobody", "POST", STORAGE_CLASSES, {"metadata": {"name": "agreement"}}),
    Step("storage class", "POST", STORAGE_CLASSES,
         {"metadata": {"name": "agreement"}, "provisioner": "x/y"}),
    Step("delete storage class", "DELETE", f"{STORAGE_CLASSES}/agreement"),
    Step("service without ports", "POST", f"{HOME}/services",
         {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}}}),
    Step("headless service", "POST", f"{HOME}/services", {
        "metadata": {"name": "s"},
        "spec": {"selector": {"a": "b"}, "clusterIP": "None", "ports": [{"port": 80}]}}),
    Step("namespace with a dot", "POST", "/api/v1/namespaces", {"metadata": {"name": "a.b"}}),
    Step("read namespace", "GET", f"/api/v1/namespaces/{NAMESPACE}"),
    Step("delete the default namespace", "DELETE", "/api/v1/namespaces/default"),
    Step("health", "GET", "/healthz"),
]  # fmt: skip

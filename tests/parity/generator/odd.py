"""Values that objects may have and seldom have: empty, huge, absent, doubled, spelled otherwise.

Each function changes one object that the other features have made. Each value passes the API
server's validation: where a rule forbids a combination, the function makes room for its value.
"""

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from tests.parity.generator.cluster import Cluster
from tests.parity.generator.draw import TOPOLOGY_KEYS, Draw, Object
from tests.parity.generator.feature import Feature
from tests.parity.generator.odd_terms import (
    odd_affinity,
    odd_node_terms,
    odd_selector,
    odd_spread,
)

QUANTITIES = ("1e3", "0.5Ki", "1.5", "12E0", "2e-1", "1u", "1500001u", "7n", "0.0001", "1Ki", "3M")
HUGE = ("64Ti", "70368744177665", "68719476736Ki", "50e12", "9999999M")
"""Larger sums would overflow in kube-scheduler (docs/parity.md, large amounts)."""
HUGE_CPU = ("9e6", "1M", "64Ki")
WHOLE = ("1e3", "3000m", "1k", "2.0", "1Ki", "9007199254740", "0e5", "00")
NATIVE = "kubernetes.io/batch"
GIGANTIC = "hugepages-1Gi"
LONG_AGO = "2026-01-02T03:04:05Z"
HIGHEST, LOWEST = 2_000_001_000, -(2**31)


class OddNodes(Feature):
    """Nodes with what few nodes have; `density` is how often a node has one such thing."""

    @override
    def shape_node(self, draw: Draw, node: Object) -> None:
        if draw.maybe(self.density):
            for change in draw.some(NODE_CHANGES, 1, 2):
                change(draw, node)


class OddPods(Feature):
    """Pods with what few pods have; comes after the features whose parts it changes."""

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        if draw.maybe(self.density):
            for change in draw.some(POD_CHANGES, 1, 3):
                change(draw, pod)
            if pod["spec"].get("hostNetwork"):
                pod["spec"].pop("hostUsers", None)


class OddBudgets(Feature):
    """Budgets that select by nothing, allow more or less than nothing, or are being deleted."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        for found in cluster.others:
            if found["kind"] != "PodDisruptionBudget" or not draw.maybe(self.density):
                continue
            selector = odd_selector(draw)
            found["spec"].pop("selector", None)
            if selector is not None:
                found["spec"]["selector"] = selector
            if draw.maybe(0.4):
                found["status"]["disruptionsAllowed"] = draw.pick((-1, 0, 2**31 - 1))
            if draw.maybe(0.2):
                del found["status"]["disruptionsAllowed"]
            if draw.maybe(0.1):
                del found["status"]
            if draw.maybe(0.2):
                found["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
            if draw.maybe(0.2):
                found["metadata"]["deletionTimestamp"] = LONG_AGO
                found["metadata"]["finalizers"] = ["example.com/keep"]


def _no_labels(draw: Draw, node: Object) -> None:
    if draw.maybe(0.5):
        del node["metadata"]["labels"]
    else:
        node["metadata"]["labels"] = {}


def _odd_labels(draw: Draw, node: Object) -> None:
    labels = node["metadata"].setdefault("labels", {})
    for key in draw.some((*TOPOLOGY_KEYS, "rank", "app"), 1, 2):
        labels[key] = draw.pick(("", "", "0", "00", "A", "z1", "1e1", "0x7", "9" * 30))


def _odd_amounts(draw: Draw, node: Object) -> None:
    allocatable = node["status"].setdefault("allocatable", {})
    for name in draw.some(("cpu", "memory", "ephemeral-storage", GIGANTIC), 1, 2):
        allocatable[name] = draw.pick((*QUANTITIES, *(HUGE_CPU if name == "cpu" else HUGE), "0"))
    if draw.maybe(0.4):
        allocatable["pods"] = draw.pick(("0", "1e1", "3.0", "2000m", "1Mi"))
    if draw.maybe(0.4):
        allocatable[draw.pick(("example.com/gpu", NATIVE))] = draw.pick(WHOLE)


def _no_allocatable(draw: Draw, node: Object) -> None:
    if draw.maybe(0.5):
        node["status"].pop("allocatable", None)
    else:
        node["status"]["allocatable"] = {}
    # Otherwise the API server makes the one of the other.
    node["status"].pop("capacity", None)


def _leaving(draw: Draw, node: Object) -> None:
    node["metadata"]["deletionTimestamp"] = LONG_AGO
    node["metadata"]["finalizers"] = ["example.com/keep"]


def _not_ready(draw: Draw, node: Object) -> None:
    node["status"]["conditions"] = [
        {"type": kind, "status": draw.pick(("True", "False", "Unknown"))}
        for kind in ("Ready", "MemoryPressure", "DiskPressure", "NetworkUnavailable")
    ]


def _well_known_taints(draw: Draw, node: Object) -> None:
    taints = node["spec"].setdefault("taints", [])
    known = {(taint["key"], taint["effect"]) for taint in taints}
    for name in draw.some(("not-ready", "unreachable", "unschedulable", "memory-pressure"), 1, 3):
        key, effect = f"node.kubernetes.io/{name}", draw.pick(("NoSchedule", "NoExecute"))
        if (key, effect) not in known:
            taint = {"key": key, "effect": effect, "timeAdded": LONG_AGO}
            taints.append({**taint, **({"value": "x"} if draw.maybe(0.2) else {})})


def _odd_images(draw: Draw, node: Object) -> None:
    images: list[Object] = [
        {"names": [], "sizeBytes": 10**9},
        {"sizeBytes": 10**9},
        {"names": ["registry.example/main:1"], "sizeBytes": 0},
        {"names": ["registry.example/main:1"]},
        {"names": ["registry.example/main:1", "registry.example/main:1"], "sizeBytes": 10**9},
        {"names": ["registry.example/main"], "sizeBytes": 2**62},
        {"names": ["short", "short:latest", "short:1"], "sizeBytes": 2**40},
        {
            "names": ["registry.example:5000/tiny", "docker.io/library/short"],
            "sizeBytes": 5 * 10**8,
        },
        {"names": ["registry.example/main:1@sha256:" + "cd" * 32], "sizeBytes": 7 * 10**8},
    ]
    node["status"].setdefault("images", []).extend(draw.some(images, 1, 4))


NODE_CHANGES: Sequence[Callable[[Draw, Object], None]] = (
    _no_labels,
    _odd_labels,
    _odd_amounts,
    _odd_amounts,
    _no_allocatable,
    _leaving,
    _not_ready,
    _well_known_taints,
    _odd_images,
)


def _no_pod_labels(draw: Draw, pod: Object) -> None:
    if draw.maybe(0.5):
        pod["metadata"].pop("labels", None)
    else:
        pod["metadata"]["labels"] = {}


def _empty_pod_labels(draw: Draw, pod: Object) -> None:
    labels = pod["metadata"].setdefault("labels", {})
    labels.update(dict.fromkeys(draw.some(("app", "ver", "tier", "absent"), 1, 2), ""))


def _phase(draw: Draw, pod: Object) -> None:
    pod["status"]["phase"] = draw.pick(("Pending", "Unknown", "Running", "Failed", "Succeeded"))
    if draw.maybe(0.2):
        del pod["status"]["phase"]
    if draw.maybe(0.3) and "nodeName" in pod["spec"]:
        pod["metadata"]["deletionTimestamp"] = LONG_AGO
        pod["metadata"]["deletionGracePeriodSeconds"] = 0


def _importance(draw: Draw, pod: Object) -> None:
    pod["spec"]["priority"] = draw.pick((HIGHEST, LOWEST, 2**31 - 1, -1, 1_000_000_000))
    if draw.maybe(0.4):
        pod["spec"]["preemptionPolicy"] = draw.pick(("Never", "PreemptLowerPriority"))


def _odd_requests(draw: Draw, pod: Object) -> None:
    pod["spec"].pop("resources", None)
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        if not draw.maybe(0.6):
            continue
        claims = container.get("resources", {}).get("claims")
        resources: Object = {"claims": claims} if claims else {}
        for kind in draw.pick((("requests",), ("limits",), ("requests", "limits"))):
            amounts = resources[kind] = {}
            for name in draw.some(("cpu", "memory", "ephemeral-storage"), 1, 2):
                amounts[name] = draw.pick((*QUANTITIES, "1m", "0", "1", "1Gi"))
        if "requests" in resources and "limits" in resources:
            # No request may exceed its limit.
            resources["limits"] = {**dict.fromkeys(resources["requests"], "64Ti")}
        if draw.maybe(0.4):
            name = draw.pick(("example.com/gpu", "example.com/gpu", NATIVE))
            resources.setdefault("limits", {})[name] = draw.pick(WHOLE)
        if draw.maybe(0.15) and {"cpu", "memory"} & set(resources.get("limits", ())):
            resources["limits"][GIGANTIC] = draw.pick(("1Gi", "2Gi", "0"))
        container["resources"] = resources


def _odd_overhead(draw: Draw, pod: Object) -> None:
    overhead = {name: draw.pick((*QUANTITIES, "0")) for name in draw.some(("cpu", "memory"), 0, 2)}
    if draw.maybe(0.3):
        overhead[draw.pick(("example.com/gpu", "ephemeral-storage", NATIVE))] = draw.pick(WHOLE)
    pod["spec"]["overhead"] = overhead


def _odd_pod_level(draw: Draw, pod: Object) -> None:
    """State resources of the pod in part: limits beside requests, zero, or huge pages alone."""
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        for kind in ("requests", "limits"):
            amounts = container.get("resources", {}).get(kind, {})
            for name in [n for n in amounts if "/" not in n and n != "ephemeral-storage"]:
                del amounts[name]
    pod["spec"]["resources"] = draw.pick(
        (
            {"requests": {"cpu": "1500m"}, "limits": {"memory": "1Gi"}},
            {"limits": {"cpu": "1", "memory": "1e9"}, "requests": {"memory": "512Mi"}},
            {"requests": {"cpu": "0", "memory": "0"}},
            {"requests": {"memory": "1500000001m"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "hugepages-2Mi": "64Mi"}},
            {"limits": {"hugepages-1Gi": "1Gi", "cpu": "500m"}},
            {"requests": {}, "limits": {}},
            {},
        )
    )


def _odd_resize(draw: Draw, pod: Object) -> None:
    """Say things about a resize that do not belong together."""
    names = [
        c["name"] for c in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ()))
    ]
    pod["status"]["containerStatuses"] = [
        {
            "name": draw.pick([*names, "unknown"]),
            "image": "",
            "imageID": "",
            "ready": draw.maybe(0.5),
            "restartCount": 0,
            **draw.pick(
                (
                    {"resources": {"requests": {"cpu": "0", "memory": "3e9"}}},
                    {"resources": {"limits": {"cpu": "3"}}},
                    {"resources": {"requests": {"example.com/gpu": "1", "cpu": "1"}}},
                    {"allocatedResources": {"cpu": "2500m", "example.com/gpu": "2"}},
                    {"allocatedResources": {}, "resources": {"requests": {}}},
                    {
                        "resources": {"requests": {"cpu": "1"}},
                        "allocatedResources": {"memory": "1Gi"},
                    },
                )
            ),
        }
        for _ in range(draw.randint(1, 3))
    ]
    pod["status"]["conditions"] = [
        {
            "type": draw.pick(("PodResizePending", "PodResizeInProgress")),
            "status": draw.pick(("True", "False", "Unknown")),
            "reason": draw.pick(("Infeasible", "Deferred", "Error", "")),
        }
        for _ in range(draw.pick((1, 1, 2)))
    ]
    if draw.maybe(0.3):
        pod["status"]["resize"] = draw.pick(("Infeasible", "Proposed", "Deferred"))


def _odd_tolerations(draw: Draw, pod: Object) -> None:
    key = "node.kubernetes.io/unschedulable"
    pod["spec"].setdefault("tolerations", []).extend(
        draw.some(
            (
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -7},
                {"key": key, "value": "x", "effect": "NoSchedule"},
                {"key": key, "operator": "Equal", "value": ""},
                {"key": key, "operator": "Exists", "effect": ""},
                {"key": "dedicated", "operator": "", "value": "blue"},
                {
                    "key": "dedicated",
                    "operator": "Exists",
                    "value": "",
                    "effect": "PreferNoSchedule",
                },
                {"key": "dedicated", "operator": "Exists", "effect": "PreferNoSchedule"},
                {"operator": "Exists", "effect": "PreferNoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
            ),
            1,
            3,
        )
    )


def _odd_ports(draw: Draw, pod: Object) -> None:
    spec = pod["spec"]
    spec["containers"][0]["ports"] = draw.some(
        (
            {"containerPort": 80, "hostPort": 80, "hostIP": "::1"},
            {"containerPort": 80, "hostPort": 80, "hostIP": "fd00::1"},
            {"containerPort": 80, "hostPort": 80, "hostIP": "fd00:0::1"},
            {"containerPort": 80, "hostPort": 80, "hostIP": "::"},
            {"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0"},  # noqa: S104
            {"containerPort": 80, "hostPort": 80, "hostIP": "::ffff:10.0.0.1"},
            {"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1", "protocol": "SCTP"},
            {"containerPort": 80, "hostPort": 0},
            {"containerPort": 65535, "hostPort": 65535},
            {"containerPort": 443, "name": "tls"},
        ),
        1,
        4,
    )
    spec.pop("hostNetwork", None)
    for container in (*spec["containers"][1:], *spec.get("initContainers", ())):
        container.pop("ports", None)
    if draw.maybe(0.3):
        # The API server makes host ports of them.
        spec["hostNetwork"] = True
        spec["containers"][0]["ports"] = [{"containerPort": p} for p in draw.some((80, 443), 1, 2)]
    if draw.maybe(0.3):
        sidecar: Object = {"name": "same-port", "image": "short", "restartPolicy": "Always"}
        sidecar["ports"] = [dict(spec["containers"][0]["ports"][0])]
        spec.setdefault("initContainers", []).append(sidecar)


def _odd_users(draw: Draw, pod: Object) -> None:
    # With the host's network it needs a gate of the API server that is off.
    pod["spec"]["hostUsers"] = bool(pod["spec"].get("hostNetwork")) or draw.maybe(0.3)


def _odd_image_names(draw: Draw, pod: Object) -> None:
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        container["image"] = draw.pick(
            (
                "registry.example/main",
                "registry.example/main:1@sha256:" + "cd" * 32,
                "registry.example/main@sha256:" + "cd" * 32,
                "registry.example:5000/tiny",
                "registry.example:5000",
                "short:1",
                "library/short",
                "docker.io/library/short",
                "a:b:c",
                "Upper/Case",
                "x/",
            )
        )


def _odd_gates(draw: Draw, pod: Object) -> None:
    if "nodeName" not in pod["spec"]:
        pod["spec"]["schedulingGates"] = []
        pod["status"]["nominatedNodeName"] = draw.pick(("", "n0", "n0", "n1", "gone"))


POD_CHANGES: Sequence[Callable[[Draw, Any], None]] = (
    _no_pod_labels,
    _empty_pod_labels,
    _phase,
    _importance,
    _odd_requests,
    _odd_requests,
    _odd_overhead,
    _odd_pod_level,
    _odd_resize,
    _odd_tolerations,
    odd_node_terms,
    odd_spread,
    odd_affinity,
    _odd_ports,
    _odd_image_names,
    _odd_users,
    _odd_gates,
)

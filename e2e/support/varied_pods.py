"""Generates a small heterogeneous cluster and pods with varied constraints from a seed."""

from random import Random
from typing import Any, Final

from e2e.support.objects import Json, make_node, make_pod

ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
PRIORITIES: Final = {"same-choices-low": 10, "same-choices-high": 1000}
"""Priority classes of the pods."""

_MEBIBYTE: Final = 1 << 20
_APPS: Final = ("web", "db", "cache", "batch")
_DISKS: Final = ("ssd", "hdd", "")
_IMAGES: Final = {"example.com/big:1": 900, "example.com/middle:1": 400, "example.com/small:1": 60}
"""Sizes in MiB."""
_TAINTS: Final = (
    {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
    {"key": "slow", "value": "true", "effect": "PreferNoSchedule"},
    {"key": "noisy", "value": "true", "effect": "PreferNoSchedule"},
)


def varied_nodes(count: int, seed: int) -> list[Json]:
    """Build nodes in three zones that differ in allocatable, labels, taints and images."""
    draw = Random(seed)
    nodes = []
    for index in range(count):
        disk = draw.choice(_DISKS)
        node = make_node(
            f"varied-{index:02}",
            zone=f"zone-{index % 3}",
            allocatable={
                "cpu": draw.choice(("4", "8", "16")),
                "memory": draw.choice(("8Gi", "16Gi", "32Gi")),
                "example.com/gpu": draw.choice(("0", "0", "2")),
            },
            labels={"rank": str(draw.randint(1, 9)), **({"disk": disk} if disk else {})},
            taints=draw.sample(_TAINTS, draw.choice((0, 0, 0, 1, 2))),
            unschedulable=draw.random() < 0.05,
        )
        node["status"]["images"] = [
            {"names": [name], "sizeBytes": size * _MEBIBYTE}
            for name, size in _IMAGES.items()
            if draw.random() < 0.5
        ]
        nodes.append(node)
    return nodes


def varied_pod(index: int, namespace: str, draw: Random) -> Json:
    """Build a pod with a few random constraints of each kind."""
    app = draw.choice(_APPS)
    requests: dict[str, str] = {}
    if draw.random() < 0.8:
        requests["cpu"] = draw.choice(("50m", "100m", "250m", "500m"))
    if draw.random() < 0.7:
        requests["memory"] = draw.choice(("64Mi", "128Mi", "512Mi", "1Gi"))
    spec: dict[str, Any] = {}
    if affinity := _affinity(app, draw):
        spec["affinity"] = affinity
    if draw.random() < 0.3:
        spec["topologySpreadConstraints"] = [_spread(app, draw)]
    if draw.random() < 0.35:
        spec["tolerations"] = [_toleration(draw)]
    if draw.random() < 0.3:
        spec["priorityClassName"] = draw.choice(list(PRIORITIES))
    pod = make_pod(
        f"pod-{index:03}", namespace=namespace, labels={"app": app}, requests=requests, **spec
    )
    container = pod["spec"]["containers"][0]
    container["image"] = draw.choice((*_IMAGES, "example.com/nowhere:1"))
    if draw.random() < 0.1:
        container["ports"] = [{"containerPort": 80, "hostPort": draw.choice((8080, 8081))}]
    if draw.random() < 0.05:
        limits = {"example.com/gpu": "1"}
        container["resources"] = {"requests": {**requests, **limits}, "limits": limits}
    return pod


def _toleration(draw: Random) -> Json:
    taint = draw.choice(_TAINTS)
    return {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}


def _spread(app: str, draw: Random) -> Json:
    return {
        "maxSkew": draw.choice((1, 2, 5)),
        "topologyKey": draw.choice((ZONE, HOSTNAME)),
        "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _affinity(app: str, draw: Random) -> Json:
    affinity: dict[str, Any] = {}
    if node_affinity := _node_affinity(draw):
        affinity["nodeAffinity"] = node_affinity
    if draw.random() < 0.25:
        affinity["podAffinity"] = _pod_affinity(draw.choice(_APPS), ZONE, draw, hard_share=0.2)
    if draw.random() < 0.25:
        affinity["podAntiAffinity"] = _pod_affinity(app, HOSTNAME, draw, hard_share=0.3)
    return affinity


def _node_affinity(draw: Random) -> Json:
    found: dict[str, Any] = {}
    if draw.random() < 0.2:
        wanted = {"key": "disk", "operator": draw.choice(("Exists", "DoesNotExist"))}
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [{"matchExpressions": [wanted]}]
        }
    if draw.random() < 0.3:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": draw.randint(1, 100),
                "preference": {"matchExpressions": [expression]},
            }
            for expression in (
                {"key": "disk", "operator": "In", "values": ["ssd"]},
                {"key": "rank", "operator": "Gt", "values": [str(draw.randint(2, 7))]},
            )
        ]
    return found


def _pod_affinity(app: str, key: str, draw: Random, *, hard_share: float) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    if draw.random() < hard_share:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    weighted = {"weight": draw.randint(1, 100), "podAffinityTerm": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}

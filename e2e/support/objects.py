"""Makes the Kubernetes objects tests create, as the API server takes them."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

SIMULATED = "stowage.dev/e2e"
"""Label of nodes no kubelet stands behind, by which they are found and removed again."""


def make_node(
    name: str,
    *,
    allocatable: Mapping[str, str] | None = None,
    zone: str | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Json] = (),
    unschedulable: bool = False,
) -> Json:
    """Makes a Ready node with 4 CPUs, 32 GiB and 110 pods unless told otherwise.

    The API server takes the status of a new node as a kubelet sends it: no second request needed.
    """
    resources = {"cpu": "4", "memory": "32Gi", "pods": "110", **(allocatable or {})}
    all_labels = {"kubernetes.io/hostname": name, SIMULATED: "simulated", **(labels or {})}
    if zone is not None:
        all_labels |= {
            "topology.kubernetes.io/zone": zone,
            "topology.kubernetes.io/region": "region-1",
        }
    spec: Json = {}
    if taints:
        spec["taints"] = list(taints)
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": all_labels},
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Simulated"}],
        },
    }


def make_nodes(count: int, *, zones: int = 3, prefix: str = "node", **options: Any) -> list[Json]:
    """Makes ``count`` equal nodes spread over ``zones`` zones; options as for ``make_node``."""
    return [
        make_node(f"{prefix}-{index:05}", zone=f"zone-{index % zones + 1}", **options)
        for index in range(count)
    ]


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    scheduler_name: str = "stowage",
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Makes a pod with one container; further keywords are fields of its spec in wire spelling."""
    container: Json = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {
            "schedulerName": scheduler_name,
            # Nothing runs these pods, so nothing would end them gracefully either.
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }


def make_pods(count: int, *, prefix: str = "pod", **options: Any) -> list[Json]:
    """Makes ``count`` equal pods; options as for ``make_pod``."""
    return [make_pod(f"{prefix}-{index:05}", **options) for index in range(count)]


def make_binding(pod: str, node: str, *, namespace: str = "default") -> Json:
    """Makes what is posted to a pod's ``binding`` subresource."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }

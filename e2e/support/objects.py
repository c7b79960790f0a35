"""Builds manifests of the Kubernetes objects that tests create."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

SIMULATED = "stowage.dev/e2e"
"""Label of nodes without a kubelet; tests find and delete their nodes by it."""


def make_node(
    name: str,
    *,
    allocatable: Mapping[str, str] | None = None,
    zone: str | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Json] = (),
    unschedulable: bool = False,
) -> Json:
    """Build a Ready node with 4 CPUs, 32 GiB and 110 pods by default.

    The API server accepts the status of a new node as a kubelet sends it, so no second request is
    needed.
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
    """Build ``count`` identical nodes in ``zones`` zones; options as for ``make_node``."""
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
    """Build a pod with one container; further keywords are fields of its spec."""
    container: Json = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {
            "schedulerName": scheduler_name,
            # No kubelet stops these pods, so a grace period would never end.
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }


def make_pods(count: int, *, prefix: str = "pod", **options: Any) -> list[Json]:
    """Build ``count`` identical pods; options as for ``make_pod``."""
    return [make_pod(f"{prefix}-{index:05}", **options) for index in range(count)]


def make_binding(pod: str, node: str, *, namespace: str = "default") -> Json:
    """Build the body of a POST to a pod's ``binding`` subresource."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }

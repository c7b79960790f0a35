"""Builds nodes and pods for tests; a test gives only the fields that matter to it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

Manifest: TypeAlias = dict[str, Any]
"""A Kubernetes object as plain JSON or YAML values."""

_ALLOCATABLE: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}


def node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    zone: str = "",
    allocatable: Mapping[str, str | int] | None = None,
    taints: Iterable[Manifest] = (),
    **spec: Any,
) -> Manifest:
    """Build a node of 4 cores, 32 GiB and 110 pods with its hostname label.

    Args:
        name: the name of the node.
        labels: more labels.
        zone: the value of `topology.kubernetes.io/zone`; without a value there is no such label.
        allocatable: more amounts, or other amounts of the same resources.
        taints: the taints, each `{"key", "value", "effect"}`.
        spec: more fields of its specification, spelled as in a manifest.
    """
    all_labels = {"kubernetes.io/hostname": name}
    if zone:
        all_labels["topology.kubernetes.io/zone"] = zone
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**all_labels, **(labels or {})}},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": {**_ALLOCATABLE, **(allocatable or {})}},
    }


def pod(
    name: str,
    *,
    namespace: str = "default",
    node: str = "",
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, str | int] | None = None,
    priority: int | None = None,
    **spec: Any,
) -> Manifest:
    """Build a pod with one container.

    Args:
        name: the name of the pod.
        namespace: the namespace of the pod.
        node: the node of an assigned pod; a pod without one is pending.
        labels: the labels of the pod.
        requests: the requests of its container.
        priority: orders the queue and preemption: a pod may evict pods of lower priority. The
            default is that of its PriorityClass, or 0.
        spec: more fields of its specification, spelled as in a manifest: `nodeSelector={...}`.
    """
    container: Manifest = {"name": "main", "image": "example/app:1"}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    pod_spec: Manifest = {"containers": [container], **spec}
    if priority is not None:
        pod_spec["priority"] = priority
    if node:
        pod_spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": pod_spec,
    }

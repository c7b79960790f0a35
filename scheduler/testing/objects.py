"""Nodes and pods for tests: a test needs to give only the fields that matter to it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

Manifest: TypeAlias = dict[str, Any]
"""A Kubernetes object as JSON or YAML has it."""

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
    """Build a node of 4 cores, 32 GiB and 110 pods that carries its hostname label.

    Args:
        name: its name.
        labels: more of them.
        zone: the value of `topology.kubernetes.io/zone`, if it is to have one.
        allocatable: amounts that are added to its own or replace them.
        taints: `{"key", "value", "effect"}` each.
        spec: further fields of its specification, spelled as in a manifest.
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
        name: its name.
        namespace: its namespace.
        node: the node it runs on; without one it waits.
        labels: its labels.
        requests: the requests of its container.
        priority: orders the queue and preemption: a pod may evict pods of lower priority. Without
            it that of its PriorityClass, or 0.
        spec: further fields of its specification, spelled as in a manifest: `nodeSelector={...}`.
    """
    container: Manifest = {"name": "main", "image": "example/app:1"}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    said: Manifest = {"containers": [container], **spec}
    if priority is not None:
        said["priority"] = priority
    if node:
        said["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": said,
    }

"""Clusters as people write them into files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Manifest = dict[str, Any]


def node_manifest(
    name: str,
    *,
    allocatable: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A node of 4 cores and 8 GiB."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "110", **(allocatable or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": room},
    }


def pod_manifest(
    name: str,
    *,
    requests: Mapping[str, str] | None = None,
    nominated: str = "",
    created: str | None = None,
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> Manifest:
    """A pod of one container."""
    container = {"name": "main", "resources": {"requests": dict(requests or {})}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "creationTimestamp": created,
        },
        "spec": {"schedulerName": "stowage", "containers": [container], **spec},
        "status": {"nominatedNodeName": nominated} if nominated else {},
    }


def write_list(path: Path, *objects: Manifest) -> str:
    """Write a List as kubectl would; returns the file's name."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)

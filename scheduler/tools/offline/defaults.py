"""Adds an API server's defaults, as far as scheduling reads them, to hand-written objects.

Source: kubernetes pkg/apis/core/v1/defaults.go (SetDefaults_Pod, SetDefaults_ResourceList) v1.36.
"""

from collections.abc import Mapping
from typing import Any


def in_namespace(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a namespaced object with the default namespace if it names none."""
    metadata = raw.get("metadata", {})
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return dict(raw)
    return {**raw, "metadata": {**metadata, "namespace": "default"}}


def completed_pod(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod with defaults: namespace, UID, requests from limits, and host ports."""
    pod = in_namespace(raw)
    metadata = pod.get("metadata")
    if isinstance(metadata, dict) and not metadata.get("uid"):
        uid = f"{metadata['namespace']}/{metadata.get('name', '')}"
        pod["metadata"] = {**metadata, "uid": uid}
    spec = pod.get("spec")
    if isinstance(spec, dict):
        completed = dict(spec)
        for field in ("containers", "initContainers"):
            containers = spec.get(field)
            if isinstance(containers, list):
                completed[field] = [_completed_container(c, spec) for c in containers]
        pod["spec"] = completed
    return pod


def _completed_container(container: Any, spec: Mapping[str, Any]) -> Any:
    if not isinstance(container, dict):
        return container
    completed = dict(container)
    resources = container.get("resources")
    if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
        written = resources.get("requests")
        if written is None or isinstance(written, dict):
            requests = {**resources["limits"], **(written or {})}
            completed["resources"] = {**resources, "requests": requests}
    ports = container.get("ports")
    if spec.get("hostNetwork") and isinstance(ports, list):
        completed["ports"] = [
            {"hostPort": port.get("containerPort", 0), **port} if isinstance(port, dict) else port
            for port in ports
        ]
    return completed

"""The scale subresource: replicas of a workload as an object of its own.

Source: autoscaling/v1 (Scale).
"""

from scheduler.sandbox.kinds import Kind
from scheduler.sandbox.registry import Registry, WriteOptions, Written
from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.store import Entry, Key


def scale_of(entry: Entry) -> Object:
    """The Scale of a workload."""
    content = entry.content()
    meta = content["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = content["spec"].get("selector") or {}
    labels = selector.get("matchLabels", {}) if "matchLabels" in selector else selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in shown if name in meta},
        "spec": {"replicas": content["spec"].get("replicas", 0)},
        "status": {
            "replicas": content.get("status", {}).get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        },
    }


def rescale(
    registry: Registry, kind: Kind, key: Key, scale: Object, options: WriteOptions
) -> Written:
    """Sets a workload's replicas to those of a Scale."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    version = (scale.get("metadata") or {}).get("resourceVersion", "")

    def change(workload: Object) -> Object:
        workload["spec"]["replicas"] = replicas
        if version:
            workload["metadata"]["resourceVersion"] = version
        return workload

    return registry.transform(kind, key, change, options)

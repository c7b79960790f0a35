"""Where `scheduler/tools/offline/fields.json` comes from: the models of the kubernetes package.

    python -m tests.unit.offline.known_fields      # writes it again

It holds the names of all kinds, and the fields of those whose objects are read: what is written by
hand is checked against it.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

from kubernetes.aio.client import models

PAGE: Final = Path(__file__).parents[3] / "scheduler" / "tools" / "offline" / "fields.json"
READ: Final = (
    "Pod",
    "Node",
    "Namespace",
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
    "Deployment",
    "DaemonSet",
    "Job",
    "CronJob",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "PodDisruptionBudget",
)
_VERSION: Final = re.compile(r"^([A-Z][a-z]+)?V\d+((alpha|beta)\d+)?(?=[A-Z])")
_INNER: Final = re.compile(r"^(?:List\[)?(?P<type>[A-Z]\w+)\]?$")


def _fields(model: Any) -> dict[str, str]:
    """By field, the type that it is or is a list of; empty for what has no fields of its own."""
    found = {}
    for attribute, name in model.attribute_map.items():
        inner = _INNER.match(model.openapi_types[attribute])
        type_ = "" if inner is None else inner["type"]
        found[name] = type_ if hasattr(getattr(models, type_, None), "openapi_types") else ""
    return dict(sorted(found.items()))


def written() -> str:
    """The file as it is to be."""
    kinds = set()
    for name in dir(models):
        model = getattr(models, name)
        if {"api_version", "kind", "metadata"} <= set(getattr(model, "openapi_types", ())):
            kinds.add(_VERSION.sub("", name))
    types: dict[str, dict[str, str]] = {}
    waiting = [f"V1{kind}" for kind in READ]
    while waiting:
        name = waiting.pop()
        if name not in types:
            types[name] = _fields(getattr(models, name))
            waiting.extend(inner for inner in types[name].values() if inner)
    content = {"kinds": sorted(kinds), "types": dict(sorted(types.items()))}
    return json.dumps(content, separators=(",", ":")).replace('},"V', '},\n"V') + "\n"


if __name__ == "__main__":
    PAGE.write_text(written())

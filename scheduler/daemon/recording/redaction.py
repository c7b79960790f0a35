"""Leaves out of objects what is not written: data of Secrets, and annotations.

Annotations of nodes become a digest, because their change may requeue pods.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.api.devices import ResourceClaim
from scheduler.api.objects import Node
from scheduler.api.storage import MIGRATED_PLUGINS, CSINode
from scheduler.kernel.devices.extended_resources import ANNOTATION as EXTENDED_RESOURCES

_READ_ANNOTATION: Final[Mapping[type, str]] = {
    CSINode: MIGRATED_PLUGINS,
    ResourceClaim: EXTENDED_RESOURCES,
}
"""The annotation that scheduling reads of kinds that are decoded with all of them."""
_UNTOLD: Final = ("annotations", "managedFields")


def redacted(kind: str, obj: Any) -> Any:
    """Return an object other than a pod with the fields that are written."""
    if type(obj) is Node:
        return _node(obj)
    if type(obj) in _READ_ANNOTATION:
        return _with_read_annotation(obj)
    return _reduced(kind, obj) if isinstance(obj, Mapping) else obj


def _node(node: Node) -> Node:
    annotations = node.metadata.annotations
    if not annotations:
        return node
    told = msgspec.json.encode(annotations, order="sorted")
    digest = {"digest": blake2b(told, digest_size=8).hexdigest()}
    return replace(node, metadata=replace(node.metadata, annotations=digest))


def _with_read_annotation(obj: CSINode | ResourceClaim) -> CSINode | ResourceClaim:
    metadata, name = obj.metadata, _READ_ANNOTATION[type(obj)]
    read = {name: metadata.annotations[name]} if name in metadata.annotations else {}
    return replace(obj, metadata=replace(metadata, annotations=read))


def _reduced(kind: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object of a kind that only plugins read, without fields no plugin decides by."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _UNTOLD}
    if kind == "secrets":
        return {"metadata": metadata}
    return {**obj, "metadata": metadata}

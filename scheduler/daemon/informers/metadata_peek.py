"""Finds name and version of an object in bytes that cannot be decoded.

API servers write the names and the version of an object before any field that its owner can make
long or deep. So the beginning is enough.
"""

import re
from typing import Final

import msgspec

SCANNED_BYTES: Final = 2**16

_STRING: Final = rb'"((?:[^"\\]|\\.)*)'
_TOKEN: Final = re.compile(
    _STRING + rb'"\s*:|' + _STRING + rb'(?:"|\\?\Z)|([{\[])|([}\]])', re.DOTALL
)
_FIELDS: Final = {
    "type": "type",
    "kind": "kind",
    "metadata.name": "name",
    "metadata.namespace": "namespace",
    "metadata.resourceVersion": "resource_version",
    "metadata.continue": "continue_",
}
_HOLDERS: Final = ([""], ["", "object"])
"""The places of metadata: in an object or a list, or in the object of an event."""

_DEEPEST: Final = 3


class MetadataPeek(msgspec.Struct, frozen=True):
    """The metadata found; fields that were not found are empty.

    Attributes:
        type: of a watch event.
        kind: of an object or a list that stands by itself.
        name: metadata.name.
        namespace: metadata.namespace.
        resource_version: metadata.resourceVersion.
        continue_: metadata.continue of a list.
    """

    type: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    continue_: str = ""


def peek_metadata(raw: bytes | msgspec.Raw) -> MetadataPeek:
    """Return the metadata at the beginning of an object, a list, or a watch event; never raises.

    A field counts only at its path: tenants choose keys and values of labels and annotations.

    Cost: linear in the first 64 KiB; no recursion.
    """
    found: dict[str, str] = {}
    path: list[str] = []
    key = ""
    for token in _TOKEN.finditer(memoryview(raw)[:SCANNED_BYTES]):
        name, text, opened, closed = token.groups()
        if name is not None:
            key = name.decode(errors="replace")
        elif opened:
            path.append(key)
            key = ""
        elif closed:
            if path and path.pop() == "metadata" and path in _HOLDERS:
                break
            key = ""
        elif key:
            _note(found, path, key, text)
            key = ""
    return MetadataPeek(**found)


def _note(found: dict[str, str], path: list[str], key: str, text: bytes) -> None:
    if len(path) > _DEEPEST:
        return
    inner = path[2:] if path[1:2] == ["object"] else path[1:]
    field = _FIELDS.get(".".join((*inner, key)))
    if field is not None and b"\\" not in text:
        found.setdefault(field, text.decode(errors="replace"))

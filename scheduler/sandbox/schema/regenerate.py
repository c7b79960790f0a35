"""Writes `fields.py` anew from the OpenAPI file and the protobuf files of a Kubernetes release.

Run by hand when the sandbox moves to another release, with api/openapi-spec/swagger.json of
k8s.io/kubernetes and every v1/generated.proto of k8s.io/api and k8s.io/apimachinery:

    python -m scheduler.sandbox.schema.regenerate SWAGGER_JSON GENERATED_PROTO... > fields.py

Only names, types and numbers are taken over; descriptions stay where they are.
"""

import re
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

ROOTS: Final = (
    "apps.DaemonSet",
    "apps.Deployment",
    "apps.ReplicaSet",
    "apps.StatefulSet",
    "authentication.TokenRequest",
    "authentication.TokenReview",
    "authorization.SelfSubjectAccessReview",
    "authorization.SubjectAccessReview",
    "autoscaling.Scale",
    "batch.Job",
    "coordination.Lease",
    "core.Binding",
    "core.ConfigMap",
    "core.Endpoints",
    "core.Event",
    "core.LimitRange",
    "core.Namespace",
    "core.Node",
    "core.PersistentVolume",
    "core.PersistentVolumeClaim",
    "core.Pod",
    "core.ReplicationController",
    "core.ResourceQuota",
    "core.Secret",
    "core.Service",
    "core.ServiceAccount",
    "discovery.EndpointSlice",
    "events.Event",
    "meta.DeleteOptions",
    "policy.Eviction",
    "policy.PodDisruptionBudget",
    "rbac.ClusterRole",
    "rbac.ClusterRoleBinding",
    "rbac.Role",
    "rbac.RoleBinding",
    "resource.DeviceClass",
    "resource.ResourceClaim",
    "resource.ResourceClaimTemplate",
    "resource.ResourceSlice",
    "scheduling.PriorityClass",
    "storage.CSIDriver",
    "storage.CSINode",
    "storage.CSIStorageCapacity",
    "storage.StorageClass",
    "storage.VolumeAttachment",
)
"""The types whose fields the sandbox knows; what they refer to comes along."""

OPAQUE: Final = (
    "AzureDisk",
    "AzureFile",
    "CephFS",
    "Cinder",
    "Flex",
    "Flocker",
    "Glusterfs",
    "Photon",
    "Portworx",
    "Quobyte",
    "ScaleIO",
    "StorageOS",
    "VsphereVirtualDisk",
    "WindowsSecurityContext",
    "ManagedFieldsEntry",
)
"""Types whose inside nobody here looks at: any object is accepted for them."""

LEAVES: Final = {
    "FieldsV1": "any",
    "IntOrString": "intstr",
    "MicroTime": "microtime",
    "Quantity": "quantity",
    "RawExtension": "any",
    "Time": "time",
}
SCALARS: Final = {"boolean": "bool", "integer": "int", "number": "number", "string": "string"}

HEADER: Final = '''"""Field names and types of the kinds the sandbox serves. Made by regenerate.py.

A type is a line with its name, its fields follow indented: name, type, number in protobuf (a path
where the field is inlined in JSON), then how lists merge (`merge=A,B` by the field A, in
server-side apply by A and B; `merge` as a set of primitives; `keys=A,B` in server-side apply only;
`retain` the retainKeys strategy; `atomic` a map replaced as a whole).
Source: Kubernetes v1.36.3 api/openapi-spec/swagger.json, generated.proto of each group.
"""

from typing import Final

FIELDS: Final = """
'''
_PROTO_PACKAGE: Final = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_PROTO_MESSAGE: Final = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_PROTO_FIELD: Final = re.compile(
    r"^  (?:optional |repeated |required )?([\w.]+|map<.*>) (\w+) = (\d+);", re.MULTILINE
)

Messages = dict[str, dict[str, tuple[str, str]]]
"""Type and number of each field of each protobuf message."""


def short_name(reference: str) -> str:
    """Group and kind of a definition's name."""
    *_, group, _version, kind = reference.rsplit("/", 1)[-1].split(".")
    return f"{group}.{kind}"


def is_current(name: str) -> bool:
    """Whether a definition belongs to a version that is served."""
    return name.split(".")[-2] in {"v1", "resource", "intstr", "runtime"}


def read_messages(proto: str) -> Messages:
    """The messages of a .proto file."""
    package = _PROTO_PACKAGE.search(proto)
    if package is None:
        return {}
    prefix = package[1]
    messages: Messages = {}
    for name, body in _PROTO_MESSAGE.findall(proto):
        fields = {}
        for kind, field, number in _PROTO_FIELD.findall(body):
            full = kind.lstrip(".") if "." in kind else f"{prefix}.{kind}"
            fields[field] = (short_name(full) if "map<" not in kind else kind, number)
        messages[short_name(f"{prefix}.{name}")] = fields
    return messages


def numbers(messages: Messages, name: str, wanted: Container[str]) -> dict[str, str]:
    """The protobuf numbers of a type's JSON fields; those of an inlined message are paths."""
    found = {}
    for field, (kind, number) in messages.get(name, {}).items():
        if field in wanted:
            found[field] = number
        else:
            inner = numbers(messages, kind, wanted)
            found.update({name: f"{number}.{path}" for name, path in inner.items()})
    return found


def type_text(schema: dict[str, Any]) -> str:
    """A property's type in the notation of `fields.py`."""
    if "$ref" in schema:
        name = short_name(schema["$ref"])
        kind = name.rsplit(".", 1)[-1]
        if kind.startswith(OPAQUE):
            return "any"
        return LEAVES.get(kind, name)
    match schema.get("type"):
        case "array":
            return "[]" + type_text(schema["items"])
        case "object" if "additionalProperties" in schema:
            return "{}" + type_text(schema["additionalProperties"])
        case "string" if schema.get("format") == "byte":
            return "bytes"
        case str(scalar) if scalar in SCALARS:
            return SCALARS[scalar]
        case _:
            return "any"


def merge_notes(schema: dict[str, Any]) -> Iterator[str]:
    """How values of this property are merged by patches, as words for `fields.py`."""
    strategy = schema.get("x-kubernetes-patch-strategy", "")
    merge_key = schema.get("x-kubernetes-patch-merge-key")
    keys = schema.get("x-kubernetes-list-map-keys", [])
    if "merge" in strategy and merge_key:
        others = [key for key in keys if key != merge_key]
        yield "merge=" + ",".join([merge_key, *others])
    elif "merge" in strategy:
        yield "merge"
    elif keys:
        yield "keys=" + ",".join(keys)
    if "retainKeys" in strategy:
        yield "retain"
    if schema.get("x-kubernetes-map-type") == "atomic":
        yield "atomic"


def type_lines(definitions: dict[str, dict[str, Any]], messages: Messages) -> Iterator[str]:
    """All types reachable from ROOTS, each followed by its fields."""
    todo, seen = list(reversed(ROOTS)), set(ROOTS)
    while todo:
        name = todo.pop()
        yield name
        properties = definitions[name].get("properties", {})
        numbered = numbers(messages, name, properties)
        for field, schema in sorted(properties.items()):
            text = type_text(schema)
            yield " ".join(["", field, text, numbered.get(field, "0"), *merge_notes(schema)])
            inner = text.replace("[]", "").replace("{}", "")
            if "." in inner and inner not in seen:
                seen.add(inner)
                todo.append(inner)


def main() -> None:
    """Reads the files named on the command line and prints the module."""
    swagger = msgspec.json.decode(Path(sys.argv[1]).read_bytes())
    definitions = {
        short_name(name): body for name, body in swagger["definitions"].items() if is_current(name)
    }
    messages: Messages = {}
    for path in sys.argv[2:]:
        messages |= read_messages(Path(path).read_text(encoding="utf-8"))
    lines = type_lines(definitions, messages)
    sys.stdout.write(HEADER + "\n".join(lines) + '\n"""\n')


if __name__ == "__main__":
    main()

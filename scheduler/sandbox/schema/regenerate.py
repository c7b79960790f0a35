"""Writes `fields.py` anew from the OpenAPI file of a Kubernetes release.

Run by hand when the sandbox moves to another release:

    python -m scheduler.sandbox.schema.regenerate SWAGGER_JSON > scheduler/sandbox/schema/fields.py

Only names and types are taken over; descriptions stay where they are.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

ROOTS: Final = (
    "apps.v1.DaemonSet",
    "apps.v1.Deployment",
    "apps.v1.ReplicaSet",
    "apps.v1.StatefulSet",
    "authentication.v1.TokenRequest",
    "authentication.v1.TokenReview",
    "authorization.v1.SelfSubjectAccessReview",
    "authorization.v1.SubjectAccessReview",
    "autoscaling.v1.Scale",
    "batch.v1.Job",
    "coordination.v1.Lease",
    "core.v1.Binding",
    "core.v1.ConfigMap",
    "core.v1.Endpoints",
    "core.v1.Event",
    "core.v1.LimitRange",
    "core.v1.Namespace",
    "core.v1.Node",
    "core.v1.PersistentVolume",
    "core.v1.PersistentVolumeClaim",
    "core.v1.Pod",
    "core.v1.ReplicationController",
    "core.v1.ResourceQuota",
    "core.v1.Secret",
    "core.v1.Service",
    "core.v1.ServiceAccount",
    "discovery.v1.EndpointSlice",
    "events.v1.Event",
    "meta.v1.DeleteOptions",
    "policy.v1.Eviction",
    "policy.v1.PodDisruptionBudget",
    "rbac.v1.ClusterRole",
    "rbac.v1.ClusterRoleBinding",
    "rbac.v1.Role",
    "rbac.v1.RoleBinding",
    "resource.v1.DeviceClass",
    "resource.v1.ResourceClaim",
    "resource.v1.ResourceClaimTemplate",
    "resource.v1.ResourceSlice",
    "scheduling.v1.PriorityClass",
    "storage.v1.CSIDriver",
    "storage.v1.CSINode",
    "storage.v1.CSIStorageCapacity",
    "storage.v1.StorageClass",
    "storage.v1.VolumeAttachment",
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

HEADER: Final = '''"""Field names and types of the kinds the sandbox serves. Generated: see regenerate.py.

A type is a line with its name, its fields follow indented: name, type, then how lists merge
(`merge=KEY` strategic merge key, `merge` a set of primitives, `retain` the retainKeys strategy,
`keys=A,B` server-side apply keys where they differ, `atomic` a map replaced as a whole).
Source: Kubernetes v1.36.3 api/openapi-spec/swagger.json.
"""

from typing import Final

FIELDS: Final = """
'''


def short_name(reference: str) -> str:
    """The last three parts of a definition's name: group, version and kind."""
    return ".".join(reference.rsplit("/", 1)[-1].split(".")[-3:])


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
            return "string"
        case str(scalar) if scalar in SCALARS:
            return SCALARS[scalar]
        case _:
            return "any"


def merge_notes(schema: dict[str, Any]) -> Iterator[str]:
    """How values of this property are merged by patches, as words for `fields.py`."""
    strategy = schema.get("x-kubernetes-patch-strategy", "")
    merge_key = schema.get("x-kubernetes-patch-merge-key")
    if "merge" in strategy:
        yield f"merge={merge_key}" if merge_key else "merge"
    if "retainKeys" in strategy:
        yield "retain"
    keys = schema.get("x-kubernetes-list-map-keys", [])
    if keys and keys != [merge_key]:
        yield "keys=" + ",".join(keys)
    if schema.get("x-kubernetes-map-type") == "atomic":
        yield "atomic"


def type_lines(definitions: dict[str, dict[str, Any]]) -> Iterator[str]:
    """All types reachable from ROOTS, each followed by its fields."""
    todo, seen = list(reversed(ROOTS)), set(ROOTS)
    while todo:
        name = todo.pop()
        yield name
        for field, schema in sorted(definitions[name].get("properties", {}).items()):
            text = type_text(schema)
            yield " ".join([f" {field}", text, *merge_notes(schema)])
            inner = text.replace("[]", "").replace("{}", "")
            if "." in inner and inner not in seen:
                seen.add(inner)
                todo.append(inner)


def main() -> None:
    """Reads the file named on the command line and prints the module."""
    swagger = msgspec.json.decode(Path(sys.argv[1]).read_bytes())
    definitions = {short_name(name): body for name, body in swagger["definitions"].items()}
    sys.stdout.write(HEADER + "\n".join(type_lines(definitions)) + '\n"""\n')


if __name__ == "__main__":
    main()

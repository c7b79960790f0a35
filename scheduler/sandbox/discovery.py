"""What the sandbox says it serves: resource lists, groups, versions, OpenAPI.

The OpenAPI documents hold what kubectl asks them for: which kinds there are, and that writes
validate their fields on the server. They describe no fields: kubectl then merges by the types
it was built with, which know more than we could tell it.
Source: k8s.io/apiserver pkg/endpoints/discovery, apidiscovery.k8s.io/v2.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from scheduler.sandbox.kinds import KINDS, Kind
from scheduler.sandbox.schema.codec import Object

VERSION: Final = "v1.36.3+stowage-sandbox"
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS: Final = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip
_SUBRESOURCE_VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "status": ("get", "patch", "update"),
    "scale": ("get", "patch", "update"),
}
_SUBRESOURCE_KINDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "scale": ("autoscaling", "v1", "Scale"),
}
REVIEWS: Final = (
    ("", "bindings", "Binding", True),
    ("authentication.k8s.io", "tokenreviews", "TokenReview", False),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", False),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", False),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
)
"""What can only be created: group, resource, kind, whether it has a namespace."""


@cache
def groups() -> Mapping[str, tuple[str, ...]]:
    """Every group with its versions, the core group first."""
    found = dict.fromkeys([kind.group for kind in KINDS] + [group for group, *_ in REVIEWS])
    return dict.fromkeys(found, ("v1",))


def version_info() -> Object:
    """What /version answers."""
    major, minor = VERSION.removeprefix("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def core_versions() -> Object:
    """What /api answers."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list() -> Object:
    """What /apis answers."""
    named = [_group(group) for group in groups() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": named}


def group_info(group: str) -> Object | None:
    """What /apis/GROUP answers."""
    if not group or group not in groups():
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}


def _group(group: str) -> Object:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in groups()[group]
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def resource_list(group: str, version: str) -> Object | None:
    """What /api/v1 and /apis/GROUP/VERSION answer."""
    if version not in groups().get(group, ()):
        return None
    resources: list[Object] = []
    for kind in _kinds_of(group):
        resources.append(_resource(kind))
        resources += [_subresource(kind, name) for name in kind.subresources]
    resources += [
        {"name": name, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind,
         "verbs": ["create"]}
        for its_group, name, kind, namespaced in REVIEWS
        if its_group == group
    ]  # fmt: skip
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def _kinds_of(group: str) -> Iterable[Kind]:
    return (kind for kind in KINDS if kind.group == group)


def _resource(kind: Kind) -> Object:
    resource: Object = {
        "name": kind.resource,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(_VERBS),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    return resource


def _subresource(kind: Kind, name: str) -> Object:
    group, version, its_kind = _subresource_kind(kind, name)
    resource: Object = {
        "name": f"{kind.resource}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": its_kind,
        "verbs": list(_SUBRESOURCE_VERBS.get(name, ("create",))),
    }
    if (group, version) != (kind.group, kind.version):
        resource |= {"group": group, "version": version}
    return resource


def _subresource_kind(kind: Kind, name: str) -> tuple[str, str, str]:
    return _SUBRESOURCE_KINDS.get(name, (kind.group, kind.version, kind.kind))


def aggregated(*, core: bool) -> Object:
    """All of /api or /apis in one answer."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_group_discovery(group) for group in groups() if (group == "") is core],
    }


def _group_discovery(group: str) -> Object:
    resources = [_resource_discovery(kind) for kind in _kinds_of(group)]
    resources += [
        {
            "resource": name,
            "responseKind": {"group": group, "version": "v1", "kind": kind},
            "scope": "Namespaced" if namespaced else "Cluster",
            "singularResource": kind.lower(),
            "verbs": ["create"],
        }
        for its_group, name, kind, namespaced in REVIEWS
        if its_group == group
    ]
    versions = [
        {"version": version, "resources": resources, "freshness": "Current"}
        for version in groups()[group]
    ]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _resource_discovery(kind: Kind) -> Object:
    discovery: Object = {
        "resource": kind.resource,
        "responseKind": _response_kind(kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(_VERBS),
        "shortNames": list(kind.short_names),
        "categories": list(kind.categories),
        "subresources": [
            {
                "subresource": name,
                "responseKind": _response_kind(*_subresource_kind(kind, name)),
                "verbs": list(_SUBRESOURCE_VERBS.get(name, ("create",))),
            }
            for name in kind.subresources
        ],
    }
    return discovery


def _response_kind(group: str, version: str, kind: str) -> Object:
    return {"group": group, "version": version, "kind": kind}


def openapi_v3_index() -> Object:
    """What /openapi/v3 answers: one document per group and version."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={VERSION}"}
            for path in (_openapi_path(group) for group in groups())
        }
    }


def _openapi_path(group: str) -> str:
    return f"apis/{group}/v1" if group else "api/v1"


def openapi_v3(path: str) -> Object | None:
    """The document of one group and version, such as `apis/apps/v1`."""
    by_path = {_openapi_path(group): group for group in groups()}
    if path not in by_path:
        return None
    kinds = list(_kinds_of(by_path[path]))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Stowage sandbox", "version": VERSION},
        "paths": {_object_path(kind): _operations(kind, "schema") for kind in kinds},
        "components": {"schemas": {}},
    }


def openapi_v2() -> Object:
    """What /openapi/v2 answers."""
    return {
        "swagger": "2.0",
        "info": {"title": "Stowage sandbox", "version": VERSION},
        "paths": {_object_path(kind): _operations(kind, "type") for kind in KINDS},
        "definitions": {},
    }


def _object_path(kind: Kind) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    namespace = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}{namespace}/{kind.resource}/{{name}}"


def _group_version_kind(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _operations(kind: Kind, type_key: str) -> Object:
    string: Object = {"schema": {"type": "string"}} if type_key == "schema" else {"type": "string"}
    parameters = [
        {"name": name, "in": "query", "uniqueItems": True, **string}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    operation = {
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _group_version_kind(kind),
    }
    return {"patch": operation}

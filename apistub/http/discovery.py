"""What the stand-in says it serves: resource lists, groups, versions, OpenAPI.

The OpenAPI documents hold what kubectl asks them before it writes: which kinds there are, and that
the server looks at fields itself. They describe no fields; kubectl then merges by the types it was
built with.
Source: k8s.io/apiserver pkg/endpoints/discovery, apidiscovery.k8s.io/v2.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from apistub.storage.kinds import KINDS, Kind, Object

VERSION: Final = "v1.36.3+stowage-apistub"
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_KINDS: Final = {"binding": ("", "Binding"), "eviction": ("policy", "Eviction")}
_GROUPS: Final = tuple(dict.fromkeys(kind.group for kind in KINDS))


class _Subresource(NamedTuple):
    name: str
    group: str
    kind: str
    verbs: list[str]


def document(path: str) -> Object | None:  # noqa: PLR0911 - a table of paths
    """What a path that is not one of a resource answers; none if nothing is there."""
    match path.strip("/").split("/"):
        case ["version"]:
            major, minor, *_ = VERSION.removeprefix("v").split(".")
            return {"major": major, "minor": minor, "gitVersion": VERSION, "platform": "any"}
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            groups = [_group(group) for group in _GROUPS if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if group in _GROUPS:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
        case ["api", "v1"]:
            return _resource_list("")
        case ["apis", group, "v1"] if group in _GROUPS:
            return _resource_list(group)
        case ["openapi", "v3"]:
            return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"}
                              for path in map(_group_path, _GROUPS)}}  # fmt: skip
        case ["openapi", "v3", *rest]:
            return _openapi("/".join(rest))
        case _:
            return None


def aggregated(path: str) -> Object:
    """All of `/api` or `/apis` in one answer."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": "v1",
                        "resources": [_discovery(kind) for kind in _kinds_of(group)],
                        "freshness": "Current",
                    }
                ],
            }
            for group in _GROUPS
            if (group == "") is (path == "/api")
        ],
    }


def _kinds_of(group: str) -> Iterator[Kind]:
    return (kind for kind in KINDS if kind.group == group)


def _subresources(kind: Kind) -> Iterator[_Subresource]:
    for name in kind.subresources:
        group, its_kind = _SUBRESOURCE_KINDS.get(name, (kind.group, kind.kind))
        verbs = ["get", "patch", "update"] if name == "status" else ["create"]
        yield _Subresource(name, group, its_kind, verbs)


def _group_path(group: str) -> str:
    return f"apis/{group}/v1" if group else "api/v1"


def _group(group: str) -> Object:
    version = {"groupVersion": f"{group}/v1", "version": "v1"}
    return {"name": group, "versions": [version], "preferredVersion": version}


def _resource_list(group: str) -> Object:
    resources: list[Object] = []
    for kind in _kinds_of(group):
        common = {"namespaced": kind.namespaced, "singularName": kind.kind.lower()}
        names = {"shortNames": kind.short_names, "categories": kind.categories}
        resources.append(
            {"name": kind.resource, "kind": kind.kind, "verbs": _VERBS, **common, **names}
        )
        resources += [
            {**common, "name": f"{kind.resource}/{sub.name}", "kind": sub.kind,
             "group": sub.group, "version": "v1", "verbs": sub.verbs}
            for sub in _subresources(kind)
        ]  # fmt: skip
    version = f"{group}/v1" if group else "v1"
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version}
    return {**head, "resources": resources}


def _discovery(kind: Kind) -> Object:
    return {
        "resource": kind.resource,
        "responseKind": _type(kind.group, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.kind.lower(),
        "verbs": _VERBS,
        "shortNames": kind.short_names,
        "categories": kind.categories,
        "subresources": [
            {"subresource": sub.name, "responseKind": _type(sub.group, sub.kind),
             "verbs": sub.verbs}
            for sub in _subresources(kind)
        ],
    }  # fmt: skip


def _type(group: str, kind: str) -> Object:
    return {"group": group, "version": "v1", "kind": kind}


def _openapi(path: str) -> Object | None:
    """The document of one group and version, such as `apis/apps/v1`."""
    kinds = [kind for kind in KINDS if _group_path(kind.group) == path]
    if not kinds:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Stowage's stand-in for an API server", "version": VERSION},
        "paths": {f"/{path}/{kind.resource}/{{name}}": _patch_operation(kind) for kind in kinds},
        "components": {"schemas": {}},
    }


def _patch_operation(kind: Kind) -> Object:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in ("fieldManager", "fieldValidation")
    ]
    operation = {
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _type(kind.group, kind.kind),
    }
    return {"patch": operation}

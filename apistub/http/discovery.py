"""What the stand-in says it serves: resource lists, groups, versions, OpenAPI.

The OpenAPI documents hold what kubectl asks them before it writes: which kinds there are, and that
the server looks at fields itself. They describe no fields; kubectl then merges by the types it was
built with.
Source: k8s.io/apiserver pkg/endpoints/discovery.
"""

from typing import Final

from apistub.storage.kinds import KINDS, VERSIONS, Kind, Object

VERSION: Final = "v1.36.3+stowage-apistub"
_VERBS: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_KINDS: Final = {"binding": ("", "Binding"), "eviction": ("policy", "Eviction")}
_GROUPS: Final = tuple(dict.fromkeys(kind.group for kind in KINDS))


def document(path: str) -> Object | None:  # noqa: C901, PLR0911, PLR0912 - a table of paths
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
            return _resource_list("", "v1")
        case ["apis", group, version] if (group, version) in VERSIONS:
            return _resource_list(group, version)
        case ["openapi", "v3"]:
            return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"}
                              for path in dict.fromkeys(map(_group_path, KINDS))}}  # fmt: skip
        case ["openapi", "v3", *rest]:
            return _openapi("/".join(rest))
        case _:
            return None


def _group_path(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else "api/v1"


def _group(group: str) -> Object:
    served = sorted(version for its_group, version in VERSIONS if its_group == group)
    versions = [{"groupVersion": f"{group}/{each}", "version": each} for each in served]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group: str, version: str) -> Object:
    resources: list[Object] = []
    for kind in KINDS:
        if (kind.group, kind.version) != (group, version):
            continue
        common = {"namespaced": kind.namespaced, "singularName": kind.kind.lower()}
        names = {"shortNames": kind.short_names, "categories": kind.categories}
        resources.append(
            {"name": kind.resource, "kind": kind.kind, "verbs": _VERBS, **common, **names}
        )
        for name in kind.subresources:
            its_group, its_kind = _SUBRESOURCE_KINDS.get(name, (group, kind.kind))
            resources.append(
                {**common, "name": f"{kind.resource}/{name}", "kind": its_kind,
                 "group": its_group, "version": version,
                 "verbs": ["get", "patch", "update"] if name == "status" else ["create"]}
            )  # fmt: skip
    shown = f"{group}/{version}" if group else version
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": shown}
    return {**head, "resources": resources}


def _openapi(path: str) -> Object | None:
    """The document of one group and version, such as `apis/apps/v1`."""
    kinds = [kind for kind in KINDS if _group_path(kind) == path]
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
        "x-kubernetes-group-version-kind": {
            "group": kind.group,
            "version": kind.version,
            "kind": kind.kind,
        },
    }
    return {"patch": operation}

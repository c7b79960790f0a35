"""What a request is about, read from its method and path.

Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")
_TRUE: Final = ("true", "1")


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A request to a resource, or to another path."""

    verb: str
    path: str
    query: Mapping[str, str]
    group: str = ""
    version: str = ""
    resource: str = ""
    """Empty when the path is not one of a resource."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def request_info(method: str, target: str) -> RequestInfo:
    """Reads a request line.

    Args:
        method: the HTTP method.
        target: path and query as sent.
    """
    raw_path, _, raw_query = target.partition("?")
    query = dict(parse_qsl(raw_query, keep_blank_values=True)) if raw_query else {}
    path = unquote(raw_path) if "%" in raw_path else raw_path
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > len(("api", "v1")):
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > len(("apis", "group", "v1")):
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method.lower(), path, query)
    namespace, rest = _namespaced(rest)
    resource, name, subresource, *_ = [*rest, "", ""]
    verb = _verb(method, query, has_name=bool(name))
    return RequestInfo(verb, path, query, group, version, resource, namespace, name, subresource)


def _namespaced(rest: list[str]) -> tuple[str, list[str]]:
    """The namespace, and resource, name and subresource behind it."""
    if rest[0] != "namespaces" or len(rest) <= len(("namespaces", "name")):
        return "", rest
    if rest[2] in _NAMESPACE_SUBRESOURCES:
        return "", rest
    return rest[1], rest[2:]


def _verb(method: str, query: Mapping[str, str], *, has_name: bool) -> str:
    if method in {"GET", "HEAD"}:
        if query.get("watch") in _TRUE:
            return "watch"
        return "get" if has_name else "list"
    if method == "DELETE":
        return "delete" if has_name else "deletecollection"
    return _VERBS.get(method, method.lower())

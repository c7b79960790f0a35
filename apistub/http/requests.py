"""What a request is about, read from its method and path, and how many there were of each kind.

Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote

from apistub.storage.kinds import BY_PATH, VERSIONS
from apistub.storage.store import Key

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A request to a resource, or to another path."""

    verb: str
    path: str
    query: Mapping[str, str]
    group: str = ""
    resource: str = ""
    """Empty when the path is not one of a resource."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """The object the path names."""
        return Key(self.namespace, self.name)


def request_info(method: str, target: str) -> RequestInfo:
    """Reads a request line."""
    raw_path, _, raw_query = target.partition("?")
    query = dict(parse_qsl(raw_query, keep_blank_values=True)) if raw_query else {}
    path = unquote(raw_path) if "%" in raw_path else raw_path
    match path.strip("/").split("/"):
        case ["api", "v1" as version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest and (group, version) in VERSIONS:
            pass
        case _:
            return RequestInfo(method.lower(), path, query)
    namespace, rest = _namespaced(rest)
    resource, name, subresource, *_ = [*rest, "", ""]
    kind = BY_PATH.get((group, resource))
    if kind is not None and kind.version != version:
        return RequestInfo(method.lower(), path, query)
    verb = _verb(method, query, has_name=bool(name))
    return RequestInfo(verb, path, query, group, resource, namespace, name, subresource)


def _namespaced(rest: list[str]) -> tuple[str, list[str]]:
    """The namespace, and resource, name and subresource behind it."""
    if rest[0] != "namespaces" or len(rest) <= len(("namespaces", "name")):
        return "", rest
    if rest[2] in _NAMESPACE_SUBRESOURCES:
        return "", rest
    return rest[1], rest[2:]


def _verb(method: str, query: Mapping[str, str], *, has_name: bool) -> str:
    if method in {"GET", "HEAD"}:
        if query.get("watch") in {"true", "1"}:
            return "watch"
        return "get" if has_name else "list"
    if method == "DELETE":
        return "delete" if has_name else "deletecollection"
    return _VERBS.get(method, method.lower())


class RequestLog:
    """How many requests came in, for tests that ask what a client did."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str, int]] = Counter()

    def record(self, info: RequestInfo, code: int) -> None:
        """Notes a request that has ended, with 0 if without an answer, or a watch that begins."""
        self._counts[info.verb, info.resource, info.subresource, code] += 1

    def count(
        self,
        *,
        verb: str = "*",
        resource: str = "*",
        subresource: str = "*",
        code: int | None = None,
    ) -> int:
        """How many requests there were."""
        return sum(
            number
            for (its_verb, its_resource, its_subresource, its_code), number in self._counts.items()
            if verb in {"*", its_verb}
            and resource in {"*", its_resource}
            and subresource in {"*", its_subresource}
            and code in {None, its_code}
        )

"""From a request's parts to an answer's parts, for everything that is not a watch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Final

import msgspec

from scheduler.clock import Clock
from scheduler.sandbox import discovery
from scheduler.sandbox.accounts import Accounts
from scheduler.sandbox.binding import bind, evict
from scheduler.sandbox.bodies import given_object, media_type, parsed, parsed_json
from scheduler.sandbox.deletion import DeleteOptions, Deleter
from scheduler.sandbox.field_errors import not_supported
from scheduler.sandbox.kinds import BY_PATH, PODS, Kind
from scheduler.sandbox.patching import Patcher
from scheduler.sandbox.reading import list_page, selection
from scheduler.sandbox.registry import Registry, WriteOptions, Written
from scheduler.sandbox.rendering import Renderer, renderer_for
from scheduler.sandbox.request_info import RequestInfo
from scheduler.sandbox.scaling import rescale, scale_of
from scheduler.sandbox.schema.codec import FieldValidation, Object
from scheduler.sandbox.status import (
    StatusError,
    bad_request,
    invalid_options,
    method_not_allowed,
    no_containers,
    no_such_path,
    success,
)
from scheduler.sandbox.store import Key

JSON: Final = "application/json"
_OF_CONTAINERS: Final = frozenset(
    {"attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy"}
)
"""Subresources of pods that a kubelet answers."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request with everything an answer depends on."""

    info: RequestInfo
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    user: str = ""

    @property
    def key(self) -> Key:
        """The object the path names."""
        return Key(self.info.namespace, self.info.name)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer."""

    body: bytes
    status: int = HTTPStatus.OK
    content_type: str = JSON
    warnings: list[str] = field(default_factory=list)


def json_reply(content: object, status: int = HTTPStatus.OK) -> Reply:
    """An answer with an object."""
    return Reply(msgspec.json.encode(content), status)


class Api:
    """Answers calls.

    Args:
        registry: the objects.
        deleter: how they go.
        accounts: who is known.
        clock: for ages in tables.
    """

    def __init__(
        self, registry: Registry, deleter: Deleter, accounts: Accounts, clock: Clock
    ) -> None:
        self._registry = registry
        self._deleter = deleter
        self._accounts = accounts
        self._now: Callable[[], datetime] = clock.wall
        self._patcher = Patcher(registry)
        self._verbs: Mapping[str, Callable[[Kind, Call], Reply]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }
        self._subresources: Mapping[tuple[str, str], Callable[[Kind, Call], Reply]] = {
            ("get", "status"): self._get,
            ("update", "status"): self._update,
            ("patch", "status"): self._patch,
            ("get", "scale"): self._get_scale,
            ("update", "scale"): self._update_scale,
            ("patch", "scale"): self._patch_scale,
            ("create", "binding"): self._bind,
            ("create", "eviction"): self._evict,
            ("create", "token"): self._token,
        }
        self._creations: Mapping[str, Callable[[Call], Reply]] = {
            "bindings": self._bind_by_body,
            "tokenreviews": lambda call: _created(accounts.review_token(_object(call))),
            "subjectaccessreviews": lambda call: _created(accounts.review_access(_object(call))),
            "selfsubjectaccessreviews": lambda call: _created(
                accounts.review_own_access(_object(call), call.user)
            ),
            "selfsubjectreviews": lambda call: _created(
                {**_object(call), "status": {"userInfo": {"username": call.user}}}
            ),
        }

    def respond(self, call: Call) -> Reply:
        """Carries out a call.

        Raises:
            StatusError: it is refused.
        """
        info = call.info
        if not info.resource:
            return _path_reply(call)
        kind = kind_at(info)
        if kind is None:
            creation = self._creations.get(info.resource)
            if creation is None or not _is_review(info):
                raise no_such_path()
            if info.verb != "create":
                raise method_not_allowed()
            return creation(call)
        if not info.subresource:
            act = self._verbs.get(info.verb)
        elif info.subresource in kind.subresources:
            act = self._subresources.get((info.verb, info.subresource))
        elif kind is PODS and info.subresource in _OF_CONTAINERS:
            raise no_containers(info.subresource)
        else:
            raise no_such_path()
        if act is None:
            raise method_not_allowed()
        return act(kind, call)

    def renderer(self, kind: Kind, call: Call) -> Renderer:
        """How a call wants its answer shown."""
        return renderer_for(kind, call.accept, call.info.query, self._now)

    def _get(self, kind: Kind, call: Call) -> Reply:
        return Reply(self.renderer(kind, call).one(self._registry.get(kind, call.key)))

    def _list(self, kind: Kind, call: Call) -> Reply:
        info, store = call.info, self._registry.store
        wanted = selection(kind, info.namespace, info.query)
        page = list_page(store, store.collection(kind), wanted, info.query)
        return Reply(self.renderer(kind, call).many(page))

    def _create(self, kind: Kind, call: Call) -> Reply:
        if call.info.name:
            raise method_not_allowed()
        given = given_object(call.body, call.content_type)
        written = self._registry.create(kind, call.info.namespace, given, _options(call.info))
        return self._written(kind, call, written)

    def _update(self, kind: Kind, call: Call) -> Reply:
        given = given_object(call.body, call.content_type)
        written = self._registry.update(
            kind, call.key, given, _options(call.info), subresource=call.info.subresource
        )
        return self._written(kind, call, written)

    def _patch(self, kind: Kind, call: Call) -> Reply:
        written = self._patcher.patch(
            kind,
            call.key,
            call.body,
            media_type(call.content_type),
            options=_options(call.info),
            manager=call.info.query.get("fieldManager", ""),
            subresource=call.info.subresource,
        )
        return self._written(kind, call, written)

    def _written(self, kind: Kind, call: Call, written: Written) -> Reply:
        status = HTTPStatus.CREATED if written.created else HTTPStatus.OK
        body = self.renderer(kind, call).one(written.entry)
        return Reply(body, status, warnings=written.warnings)

    def _delete(self, kind: Kind, call: Call) -> Reply:
        deleted = self._deleter.delete(kind, call.key, _delete_options(call))
        if not deleted.gone or kind.returns_deleted:
            return Reply(self.renderer(kind, call).one(deleted.entry))
        details: Object = {"name": call.info.name, "kind": kind.resource, "uid": deleted.entry.uid}
        if kind.group:
            details["group"] = kind.group
        return json_reply(success(details))

    def _delete_collection(self, kind: Kind, call: Call) -> Reply:
        info, store = call.info, self._registry.store
        wanted = selection(kind, info.namespace, info.query)
        options = _delete_options(call)
        page = list_page(store, store.collection(kind), wanted, {})
        for entry in page.entries:
            self._deleter.delete(kind, entry.key, options)
        return Reply(self.renderer(kind, call).many(page))

    def _get_scale(self, kind: Kind, call: Call) -> Reply:
        return json_reply(scale_of(self._registry.get(kind, call.key)))

    def _update_scale(self, kind: Kind, call: Call) -> Reply:
        scale = parsed(call.body, call.content_type)
        written = rescale(self._registry, kind, call.key, scale, _options(call.info))
        return json_reply(scale_of(written.entry))

    def _patch_scale(self, kind: Kind, call: Call) -> Reply:
        # A Scale holds one number, for which all ways to merge are the same.
        scale = parsed_json(call.body)
        written = rescale(self._registry, kind, call.key, scale, _options(call.info))
        return json_reply(scale_of(written.entry))

    def _bind(self, _kind: Kind, call: Call) -> Reply:
        binding = parsed(call.body, call.content_type)
        bind(self._registry, call.key, binding, dry_run=_options(call.info).dry_run)
        return _created(success(code=HTTPStatus.CREATED))

    def _bind_by_body(self, call: Call) -> Reply:
        binding = parsed(call.body, call.content_type)
        key = Key(call.info.namespace, (binding.get("metadata") or {}).get("name", ""))
        dry_run = _options(call.info).dry_run
        bind(self._registry, key, binding, dry_run=dry_run, is_legacy=True)
        return _created(success(code=HTTPStatus.CREATED))

    def _evict(self, _kind: Kind, call: Call) -> Reply:
        eviction = parsed(call.body, call.content_type)
        options = delete_options(eviction.get("deleteOptions") or {}, call.info.query)
        evict(self._registry, self._deleter, call.key, options)
        return _created(success(code=HTTPStatus.CREATED))

    def _token(self, kind: Kind, call: Call) -> Reply:
        self._registry.get(kind, call.key)
        request = parsed(call.body, call.content_type)
        return _created(self._accounts.request_token(request, *call.key))


def kind_at(info: RequestInfo) -> Kind | None:
    """The stored kind a path names.

    Raises:
        StatusError: 404, the path has a namespace for a kind that has none, or the reverse.
    """
    kind = BY_PATH.get((info.group, info.version, info.resource))
    if kind is not None and info.namespace and not kind.namespaced:
        raise no_such_path()
    if kind is not None and info.name and kind.namespaced and not info.namespace:
        raise no_such_path()
    return kind


def delete_options(given: Object, query: Mapping[str, str]) -> DeleteOptions:
    """What a DeleteOptions object and the parameters of a request say."""
    preconditions = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds")
    if grace is None and query.get("gracePeriodSeconds", "").lstrip("-").isdigit():
        grace = int(query["gracePeriodSeconds"])
    if grace is not None and not isinstance(grace, int):
        raise bad_request("gracePeriodSeconds: expected a number of seconds")
    return DeleteOptions(
        grace_seconds=grace,
        uid=preconditions.get("uid") or "",
        version=preconditions.get("resourceVersion") or "",
        dry_run=bool(given.get("dryRun") or query.get("dryRun")),
    )


def _delete_options(call: Call) -> DeleteOptions:
    given = parsed(call.body, call.content_type) if call.body else {}
    return delete_options(given, call.info.query)


def _options(info: RequestInfo) -> WriteOptions:
    if not info.query:
        return _DEFAULT_OPTIONS
    text = info.query.get("fieldValidation") or FieldValidation.WARN.value
    try:
        validation = FieldValidation(text)
    except ValueError as error:
        fault = not_supported("fieldValidation", text, ("", "Ignore", "Strict", "Warn"))
        raise invalid_options(f"{info.verb.capitalize()}Options", fault) from error
    return WriteOptions(dry_run=bool(info.query.get("dryRun")), field_validation=validation)


_DEFAULT_OPTIONS: Final = WriteOptions()


def _object(call: Call) -> Object:
    return parsed(call.body, call.content_type)


def _created(content: object) -> Reply:
    return json_reply(content, HTTPStatus.CREATED)


def _is_review(info: RequestInfo) -> bool:
    return any(
        (info.group, info.resource) == (group, resource)
        for group, resource, _, _ in discovery.REVIEWS
    )


def _path_reply(call: Call) -> Reply:
    """An answer for a path that is not one of a resource."""
    path = call.info.path.rstrip("/") or "/"
    if call.info.verb not in {"get", "list", "head"}:
        raise method_not_allowed()
    if path.split("/")[1] in {"healthz", "livez", "readyz"}:
        return Reply(b"ok", content_type="text/plain")
    aggregates = "apidiscovery.k8s.io;v=v2;" in call.accept
    if path in {"/api", "/apis"} and aggregates:
        content = discovery.aggregated(core=path == "/api")
        return Reply(msgspec.json.encode(content), content_type=discovery.AGGREGATED)
    found = _document(path)
    if found is None:
        raise no_such_path()
    return json_reply(found)


def _document(path: str) -> Object | None:  # noqa: C901, PLR0911, PLR0912 - a table of paths
    match path.strip("/").split("/"):
        case ["version"]:
            return discovery.version_info()
        case [""]:
            return {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz"]}
        case ["api"]:
            return discovery.core_versions()
        case ["apis"]:
            return discovery.group_list()
        case ["api", version]:
            return discovery.resource_list("", version)
        case ["apis", group]:
            return discovery.group_info(group)
        case ["apis", group, version]:
            return discovery.resource_list(group, version)
        case ["openapi", "v2"]:
            return discovery.openapi_v2()
        case ["openapi", "v3"]:
            return discovery.openapi_v3_index()
        case ["openapi", "v3", *rest]:
            return discovery.openapi_v3("/".join(rest))
        case _:
            return None


def error_reply(error: StatusError) -> Reply:
    """The answer to a refused call."""
    return json_reply(error.body(), error.code)

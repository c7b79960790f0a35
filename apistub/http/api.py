"""From a request's parts to an answer's parts, for everything that is not a watch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import msgspec

from apistub.http import discovery, protobuf
from apistub.http.patches import MERGE_PATCH, STRATEGIC_PATCH, merge, merge_strategically
from apistub.http.rendering import Renderer, renderer_for
from apistub.http.requests import RequestInfo
from apistub.rules.binding import bind, evict
from apistub.rules.deletion import DeleteOptions, Deleter
from apistub.rules.registry import Registry, Written
from apistub.storage.kinds import BY_PATH, Kind, Object
from apistub.storage.reading import list_page, selection
from apistub.storage.status import StatusError, about, bad_request, no_such_path, success
from scheduler.clock import Clock

JSON: Final = "application/json"
_HEALTH: Final = ("/healthz", "/livez", "/readyz")


@dataclass(frozen=True, slots=True)
class Call:
    """A request with everything an answer depends on."""

    info: RequestInfo
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON

    @property
    def media_type(self) -> str:
        """The form of the body."""
        return self.content_type.partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer."""

    body: bytes
    status: int = HTTPStatus.OK
    content_type: str = JSON
    warnings: tuple[str, ...] = field(default=())


def json_reply(content: object, status: int = HTTPStatus.OK) -> Reply:
    """An answer with an object."""
    return Reply(msgspec.json.encode(content), status)


class Api:
    """Answers calls."""

    def __init__(self, registry: Registry, deleter: Deleter, clock: Clock) -> None:
        self._registry = registry
        self._deleter = deleter
        self._clock = clock
        self._actions: Mapping[tuple[str, str], Callable[[Kind, Call], Reply]] = {
            ("get", ""): self._get,
            ("list", ""): self._list,
            ("create", ""): self._create,
            ("update", ""): self._update,
            ("patch", ""): self._patch,
            ("delete", ""): self._delete,
            ("get", "status"): self._get,
            ("update", "status"): self._update,
            ("patch", "status"): self._patch,
            ("create", "binding"): self._bind,
            ("create", "eviction"): self._evict,
        }

    def respond(self, call: Call) -> Reply:
        """Carries out a call.

        Raises:
            StatusError: it is refused.
        """
        info = call.info
        if not info.resource:
            return _path_reply(call)
        if info.query.get("dryRun"):
            raise _no_dry_run()
        kind = kind_at(info)
        if info.subresource and info.subresource not in kind.subresources:
            why = f"{info.resource}/{info.subresource} is not served by this stand-in"
            raise StatusError(HTTPStatus.NOT_FOUND, why)
        act = self._actions.get((info.verb, info.subresource))
        if act is None:
            raise StatusError(HTTPStatus.METHOD_NOT_ALLOWED, f"no {info.verb} here")
        return act(kind, call)

    def renderer(self, kind: Kind, call: Call) -> Renderer:
        """How a call wants its answer shown."""
        return renderer_for(kind, call.accept, call.info.query, self._clock.wall)

    def _get(self, kind: Kind, call: Call) -> Reply:
        return Reply(self.renderer(kind, call).one(self._registry.get(kind, call.info.key)))

    def _list(self, kind: Kind, call: Call) -> Reply:
        info = call.info
        wanted = selection(kind, info.namespace, info.query)
        page = list_page(self._registry.store, kind, wanted, info.query)
        return Reply(self.renderer(kind, call).many(page))

    def _create(self, kind: Kind, call: Call) -> Reply:
        given = given_object(call)
        written = self._registry.create(kind, call.info.namespace, given)
        return self._written(kind, call, written)

    def _update(self, kind: Kind, call: Call) -> Reply:
        info = call.info
        written = self._registry.update(kind, info.key, given_object(call), info.subresource)
        return self._written(kind, call, written)

    def _patch(self, kind: Kind, call: Call) -> Reply:
        merging = {MERGE_PATCH: merge, STRATEGIC_PATCH: merge_strategically}.get(call.media_type)
        if merging is None:
            raise StatusError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"{call.media_type} is not served by this stand-in, only merge patches of both "
                "kinds are",
            )
        patch = _json(call.body)
        written = self._registry.transform(
            kind,
            call.info.key,
            lambda document: merging(document, patch),
            call.info.subresource,
        )
        return self._written(kind, call, written)

    def _written(self, kind: Kind, call: Call, written: Written) -> Reply:
        status = HTTPStatus.CREATED if written.created else HTTPStatus.OK
        body = self.renderer(kind, call).one(written.entry)
        return Reply(body, status, warnings=written.warnings)

    def _delete(self, kind: Kind, call: Call) -> Reply:
        deleted = self._deleter.delete(kind, call.info.key, _delete_options(call))
        if not deleted.gone:
            return Reply(self.renderer(kind, call).one(deleted.entry))
        return json_reply(success({**about(kind, call.info.name), "uid": deleted.entry.uid}))

    def _bind(self, _kind: Kind, call: Call) -> Reply:
        bind(self._registry, call.info.key, given_object(call))
        return json_reply(success(code=HTTPStatus.CREATED), HTTPStatus.CREATED)

    def _evict(self, _kind: Kind, call: Call) -> Reply:
        options = _delete_options(call, given_object(call).get("deleteOptions") or {})
        evict(self._registry, self._deleter, call.info.key, options)
        return json_reply(success(code=HTTPStatus.CREATED), HTTPStatus.CREATED)


def kind_at(info: RequestInfo) -> Kind:
    """The kind a path names.

    Raises:
        StatusError: 404, there is none, or it has a namespace where the path has not.
    """
    kind = BY_PATH.get((info.group, info.resource))
    if kind is None or (not kind.namespaced and info.namespace):
        raise no_such_path()
    if info.name and kind.namespaced and not info.namespace:
        raise no_such_path()
    return kind


def given_object(call: Call) -> Object:
    """The object in a body.

    Raises:
        StatusError: 415 for a form that is not read, 400 for a body that is no object.
    """
    if call.media_type in {"", "*/*", JSON}:
        return _json(call.body)
    if call.media_type == protobuf.MEDIA_TYPE:
        return protobuf.decode(call.body)
    raise StatusError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{call.media_type}: expected {JSON}")


def _json(body: bytes) -> Object:
    try:
        content = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the body cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise bad_request("the body is not an object")
    return content


def _delete_options(call: Call, given: Object | None = None) -> DeleteOptions:
    if given is None:
        given = given_object(call) if call.body else {}
    if given.get("dryRun"):
        raise _no_dry_run()
    preconditions = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds", call.info.query.get("gracePeriodSeconds"))
    return DeleteOptions(
        grace_seconds=None if grace is None else int(grace),
        uid=preconditions.get("uid") or "",
    )


def _no_dry_run() -> StatusError:
    return bad_request("this stand-in does no dry runs")


def _path_reply(call: Call) -> Reply:
    """An answer for a path that is not one of a resource."""
    path = call.info.path.rstrip("/")
    if path.startswith(_HEALTH):
        return Reply(b"ok", content_type="text/plain")
    found = discovery.document(path)
    if found is None:
        raise no_such_path()
    return json_reply(found)

"""Errors of requests to the API server, one class for each reaction of the caller.

SchedulerError
├── ConnectionConfigError        kubeconfig, certificate or exec plugin is wrong: tell the user
└── RequestError                 its `is_certain` is False for ConflictError and UnavailableError
    ├── FencedError              another instance may hold the lease: nothing was sent
    ├── NotSentError             the attempt was cancelled while the request waited for its turn
    └── ApiError                 the server refused the request, or did not answer
        ├── InvalidError         400, 405, 415, 422…: the same request will fail again
        ├── UnauthorizedError    401: credentials must be renewed
        ├── ForbiddenError       403: a right is missing
        ├── NotFoundError        404
        ├── ConflictError        409: the object is not as the caller thought
        ├── GoneError            410: the version is too old; list again
        ├── TooManyRequestsError 429: later, after `retry_after_seconds`
        └── UnavailableError     5xx, time-outs, broken connections: later
            └── TooLargeError    the answer is longer than the limit
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.daemon.client.wire import UNREADABLE
from scheduler.errors import RequestError, SchedulerError

MESSAGE_LIMIT: Final = 256
"""Characters at most of a server's message in a log or an event."""

MAX_RETRY_AFTER_SECONDS: Final = 10.0
"""The longest Retry-After that the client obeys.

While one kind is not watched, the scheduler decides on stale objects.
"""

_GONE: Final = 410
_SERVER_ERRORS: Final = 500


class ConnectionConfigError(SchedulerError):
    """The connection settings are wrong; the message names file and cause."""


class FencedError(RequestError):
    """The write was not sent because another instance may hold the lease already."""


class NotSentError(RequestError):
    """The request was not sent: its attempt was cancelled before its first request."""


class ApiError(RequestError):
    """The server refused a request, or did not answer.

    Attributes:
        reason: the machine-readable reason of the answer (`AlreadyExists`), or empty.
        message: the server's message, cut to 256 characters.
        retry_after_seconds: the pause that the server requests, or None.
    """

    def __init__(
        self,
        request: str,
        *,
        status: int = 0,
        reason: str = "",
        message: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        told = " ".join(part for part in (str(status or ""), reason) if part)
        super().__init__(": ".join(part for part in (request, told, message) if part))


class InvalidError(ApiError):
    """The request is invalid: the server will refuse it each time."""


class UnauthorizedError(ApiError):
    """The server does not accept the credentials."""


class ForbiddenError(ApiError):
    """The server accepts the credentials, but the user may not send the request."""


class NotFoundError(ApiError):
    """The object, or the whole resource, does not exist."""


class ConflictError(ApiError):
    """A precondition failed, or the object exists already."""

    is_certain = False


class GoneError(ApiError):
    """The requested version, or the continue token, has expired."""


class TooManyRequestsError(ApiError):
    """The server is overloaded: send the request again after `retry_after_seconds`."""


class UnavailableError(ApiError):
    """The server did not answer, or reports a failure of its own."""

    is_certain = False


class TooLargeError(UnavailableError):
    """The answer is longer than the limit; request fewer objects."""


class _Details(msgspec.Struct, rename="camel", gc=False):
    retry_after_seconds: float = 0


class ApiStatus(msgspec.Struct, rename="camel", gc=False):
    """metav1.Status, the body of all errors of the API server.

    Source: k8s.io/apimachinery pkg/apis/meta/v1/types.go (Status) v0.36.
    """

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_decoder: Final = msgspec.json.Decoder(ApiStatus)
_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    408: UnavailableError,
    409: ConflictError,
    410: GoneError,
    429: TooManyRequestsError,
}


def error_from_response(
    request: str, status: int, headers: Mapping[str, str], body: bytes
) -> ApiError:
    """Return the error for an HTTP answer other than success.

    Args:
        request: the request, for the message: `POST /api/v1/...`.
        status: the HTTP status.
        headers: the headers of the answer, by lower-case name.
        body: the body of the answer; a text that is no Status becomes the message.
    """
    told = status_from_body(body)
    return _error(request, status, told, _retry_after(headers, told))


def error_from_event(request: str, body: bytes) -> ApiError:
    """Return the error for the object of a watch event of type ERROR."""
    told = status_from_body(body)
    return _error(request, told.code or _SERVER_ERRORS, told, _retry_after({}, told))


def status_from_body(body: bytes) -> ApiStatus:
    """Return the Status in a body; for another body, a Status with its text as message."""
    try:
        return _decoder.decode(body)
    except UNREADABLE:
        return ApiStatus(message=" ".join(body.decode(errors="replace").split()))


def _error(request: str, status: int, told: ApiStatus, retry_after: float | None) -> ApiError:
    kind = _BY_STATUS.get(status)
    if kind is None:
        kind = UnavailableError if status >= _SERVER_ERRORS else InvalidError
    if told.reason in {"Expired", "Gone"}:
        kind, status = GoneError, _GONE
    return kind(
        request,
        status=status,
        reason=told.reason,
        message=cut(told.message),
        retry_after_seconds=retry_after,
    )


def cut(text: str) -> str:
    """Cut a server's text to `MESSAGE_LIMIT` characters."""
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


def cause_of(problem: OSError) -> str:
    """Return the words of the system for an error, or its name: a reset has no words in uvloop."""
    return problem.strerror or str(problem) or type(problem).__name__


def _retry_after(headers: Mapping[str, str], told: ApiStatus) -> float | None:
    """Return the seconds of Retry-After; API servers do not use its date form, which is ignored."""
    header = headers.get("retry-after", "")
    seconds = told.details.retry_after_seconds if told.details is not None else 0.0
    if header.isascii() and header.isdigit():
        seconds = float(header)
    elif seconds <= 0:
        return None
    return min(seconds, MAX_RETRY_AFTER_SECONDS)

"""Answers that are not a success: `Status` objects with Kubernetes' codes, reasons and texts.

Source: k8s.io/apimachinery pkg/api/errors (the New... constructors).
"""

from http import HTTPStatus
from typing import Final

from scheduler.sandbox.errors import SandboxError
from scheduler.sandbox.field_errors import FieldError, joined

SERVER_ERROR: Final = 500
MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class StatusError(SandboxError):
    """A request that is refused.

    Args:
        code: the HTTP status.
        reason: Kubernetes' machine-readable reason, "" when it has none.
        message: the sentence a user reads.
        details: what `status.details` holds.
    """

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def retry_after_seconds(self) -> int | None:
        """What the `Retry-After` header says, if anything."""
        value = (self.details or {}).get("retryAfterSeconds")
        return value if isinstance(value, int) and value else None

    def body(self) -> dict[str, object]:
        """The `Status` object for this answer."""
        body: dict[str, object] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def success(details: dict[str, object] | None = None, code: int | None = None) -> dict[str, object]:
    """The `Status` object that reports a success without an object to show."""
    body: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }
    if details:
        body["details"] = details
    if code is not None:
        body["code"] = code
    return body


def qualified(resource: str, group: str) -> str:
    """A resource or kind with its group, as messages name it."""
    return f"{resource}.{group}" if group else resource


def _details(resource: str, group: str, name: str) -> dict[str, object]:
    details: dict[str, object] = {"name": name, "group": group, "kind": resource}
    return {key: value for key, value in details.items() if value}


def not_found(resource: str, group: str, name: str) -> StatusError:
    """No object of that name."""
    return StatusError(
        HTTPStatus.NOT_FOUND,
        "NotFound",
        f'{qualified(resource, group)} "{name}" not found',
        _details(resource, group, name),
    )


def no_such_path() -> StatusError:
    """Nothing is served under that path."""
    return StatusError(
        HTTPStatus.NOT_FOUND, "NotFound", "the server could not find the requested resource", {}
    )


def already_exists(resource: str, group: str, name: str) -> StatusError:
    """An object of that name is there."""
    return StatusError(
        HTTPStatus.CONFLICT,
        "AlreadyExists",
        f'{qualified(resource, group)} "{name}" already exists',
        _details(resource, group, name),
    )


def conflict(resource: str, group: str, name: str, why: str = MODIFIED) -> StatusError:
    """The write is based on a state that no longer holds."""
    return StatusError(
        HTTPStatus.CONFLICT,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}',
        _details(resource, group, name),
    )


def invalid(kind: str, group: str, name: str, errors: list[FieldError]) -> StatusError:
    """The object breaks rules, each listed as a cause."""
    details = _details(kind, group, name)
    details["causes"] = [error.cause() for error in errors]
    message = f'{qualified(kind, group)} "{name}" is invalid: {joined(errors)}'
    return StatusError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, details)


def bad_request(message: str) -> StatusError:
    """The request cannot be understood."""
    return StatusError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def forbidden(resource: str, group: str, name: str, why: str) -> StatusError:
    """Admission or authorization says no."""
    subject = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
    return StatusError(
        HTTPStatus.FORBIDDEN,
        "Forbidden",
        f"{subject} is forbidden: {why}",
        _details(resource, group, name),
    )


def unauthorized() -> StatusError:
    """No or unknown credentials."""
    return StatusError(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")


def invalid_options(kind: str, error: FieldError) -> StatusError:
    """The parameters of a request contradict each other; kind is that of the options."""
    return invalid(kind, "meta.k8s.io", "", [error])


def expired(message: str) -> StatusError:
    """The asked-for version of the world is no longer kept."""
    return StatusError(HTTPStatus.GONE, "Expired", message)


def too_old_resource_version(asked: int, oldest: int) -> StatusError:
    """A watch wants to resume before the first change still remembered."""
    return expired(f"too old resource version: {asked} ({oldest})")


def too_large_resource_version(asked: int, current: int) -> StatusError:
    """A read wants a version that has not happened yet."""
    message = f"Too large resource version: {asked}, current: {current}"
    details: dict[str, object] = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return StatusError(HTTPStatus.GATEWAY_TIMEOUT, "Timeout", f"Timeout: {message}", details)


def too_many_requests(
    message: str, retry_after_seconds: int = 0, causes: list[dict[str, str]] | None = None
) -> StatusError:
    """The client must try again later."""
    details: dict[str, object] = {}
    if causes:
        details["causes"] = causes
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return StatusError(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests", message, details)


def method_not_allowed() -> StatusError:
    """The resource exists and does not know this verb."""
    return StatusError(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    )


def no_containers(subresource: str) -> StatusError:
    """The request is for a running container, and the sandbox runs none."""
    message = f"pods/{subresource}: this is Stowage's sandbox, in which no container runs"
    return StatusError(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", message, {})


def unsupported_media_type(supported: str) -> StatusError:
    """The body comes in a form that is not understood."""
    return StatusError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: "
        f"{supported}",
    )


def unprocessable(message: str) -> StatusError:
    """A patch that does not apply."""
    return StatusError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, {})


def internal(message: str) -> StatusError:
    """Our own mistake, or one a test asked for."""
    return StatusError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "InternalError",
        f"Internal error occurred: {message}",
        {"causes": [{"message": message}]},
    )


_GENERIC_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.GONE: "Expired",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
    HTTPStatus.GATEWAY_TIMEOUT: "Timeout",
}


def generic(code: int, message: str = "", retry_after_seconds: int = 0) -> StatusError:
    """An answer of any code, with the reason that usually goes with it."""
    details: dict[str, object] | None = None
    if retry_after_seconds:
        details = {"retryAfterSeconds": retry_after_seconds}
    status = HTTPStatus(code)
    text = message or f"the sandbox was told to answer {status.value} {status.phrase}"
    return StatusError(code, _GENERIC_REASONS.get(status, ""), text, details)

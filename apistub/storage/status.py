"""Answers that are not a success: `Status` objects with Kubernetes' codes and reasons.

Source: k8s.io/apimachinery pkg/apis/meta/v1 (Status, StatusReason). The texts are ours.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, NamedTuple

from apistub.storage.kinds import Kind

_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.GONE: "Expired",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "UnsupportedMediaType",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
    HTTPStatus.GATEWAY_TIMEOUT: "Timeout",
}
CHANGED: Final = "it was changed meanwhile"


class Fault(NamedTuple):
    """What is wrong with one field."""

    field: str
    """The path, such as `spec.containers[0].name`."""
    text: str


class StatusError(Exception):
    """A request that is refused.

    Args:
        code: the HTTP status.
        message: what a user reads.
        details: what `status.details` holds.
        reason: Kubernetes' word for it; the usual one of the code unless given.
    """

    def __init__(
        self,
        code: int,
        message: str,
        details: dict[str, object] | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = _REASONS.get(HTTPStatus(code), "") if reason is None else reason
        self.message = message
        self.details = details or {}

    def body(self) -> dict[str, object]:
        """The `Status` object for this answer."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


def success(details: dict[str, object] | None = None, code: int = 200) -> dict[str, object]:
    """The `Status` object that reports a success without an object to show."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details or {},
        "code": code,
    }


def about(kind: Kind, name: str) -> dict[str, object]:
    """What `details` say of an object."""
    details: dict[str, object] = {"name": name, "kind": kind.resource}
    return details | ({"group": kind.group} if kind.group else {})


def not_found(kind: Kind, name: str) -> StatusError:
    """No object of that name."""
    return StatusError(404, f'{kind.key} "{name}" not found', about(kind, name))


def no_such_path() -> StatusError:
    """Nothing is served under that path."""
    return StatusError(404, "nothing is served at this path")


def already_exists(kind: Kind, name: str) -> StatusError:
    """An object of that name is there."""
    text = f'{kind.key} "{name}" already exists'
    return StatusError(409, text, about(kind, name), "AlreadyExists")


def conflict(kind: Kind, name: str, why: str = CHANGED) -> StatusError:
    """The write is based on a state that no longer holds."""
    return StatusError(409, f'{kind.key} "{name}": {why}', about(kind, name))


def invalid(kind: Kind, name: str, faults: Iterable[Fault]) -> StatusError:
    """The object breaks rules, each listed as a cause."""
    found = list(faults)
    causes = [
        {"reason": "FieldValueInvalid", "message": fault.text, "field": fault.field}
        for fault in found
    ]
    text = "; ".join(f"{fault.field}: {fault.text}" for fault in found)
    return StatusError(422, f'{kind.key} "{name}": {text}', {**about(kind, name), "causes": causes})


def bad_request(message: str) -> StatusError:
    """The request cannot be understood."""
    return StatusError(400, message)


def forbidden(kind: Kind, name: str, why: str) -> StatusError:
    """Admission says no."""
    return StatusError(403, f'{kind.key} "{name}": {why}', about(kind, name))


def expired(message: str) -> StatusError:
    """The asked-for version of the world is no longer kept."""
    return StatusError(410, message)

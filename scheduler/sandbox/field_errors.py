"""What is wrong with one field, in the words an API server uses for it.

Source: k8s.io/apimachinery pkg/util/validation/field (Error, ErrorList).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from typing_extensions import override


@dataclass(frozen=True, slots=True)
class FieldError:
    """One refused field."""

    reason: str
    """The machine-readable cause, such as `FieldValueInvalid`."""
    field: str
    """The path, such as `spec.containers[0].name`."""
    body: str
    """The sentence without the path."""

    @override
    def __str__(self) -> str:
        return f"{self.field}: {self.body}"

    def cause(self) -> dict[str, str]:
        """The error as an entry of `details.causes`."""
        return {"reason": self.reason, "message": self.body, "field": self.field}


def required(field: str, detail: str = "") -> FieldError:
    """The field must be given."""
    return FieldError("FieldValueRequired", field, _with_detail("Required value", detail))


def invalid(field: str, value: object, detail: str = "") -> FieldError:
    """The field's value breaks a rule."""
    body = f"Invalid value: {_shown(value)}"
    return FieldError("FieldValueInvalid", field, _with_detail(body, detail))


def not_supported(field: str, value: object, supported: Iterable[str]) -> FieldError:
    """The field's value is not one of a closed list."""
    choices = ", ".join(f'"{choice}"' for choice in supported)
    body = f"Unsupported value: {_shown(value)}: supported values: {choices}"
    return FieldError("FieldValueNotSupported", field, body)


def duplicate(field: str, value: object) -> FieldError:
    """The value occurs twice where it must be unique."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {_shown(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    """The field may not be set, or not be changed."""
    return FieldError("FieldValueForbidden", field, _with_detail("Forbidden", detail))


def not_found(field: str, value: object) -> FieldError:
    """The value names something that is not there."""
    return FieldError("FieldValueNotFound", field, f"Not found: {_shown(value)}")


def too_long(field: str, limit: int) -> FieldError:
    """The value exceeds a number of bytes."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def joined(errors: list[FieldError]) -> str:
    """All errors as one text: bare when there is one, else a list in brackets."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if value is None:
        return "null"
    return msgspec.json.encode(value).decode()


def _with_detail(body: str, detail: str) -> str:
    return f"{body}: {detail}" if detail else body

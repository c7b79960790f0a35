"""Decodes custom resources from their bytes, so that one malformed object affects no other.

Size and nesting are checked before decoding. An object with an unreadable spec is returned with its
name, its status, and the reason.
"""

from typing import Any, Final, TypeVar

import msgspec

from scheduler.daemon.client.errors import cut
from scheduler.operator.raw_json import RawJson
from scheduler.operator.resources import (
    Json,
    Metadata,
    Scheduler,
    SchedulerSpec,
    SchedulingProfile,
)

MAX_PROFILE_BYTES: Final = 32 * 1024
"""Bytes at most of the spec of a SchedulingProfile."""
MAX_SCHEDULER_BYTES: Final = 1024 * 1024
"""Bytes at most of the spec of a Scheduler; a ConfigMap holds no more."""
MAX_STATUS_BYTES: Final = 1024 * 1024
"""Bytes at most of a status. The operator writes less."""
MAX_DEPTH: Final = 64
"""Nesting at most of a spec; writing YAML takes several stack frames for each level."""

_SPECS: Final[dict[type[Scheduler | SchedulingProfile], tuple[Any, int]]] = {
    SchedulingProfile: (Json, MAX_PROFILE_BYTES),
    Scheduler: (SchedulerSpec, MAX_SCHEDULER_BYTES),
}
"""The type of each kind's spec, and its limit in bytes."""

ResourceT = TypeVar("ResourceT", Scheduler, SchedulingProfile)


class UnreadableError(ValueError):
    """A part of an object cannot be read."""


def read_object(raw: RawJson, kind: type[ResourceT]) -> ResourceT:
    """Decode a custom resource; `unreadable` holds the error of its spec.

    Raises:
        UnreadableError: the object has no name.
    """
    fields = raw.fields()
    if "metadata" not in fields:
        raise UnreadableError("expected an object with metadata")
    # Without managedFields, which are as deep as the spec and precede the name.
    metadata = _decoded(fields["metadata"].only(Metadata.__struct_encode_fields__), Metadata)
    made = kind(metadata=metadata, status=_status(fields.get("status")))
    spec = fields.get("spec")
    if spec is None:
        return made
    wanted, max_bytes = _SPECS[kind]
    try:
        _check(spec, max_bytes)
        return msgspec.structs.replace(made, spec=_decoded(spec.raw, wanted))
    except UnreadableError as problem:
        return msgspec.structs.replace(made, unreadable=str(problem))


def _status(raw: RawJson | None) -> Json:
    """Decode a status; an unreadable status counts as empty and is overwritten."""
    if raw is None:
        return {}
    try:
        # The status contains the spec in force, one level deeper.
        _check(raw, MAX_STATUS_BYTES, MAX_DEPTH + 1)
        found: Json = _decoded(raw.raw, Json)
    except UnreadableError:
        return {}
    return found


def _check(raw: RawJson, max_bytes: int, max_depth: int = MAX_DEPTH) -> None:
    if len(raw.raw) > max_bytes:
        raise UnreadableError(f"expected at most {max_bytes} bytes, got {len(raw.raw)}")
    if raw.depth > max_depth:
        message = f"expected at most {max_depth} levels of nesting, got {raw.depth}"
        raise UnreadableError(message)


def _decoded(raw: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (ValueError, RecursionError) as problem:
        raise UnreadableError(cut(str(problem))) from problem

"""Reads the API server's audit log."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec


class User(msgspec.Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class ObjectReference(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""


class ResponseStatus(msgspec.Struct, frozen=True):
    code: int = 0


class AuditEvent(msgspec.Struct, frozen=True, rename="camel"):
    """One completed request in the audit log; timestamps are RFC 3339 with microseconds."""

    stage: str
    verb: str
    user: User
    request_received_timestamp: str
    stage_timestamp: str
    request_uri: str = msgspec.field(name="requestURI", default="")
    object_ref: ObjectReference = ObjectReference()
    response_status: ResponseStatus = ResponseStatus()
    request_object: msgspec.Raw = msgspec.Raw(b"null")
    """Request body, if the audit level is Request or RequestResponse."""
    response_object: msgspec.Raw = msgspec.Raw(b"null")
    """Response body, if the audit level is RequestResponse."""

    @property
    def code(self) -> int:
        return self.response_status.code

    @property
    def resource(self) -> str:
        """Resource and subresource in RBAC notation, such as ``pods/binding``."""
        return "/".join(filter(None, (self.object_ref.resource, self.object_ref.subresource)))

    def is_binding(self) -> bool:
        """Report whether the request creates a pod binding."""
        return (
            self.verb == "create"
            and self.object_ref.resource == "pods"
            and self.object_ref.subresource == "binding"
        )


_START: Final = b'{"kind":"Event","apiVersion":"audit.k8s.io/'


def read_audit_log(path: Path) -> Iterator[AuditEvent]:
    """Yield the completed requests in ``path``, in the order of their responses.

    The API server rotates the log by size; rotated files carry a timestamp in their name.
    """
    decoder = msgspec.json.Decoder(AuditEvent)
    parts = sorted(path.parent.glob(f"{path.stem}-*{path.suffix}"))
    for part in [*parts, path]:
        with part.open("rb") as lines:
            for line in lines:
                # The last line may be incomplete while the API server writes it.
                if line.endswith(b"\n"):
                    # A server that is killed leaves a line cut off; the next one continues it.
                    event = decoder.decode(line[max(0, line.rfind(_START)) :])
                    if event.stage == "ResponseComplete":
                        yield event

"""Reads the API server's audit log: who asked what, and what came of it."""

from collections.abc import Iterator
from pathlib import Path

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
    """One request the API server has answered; times are RFC 3339 with microseconds."""

    stage: str
    verb: str
    user: User
    request_received_timestamp: str
    stage_timestamp: str
    request_uri: str = msgspec.field(name="requestURI", default="")
    object_ref: ObjectReference = ObjectReference()
    response_status: ResponseStatus = ResponseStatus()
    request_object: msgspec.Raw = msgspec.Raw(b"null")
    """What was sent, where the policy's level has it."""
    response_object: msgspec.Raw = msgspec.Raw(b"null")
    """What was answered, where the policy's level has it."""

    @property
    def code(self) -> int:
        return self.response_status.code

    @property
    def resource(self) -> str:
        """The resource as RBAC writes it, with its subresource."""
        return "/".join(filter(None, (self.object_ref.resource, self.object_ref.subresource)))

    def is_binding(self) -> bool:
        """Tells whether it asked to bind a pod."""
        return (
            self.verb == "create"
            and self.object_ref.resource == "pods"
            and self.object_ref.subresource == "binding"
        )


def read_audit_log(path: Path) -> Iterator[AuditEvent]:
    """Yields the answered requests in ``path``, in the order in which they were answered.

    The API server turns the log over by size; older parts lie beside it with a time in their name.
    """
    decoder = msgspec.json.Decoder(AuditEvent)
    parts = sorted(path.parent.glob(f"{path.stem}-*{path.suffix}"))
    for part in [*parts, path]:
        with part.open("rb") as lines:
            for line in lines:
                # The last line may still be on its way to the file.
                if line.endswith(b"\n"):
                    event = decoder.decode(line)
                    if event.stage == "ResponseComplete":
                        yield event

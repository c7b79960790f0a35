"""An audit log as an API server might have written it."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from e2e.chaos.load import NAMESPACE
from e2e.support.audit import AuditEvent, ObjectReference, ResponseStatus, User

BEGIN = 1000.0


class AuditLog:
    """Requests that were answered, one a second unless told otherwise.

    Attributes:
        events: what was written.
        now: the time of the last request, in seconds since 1970.
    """

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []
        self.now = BEGIN

    def add(
        self,
        user: str,
        verb: str,
        resource: str,
        name: str,
        *,
        namespace: str = NAMESPACE,
        sent: Any = None,
        answered: Any = None,
        code: int = 200,
    ) -> None:
        self.now += 1
        stamp = datetime.fromtimestamp(self.now, UTC).isoformat()
        kind, _, subresource = resource.partition("/")
        self.events.append(
            AuditEvent(
                stage="ResponseComplete",
                verb=verb,
                user=User(user),
                request_received_timestamp=stamp,
                stage_timestamp=stamp,
                object_ref=ObjectReference(kind, subresource, namespace, name),
                response_status=ResponseStatus(code),
                request_object=msgspec.Raw(msgspec.json.encode(sent)),
                response_object=msgspec.Raw(msgspec.json.encode(answered)),
            )
        )

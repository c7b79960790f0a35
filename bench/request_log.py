"""Times of creations, bindings and events, from the API server's audit log.

The audit log costs the API server the same for every contestant, and is read after the run. A watch
would be less fair: each additional encoding of a watch is extra work for the API server.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from e2e.support.audit import AuditEvent

_CREATED = 201


class RequestLog:
    """Reads the audit log of a running API server incrementally.

    Attributes:
        created: response times of pod creations by name, in seconds of wall time.
        bound: response times of bindings by pod name.
        event_created: response times of event creations by event name.
        deleted: response times of pod deletions by name, which include evictions.
        refused: rejected bindings by HTTP status.
    """

    def __init__(self, path: Path) -> None:
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self.event_created: dict[str, float] = {}
        self.deleted: dict[str, float] = {}
        self.refused: Counter[int] = Counter()
        self._path = path
        self._offset = 0
        self._decoder = msgspec.json.Decoder(AuditEvent)

    def read(self) -> None:
        """Read the lines written since the last call."""
        for event in self._new_events():
            if event.stage != "ResponseComplete":
                continue
            if event.is_binding():
                self._take_binding(event)
            elif event.verb == "delete":
                self.deleted.setdefault(event.object_ref.name, _seconds(event.stage_timestamp))
            elif event.code == _CREATED and event.object_ref.resource == "events":
                self.event_created[event.object_ref.name] = _seconds(event.stage_timestamp)
            elif event.code == _CREATED and not event.object_ref.subresource:
                self.created[event.object_ref.name] = _seconds(event.stage_timestamp)

    def _take_binding(self, event: AuditEvent) -> None:
        if event.code == _CREATED:
            self.bound[event.object_ref.name] = _seconds(event.stage_timestamp)
        else:
            self.refused[event.code] += 1

    def _new_events(self) -> Iterator[AuditEvent]:
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                # The last line may be incomplete while the API server writes it.
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield self._decoder.decode(line)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()

"""When pods were created, bound and told of, as the API server itself wrote it down.

The audit log costs the API server the same whoever schedules, and costs a reader nothing while
nobody reads. A watch would not do: each watch in another encoding is work for the API server that
its neighbours may or may not share.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from e2e.support.audit import AuditEvent

_CREATED = 201


class RequestLog:
    """Reads the audit log of a running API server, further each time.

    Attributes:
        created: when the API server answered the creation of a pod, by name; seconds of wall time.
        bound: when it answered the binding of a pod, by name.
        told: when it answered the creation of an event, by the event's name.
        deleted: when it answered the deletion of a pod, by name: evictions are part of the work.
        refused: how many bindings it refused, by HTTP status.
    """

    def __init__(self, path: Path) -> None:
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self.told: dict[str, float] = {}
        self.deleted: dict[str, float] = {}
        self.refused: Counter[int] = Counter()
        self._path = path
        self._offset = 0
        self._decoder = msgspec.json.Decoder(AuditEvent)

    def read(self) -> None:
        """Takes in what has been written since the last call."""
        for event in self._new_events():
            if event.stage != "ResponseComplete":
                continue
            if event.is_binding():
                self._take_binding(event)
            elif event.verb == "delete":
                self.deleted.setdefault(event.object_ref.name, _seconds(event.stage_timestamp))
            elif event.code == _CREATED and event.object_ref.resource == "events":
                self.told[event.object_ref.name] = _seconds(event.stage_timestamp)
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
                # The last line may still be on its way to the file.
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield self._decoder.decode(line)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()

"""Records the last minutes of an engine in bounded memory.

The recorder keeps the events, most of whose objects the engine holds too, and encodes them only on
request. Of older events it keeps only the objects, in their state at the oldest kept event.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from scheduler.api.memory import estimated_bytes
from scheduler.api.objects import NO_ANNOTATIONS
from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo, PodKind
from scheduler.daemon.recording.files import whole_file
from scheduler.daemon.recording.records import Header, Writer
from scheduler.kernel.engine.events import (
    Answered,
    Configure,
    Event,
    ObjectGone,
    ObjectRead,
    ObjectSet,
    PodRead,
    Tick,
)
from scheduler.kernel.engine.instructions import Configured, Instruction
from scheduler.kernel.extender import Answer, Filtered, NoAnswer, Preempted, Prioritized
from scheduler.kernel.framework.runtime.shared_states import place_of

KEPT_SECONDS: Final = 300.0
KEPT_BYTES: Final = 32 << 20

_EVENT_BYTES: Final = 160
_POD_BYTES: Final = 1200
"""A pod without its kind, which pods share."""
_INSTRUCTION_BYTES: Final = 500
_NAME_BYTES: Final = 80
"""Estimated size of a node's name, a reason or a score in an extender's answer."""
_SHARE_AT_ONCE: Final = 64
"""One in `_SHARE_AT_ONCE` of the bytes is dropped at once when there are too many."""

_Key: TypeAlias = str | tuple[str, str, str]
"""The key of an object."""


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """An event, its time, the engine's answer, and the estimated size of all in bytes.

    The size is without the kind of a pod: entries with pods of one kind share it.

    The garbage collector does not track entries: it took 100 ms per collection for tens of
    thousands of tuples with lists.
    """

    event: Event
    now: float
    instructions: tuple[Instruction, ...]
    size: int


class FlightRecorder:
    """Keeps the latest events.

    Args:
        header: the header of a recording from the start.
        kept_seconds: time for which events are kept.
        kept_bytes: estimated bytes to keep at most.
    """

    def __init__(
        self,
        header: Header,
        *,
        kept_seconds: float = KEPT_SECONDS,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._header = header
        self._kept_seconds = kept_seconds
        self._kept_bytes = kept_bytes
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._holders: dict[PodKind | PodShape, int] = {}
        """Number of entries that hold a kind, and of these kinds that hold a shape."""
        self._before: dict[_Key, Any] = {}
        """The objects before the oldest entry."""
        self._begins_at = header.clock
        self._is_complete = True

    def note(self, event: Event, now: float, instructions: Sequence[Instruction]) -> None:
        """See `scheduler.daemon.driver.driver.EventLog`."""
        size = _EVENT_BYTES + len(instructions) * _INSTRUCTION_BYTES
        if type(event) is ObjectSet or type(event) is ObjectRead:
            size += self._hold(event.object)
        elif type(event) is PodRead:
            size += self._hold(event.pod)
        elif type(event) is Answered:
            size += _named(event.answer) * _NAME_BYTES
        self._entries.append(_Entry(event, now, tuple(instructions), size))
        self._bytes += size
        if self._bytes > self._kept_bytes or type(event) is Tick:
            self._forget(now)

    def _hold(self, obj: Any) -> int:
        """Return the estimated memory of an object; what pods share counts apart, and once."""
        if type(obj) is not PodInfo:
            return estimated_bytes(obj)
        kind, wire, holders = obj.kind, obj.pod, self._holders
        count = holders.get(kind, 0)
        holders[kind] = count + 1
        if not count:
            shape = kind.shape
            kinds = holders.get(shape, 0)
            holders[shape] = kinds + 1
            self._bytes += kind.size if kinds else kind.size + shape.size
        annotations = wire.metadata.annotations
        if wire.volumes or wire.resource_claims or annotations is not NO_ANNOTATIONS:
            return _POD_BYTES + estimated_bytes((wire.volumes, wire.resource_claims, annotations))
        return _POD_BYTES

    def _release(self, obj: Any) -> int:
        """Return the bytes that pods share no more without this one."""
        if type(obj) is not PodInfo:
            return 0
        kind, holders = obj.kind, self._holders
        count = holders[kind] = holders[kind] - 1
        if count:
            return 0
        del holders[kind]
        shape = kind.shape
        kinds = holders[shape] = holders[shape] - 1
        if kinds:
            return kind.size
        del holders[shape]
        return kind.size + shape.size

    def _forget(self, now: float) -> None:
        """Drop old entries, and, above the limit of bytes, some more, so that drops are rare."""
        entries, before = self._entries, self._before
        oldest = now - self._kept_seconds
        size = self._bytes
        most = self._kept_bytes
        if size > most:
            most -= most // _SHARE_AT_ONCE
        while entries and (size > most or entries[0].now < oldest):
            entry = entries.popleft()
            event, self._begins_at = entry.event, entry.now
            size -= entry.size
            self._is_complete = False
            if type(event) is ObjectSet:
                size -= self._release(event.object)
                before[_key_of(event)] = event.object
            elif type(event) is ObjectGone:
                before.pop(_key_of(event), None)
            elif type(event) is ObjectRead:
                size -= self._release(event.object)
            elif type(event) is PodRead:
                size -= self._release(event.pod)
            elif type(event) is Configure and Configured() in entry.instructions:
                self._header = replace(self._header, configuration=event.configuration)
        self._bytes = size

    def dump(self) -> bytes:
        """Encode the kept events as a file. May run in another thread on a `copy`."""
        header = replace(self._header, is_complete=self._is_complete)
        writer = Writer()
        lines = bytearray()
        for key, obj in self._before.items():
            kind = "pods" if isinstance(key, str) else key[0]
            writer.write(lines, ObjectSet(kind, obj), self._begins_at, ())
        for entry in self._entries:
            writer.write(lines, entry.event, entry.now, entry.instructions)
        return whole_file(header, lines)

    def copy(self) -> "FlightRecorder":
        """Return a copy that no longer changes."""
        still = FlightRecorder(self._header)
        still._entries = self._entries.copy()
        still._before = self._before.copy()
        still._begins_at = self._begins_at
        still._is_complete = self._is_complete
        return still


def _named(answer: Answer) -> int:
    """Count the nodes or pods that an extender's answer names."""
    match answer:
        case Filtered(nodes, failed, unresolvable):
            return len(nodes) + len(failed) + len(unresolvable)
        case Prioritized(scores):
            return len(scores)
        case Preempted(victims):
            return sum(1 + len(each.uids) for each in victims.values())
        case NoAnswer():
            return 1


def _key_of(event: ObjectSet | ObjectGone) -> _Key:
    """Return the key of an object; for pods, the most frequent, the UID, which costs no memory."""
    if isinstance(event, ObjectGone):
        if event.kind == "pods":
            return event.uid
        return event.kind, event.namespace, event.name
    if isinstance(event.object, PodInfo):
        return event.object.uid
    return event.kind, *place_of(event.object)

"""The same cluster under another configuration: who lands elsewhere, and who waits how long.

Pods come and go as they did, and are decided about as soon as they are ready. A pod that ran on
the node the recorded engine had chosen runs on the node this one chooses, for as long as it did.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.engine import Engine
from scheduler.engine.events import Bound, Decide, Event, ObjectGone, ObjectSet, PreBound, Tick
from scheduler.engine.instructions import Bind, Instruction, RunPreBind
from scheduler.recording.records import Record

_Answer = list[Instruction]


class Fate(msgspec.Struct):
    """What became of one pod.

    Attributes:
        pod: `namespace/name`.
        came: when it was first seen waiting, in seconds of the events' clock.
        node: where it was sent at last, or empty.
        placed: when.
    """

    pod: str
    came: float
    node: str = ""
    placed: float = 0.0

    @property
    def waited(self) -> float | None:
        """Seconds; None for a pod that waits still."""
        return self.placed - self.came if self.node else None


class Comparison(msgspec.Struct, frozen=True):
    """Both fates of every pod that had to be placed, by UID."""

    recorded: dict[str, Fate]
    now: dict[str, Fate]

    @property
    def elsewhere(self) -> list[tuple[Fate, Fate]]:
        """Pods that came to another node, or to one only once."""
        pairs = ((fate, self.now[uid]) for uid, fate in self.recorded.items())
        return [(before, after) for before, after in pairs if before.node != after.node]


def compare(records: Iterable[Record], engine: Engine) -> Comparison:
    """Place the recorded pods with another engine.

    Raises:
        RecordingError: a file is damaged.
    """
    return _Other(engine).run(records)


class _Other:
    """Another engine, and a cluster that does as it says."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        engine.from_outside = self._handle
        self._recorded: dict[str, Fate] = {}
        self._fates: dict[str, Fate] = {}
        self._now = 0.0
        self._handlers: dict[type, Callable[[Any], None]] = {
            ObjectSet: self._object_set,
            ObjectGone: self._handle,
            Tick: self._handle,
        }

    def run(self, records: Iterable[Record]) -> Comparison:
        for record in records:
            self._now = record.time
            handler = self._handlers.get(type(record.event))
            if handler is not None:
                handler(record.event)
            if b'"Bind"' in record.answer:
                self._note_recorded(record)
            while self._engine.has_ready:
                self._handle(Decide())
        return Comparison(self._recorded, self._fates)

    def _object_set(self, event: ObjectSet) -> None:
        pod = event.object
        if not isinstance(pod, PodInfo):
            self._handle(event)
            return
        uid = pod.uid
        is_ours = pod.spec.scheduler_name in self._engine.core.frameworks
        if is_ours and not pod.node_name and uid not in self._fates:
            self._recorded[uid] = Fate(pod.key, self._now)
            self._fates[uid] = Fate(pod.key, self._now)
        fate = self._fates.get(uid)
        if fate is not None:
            pod = _on(pod, fate.node)
        self._handle(ObjectSet("pods", pod))

    def _note_recorded(self, record: Record) -> None:
        for instruction in msgspec.json.decode(record.answer, type=list[Instruction]):
            if isinstance(instruction, Bind):
                fate = self._recorded.get(instruction.uid)
                if fate is not None:
                    fate.node, fate.placed = instruction.node, record.time

    def _handle(self, event: Event) -> None:
        for instruction in self._engine.handle(event, self._now):
            if isinstance(instruction, RunPreBind):
                self._handle(PreBound(instruction.attempt))
            elif isinstance(instruction, Bind):
                self._bind(instruction)

    def _bind(self, bind: Bind) -> None:
        attempt = self._engine.attempts.get(bind.attempt)
        if attempt is None:
            return
        fate = self._fates.get(bind.uid)
        if fate is not None:
            fate.node, fate.placed = bind.node, self._now
        pod = attempt.pod
        self._handle(Bound(bind.attempt))
        self._handle(ObjectSet("pods", pod))


def _on(pod: PodInfo, node: str) -> PodInfo:
    """The pod as it would be: on the node that was chosen now, nominated to none."""
    status = pod.pod.status
    if status.nominated_node_name:
        status = replace(status, nominated_node_name="")
    return replace(pod, pod=replace(pod.pod, node_name=node, status=status))

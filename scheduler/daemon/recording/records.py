"""One event with its time and its answer, as a line of JSON, and back.

A line is an array that begins with its type: `at` an event, `pod` a pod that is new or changed,
`spec` a specification that many pods share.

Objects are written in the engine's form, with only the fields that scheduling reads: no
environment, no data of Secrets, and of pods' annotations those about their ends. Annotations of
nodes become a digest, because a change of them may wake pods. A specification that many pods share
is written once per file.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from hashlib import blake2b
from operator import or_
from typing import Any, Final, Generic, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from scheduler.api.disruption_budgets import DisruptionBudget
from scheduler.api.objects import Node, Pod, PodMeta, PodSpec, PodStatus, Volume
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo, pod_info
from scheduler.api.storage import (
    MIGRATED_PLUGINS,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.daemon.client.errors import cut
from scheduler.daemon.client.wire import UNREADABLE
from scheduler.daemon.informers.kinds import KINDS, TAINT_RULES
from scheduler.errors import SchedulerError
from scheduler.kernel.engine.events import Event, ObjectRead, ObjectSet, PodRead
from scheduler.kernel.engine.instructions import Instruction, LogError

FORMAT: Final = 3
MAX_SHAPES: Final = 4096
"""Most specifications that are remembered as written; beyond that they are written again."""

_KINDS: Final = {kind.name: kind for kind in (*KINDS, TAINT_RULES)}
_BUILT: Final[Mapping[str, type[msgspec.Struct]]] = {
    "persistentvolumeclaims": PersistentVolumeClaim,
    "persistentvolumes": PersistentVolume,
    "poddisruptionbudgets": DisruptionBudget,
    "podgroups": PodGroup,
}
"""Kinds that the engine does not keep in their wire form."""
_UNTOLD: Final = ("annotations", "managedFields")


class RecordingError(SchedulerError):
    """A file that is no recording, or a damaged one; the message names the file."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a fresh engine needs to give the same answers.

    Attributes:
        recording: an identifier, the same in all parts of a recording.
        part: number of the part, from 1.
        version: of Stowage.
        configuration: the KubeSchedulerConfiguration in effect.
        feature_gates: the gates that are on.
        seed: of the engine's random numbers.
        max_in_unschedulable_seconds: see `QueueSettings`.
        plugins: out-of-tree plugins that are enabled, each with the version of its distribution.
        started: the time of day at which the clock of events showed `clock`, in seconds since 1970.
        clock: seconds.
        is_complete: whether it begins with the first event of an engine.
    """

    recording: str
    part: int = 1
    format: int = FORMAT
    version: str
    configuration: dict[str, Any]
    feature_gates: tuple[str, ...] = ()
    seed: int
    max_in_unschedulable_seconds: float
    plugins: dict[str, str] = {}
    started: float
    clock: float
    is_complete: bool = True


class Record(msgspec.Struct, frozen=True):
    """One event.

    Attributes:
        time: seconds of the events' clock.
        event: the event.
        answer: the instructions, encoded.
    """

    time: float
    event: Event
    answer: bytes


AnswerT = TypeVar("AnswerT")


class _PodLine(msgspec.Struct, Generic[AnswerT], frozen=True, gc=False, array_like=True, tag="pod"):
    """`ObjectSet` or, of an attempt, `PodRead`; `spec` is the number of a line before.

    It holds the values that pods of one specification do not share.
    """

    time: float
    answer: AnswerT
    metadata: PodMeta
    spec: int
    status: PodStatus
    node_name: str
    volumes: tuple[Volume, ...]
    attempt: int | None


class _Spec(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="spec"):
    number: int
    spec: PodSpec


class _Line(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="at"):
    time: float
    answer: Sequence[Instruction]
    event: Any


class _Set(msgspec.Struct, frozen=True, gc=False, tag="ObjectSet"):
    kind: str
    object: msgspec.Raw


class _Read(msgspec.Struct, frozen=True, gc=False, tag="ObjectRead"):
    kind: str
    object: msgspec.Raw


class _ReadLine(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="at"):
    time: float
    answer: msgspec.Raw
    event: msgspec.Raw


_encoder = msgspec.json.Encoder()
_line_decoder = msgspec.json.Decoder(_ReadLine | _PodLine[msgspec.Raw] | _Spec)
_OF_OBJECTS: Final = (ObjectSet, ObjectRead)
_AS_WRITTEN: Final[Any] = reduce(or_, (kind for kind in get_args(Event) if kind not in _OF_OBJECTS))
"""The events that are read as they are written."""
_event_decoder: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(_AS_WRITTEN | _Set | _Read)


def encode_answer(instructions: Sequence[Instruction]) -> bytes:
    """Encode instructions to be written and compared; without traces, which name local files."""
    return _encoder.encode(_without_traces(instructions))


def _without_traces(instructions: Sequence[Instruction]) -> Sequence[Instruction]:
    for instruction in instructions:
        if type(instruction) is LogError:
            return [replace(i, trace="") if type(i) is LogError else i for i in instructions]
    return instructions


class Writer:
    """Encodes events as lines, each with a line feed. One writer per file."""

    def __init__(self) -> None:
        self._shapes: dict[PodShape, int] = {}
        self._count = 0

    @staticmethod
    def header(header: Header) -> bytes:
        """The first line."""
        return _encoder.encode(header) + b"\n"

    def write(
        self, into: bytearray, event: Event, now: float, instructions: Sequence[Instruction]
    ) -> None:
        """Append the lines about one event."""
        answer = _without_traces(instructions) if instructions else instructions
        line: _PodLine[Sequence[Instruction]] | _Line
        if type(event) is ObjectSet:
            obj = event.object
            if type(obj) is PodInfo:
                line = self._pod_line(into, obj, now, answer)
            else:
                line = _Line(now, answer, ObjectSet(event.kind, _as_written(event.kind, obj)))
        elif type(event) is ObjectRead:
            written = ObjectRead(event.kind, _as_written(event.kind, event.object))
            line = _Line(now, answer, written)
        elif type(event) is PodRead and event.pod is not None:
            line = self._pod_line(into, event.pod, now, answer, event.attempt)
        else:
            line = _Line(now, answer, event)
        _encoder.encode_into(line, into, -1)
        into += b"\n"

    def _pod_line(
        self,
        into: bytearray,
        pod: PodInfo,
        now: float,
        answer: Sequence[Instruction],
        attempt: int | None = None,
    ) -> _PodLine[Sequence[Instruction]]:
        number = self._shapes.get(pod.shape)
        if number is None:
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            self._count = number = self._count + 1
            self._shapes[pod.shape] = number
            _encoder.encode_into(_Spec(number, pod.shape.spec), into, -1)
            into += b"\n"
        wire = pod.pod
        status = wire.status
        if wire.start_time is not None:
            status = replace(status, start_time=wire.start_time)
        return _PodLine(
            now,
            answer,
            wire.metadata,
            number,
            status,
            wire.node_name,
            wire.volumes,
            attempt,
        )


def _as_written(kind: str, obj: Any) -> Any:
    """An object that is no pod, reduced."""
    if type(obj) is Node:
        return _node(obj)
    if type(obj) is CSINode:
        return _csi_node(obj)
    return _reduced(kind, obj) if isinstance(obj, Mapping) else obj


def _node(node: Node) -> Node:
    annotations = node.metadata.annotations
    if not annotations:
        return node
    told = msgspec.json.encode(annotations, order="sorted")
    digest = {"digest": blake2b(told, digest_size=8).hexdigest()}
    return replace(node, metadata=replace(node.metadata, annotations=digest))


def _csi_node(node: CSINode) -> CSINode:
    read = {k: v for k, v in node.metadata.annotations.items() if k == MIGRATED_PLUGINS}
    return replace(node, metadata=replace(node.metadata, annotations=read))


def _reduced(kind: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the fields of an object that no plugin should decide by; only plugins read its kind."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _UNTOLD}
    if kind == "secrets":
        return {"metadata": metadata}
    return {**obj, "metadata": metadata}


class Reader:
    """Reads the lines of one file, the header excepted."""

    def __init__(self) -> None:
        self._specs: dict[int, PodSpec] = {}

    def records(self, lines: Iterator[bytes]) -> Iterator[Record]:
        """The events in order.

        Raises:
            RecordingError: a line cannot be understood.
        """
        for line in lines:
            try:
                read = _line_decoder.decode(line)
                if isinstance(read, _Spec):
                    self._specs[read.number] = read.spec
                else:
                    yield Record(read.time, self._event(read), bytes(read.answer))
            except Exception as problem:
                # Whatever foreign bytes make a decoder trip over, it is this line.
                raise RecordingError(cut(f"a line cannot be read: {problem}")) from problem

    def _event(self, read: _ReadLine | _PodLine[msgspec.Raw]) -> Event:
        if isinstance(read, _PodLine):
            spec = self._specs[read.spec]
            pod = pod_info(Pod(read.metadata, spec, read.status, read.node_name))
            if read.volumes:
                # `pod_info` looks for them in the specification, as an API server has them.
                pod = replace(pod, pod=replace(pod.pod, volumes=read.volumes))
            return ObjectSet("pods", pod) if read.attempt is None else PodRead(read.attempt, pod)
        event: Event | _Set | _Read = _event_decoder.decode(read.event)
        if isinstance(event, _Set):
            return ObjectSet(event.kind, _as_read(event.kind, event.object))
        if isinstance(event, _Read):
            return ObjectRead(event.kind, _as_read(event.kind, event.object))
        return event


def _as_read(kind: str, raw: msgspec.Raw) -> Any:
    """An object that is no pod."""
    built = _BUILT.get(kind)
    if built is not None:
        return msgspec.json.decode(raw, type=built)
    known = _KINDS.get(kind)
    return msgspec.json.decode(raw) if known is None else known.decode(raw)


def read_header(line: bytes) -> Header:
    """The first line of a file.

    Raises:
        RecordingError: it is none, or of another format.
    """
    try:
        header = msgspec.json.decode(line, type=Header)
    except UNREADABLE as problem:
        raise RecordingError(cut(f"the header cannot be read: {problem}")) from problem
    if header.format != FORMAT:
        raise RecordingError(
            f"expected format {FORMAT}, found {header.format}; "
            f"replay it with Stowage {cut(header.version)}, which recorded it"
        )
    return header

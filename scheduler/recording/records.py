"""One event with its time and its answer, as a line of JSON, and back.

Objects are written as the engine has them, which is only what scheduling reads: no environment, no
annotations of pods, no data of Secrets. Annotations of nodes become a digest, because a change of
them may wake pods. A specification that many pods share is written once per file.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from scheduler.api.objects import Node, ObjectMeta, Pod, PodSpec, PodStatus
from scheduler.api.pods import PodInfo, PodShape, pod_info
from scheduler.api.storage import (
    MIGRATED_PLUGINS,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.client.errors import cut
from scheduler.client.wire import UNREADABLE
from scheduler.engine.events import (
    Activate,
    Allowed,
    Answered,
    BindFailed,
    Bound,
    Configure,
    Decide,
    Event,
    Evicted,
    EvictFailed,
    ObjectGone,
    ObjectSet,
    PodRead,
    PreBound,
    ReadFailed,
    Rejected,
    Say,
    Tick,
    TookLong,
)
from scheduler.engine.instructions import Instruction, Report
from scheduler.errors import SchedulerError
from scheduler.informers.kinds import KINDS

FORMAT: Final = 1
MAX_SHAPES: Final = 4096
"""Specifications that are remembered as written; then they are written anew."""

_KINDS: Final = {kind.name: kind for kind in KINDS}
_BUILT: Final[Mapping[str, type[msgspec.Struct]]] = {
    "persistentvolumeclaims": PersistentVolumeClaim,
    "persistentvolumes": PersistentVolume,
}
"""Kinds that the engine does not keep as they come over the wire."""
_UNTOLD: Final = ("annotations", "managedFields")


class RecordingError(SchedulerError):
    """A file that is no recording, or a damaged one; the message names the file."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a fresh engine must be told to give the same answers.

    Attributes:
        recording: the same in all parts of a recording.
        part: counts them from 1.
        version: of Stowage.
        configuration: the KubeSchedulerConfiguration in effect.
        feature_gates: those that are on.
        seed: of the engine's chance.
        max_in_unschedulable_seconds: see `QueueSettings`.
        plugins: out-of-tree plugins, each with the version of its distribution.
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
        event: what happened.
        answer: the instructions, encoded.
    """

    time: float
    event: Event
    answer: bytes


class _PodLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod; `spec` is the number of a line before."""

    metadata: ObjectMeta
    spec: int
    status: PodStatus = PodStatus()
    node_name: str = ""


class _Spec(msgspec.Struct, frozen=True, gc=False, tag=True):
    number: int
    spec: PodSpec


class _Line(msgspec.Struct, frozen=True, gc=False, tag="at"):
    time: float
    event: Any
    answer: Sequence[Instruction]


class _Set(msgspec.Struct, frozen=True, gc=False, tag="ObjectSet"):
    kind: str
    object: msgspec.Raw


class _Read(msgspec.Struct, frozen=True, gc=False, tag="PodRead"):
    attempt: int
    pod: msgspec.Raw


_Readable: TypeAlias = (
    _Set
    | _Read
    | ObjectGone
    | Decide
    | Tick
    | Bound
    | BindFailed
    | Answered
    | PreBound
    | ReadFailed
    | Allowed
    | Rejected
    | Evicted
    | EvictFailed
    | Activate
    | Say
    | TookLong
    | Configure
)


class _ReadLine(msgspec.Struct, frozen=True, gc=False, tag="at"):
    time: float
    event: _Readable
    answer: msgspec.Raw


_encoder = msgspec.json.Encoder()
_line_decoder = msgspec.json.Decoder(_ReadLine | _Spec)
_pod_decoder = msgspec.json.Decoder(_PodLine | None)


def encode_answer(instructions: Sequence[Instruction]) -> bytes:
    """Instructions as they are written and compared; traces name files of one machine."""
    return _encoder.encode(_told(instructions))


def _told(instructions: Sequence[Instruction]) -> Sequence[Instruction]:
    for instruction in instructions:
        if type(instruction) is Report:
            return [replace(i, trace="") if type(i) is Report else i for i in instructions]
    return instructions


class Writer:
    """Makes lines, each ended by a line feed. One writer per file."""

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
        written: object = event
        if type(event) is ObjectSet:
            written = ObjectSet(event.kind, self._object(event.kind, event.object, into))
        elif type(event) is PodRead and event.pod is not None:
            written = PodRead(event.attempt, self._pod(event.pod, into))
        _encoder.encode_into(_Line(now, written, _told(instructions)), into, -1)
        into += b"\n"

    def _object(self, kind: str, obj: Any, into: bytearray) -> Any:
        if type(obj) is PodInfo:
            return self._pod(obj, into)
        if type(obj) is Node:
            return _node(obj)
        if type(obj) is CSINode:
            return _csi_node(obj)
        return _reduced(kind, obj) if isinstance(obj, Mapping) else obj

    def _pod(self, pod: PodInfo, into: bytearray) -> _PodLine:
        number = self._shapes.get(pod.shape)
        if number is None:
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            self._count = number = self._count + 1
            self._shapes[pod.shape] = number
            _encoder.encode_into(_Spec(number, pod.shape.spec), into, -1)
            into += b"\n"
        wire = pod.pod
        return _PodLine(wire.metadata, number, wire.status, wire.node_name)


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
    """An object of a kind that only plugins read, without what no plugin should decide by."""
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
                    yield Record(read.time, self._event(read.event), bytes(read.answer))
            except Exception as problem:
                # Whatever foreign bytes make a decoder trip over, it is this line.
                raise RecordingError(cut(f"a line cannot be read: {problem}")) from problem

    def _event(self, event: _Readable) -> Event:
        if isinstance(event, _Set):
            return ObjectSet(event.kind, self._object(event.kind, event.object))
        if isinstance(event, _Read):
            return PodRead(event.attempt, self._pod(event.pod))
        return event

    def _object(self, kind: str, raw: msgspec.Raw) -> Any:
        if kind == "pods":
            return self._pod(raw)
        built = _BUILT.get(kind)
        if built is not None:
            return msgspec.json.decode(raw, type=built)
        known = _KINDS.get(kind)
        return msgspec.json.decode(raw) if known is None else known.decode(raw)

    def _pod(self, raw: msgspec.Raw) -> PodInfo | None:
        line = _pod_decoder.decode(raw)
        if line is None:
            return None
        return pod_info(Pod(line.metadata, self._specs[line.spec], line.status, line.node_name))


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
        raise RecordingError(f"expected format {FORMAT}, found {header.format}")
    return header

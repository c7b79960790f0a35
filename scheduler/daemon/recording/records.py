"""Encodes one event with its time and answer as a line of JSON, and decodes it.

A line is an array that begins with its type: `at` an event, `pod` a pod that is new or changed,
`spec` a specification that many pods share.

Objects are written with only the fields that scheduling reads: no environment variables, and of
pods' annotations those about their ends. See `redaction` for other kinds. A specification that many
pods share is written once per file.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from scheduler.api.disruption_budgets import DisruptionBudget
from scheduler.api.objects import Pod, PodMeta, PodResourceClaim, PodSpec, PodStatus
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo, pod_info
from scheduler.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.api.volume_sources import Volume
from scheduler.daemon.client.errors import cut
from scheduler.daemon.client.wire import UNREADABLE
from scheduler.daemon.informers.kinds import KINDS, TAINT_RULES, checked
from scheduler.daemon.recording.redaction import redacted
from scheduler.errors import SchedulerError
from scheduler.kernel.engine.events import Configure, Event, ObjectRead, ObjectSet, PodRead
from scheduler.kernel.engine.instructions import Configured, Instruction, LogError

FORMAT: Final = 4
_READABLE: Final = (3, FORMAT)
"""In format 3 the specification has the claims of a pod."""
MAX_SHAPES: Final = 4096
"""Specifications at most that are remembered as written; then they are written again."""
MAX_SHAPE_BYTES: Final = 8 << 20
"""Estimated bytes at most of these specifications."""

_KINDS: Final = {kind.name: kind for kind in (*KINDS, TAINT_RULES)}
_BUILT: Final[Mapping[str, type[msgspec.Struct]]] = {
    "persistentvolumeclaims": PersistentVolumeClaim,
    "persistentvolumes": PersistentVolume,
    "poddisruptionbudgets": DisruptionBudget,
    "podgroups": PodGroup,
}
"""Kinds that the engine keeps in another form than the API server's."""

Time: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=6e10)]
"""Seconds: sums and differences of such times are times of day that Python knows."""


class RecordingError(SchedulerError):
    """A file is no recording, or is damaged; the message names the file."""


class CutShortError(RecordingError):
    """The last file ends in the middle of a block, as if the process that wrote it was killed."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a fresh engine needs to return the same answers.

    Attributes:
        recording: an identifier, the same in all parts of a recording.
        part: number of the part, from 1.
        version: the version of Stowage.
        configuration: the KubeSchedulerConfiguration in effect.
        feature_gates: the gates that are on.
        seed: the seed of the engine's random numbers.
        max_in_unschedulable_seconds: see `EngineSettings`.
        plugins: out-of-tree plugins that are enabled, each with the version of its distribution.
        started: the time of day at `clock`, in seconds since 1970.
        clock: the time of the events' clock at the start, in seconds.
        is_complete: whether the recording begins with the first event of an engine.
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
    started: Time
    clock: Time
    is_complete: bool = True

    @property
    def epoch(self) -> float:
        """The time of day at 0 of the events' clock, in seconds since 1970."""
        return self.started - self.clock


class _HeaderStart(msgspec.Struct, frozen=True):
    """The fields of a header that all formats have."""

    format: int
    version: str


class Record(msgspec.Struct, frozen=True):
    """One event with the engine's answer.

    Attributes:
        time: the time of the events' clock, in seconds.
        event: the event.
        answer: the instructions, encoded.
    """

    time: float
    event: Event
    answer: bytes

    @property
    def instructions(self) -> list[Instruction]:
        """The answer, decoded."""
        return _answer_decoder.decode(self.answer)

    @property
    def new_configuration(self) -> dict[str, Any] | None:
        """The configuration that the engine took over, if any."""
        event = self.event
        if isinstance(event, Configure) and Configured() in self.instructions:
            return event.configuration
        return None


_answer_decoder = msgspec.json.Decoder(list[Instruction])

AnswerT = TypeVar("AnswerT")


class _PodLine(msgspec.Struct, Generic[AnswerT], frozen=True, gc=False, array_like=True, tag="pod"):
    """`ObjectSet`, or `PodRead` with `attempt`; `spec` is the number of an earlier `_Spec` line.

    The other fields are those that pods of one specification do not share.
    """

    time: Time
    answer: AnswerT
    metadata: PodMeta
    spec: int
    status: PodStatus
    node_name: str
    volumes: tuple[Volume, ...]
    attempt: int | None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    """In older recordings the specification has them."""


class _Spec(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="spec"):
    number: int
    spec: PodSpec
    is_first: bool = False
    """Whether no later line has the number of an earlier one. Older recordings do not have it."""


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
    time: Time
    answer: msgspec.Raw
    event: msgspec.Raw


class _Profile(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""


class _Profiles(msgspec.Struct, frozen=True):
    profiles: tuple[_Profile, ...] = ()


_encoder = msgspec.json.Encoder()
_line_decoder = msgspec.json.Decoder(_ReadLine | _PodLine[msgspec.Raw] | _Spec)
_OF_OBJECTS: Final = (ObjectSet, ObjectRead)
_AS_WRITTEN: Final[Any] = reduce(or_, (kind for kind in get_args(Event) if kind not in _OF_OBJECTS))
"""The events that are decoded without conversion."""
_event_decoder: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(_AS_WRITTEN | _Set | _Read)


_NO_ANSWER: Final = _encoder.encode(())


def scheduler_names(configuration: Mapping[str, Any]) -> list[str]:
    """Return the names of a configuration's profiles.

    Raises:
        ValueError: it is none. Those of headers and events that were read are.
    """
    found = msgspec.convert(configuration, _Profiles)
    return [profile.scheduler_name for profile in found.profiles]


def encode_answer(instructions: Sequence[Instruction]) -> bytes:
    """Encode instructions, without tracebacks, whose paths of files differ between machines."""
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
        self._shape_bytes = 0
        self._count = 0

    @staticmethod
    def header(header: Header) -> bytes:
        """Encode the header as the first line."""
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
                line = _Line(now, answer, ObjectSet(event.kind, redacted(event.kind, obj)))
        elif type(event) is ObjectRead:
            written = ObjectRead(event.kind, redacted(event.kind, event.object))
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
            number = self._spec_line(into, pod.shape)
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
            wire.resource_claims,
        )

    def _spec_line(self, into: bytearray, shape: PodShape) -> int:
        """Append the specification of a shape, and return its number."""
        self._shape_bytes += shape.size
        if len(self._shapes) >= MAX_SHAPES or self._shape_bytes > MAX_SHAPE_BYTES:
            self._shapes.clear()
            self._shape_bytes = shape.size
        self._count = number = self._count + 1
        self._shapes[shape] = number
        _encoder.encode_into(_Spec(number, shape.spec, len(self._shapes) == 1), into, -1)
        into += b"\n"
        return number


class Reader:
    """Decodes the lines of one file after the header."""

    def __init__(self) -> None:
        self._specs: dict[int, PodSpec] = {}

    def records(self, lines: Iterator[bytes]) -> Iterator[Record]:
        """Yield the records in order.

        Raises:
            RecordingError: a line cannot be decoded.
        """
        for line in lines:
            try:
                read = _line_decoder.decode(line)
                if isinstance(read, _Spec):
                    self._keep(read)
                else:
                    answer = bytes(read.answer)
                    if answer != _NO_ANSWER:
                        _answer_decoder.decode(answer)
                    yield Record(read.time, self._event(read), answer)
            except Exception as problem:
                # Any error of a decoder is a fault of this line.
                raise RecordingError(cut(f"a line cannot be read: {problem}")) from problem

    def _keep(self, read: _Spec) -> None:
        """Keep a specification as long as its writer does."""
        specs = self._specs
        if read.is_first:
            specs.clear()
        elif len(specs) >= MAX_SHAPES:
            del specs[next(iter(specs))]
        specs[read.number] = read.spec

    def _event(self, read: _ReadLine | _PodLine[msgspec.Raw]) -> Event:
        if isinstance(read, _PodLine):
            spec = self._specs[read.spec]
            # `pod_info` takes claims from the specification, as an API server sends them.
            spec = replace(spec, resource_claims=read.resource_claims or spec.resource_claims)
            pod = pod_info(Pod(read.metadata, spec, read.status, read.node_name))
            if read.volumes:
                pod = replace(pod, pod=replace(pod.pod, volumes=read.volumes))
            return ObjectSet("pods", pod) if read.attempt is None else PodRead(read.attempt, pod)
        event: Event | _Set | _Read = _event_decoder.decode(read.event)
        if isinstance(event, _Set):
            return ObjectSet(event.kind, _as_read(event.kind, event.object))
        if isinstance(event, _Read):
            return ObjectRead(event.kind, _as_read(event.kind, event.object))
        if isinstance(event, Configure):
            scheduler_names(event.configuration)
        return event


def _as_read(kind: str, raw: msgspec.Raw) -> Any:
    """Decode an object other than a pod."""
    built = _BUILT.get(kind)
    if built is not None:
        return msgspec.json.decode(raw, type=built)
    known = _KINDS.get(kind)
    return checked(msgspec.json.decode(raw, type=dict)) if known is None else known.decode(raw)


def read_header(line: bytes) -> Header:
    """Decode the first line of a file.

    Raises:
        RecordingError: the line is no header, or has another format.
    """
    try:
        start = msgspec.json.decode(line, type=_HeaderStart)
        if start.format not in _READABLE:
            raise RecordingError(
                f"expected format {FORMAT}, found {start.format}; "
                f"replay it with Stowage {cut(start.version)}, which recorded it"
            )
        header = msgspec.json.decode(line, type=Header)
        scheduler_names(header.configuration)
    except UNREADABLE as problem:
        raise RecordingError(cut(f"the header cannot be read: {problem}")) from problem
    return header

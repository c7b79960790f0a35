"""Replays a recording: a fresh engine must return the same answers to the same events."""

from collections.abc import Callable, Iterable

import msgspec

from scheduler.daemon.recording.records import (
    Record,
    RecordingError,
    encode_answer,
    scheduler_names,
)
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Configure, Event, ObjectGone, ObjectSet, Tick
from scheduler.kernel.framework.runtime.shared_states import place_of


class Difference(msgspec.Struct, frozen=True):
    """The first event that an engine answered differently from the recorded one.

    Attributes:
        number: the number of the event, from 1.
        record: the event and the recorded answer.
        answer: the answer of the fresh engine, encoded.
    """

    number: int
    record: Record
    answer: bytes


class Replayed(msgspec.Struct, frozen=True):
    """The result of a replay: the number of events, and the first difference, if any."""

    events: int
    difference: Difference | None = None


def replay(
    records: Iterable[Record], engine: Engine, seen: Callable[[Record], None] = lambda _: None
) -> Replayed:
    """Pass all events to a fresh engine, up to the first answer that differs.

    Args:
        records: all records from the beginning of a recording.
        engine: an engine with the recording's configuration and seed.
        seen: called with each record before the engine gets its event.

    Raises:
        RecordingError: a file is damaged, for example after its process was killed. The message
            also gives the number of events before that with equal answers.
    """
    number = 0
    try:
        for number, record in enumerate(records, start=1):
            seen(record)
            answer = encode_answer(engine.handle(record.event, record.time))
            if answer != record.answer:
                return Replayed(number, Difference(number, record, answer))
    except RecordingError as problem:
        raise RecordingError(f"{problem}; {number} events before: identical") from problem
    return Replayed(number)


def restore(
    records: Iterable[Record], engine: Engine, seen: Callable[[Record], None] = lambda _: None
) -> None:
    """Pass only objects, ticks and configurations to an engine; for incomplete recordings.

    `seen` is as for `replay`.

    Raises:
        RecordingError: a file is damaged.
    """
    for record in records:
        seen(record)
        if isinstance(record.event, ObjectSet | ObjectGone | Tick | Configure):
            engine.handle(record.event, record.time)


def in_words(event: Event) -> str:
    """Describe an event in one line."""
    if isinstance(event, ObjectSet):
        namespace, name = place_of(event.object)
        node = getattr(event.object, "node_name", "")
        place = f" on {node}" if node else ""
        return f"ObjectSet {event.kind} {namespace}/{name}{place}"
    if isinstance(event, Configure):
        return f"Configure profiles={','.join(scheduler_names(event.configuration))}"
    fields = msgspec.structs.asdict(event)
    fields.pop("pod", None)
    told = " ".join(f"{name}={value}" for name, value in fields.items())
    return f"{type(event).__name__} {told}".rstrip()
